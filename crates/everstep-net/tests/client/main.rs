//! What the guarded client promises, tried with real servers.

mod guard;
mod limits;
mod redirects;
mod refusals;
mod server;
