//! Live streams of runs. A follower receives the run as it is, then every later entry of its journal, in order and once,
//! whichever node writes it. The engine's `Follower` reads them.
//!
//! * `hub` is shared by all streams; `feed` is the run as it is when a follower joins it.
//! * `pass` checks the follower's permission while the stream lasts; `slots` bounds the number of followers.
//! * `sse` and `socketio` are the two transports.

mod feed;
mod hub;
mod pass;
mod routes;
mod slots;
mod socketio;
mod sse;
mod wire;

pub use hub::StreamHub;
pub(crate) use pass::KEY_CHECK_INTERVAL;
pub(crate) use routes::add;
pub use slots::Streams;
