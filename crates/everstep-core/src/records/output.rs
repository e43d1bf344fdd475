//! The outputs of ops and reads, as JSON.

use serde::{Deserialize, Serialize};
use serde_json::Number;
use serde_json::value::to_raw_value;

use super::cursor::write_cursor;
use super::link::{Identifier, LinkId};
use super::list::RecordPage;
use super::lookup::{LinkMatch, LinkPage};
use super::record::{Record, ValueType};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The output of `store.set`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SetOutput {
    pub revision: u64,
    pub change: u64,
    pub created: bool,
}

/// The output of `store.delete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeleteOutput {
    pub deleted: bool,
}

/// The output of `store.increment`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IncrementOutput {
    pub value: Number,
    pub revision: u64,
    pub change: u64,
}

/// The output of `links.upsert`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UpsertOutput {
    pub link_id: LinkId,
    pub created: bool,
    pub change: u64,
}

/// The output of `links.delete`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnlinkOutput {
    pub deleted_count: u64,
}

/// The output of `store.transact`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransactOutput {
    /// The numbers of the first and the last change; null if nothing was changed.
    pub changes: Option<[u64; 2]>,
    /// The outputs of the writes, in their order.
    pub results: Vec<Payload>,
}

/// The output of `store.get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GetOutput {
    pub found: bool,
    pub value: Option<Payload>,
    pub value_type: Option<ValueType>,
    pub revision: Option<u64>,
    pub change: Option<u64>,
    pub expires_at: Option<String>,
}

impl GetOutput {
    /// A record for its readers: an expired one is absent.
    pub fn of_record(record: Option<&Record>, now: Timestamp) -> Self {
        Self::of_live_record(record.filter(|record| record.is_live(now)))
    }

    /// A record that has not expired.
    pub fn of_live_record(record: Option<&Record>) -> Self {
        let Some(record) = record else { return Self::default() };
        Self {
            found: true,
            value: record.value.clone(),
            value_type: Some(record.value_type),
            revision: Some(record.revision),
            change: Some(record.change),
            expires_at: record.expires_at.map(|time| time.to_string()),
        }
    }

    pub fn to_payload(&self) -> Payload {
        to_payload(self)
    }
}

/// The output of `store.list`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListOutput<'a> {
    pub items: Vec<ListItem<'a>>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListItem<'a> {
    pub key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<&'a Payload>,
    pub value_type: ValueType,
    pub revision: u64,
    pub change: u64,
    pub expires_at: Option<String>,
}

impl<'a> ListOutput<'a> {
    pub fn of_page(page: &'a RecordPage) -> Self {
        let item = |record: &'a Record| ListItem {
            key: &record.key,
            value: record.value.as_ref(),
            value_type: record.value_type,
            revision: record.revision,
            change: record.change,
            expires_at: record.expires_at.map(|time| time.to_string()),
        };
        Self { items: page.records.iter().map(item).collect(), next_cursor: page.next.as_deref().map(write_cursor) }
    }

    pub fn to_payload(&self) -> Payload {
        to_payload(self)
    }
}

/// The output of `links.lookup`: the far side of each link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LookupOutput<'a> {
    pub matches: Vec<LookupItem<'a>>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LookupItem<'a> {
    pub link_id: LinkId,
    #[serde(rename = "type")]
    pub kind: &'a str,
    pub id: &'a str,
    pub relation: &'a str,
    pub attributes: Option<&'a Payload>,
}

impl<'a> LookupOutput<'a> {
    pub fn of_page(page: &'a LinkPage) -> Self {
        let item = |found: &'a LinkMatch| {
            let far = found.far_side();
            LookupItem {
                link_id: found.link.id,
                kind: &far.kind,
                id: &far.id,
                relation: &found.link.key.relation,
                attributes: found.link.attributes.as_ref(),
            }
        };
        let next_cursor = page.next.as_ref().map(super::lookup::LinkPosition::to_cursor);
        Self { matches: page.matches.iter().map(item).collect(), next_cursor }
    }

    pub fn to_payload(&self) -> Payload {
        to_payload(self)
    }
}

/// The output of `links.list`: both sides of each link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinksOutput<'a> {
    pub items: Vec<LinkItem<'a>>,
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkItem<'a> {
    pub link_id: LinkId,
    pub from: &'a Identifier,
    pub to: &'a Identifier,
    pub relation: &'a str,
    pub attributes: Option<&'a Payload>,
}

impl<'a> LinksOutput<'a> {
    pub fn of_page(page: &'a LinkPage) -> Self {
        let item = |found: &'a LinkMatch| LinkItem {
            link_id: found.link.id,
            from: &found.link.key.from,
            to: &found.link.key.to,
            relation: &found.link.key.relation,
            attributes: found.link.attributes.as_ref(),
        };
        let next_cursor = page.next.as_ref().map(super::lookup::LinkPosition::to_cursor);
        Self { items: page.matches.iter().map(item).collect(), next_cursor }
    }

    pub fn to_payload(&self) -> Payload {
        to_payload(self)
    }
}

pub(super) fn to_payload(output: &impl Serialize) -> Payload {
    Payload::from_raw(to_raw_value(output).expect("an output is plain data"))
}
