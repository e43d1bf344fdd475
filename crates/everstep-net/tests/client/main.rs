//! The promises of the guarded client, tested with real servers.

mod guard;
mod limits;
mod redirects;
mod refusals;
mod server;
