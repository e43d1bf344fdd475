//! Live streams of runs. A follower receives the run as it is, then every later entry of its journal, in order and once,
//! whichever node writes it. The engine's `Follower` reads them.
//!
//! * `hub` is shared by all streams; `feed` is the run as it is when a follower joins it.
//! * `pass` checks the follower's permission while the stream lasts; `slots` bounds the number of followers.
//! * `sse`, `socketio` and `socket` are the transports.
//! * `workspace` is the feed of a whole workspace, which `socket` carries.

mod feed;
mod hub;
mod pass;
mod routes;
mod slots;
mod socket;
mod socketio;
mod sse;
mod wire;
pub(crate) mod workspace;

pub use hub::StreamHub;
pub(crate) use pass::KEY_CHECK_INTERVAL;
pub(crate) use routes::add;
pub use slots::Streams;
