//! What is sent and received, in types of its own. They are converted by hand, so that the core may change its mind
//! without breaking a client.

mod audit;
mod catalogue;
mod control;
mod data;
mod definition;
mod entry;
mod fork;
mod health;
mod key;
mod node;
mod run;
mod schema;
mod secret;
mod start;
mod step;
mod ticket;
mod time;
mod waiting;
mod workflow;
mod workspace;

pub(crate) use audit::{AuditEntries, AuditEntry};
pub(crate) use catalogue::Kinds;
pub(crate) use control::{Cancel, Control, Outcome};
pub(crate) use data::{DataSource, DataSources, QueryAnswer, QueryRun, SavedQueries, SavedQuery};
pub(crate) use definition::Definition;
pub(crate) use entry::{Entries, Entry};
pub(crate) use fork::{
    Action, Bulk, Filter, Fork, Forked, Gathered, NotUndone, OneOrMany, Refusal, StartedChild, TestRun, View, Viewed,
};
pub(crate) use health::{Alive, Database, Readiness, Welcome};
pub(crate) use key::{Key, Keys, MadeKey, Me, MyKey, MyWorkspace, NewKey};
pub(crate) use node::{Node, Nodes};
pub(crate) use run::{Run, RunSummary, Runs, Started, StartedBatch, StartedOne};
pub(crate) use schema::{Id, Json, Moment, MomentOrDay, Object, Status, Statuses};
pub(crate) use secret::{NewSecret, Secret, Secrets};
pub(crate) use start::{Batch, OfDefinition, OfWorkflow};
pub(crate) use step::{Context, Line, Logs, Scope, Step, Steps};
pub(crate) use ticket::{Empty, Ticket};
pub(crate) use time::{Time, When};
pub(crate) use waiting::{ForWorker, warning};
pub(crate) use workflow::{
    Activate, Clone, Exported, NewWorkflow, Portable, Validation, Version, Versions, Workflow, WorkflowSummary,
};
pub(crate) use workspace::{ChangedOptions, ChangedWorkspace, MadeWorkspace, NewWorkspace, Workspace, Workspaces};
