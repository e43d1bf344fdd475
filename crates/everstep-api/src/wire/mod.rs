//! What is sent and received, in types of its own. They are converted by hand, so that the core may change its mind
//! without breaking a client.

mod control;
mod entry;
mod health;
mod node;
mod run;
mod schema;
mod start;
mod ticket;
mod time;
mod workflow;

pub(crate) use control::{Cancel, Control, Outcome};
pub(crate) use entry::{Entries, Entry};
pub(crate) use health::{Alive, Database, Readiness, Welcome};
pub(crate) use node::{Node, Nodes};
pub(crate) use run::{Run, RunSummary, Runs, Started};
pub(crate) use schema::{Id, Json, Object, Status};
pub(crate) use start::{OfDefinition, OfWorkflow};
pub(crate) use ticket::Ticket;
pub(crate) use time::Time;
pub(crate) use workflow::Workflow;
