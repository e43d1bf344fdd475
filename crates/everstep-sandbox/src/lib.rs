//! Runs users' JavaScript within limits of memory and time.
//!
//! A script gets a runtime of its own, made for it and thrown away after it, on a thread of a small pool.
//! It sees `ctx`, frozen, and `console`; it has no timers, no modules and no files, and no network unless its host hands
//! it a [`Fetch`].
//! QuickJS is a C library in our process: these limits protect a server from its users' mistakes and from bombs,
//! they are no wall against somebody who finds a hole in the library itself.

mod execute;
mod fetch;
mod log;
mod pool;
mod priority;
mod sandbox;
mod script;

pub use fetch::{BODY_BYTES, Fetch, Fetching, IN_FLIGHT, REQUESTS, Request, Response};
pub use sandbox::Sandbox;
pub use script::{Error, Ran, Script, Stopped};

/// Bytes of memory that a script may use unless it is told otherwise. What its context weighs comes on top.
pub const MEMORY_BYTES: usize = 64 * 1024 * 1024;
/// Bytes of JSON that a script may return.
pub const RESULT_BYTES: usize = 1024 * 1024;
/// How deep the JSON that a script returns may be nested.
pub const RESULT_DEPTH: usize = 100;
/// Bytes of log lines that are kept of one script.
pub const LOG_BYTES: usize = 64 * 1024;
