//! Records and links.
//!
//! * `store`: the port's implementation.
//! * `apply`: a batch of ops in one transaction of the writer thread: `picture` reads what they touch, `write` writes
//!   the difference. `placement` keeps records together that are written often.
//! * `reads`, `sweep`: the verbs that read, and those of the sweeper.

mod apply;
mod picture;
mod placement;
mod reads;
mod rows;
mod store;
mod sweep;
mod write;
