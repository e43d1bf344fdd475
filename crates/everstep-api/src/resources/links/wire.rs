//! Links in the API.

use everstep_core::payload::Payload;
use everstep_core::records::{self, LinkKey, UpsertOutput, UpsertRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::http::schema::{Id, Object};
use crate::http::time::Time;
use crate::resources::store::Author;

/// One side of a link: a type and an id that you choose, such as the order `7`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identifier {
    /// 1 to 256 characters.
    #[serde(rename = "type")]
    kind: String,
    /// 1 to 256 characters.
    id: String,
}

impl From<records::Identifier> for Identifier {
    fn from(identifier: records::Identifier) -> Self {
        Self { kind: identifier.kind, id: identifier.id }
    }
}

impl From<Identifier> for records::Identifier {
    fn from(identifier: Identifier) -> Self {
        Self { kind: identifier.kind, id: identifier.id }
    }
}

/// A typed edge between two identifiers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Link {
    #[schemars(with = "Id")]
    link_id: Uuid,
    from: Identifier,
    to: Identifier,
    relation: String,
    #[schemars(with = "Object")]
    attributes: Payload,
    /// The number of the namespace's change that wrote it.
    change: u64,
    created_at: Time,
    updated_at: Time,
    /// Who wrote it. Lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    written_by: Option<Author>,
}

impl Link {
    pub(super) fn from_link(link: records::Link, author: Option<Author>) -> Self {
        let LinkKey { from, to, relation } = link.key;
        Self {
            link_id: link.id.0,
            from: from.into(),
            to: to.into(),
            relation,
            attributes: link.attributes.unwrap_or_else(no_attributes),
            change: link.change,
            created_at: Time::from_timestamp(link.created_at),
            updated_at: Time::from_timestamp(link.updated_at),
            written_by: author,
        }
    }
}

/// A page of links, by their two sides and their relation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Links {
    pub(super) links: Vec<Link>,
    /// The cursor of the next page; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// The other side of a link that was looked up.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LinkMatch {
    #[schemars(with = "Id")]
    link_id: Uuid,
    #[serde(rename = "type")]
    kind: String,
    id: String,
    relation: String,
    #[schemars(with = "Object")]
    attributes: Payload,
}

impl LinkMatch {
    pub(super) fn from_match(found: records::LinkMatch) -> Self {
        let far = found.far_side().clone();
        Self {
            link_id: found.link.id.0,
            kind: far.kind,
            id: far.id,
            relation: found.link.key.relation,
            attributes: found.link.attributes.unwrap_or_else(no_attributes),
        }
    }
}

/// A page of a lookup.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LinkMatches {
    pub(super) matches: Vec<LinkMatch>,
    /// The cursor of the next page; null on the last one.
    pub(super) next_cursor: Option<String>,
}

/// `POST /v1/links/{namespace}`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UpsertLinkRequest {
    from: Identifier,
    to: Identifier,
    /// What the link expresses; `related` by default.
    relation: Option<String>,
    /// At most 64 KiB; they replace those of a link with the same sides and relation. `{}` by default.
    #[schemars(with = "Option<Object>")]
    attributes: Option<Payload>,
}

impl UpsertLinkRequest {
    pub(crate) fn into_core(self) -> UpsertRequest {
        UpsertRequest {
            from: self.from.into(),
            to: self.to.into(),
            relation: self.relation.unwrap_or_else(|| LinkKey::RELATED.to_owned()),
            attributes: self.attributes.unwrap_or_else(no_attributes),
        }
    }
}

/// A link that was written.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppliedUpsert {
    #[schemars(with = "Id")]
    link_id: Uuid,
    /// Whether the link is new.
    created: bool,
    /// The number of the change.
    change: u64,
}

impl AppliedUpsert {
    pub(crate) fn from_output(output: &UpsertOutput) -> Self {
        Self { link_id: output.link_id.0, created: output.created, change: output.change }
    }
}

/// The answer to a request that deletes links.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeletedLinks {
    pub(super) deleted_count: u64,
}

fn no_attributes() -> Payload {
    Payload::from(json!({}))
}
