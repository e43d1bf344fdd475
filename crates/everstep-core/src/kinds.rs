//! The port through which the core knows the kinds of nodes that act on the world.

use serde_json::Value;

use crate::evaluate::Fault;

/// What a graph must know of an acting kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindInfo {
    /// The node's `type`, such as `javascript`.
    pub name: String,
    /// The variable that receives the output when a node names none.
    pub output_variable: Option<String>,
    /// Handles besides `success` and `error`.
    pub handles: Vec<String>,
    /// Fields of the config that are handed over as written, without resolving templates.
    pub raw_fields: Vec<String>,
    /// Places of the config that may name a secret, as JSON pointers: `*` is any one part, `**` all that follow.
    pub secret_places: Vec<String>,
    /// Whether a task is given the whole context.
    pub needs_context: bool,
    /// The timeout of one attempt when a node names none, in seconds.
    pub timeout_seconds: u32,
    /// The longest timeout that a node may name, in seconds; 0 for any.
    pub longest_timeout_seconds: u32,
}

/// The acting kinds that a server offers.
pub trait Kinds: Send + Sync {
    fn find(&self, name: &str) -> Option<&KindInfo>;

    /// What is wrong with a node's config; pointers are relative to the config.
    fn check(&self, name: &str, config: &Value) -> Vec<Fault>;

    /// What is wrong with the code in a config, such as the syntax of a script. It is compiled only when a definition
    /// is saved: a definition that was saved before is loaded as it is.
    fn check_code(&self, name: &str, config: &Value) -> Vec<Fault>;

    /// All names, for the hint of an error.
    fn names(&self) -> Vec<String>;
}
