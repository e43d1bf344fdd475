//! The port through which the core reads the kinds of nodes that handlers perform.

use serde_json::Value;

use crate::evaluate::Fault;

/// The facts about a kind that a graph needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindInfo {
    /// The node's `type`, such as `javascript`.
    pub name: String,
    /// The variable that receives the output if a node names none.
    pub output_variable: Option<String>,
    /// Handles besides `success` and `error`.
    pub handles: Vec<String>,
    /// Fields of the config that the handler receives as written, without resolved templates.
    pub raw_fields: Vec<String>,
    /// Places of the config that accept a secret, as JSON pointers: `*` is any one part, `**` all that follow.
    pub secret_places: Vec<String>,
    /// Whether a task receives the whole context.
    pub needs_context: bool,
    /// The timeout of one attempt if a node names none, in seconds; 0 for none.
    pub timeout_seconds: u32,
    /// The longest timeout that a node may name when its definition is saved, in seconds; 0 for no limit.
    pub longest_timeout_seconds: u32,
    /// The permission that the publisher of a workflow needs for its nodes of this kind.
    pub permission: Option<&'static str>,
}

/// A part of a definition that a handler performs: a node of a graph, or a side effect of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPart {
    pub kind: String,
    /// The node of a graph, or the state of a machine.
    pub node: String,
    /// The place in the definition, as a JSON pointer.
    pub path: String,
}

/// The kinds that the handlers of a server perform.
pub trait Kinds: Send + Sync {
    fn find(&self, name: &str) -> Option<&KindInfo>;

    /// The errors in a node's config; pointers are relative to the config.
    fn check(&self, name: &str, config: &Value) -> Vec<Fault>;

    /// The errors in the code of a config, such as syntax errors in a script. Code is checked only when a definition is
    /// saved, not when a saved definition is loaded.
    fn check_code(&self, name: &str, config: &Value) -> Vec<Fault>;

    /// All names, for the hint of an error.
    fn names(&self) -> Vec<String>;
}
