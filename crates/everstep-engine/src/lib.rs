//! Loops: owns runs in memory, asks the core what follows, commits it, and dispatches what was committed.
//!
//! * [`Engine`] is the handle that everyone else holds.
//! * `shard` owns runs; `commit` writes what they decide; `perform` hands tasks to handlers;
//!   `claim` takes runs that nobody owns; `sweep` deletes what has aged out.
//!
//! All loops are plain futures over injected ports ([`World`]), so the simulator can poll them one by one.

mod claim;
mod commit;
mod engine;
mod error;
mod held;
mod library;
mod message;
mod options;
mod perform;
mod ports;
mod propose;
mod shard;
mod sweep;

pub use engine::{Engine, NewStart, Started, Watch};
pub use error::Error;
pub use library::Library;
pub use options::Options;
pub use ports::{Clock, Random, Spawn, SystemClock, SystemRandom, TokioSpawn, World};
