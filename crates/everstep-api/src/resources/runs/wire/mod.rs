//! Runs in the API, and the requests about them.

mod bulk;
mod control;
mod entry;
mod fork;
mod head;
mod machine;
mod run;
mod start;
mod status;
mod step;
mod step_detail;
mod test;
mod trigger;
mod view;
mod waiting;

pub(crate) use bulk::{Action, Bulk, Filter, Gathered, OneOrMany, Refusal};
pub(crate) use control::{Cancel, Control, Outcome};
pub(crate) use entry::{Entries, Entry};
pub(crate) use fork::{Fork, Forked, NotUndone, StartedChild};
pub(crate) use head::{EntryView, Head, Heads, JournalView};
pub(crate) use run::{Run, RunSummary, Runs, Started, StartedBatch, StartedOne, UnreadableRun, WaitingRuns};
pub(crate) use start::{Batch, OfDefinition, OfWorkflow};
pub(crate) use status::{Status, Statuses};
pub(crate) use step::{Context, Line, Logs, Scope, Step, StepDeadLetter, Steps};
pub(crate) use step_detail::{StepDetail, StepPart};
pub(crate) use test::TestRun;
pub(crate) use trigger::Trigger;
pub(crate) use view::{View, Viewed};
pub(crate) use waiting::{ForWorker, about, warning};
