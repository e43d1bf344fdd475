//! A workflow version, ready to be run.

use std::sync::Arc;

use crate::graph::Graph;
use crate::publisher::Publisher;
pub use crate::style::{PerformerKind, Style};

/// One immutable version of a workflow.
#[derive(Clone, Debug)]
pub struct Workflow {
    pub name: String,
    pub version: u32,
    pub style: Style,
    /// Whether the workflow is not saved, so that the journals of its runs contain its definition.
    pub is_unsaved: bool,
    /// Who has saved the version. Its steps act with the publisher's permissions.
    pub publisher: Arc<Publisher>,
}

impl Workflow {
    /// Whether the server performs its steps, or a worker.
    pub fn performer_kind(&self) -> PerformerKind {
        self.style.performer_kind()
    }

    /// Whether its runs need a worker to continue.
    pub fn needs_worker(&self) -> bool {
        self.performer_kind() == PerformerKind::Worker
    }

    /// Its graph, if it has one.
    pub fn graph(&self) -> Option<&Graph> {
        self.style.graph()
    }
}

/// Whether a name is valid for a workflow: `[a-z0-9][a-z0-9_-]{0,127}`.
pub fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=128).contains(&bytes.len())
        && is_plain(&bytes[0])
        && bytes.iter().all(|byte| is_plain(byte) || matches!(byte, b'_' | b'-'))
}
