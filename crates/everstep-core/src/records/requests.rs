//! The inputs of ops, and their checks.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

use super::failure::OpFailure;
use super::limits::{ATTRIBUTES_BYTES_MAX, RecordLimits, TRANSACT_BYTES_MAX, TRANSACT_PARTS_MAX, TTL_SECONDS_MAX};
use super::link::{Identifier, LinkId, LinkKey};
use super::record::ValueType;
use super::text::{check_name, check_optional};
use crate::payload::{self, Payload};
use crate::whole;

/// The input of `store.set`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    pub key: String,
    pub value: Payload,
    #[serde(default)]
    pub value_type: Option<ValueType>,
    /// The seconds after which the record expires. Without it the record does not expire.
    #[serde(default, deserialize_with = "whole::optional")]
    pub ttl_seconds: Option<u64>,
    /// The revision that the record must have; 0: the record must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    pub if_revision: Option<u64>,
    /// The change that must have written the record; 0: the record must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    pub if_change: Option<u64>,
}

impl SetRequest {
    pub fn new(key: impl Into<String>, value: impl Into<Payload>) -> Self {
        let (key, value) = (key.into(), value.into());
        Self { key, value, value_type: None, ttl_seconds: None, if_revision: None, if_change: None }
    }

    pub(super) fn check(&mut self, limits: &RecordLimits) -> Result<(), OpFailure> {
        self.key = check_name("key", &self.key)?;
        check_json("value", &self.value, limits.value_bytes)?;
        ValueType::choose(self.value_type, &self.value)?;
        check_ttl(self.ttl_seconds)
    }
}

/// The input of `store.delete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteRequest {
    pub key: String,
    /// The revision that the record must have; 0: the record must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    pub if_revision: Option<u64>,
    /// The change that must have written the record; 0: the record must be absent.
    #[serde(default, deserialize_with = "whole::optional")]
    pub if_change: Option<u64>,
}

/// The input of `store.increment`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IncrementRequest {
    pub key: String,
    #[serde(default = "one")]
    pub by: Number,
    /// The value before the first increment.
    #[serde(default = "zero")]
    pub initial: Number,
    /// The seconds after which a record that this op creates expires. An existing record keeps its expiry.
    #[serde(default, deserialize_with = "whole::optional")]
    pub ttl_seconds: Option<u64>,
}

/// The input of the sweeper's op: it deletes an expired record, unless the record was written again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExpireRequest {
    pub key: String,
    /// The change that wrote the record.
    pub change: u64,
}

/// The input of `links.upsert`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpsertRequest {
    pub from: Identifier,
    pub to: Identifier,
    #[serde(default = "related")]
    pub relation: String,
    #[serde(default = "empty")]
    pub attributes: Payload,
}

/// The input of `links.delete`: all links with these sides and this relation, or one link by its id.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnlinkRequest {
    #[serde(default)]
    pub from: Option<Identifier>,
    #[serde(default)]
    pub to: Option<Identifier>,
    #[serde(default)]
    pub relation: Option<String>,
    #[serde(skip_deserializing)]
    pub id: Option<LinkId>,
}

impl UnlinkRequest {
    /// Whether it selects a link.
    pub fn selects(&self, id: LinkId, key: &LinkKey) -> bool {
        self.id.is_none_or(|wanted| wanted == id)
            && self.from.as_ref().is_none_or(|from| *from == key.from)
            && self.to.as_ref().is_none_or(|to| *to == key.to)
            && self.relation.as_ref().is_none_or(|relation| *relation == key.relation)
    }

    /// Whether it may select more than one link.
    pub fn is_wide(&self) -> bool {
        self.id.is_none() && (self.from.is_none() || self.to.is_none() || self.relation.is_none())
    }

    pub(super) fn check(&mut self) -> Result<(), OpFailure> {
        if self.from.is_none() && self.to.is_none() && self.id.is_none() {
            return Err(OpFailure::invalid("neither from nor to is given; name at least one side of the links"));
        }
        for (side, identifier) in [("from", &mut self.from), ("to", &mut self.to)] {
            if let Some(identifier) = identifier {
                identifier.check(side)?;
            }
        }
        check_optional("relation", &mut self.relation)
    }
}

/// The input of `store.transact`: all checks are evaluated before the first write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransactRequest {
    #[serde(default)]
    pub checks: Vec<CheckRequest>,
    #[serde(default)]
    pub writes: Vec<WriteRequest>,
}

/// One condition on one record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckRequest {
    pub key: String,
    /// 0: the record is absent.
    #[serde(default, deserialize_with = "whole::optional")]
    pub revision: Option<u64>,
    /// 0: the record is absent.
    #[serde(default, deserialize_with = "whole::optional")]
    pub change: Option<u64>,
    #[serde(default)]
    pub exists: Option<bool>,
    #[serde(default, deserialize_with = "even_null")]
    pub equals: Option<Payload>,
}

/// One write of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteRequest {
    Set(SetRequest),
    Delete(DeleteRequest),
    Increment(IncrementRequest),
    Upsert(UpsertRequest),
    Unlink(UnlinkRequest),
}

