//! What is sent and received, in types of its own. They are converted by hand, so that the core may change its mind
//! without breaking a client.

mod audit;
mod control;
mod data;
mod entry;
mod health;
mod key;
mod node;
mod run;
mod schema;
mod secret;
mod start;
mod ticket;
mod time;
mod workflow;
mod workspace;

pub(crate) use audit::{AuditEntries, AuditEntry};
pub(crate) use control::{Cancel, Control, Outcome};
pub(crate) use data::{DataSource, DataSources, QueryAnswer, QueryRun, SavedQueries, SavedQuery};
pub(crate) use entry::{Entries, Entry};
pub(crate) use health::{Alive, Database, Readiness, Welcome};
pub(crate) use key::{Key, Keys, MadeKey, Me, MyKey, MyWorkspace, NewKey};
pub(crate) use node::{Node, Nodes};
pub(crate) use run::{Run, RunSummary, Runs, Started};
pub(crate) use schema::{Id, Json, Object, Status};
pub(crate) use secret::{NewSecret, Secret, Secrets};
pub(crate) use start::{OfDefinition, OfWorkflow};
pub(crate) use ticket::{Empty, Ticket};
pub(crate) use time::Time;
pub(crate) use workflow::Workflow;
pub(crate) use workspace::{ChangedOptions, ChangedWorkspace, MadeWorkspace, NewWorkspace, Workspace, Workspaces};
