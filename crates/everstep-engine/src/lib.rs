//! Loops: owns runs in memory, asks the core for the next entries, commits them, and dispatches the committed tasks.
//!
//! * [`Engine`] is the handle that all other parts use; `start`, `inputs`, `hold` and `watch` are its verbs.
//! * `shard` owns runs, `run` is one of them; `commit` writes their decisions; `tasks` passes tasks to handlers;
//!   `workers` are users' processes that run code workflows.
//! * `read` reads runs and workflows for callers; `feed` gathers status changes for followers of a workspace.
//! * `records` applies ops of the data store in batches, by means of `batch`.
//! * `topics` publishes events and carries out their fan-out.
//! * `dead_letters` performs dead letters that were requeued, and notifies operators of new ones.
//! * `claim` takes runs that no node owns; `sweep` deletes runs whose retention has passed.
//!
//! All loops are plain futures over injected ports ([`World`]), so the simulator can poll them one by one.

mod batch;
mod commit;
mod dead_letters;
mod engine;
mod error;
mod feed;
mod hold;
mod inputs;
mod message;
mod node;
mod observe;
mod options;
mod overview;
mod pace;
mod ports;
mod read;
mod records;
mod requests;
mod run;
mod shard;
mod start;
mod tasks;
mod test_run;
mod topics;
mod upkeep;
mod watch;
mod workers;
mod workspace_queue;

pub use dead_letters::{DeadLetters, Notice, Notices};
pub use engine::Engine;
pub use error::Error;
pub use feed::{FEED_PATH, FeedCursor, FeedPage, StatusUpdate, WorkspaceFeed, WorkspacePage};
pub use node::clock::NodeClock;
pub use node::peers::{Hint, NoPeers, Peer, Peers, Question, RunInput};
pub use observe::{AnsweredOp, CommittedItem, EndedEvent, EventOutcome, NoObserver, Observe};
pub use options::Options;
pub use pace::Component;
pub use ports::{Clock, Random, Spawn, SystemClock, SystemRng, TokioSpawner, World};
pub use read::{
    AttemptDetail, CheckedDefinition, DefinedWait, DefinitionOutcome, Follower, Fork, ForkError, ForkedRun,
    FunctionEnd, HeadFold, HeadPage, HistoryPage, JournalEntry, JournalPage, JournaledRun, Library, LoadedRun, LogLine,
    LogPage, LookBackSnapshot, MachineSnapshot, RunSnapshot, Runs, SaveError, SaveOptions, StepActivity, StepDetail,
    StepPage, StepSnapshot, Version,
};
pub use records::{NewOp, Records};
pub use requests::RoutedReply;
pub use run::EXAMINED_EVENTS_MAX;
pub use start::{Start, StartDetail, StartReply, StartedRun, TEST};
pub use topics::Topics;
pub use watch::{AwaitedEnd, EndedRun, Notification, RunEnd, Watch};
pub use workers::{
    Backlog, Hello, ServedWorkflow, Session, SessionId, StepOutcome, StepRecord, Turn, TurnEnd, WorkerBatch,
    WorkerInfo, WorkerMessage, WorkerReport,
};
