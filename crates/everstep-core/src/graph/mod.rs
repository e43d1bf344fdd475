//! The graph style: nodes and edges.
//!
//! A definition is read ([`read`]), checked and compiled ([`compile`]) into a [`Graph`]; a run's [`Progress`]
//! through it is folded from the journal; [`next`] answers what follows.

mod bodies;
mod call;
mod compile;
mod condition;
mod control;
mod fields;
mod model;
pub(crate) mod next;
mod problem;
mod progress;
mod read;
mod repeat;
mod secrets;
mod variables;
mod view;

pub use compile::{compile, load};
pub use model::{Condition, Graph, Join, Kind, Node, OnError, OnItemError};
pub use problem::Problem;
pub use progress::{Path, Place, Progress};
pub(crate) use repeat::Pacing;
pub use view::View;
