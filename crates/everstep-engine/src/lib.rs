//! Loops: owns runs in memory, asks the core what follows, commits it, and dispatches what was committed.
//!
//! * [`Engine`] is the handle that everyone else holds.
//! * `shard` owns runs (`load` brings them into memory, `outcome` acts on what became of their items, `tend` looks
//!   after those at rest); `commit` writes what they decide; `perform` hands tasks to handlers;
//!   `claim` takes runs that nobody owns; `sweep` deletes what has aged out.
//!
//! All loops are plain futures over injected ports ([`World`]), so the simulator can poll them one by one.

mod active;
mod claim;
mod clock;
mod commit;
mod count;
mod engine;
mod error;
mod fork;
mod library;
mod look;
mod member;
mod message;
mod observe;
mod options;
mod overview;
mod peers;
mod ports;
mod run;
mod shard;
mod sightings;
mod start;
mod sweep;
mod tasks;
mod tick;
mod workers;

pub use clock::NodeClock;
pub use engine::{Ending, Engine, News, Start, Started, TEST, Watch};
pub use error::Error;
pub use fork::{Forked, Unforkable};
pub use library::{Library, Save, Saving, Version};
pub use look::{Activity, Look, Opened};
pub use observe::{Blind, Observe, Seen};
pub use options::Options;
pub use peers::{Alone, Hint, Peer, Peers, Question, RunInput};
pub use ports::{Clock, Random, Spawn, SystemClock, SystemRandom, TokioSpawn, World};
pub use start::Beginning;
pub use workers::{
    Backlog, Hello, ServedWorkflow, Session, SessionId, StepOutcome, StepRecord, Turn, WorkerBatch, WorkerInfo,
    WorkerMessage, WorkerReport,
};
