//! The worker protocol over a WebSocket: one JSON object per text frame.
//!
//! `handshake` reads the first frame and finds or opens the session; then `reader` and `writer` run until one of them
//! ends the `connection`. `outgoing` has the frames besides messages, and the reasons for which a socket is closed.

mod connection;
mod handshake;
mod outgoing;
mod reader;
mod writer;

pub(crate) use connection::open;
