//! Runs users' JavaScript within limits of memory and time.
//!
//! A script gets a fresh runtime, which is discarded after it, on a thread of a small pool. It can read `ctx`, which is
//! frozen, and `console`; it has no timers, no modules and no files, and no network unless its host provides a
//! [`Fetch`]. QuickJS is a C library in our process: these limits protect a server from mistakes and resource
//! exhaustion, not from an attacker who exploits a bug of the library itself.

use std::time::Duration;

mod execute;
mod fetch;
mod log;
mod pool;
mod priority;
mod sandbox;
mod script;
mod syntax;

pub use fetch::{
    BODY_BYTES_MAX, Fetch, FetchFuture, FetchRequest, FetchResponse, REQUESTS_IN_FLIGHT_MAX, REQUESTS_MAX,
};
pub use sandbox::Sandbox;
pub use script::{Error, Script, ScriptFailure, ScriptOutput};
pub use syntax::SyntaxError;

/// The longest timeout of a script, unless the operator allows more.
pub const TIMEOUT_MAX_DEFAULT: Duration = Duration::from_secs(60);
/// Bytes of memory that a script may use by default. The memory of its context is added to it.
pub const MEMORY_BYTES_DEFAULT: usize = 64 * 1024 * 1024;
/// Bytes of JSON that a script may return.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;
/// The maximum nesting depth of the JSON that a script returns.
pub const RESULT_DEPTH_MAX: usize = 100;
/// Bytes of log lines that are stored for one script.
pub const LOG_BYTES_MAX: usize = 64 * 1024;
