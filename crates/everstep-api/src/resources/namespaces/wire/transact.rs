//! Transactions.

use everstep_core::payload::Payload;
use everstep_core::records::{
    self, CheckRequest, DeleteOutput, DeleteRequest, IncrementRequest, OpFailure, SetRequest, TransactOutput,
    UnlinkOutput, UnlinkRequest, Verb, WriteRequest,
};
use everstep_core::whole;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use crate::http::problem::Problem;
use crate::http::schema::Json;
use crate::resources::links::{AppliedUpsert, Identifier, UpsertLinkRequest};
use crate::resources::store::{AppliedIncrement, AppliedSet, ValueType, check_ttl, check_value_type, read_output};

/// `POST /v1/namespaces/{namespace}/transact`: 1 to 64 checks and writes, together at most 1 MiB.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TransactRequest {
    /// All are evaluated before the first write.
    #[serde(default)]
    checks: Vec<Check>,
    /// In their order; each sees those before it.
    #[serde(default)]
    writes: Vec<Write>,
}

/// A condition on one record: exactly one of `revision`, `change`, `exists` and `equals`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    key: String,
    /// The revision of the record; 0: it is absent.
    #[serde(default, deserialize_with = "whole::optional")]
    revision: Option<u64>,
    /// The change of the record; 0: it is absent.
    #[serde(default, deserialize_with = "whole::optional")]
    change: Option<u64>,
    exists: Option<bool>,
    /// The value of the record: fields in any order, numbers in any notation.
    #[serde(default, deserialize_with = "even_null")]
    #[schemars(with = "Json")]
    equals: Option<Payload>,
}

/// One write.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TransactWrite")]
pub(crate) enum Write {
    /// Creates or replaces a record.
    Set(SetWrite),
    /// Deletes a record, if it exists.
    Delete(DeleteWrite),
    /// Adds to a number.
    Increment(IncrementWrite),
    /// Creates or replaces a link.
    Upsert(UpsertLinkRequest),
    /// Deletes links.
    Unlink(UnlinkWrite),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SetWrite {
    key: String,
    #[schemars(with = "Json")]
    value: Payload,
    value_type: Option<ValueType>,
    #[schemars(range(min = 1, max = 31_536_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    ttl_seconds: Option<u64>,
    /// The revision that the record must have; 0: it must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    if_revision: Option<u64>,
    /// The change that must have written the record; 0: it must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    if_change: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DeleteWrite {
    key: String,
    /// The revision that the record must have; 0: it must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    if_revision: Option<u64>,
    /// The change that must have written the record; 0: it must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    if_change: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct IncrementWrite {
    key: String,
    /// The number to add; 1 by default.
    by: Option<Number>,
    /// The value before the first increment; 0 by default.
    initial: Option<Number>,
    /// The seconds after which a record that this write creates expires.
    #[schemars(range(min = 1, max = 31_536_000))]
    #[serde(default, deserialize_with = "whole::optional")]
    ttl_seconds: Option<u64>,
}

/// At least one side of the links.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnlinkWrite {
    from: Option<Identifier>,
    to: Option<Identifier>,
    relation: Option<String>,
}

impl TransactRequest {
    /// The verbs of its writes.
    pub(crate) fn verbs(&self) -> Vec<Verb> {
        let verb = |write: &Write| match write {
            Write::Set(_) => Verb::Set,
            Write::Delete(_) => Verb::Delete,
            Write::Increment(_) => Verb::Increment,
            Write::Upsert(_) => Verb::Upsert,
            Write::Unlink(_) => Verb::Unlink,
        };
        self.writes.iter().map(verb).collect()
    }

    pub(crate) fn into_core(self) -> Result<records::TransactRequest, OpFailure> {
        let checks = self.checks.into_iter().map(|check| CheckRequest {
            key: check.key,
            revision: check.revision,
            change: check.change,
            exists: check.exists,
            equals: check.equals,
        });
        let writes = self.writes.into_iter().enumerate().map(|(index, write)| {
            write.into_core().map_err(|failure| OpFailure::invalid(format!("write {index}: {}", failure.message)))
        });
        Ok(records::TransactRequest { checks: checks.collect(), writes: writes.collect::<Result<_, _>>()? })
    }
}

impl Write {
    fn into_core(self) -> Result<WriteRequest, OpFailure> {
        Ok(match self {
            Self::Set(SetWrite { key, value, value_type, ttl_seconds, if_revision, if_change }) => {
                check_ttl(ttl_seconds)?;
                check_value_type(value_type, &value)?;
                let value_type = value_type.map(Into::into);
                WriteRequest::Set(SetRequest { key, value, value_type, ttl_seconds, if_revision, if_change })
            }
            Self::Delete(DeleteWrite { key, if_revision, if_change }) => {
                WriteRequest::Delete(DeleteRequest { key, if_revision, if_change })
            }
            Self::Increment(IncrementWrite { key, by, initial, ttl_seconds }) => {
                check_ttl(ttl_seconds)?;
                let (by, initial) = (by.unwrap_or_else(|| 1.into()), initial.unwrap_or_else(|| 0.into()));
                WriteRequest::Increment(IncrementRequest { key, by, initial, ttl_seconds })
            }
            Self::Upsert(request) => WriteRequest::Upsert(request.into_core()),
            Self::Unlink(UnlinkWrite { from, to, relation }) => WriteRequest::Unlink(UnlinkRequest {
                from: from.map(Into::into),
                to: to.map(Into::into),
                relation,
                id: None,
            }),
        })
    }
}

/// A transaction that was applied.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Transaction {
    /// The numbers of its first and its last change; null if it changed nothing, as a transaction that only checks.
    changes: Option<[u64; 2]>,
    /// The results of the writes, in their order.
    results: Vec<WriteResult>,
}

/// The result of one write.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum WriteResult {
    Set(AppliedSet),
    Delete(AppliedDelete),
    Increment(AppliedIncrement),
    Upsert(AppliedUpsert),
    Unlink(AppliedUnlink),
}

/// A deletion of a record.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AppliedDelete {
    /// Whether the record existed.
    deleted: bool,
}

/// A deletion of links.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppliedUnlink {
    deleted_count: u64,
}

impl Transaction {
    pub(crate) fn from_output(verbs: &[Verb], output: &TransactOutput) -> Result<Self, Problem> {
        let results = verbs.iter().zip(&output.results).map(|(verb, output)| WriteResult::from_output(*verb, output));
        Ok(Self { changes: output.changes, results: results.collect::<Result<_, _>>()? })
    }
}

impl WriteResult {
    fn from_output(verb: Verb, output: &Payload) -> Result<Self, Problem> {
        Ok(match verb {
            Verb::Set => Self::Set(AppliedSet::from_output(&read_output(output)?)),
            Verb::Increment => Self::Increment(AppliedIncrement::from_output(read_output(output)?)),
            Verb::Upsert => Self::Upsert(AppliedUpsert::from_output(&read_output(output)?)),
            Verb::Unlink => {
                let UnlinkOutput { deleted_count } = read_output(output)?;
                Self::Unlink(AppliedUnlink { deleted_count })
            }
            // A transaction contains no transactions, and only the server expires records.
            Verb::Delete | Verb::Expire | Verb::Transact => {
                let DeleteOutput { deleted } = read_output(output)?;
                Self::Delete(AppliedDelete { deleted })
            }
        })
    }
}

/// A value that may be null: null is not the absence of the field.
fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}
