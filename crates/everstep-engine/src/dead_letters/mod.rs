//! Dead letters: performs those that were requeued, and notifies operations of new ones.
//!
//! * `handle`: [`DeadLetters`], which the API and the committer share. `notice`: the port to operations.
//! * `requeuer`: the loop. `held`: what it has taken. `attempt`: one requeue, from its first attempt to its last.
//! * `sweep`: the job that deletes those that are no longer kept.

mod attempt;
mod handle;
mod held;
mod notice;
mod requeuer;
pub(crate) mod sweep;

pub use handle::DeadLetters;
pub use notice::{Notice, Notices};
pub(crate) use requeuer::Requeuer;
