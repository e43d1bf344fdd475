//! A script, its output and its failure.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::MEMORY_BYTES_DEFAULT;
use crate::fetch::Fetch;

/// JavaScript to be run once: the body of an async function, so that `return` and `await` work.
#[derive(Clone)]
pub struct Script {
    pub code: String,
    /// The content of `ctx`, as JSON text.
    pub context_json: String,
    /// The time limit, counted from the start of the script and not from the beginning of the wait for a thread.
    pub timeout: Duration,
    pub memory_bytes: usize,
    /// The owner of the script. An owner with several scripts that do not end after they were stopped cannot run more.
    pub owner: u128,
    /// The implementation of `fetch`; without it the script has no `fetch`.
    pub fetch: Option<Arc<dyn Fetch>>,
}

impl Script {
    /// A script with the usual limits.
    pub fn new(code: impl Into<String>, context_json: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            context_json: context_json.into(),
            timeout: Duration::from_secs(30),
            memory_bytes: MEMORY_BYTES_DEFAULT,
            owner: 0,
            fetch: None,
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("code", &self.code).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// The output of a script that returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptOutput {
    /// The returned value, as JSON text; `null` if the script returned nothing.
    pub json: String,
    pub logs: Vec<String>,
}

/// Why a script did not return, with the lines that it had logged by then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct ScriptFailure {
    pub error: Error,
    pub logs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{message}{}", .line.map(|line| format!(" (line {line})")).unwrap_or_default())]
    Threw { message: String, line: Option<u32> },
    #[error("the script took longer than {0:?}")]
    Timeout(Duration),
    #[error("the script used more than {} MiB of memory", .0 / (1024 * 1024))]
    OutOfMemory(usize),
    #[error("the script waits for a promise that nothing can settle")]
    NeverSettles,
    #[error("the script returned a value that JSON cannot represent: {0}")]
    NotJson(String),
    #[error("the script returned {0} bytes of JSON, more than a payload may have")]
    TooLarge(usize),
    #[error(
        "{0} scripts of this workspace are still running although they have timed out; try again when they have \
         ended"
    )]
    Stuck(usize),
    #[error("the script could not be started: {0}")]
    Unavailable(String),
}
