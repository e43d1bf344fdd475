//! A link: a typed edge between two identifiers in a namespace.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::failure::OpFailure;
use super::limits::LINK_BYTES_MAX;
use super::text::check_name;
use crate::ids::{RunId, StepKey};
use crate::payload::Payload;
use crate::time::Timestamp;

/// The id of a link, from its creation to its deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(pub Uuid);

impl FromStr for LinkId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// One side of a link: a thing of the users, such as the task `42`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identifier {
    #[serde(rename = "type")]
    pub kind: String,
    pub id: String,
}

impl Identifier {
    pub fn new(kind: impl Into<String>, id: impl Into<String>) -> Self {
        Self { kind: kind.into(), id: id.into() }
    }

    /// Trims and checks its texts. `side` is its field in the input.
    pub fn check(&mut self, side: &str) -> Result<(), OpFailure> {
        self.kind = check_name(&format!("{side}.type"), &self.kind)?;
        self.id = check_name(&format!("{side}.id"), &self.id)?;
        Ok(())
    }
}

/// What identifies a link in its namespace: its two sides and its relation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LinkKey {
    pub from: Identifier,
    pub to: Identifier,
    pub relation: String,
}

impl LinkKey {
    /// The relation of a link whose input names none.
    pub const RELATED: &str = "related";

    pub(super) fn check_size(&self, namespace: &str) -> Result<(), OpFailure> {
        let parts = [namespace, &self.from.kind, &self.from.id, &self.to.kind, &self.to.id, &self.relation];
        let bytes: usize = parts.iter().map(|part| part.len()).sum();
        if bytes <= LINK_BYTES_MAX {
            return Ok(());
        }
        Err(OpFailure::invalid(format!(
            "namespace, types, ids and relation of the link have {bytes} bytes together; at most {LINK_BYTES_MAX} are \
             allowed"
        )))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub id: LinkId,
    pub key: LinkKey,
    /// An object. Absent if it was not read.
    pub attributes: Option<Payload>,
    /// The size of the attributes' JSON in bytes.
    pub bytes: usize,
    /// The number of the namespace's change that wrote it.
    pub change: u64,
    /// The run and the step that wrote it, if a run did.
    pub run: Option<RunId>,
    pub step: Option<StepKey>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}
