//! Lists of namespaces, by name.

use serde::Deserialize;
use serde_json::{Value, json};

use super::cursor::{read_cursor, write_cursor};
use super::failure::OpFailure;
use super::limits::PAGE_ITEMS_DEFAULT;
use super::picture::NamespaceCounts;
use super::text::check_limit;
use crate::payload::Payload;

/// The input of `store.list_namespaces` and `links.list_namespaces`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespacesRequest {
    #[serde(default = "default_limit", deserialize_with = "crate::whole::number")]
    pub limit: usize,
    #[serde(default)]
    pub cursor: Option<String>,
}

impl NamespacesRequest {
    pub fn check(&self) -> Result<(), OpFailure> {
        check_limit(self.limit)?;
        self.after().map(drop)
    }

    /// The name after which the page begins.
    pub fn after(&self) -> Result<Option<String>, OpFailure> {
        self.cursor.as_deref().map(read_cursor).transpose()
    }
}

/// What a listed namespace contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceFilter {
    /// Records or links.
    #[default]
    Any,
    Records,
    Links,
}

/// One page of a list of namespaces, for steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamespaceCountPage {
    pub namespaces: Vec<(String, NamespaceCounts)>,
    /// The name after which the next page begins.
    pub next: Option<String>,
}

impl NamespaceCountPage {
    /// The output of `store.list_namespaces` or `links.list_namespaces`.
    pub fn to_payload(&self, filter: NamespaceFilter) -> Payload {
        let item = |(name, counts): &(String, NamespaceCounts)| match filter {
            NamespaceFilter::Records => json!({"namespace": name, "key_count": counts.keys}),
            NamespaceFilter::Links => json!({"namespace": name, "link_count": counts.links}),
            NamespaceFilter::Any => json!({"namespace": name, "key_count": counts.keys, "link_count": counts.links}),
        };
        let namespaces: Vec<Value> = self.namespaces.iter().map(item).collect();
        Payload::from(json!({"namespaces": namespaces, "next_cursor": self.next.as_deref().map(write_cursor)}))
    }
}

fn default_limit() -> usize {
    PAGE_ITEMS_DEFAULT
}
