//! Reads runs and workflows for callers. Nothing here changes a run that exists.
//!
//! * `runs` is the one reader of runs: rows, lists, states. `journal`, `heads`, `steps`, `logs` and `history` are its
//!   pages of a journal, `step` is one step with its values, `follow` and `followed` its way to read a journal as it grows.
//! * `snapshot` is the activity of a run at one moment, from memory or from its state.
//! * `library` compiles workflow versions; `active_version` reads which one is active.
//! * `shared_read` is a read that concurrent callers share; `folded_states` keeps states of parked runs.
//! * `started_rows` keeps the rows of runs that were just started here, for the callers that wait for their ends.
//! * `function_end` reads the stack trace and the unawaited steps of a function that has ended.
//! * `fork` copies a part of a journal into a new run.

mod active_version;
mod folded_states;
mod follow;
mod followed;
mod fork;
mod function_end;
mod heads;
mod history;
mod journal;
mod library;
mod logs;
mod runs;
mod shared_read;
mod snapshot;
mod started_rows;
mod step;
mod steps;

pub(crate) use folded_states::is_usable;
pub use follow::Follower;
pub(crate) use followed::FollowedRuns;
pub use fork::{Fork, ForkError, ForkedRun};
pub use function_end::FunctionEnd;
pub use heads::{HeadFold, HeadPage};
pub use history::HistoryPage;
pub(crate) use journal::read_until;
pub use journal::{JournalEntry, JournalPage};
pub use library::{CheckedDefinition, DefinitionOutcome, Library, SaveError, SaveOptions, Version};
pub use logs::{LogLine, LogPage};
pub(crate) use runs::RunReads;
pub use runs::{JournaledRun, LoadedRun, Runs};
pub use snapshot::{DefinedWait, LookBackSnapshot, MachineSnapshot, RunSnapshot, StepActivity, StepSnapshot};
pub(crate) use started_rows::StartedRows;
pub use step::{AttemptDetail, StepDetail};
pub use steps::StepPage;
