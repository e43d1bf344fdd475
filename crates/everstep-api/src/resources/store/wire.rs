//! Records in the API.

use everstep_core::ids::{RunId, StepKey};
use everstep_core::payload::Payload;
use everstep_core::records::{self, IncrementOutput, IncrementRequest, OpFailure, SetOutput, TTL_SECONDS_MAX};
use everstep_core::whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Number;

use crate::http::schema::{Id, Json};
use crate::http::time::Time;

/// A JSON value under a key of a namespace.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    key: String,
    /// The value, exactly as it was written. A list with `values=false` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Json")]
    value: Option<Payload>,
    value_type: ValueType,
    /// 1 at the creation, one more with every write.
    revision: u64,
    /// The number of the namespace's change that wrote it: its `ETag`. It is never used again, not
    /// even after a deletion.
    change: u64,
    /// When it expires; null if it does not.
    expires_at: Option<Time>,
    created_at: Time,
    updated_at: Time,
    /// Who wrote it. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    written_by: Option<Author>,
}

impl Record {
    pub(super) fn from_record(record: records::Record, author: Option<Author>) -> Self {
        Self {
            key: record.key,
            value: record.value,
            value_type: record.value_type.into(),
            revision: record.revision,
            change: record.change,
            expires_at: record.expires_at.map(Time::from_timestamp),
            created_at: Time::from_timestamp(record.created_at),
            updated_at: Time::from_timestamp(record.updated_at),
            written_by: author,
        }
    }
}

/// Who wrote a record or a link last.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Author {
    /// The run, if a step wrote it.
    #[schemars(with = "Option<Id>")]
    pub(crate) run: Option<RunId>,
    /// The key of the step.
    #[schemars(with = "Option<String>")]
    pub(crate) step: Option<StepKey>,
    /// `key:` and the id of an API key; `person:`, the issuer, `/` and the id of a person; `run:` and the id of a run.
    /// Null if the change is no longer kept.
    pub(crate) actor: Option<String>,
}

/// What kind of JSON a value is. Any value may also be stored as `json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ValueType {
    String,
    Number,
    Boolean,
    Json,
}

impl From<records::ValueType> for ValueType {
    fn from(kind: records::ValueType) -> Self {
        match kind {
            records::ValueType::String => Self::String,
            records::ValueType::Number => Self::Number,
            records::ValueType::Boolean => Self::Boolean,
            records::ValueType::Json => Self::Json,
        }
    }
}

impl From<ValueType> for records::ValueType {
    fn from(kind: ValueType) -> Self {
        match kind {
            ValueType::String => Self::String,
            ValueType::Number => Self::Number,
            ValueType::Boolean => Self::Boolean,
            ValueType::Json => Self::Json,
        }
    }
}

/// A page of records, by key.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Records {
    pub(super) records: Vec<Record>,
    /// The cursor of the next page; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// `PUT /v1/store/{namespace}/{key}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetRecordRequest {
    /// Any JSON, at most `EVERSTEP_STORE_MAX_VALUE_BYTES` (256 KiB by default).
    #[schemars(with = "Json")]
    pub(super) value: Payload,
    /// The type of the value; by default it follows from the value.
    pub(super) value_type: Option<ValueType>,
    /// The seconds after which the record expires. Without it the record does not expire, even if it did before.
    #[schemars(range(min = 1, max = 31_536_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    pub(super) ttl_seconds: Option<u64>,
    /// The revision that the record must have; 0: it must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    pub(super) if_revision: Option<u64>,
}

/// A record that was set.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AppliedSet {
    revision: u64,
    /// The number of the change: the record's `ETag`.
    change: u64,
    /// Whether the record was absent before.
    created: bool,
}

impl AppliedSet {
    pub(crate) fn from_output(output: &SetOutput) -> Self {
        Self { revision: output.revision, change: output.change, created: output.created }
    }
}

/// `POST /v1/store/{namespace}/{key}/increment`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct IncrementRecordRequest {
    /// The number to add; 1 by default.
    by: Option<Number>,
    /// The value before the first increment; 0 by default.
    initial: Option<Number>,
    /// The seconds after which a record that this request creates expires. An existing record keeps its expiry.
    #[schemars(range(min = 1, max = 31_536_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    ttl_seconds: Option<u64>,
}

impl IncrementRecordRequest {
    pub(super) fn into_request(self, key: String) -> Result<IncrementRequest, OpFailure> {
        check_ttl(self.ttl_seconds)?;
        Ok(IncrementRequest {
            key,
            by: self.by.unwrap_or_else(|| 1.into()),
            initial: self.initial.unwrap_or_else(|| 0.into()),
            ttl_seconds: self.ttl_seconds,
        })
    }
}

/// A record that was incremented.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AppliedIncrement {
    /// The sum.
    value: Number,
    revision: u64,
    /// The number of the change: the record's `ETag`.
    change: u64,
}

impl AppliedIncrement {
    pub(crate) fn from_output(output: IncrementOutput) -> Self {
        Self { value: output.value, revision: output.revision, change: output.change }
    }
}

/// Checks a field whose name in the API differs from its name in ops.
pub(crate) fn check_ttl(seconds: Option<u64>) -> Result<(), OpFailure> {
    match seconds {
        Some(seconds) if !(1..=TTL_SECONDS_MAX).contains(&seconds) => {
            Err(OpFailure::invalid(format!("ttlSeconds is {seconds}; it must be from 1 to {TTL_SECONDS_MAX} (a year)")))
        }
        _ => Ok(()),
    }
}

/// Checks a field whose name in the API differs from its name in ops.
pub(crate) fn check_value_type(stated: Option<ValueType>, value: &Payload) -> Result<(), OpFailure> {
    let natural = records::ValueType::of_value(value);
    match stated.map(records::ValueType::from) {
        Some(stated) if stated != natural && stated != records::ValueType::Json => Err(OpFailure::invalid(format!(
            "valueType is {:?} and the value is of type {:?}; leave valueType out, or correct the value",
            stated.as_str(),
            natural.as_str()
        ))),
        _ => Ok(()),
    }
}
