//! Changes: the effects of applied ops, numbered within their namespace.

use std::collections::BTreeMap;

use super::key::OpKey;
use super::link::{Link, LinkId, LinkKey};
use super::op::{Author, Verb};
use super::record::Record;
use crate::payload::Payload;
use crate::time::Timestamp;

/// The effect of an applied op on one record or link.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Counted within the namespace, from 1, without a gap.
    pub number: u64,
    pub verb: Verb,
    pub effect: Effect,
    pub at: Timestamp,
    pub author: Author,
    /// On the first change of an op.
    pub op: Option<AppliedOp>,
}

/// What a change did.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// The record as it was written.
    Written(Record),
    /// The key of a record that was deleted or has expired.
    Deleted(String),
    /// The link as it was written.
    Linked(Link),
    /// The link before its deletion. Its attributes may be absent.
    Unlinked(Link),
}

/// What is stored with the first change of an op, so that a repeated op is recognised.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedOp {
    pub key: OpKey,
    pub digest: Option<[u8; 32]>,
    pub output: Payload,
}

impl Effect {
    /// The key of the record that it concerns.
    pub fn record_key(&self) -> Option<&str> {
        match self {
            Self::Written(record) => Some(&record.key),
            Self::Deleted(key) => Some(key),
            Self::Linked(_) | Self::Unlinked(_) => None,
        }
    }

    /// The link that it concerns.
    pub fn link(&self) -> Option<&Link> {
        match self {
            Self::Linked(link) | Self::Unlinked(link) => Some(link),
            Self::Written(_) | Self::Deleted(_) => None,
        }
    }

    pub(super) fn deleted_link(&self) -> Option<&Link> {
        match self {
            Self::Unlinked(link) => Some(link),
            Self::Written(_) | Self::Deleted(_) | Self::Linked(_) => None,
        }
    }
}

/// The records and links of a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    pub records: BTreeMap<String, Record>,
    pub links: BTreeMap<LinkId, Link>,
}

/// The records and links of a namespace, from its changes.
pub fn replay<'a>(changes: impl IntoIterator<Item = &'a Change>) -> Contents {
    let mut contents = Contents::default();
    for change in changes {
        match &change.effect {
            Effect::Written(record) => _ = contents.records.insert(record.key.clone(), record.clone()),
            Effect::Deleted(key) => _ = contents.records.remove(key),
            Effect::Linked(link) => _ = contents.links.insert(link.id, link.clone()),
            Effect::Unlinked(link) => _ = contents.links.remove(&link.id),
        }
    }
    contents
}

impl Contents {
    /// The links by their sides and relation.
    pub fn links_by_key(&self) -> BTreeMap<&LinkKey, &Link> {
        self.links.values().map(|link| (&link.key, link)).collect()
    }
}
