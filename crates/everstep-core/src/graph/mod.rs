//! The graph style: nodes and edges.
//!
//! A definition is read ([`read`]), checked and compiled ([`compile`]) into a [`Graph`]; a run's [`Progress`] through
//! it is folded from the journal; [`next`] returns the events that follow.

mod apply;
mod bodies;
mod call;
mod compile;
mod condition;
mod control;
mod inputs;
mod model;
mod next;
mod path;
mod progress;
mod read;
mod repeat;
mod run;
mod scope_context;
mod story;
mod task;
mod variables;

pub use crate::definition::{Problem, nearest};
pub(crate) use apply::fold;
pub use compile::{compile, load};
pub(crate) use inputs::{check_handle, on_event, on_signal, on_timer};
pub use model::{Condition, Graph, Join, NamedSecret, Node, NodeKind, OnError, OnItemError};
pub(crate) use next::next;
pub use path::{ScopePath, StepPath};
pub use progress::Progress;
pub use run::GraphRun;
pub use scope_context::ScopeContext;
pub(crate) use story::{StepFacts, reopened, step_kind};
pub(crate) use task::{describe_config, describe_task, wait_facts};
pub(crate) use variables::{META as META_FIELDS, PROBLEM_CODE as UNKNOWN_VARIABLE, ROOTS as EXPRESSION_ROOTS};