impl DeleteRequest {
    pub(super) fn check(&mut self) -> Result<(), OpFailure> {
        self.key = check_name("key", &self.key)?;
        Ok(())
    }
}

impl IncrementRequest {
    pub(super) fn check(&mut self) -> Result<(), OpFailure> {
        self.key = check_name("key", &self.key)?;
        check_ttl(self.ttl_seconds)
    }
}

impl ExpireRequest {
    pub(super) fn check(&mut self) -> Result<(), OpFailure> {
        self.key = check_name("key", &self.key)?;
        Ok(())
    }
}

impl UpsertRequest {
    pub(super) fn check(&mut self, namespace: &str) -> Result<(), OpFailure> {
        self.from.check("from")?;
        self.to.check("to")?;
        self.relation = check_name("relation", &self.relation)?;
        check_json("attributes", &self.attributes, ATTRIBUTES_BYTES_MAX)?;
        if !self.attributes.json().trim_start().starts_with('{') {
            return Err(OpFailure::invalid("attributes must be a JSON object"));
        }
        self.link_key().check_size(namespace)
    }

    /// What identifies the link.
    pub fn link_key(&self) -> LinkKey {
        LinkKey { from: self.from.clone(), to: self.to.clone(), relation: self.relation.clone() }
    }
}

impl CheckRequest {
    fn check(&mut self) -> Result<(), OpFailure> {
        self.key = check_name("key", &self.key)?;
        let conditions = [self.revision.is_some(), self.change.is_some(), self.exists.is_some(), self.equals.is_some()];
        if conditions.iter().filter(|is_given| **is_given).count() == 1 {
            return Ok(());
        }
        Err(OpFailure::invalid("a check needs exactly one of revision, change, exists and equals"))
    }
}

impl WriteRequest {
    fn check(&mut self, namespace: &str, limits: &RecordLimits) -> Result<(), OpFailure> {
        match self {
            Self::Set(request) => request.check(limits),
            Self::Delete(request) => request.check(),
            Self::Increment(request) => request.check(),
            Self::Upsert(request) => request.check(namespace),
            Self::Unlink(request) => request.check(),
        }
    }

    /// The size of its JSON in bytes, roughly.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Set(request) => request.key.len() + request.value.size(),
            Self::Delete(request) => request.key.len(),
            Self::Increment(request) => request.key.len(),
            Self::Upsert(request) => request.attributes.size(),
            Self::Unlink(_) => 0,
        }
    }
}

impl TransactRequest {
    pub(super) fn check(&mut self, namespace: &str, limits: &RecordLimits) -> Result<(), OpFailure> {
        let parts = self.checks.len() + self.writes.len();
        if !(1..=TRANSACT_PARTS_MAX).contains(&parts) {
            return Err(OpFailure::invalid(format!(
                "the transaction has {parts} checks and writes; it needs 1 to {TRANSACT_PARTS_MAX}"
            )));
        }
        for (index, check) in self.checks.iter_mut().enumerate() {
            check.check().map_err(|failure| failure.at_part("check", index))?;
        }
        for (index, write) in self.writes.iter_mut().enumerate() {
            write.check(namespace, limits).map_err(|failure| failure.at_part("write", index))?;
        }
        let bytes = self.size();
        if bytes <= TRANSACT_BYTES_MAX {
            return Ok(());
        }
        Err(OpFailure::invalid(format!(
            "the checks and writes have {bytes} bytes together; at most {TRANSACT_BYTES_MAX} are allowed"
        )))
    }

    /// The size of its JSON in bytes, roughly.
    pub(super) fn size(&self) -> usize {
        let checks = self.checks.iter().map(|check| check.key.len() + check.equals.as_ref().map_or(0, Payload::size));
        checks.chain(self.writes.iter().map(WriteRequest::size)).sum()
    }
}

fn check_json(field: &str, json: &Payload, bytes_max: usize) -> Result<(), OpFailure> {
    let bytes = json.size();
    if bytes > bytes_max {
        return Err(OpFailure::invalid(format!("{field} has {bytes} bytes; at most {bytes_max} are allowed")));
    }
    payload::check(json.json()).map_err(|error| OpFailure::invalid(format!("{field} {error}")))
}

fn check_ttl(seconds: Option<u64>) -> Result<(), OpFailure> {
    match seconds {
        Some(seconds) if !(1..=TTL_SECONDS_MAX).contains(&seconds) => Err(OpFailure::invalid(format!(
            "ttl_seconds is {seconds}; it must be from 1 to {TTL_SECONDS_MAX} (a year)"
        ))),
        _ => Ok(()),
    }
}

/// A value that may be null: null is not the absence of the field.
pub(super) fn even_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Payload>, D::Error> {
    Payload::deserialize(deserializer).map(Some)
}

fn one() -> Number {
    1.into()
}

fn zero() -> Number {
    0.into()
}

fn related() -> String {
    LinkKey::RELATED.to_owned()
}

fn empty() -> Payload {
    Payload::from(serde_json::json!({}))
}
