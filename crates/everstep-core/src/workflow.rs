//! A workflow version, ready to be run.

use std::sync::LazyLock;

use crate::graph::Graph;

/// One immutable version of a workflow.
#[derive(Clone, Debug)]
pub struct Workflow {
    pub name: String,
    pub version: u32,
    pub style: Style,
    /// Whether it is in no library, so that its definition stands in the journals of its runs.
    pub is_unpublished: bool,
}

/// How a workflow is written. A style answers one question: what next?
#[derive(Clone, Debug)]
pub enum Style {
    Graph(Graph),
    /// A function in a user's process: the server knows nothing but its name.
    Code,
}

impl Workflow {
    /// Its graph; an empty one where it is written otherwise.
    pub fn graph(&self) -> &Graph {
        static NONE: LazyLock<Graph> = LazyLock::new(Graph::default);
        match &self.style {
            Style::Graph(graph) => graph,
            Style::Code => &NONE,
        }
    }

    pub fn is_code(&self) -> bool {
        matches!(self.style, Style::Code)
    }
}

/// Whether a name may be given to a workflow: `[a-z0-9][a-z0-9_-]{0,127}`.
pub fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=128).contains(&bytes.len())
        && is_plain(&bytes[0])
        && bytes.iter().all(|byte| is_plain(byte) || matches!(byte, b'_' | b'-'))
}
