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
    /// What the script sees as `ctx`, as JSON text.
    pub context_json: String,
    /// How long it may run, counted from when it starts and not from when it begins to wait for a thread.
    pub timeout: Duration,
    pub memory_bytes: usize,
    /// On whose behalf it runs. Whoever has several scripts that do not end though they were told to runs no more.
    pub owner: u128,
    /// What `fetch` does; without it there is no `fetch`.
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
    /// What it returned, as JSON text; `null` if it returned nothing.
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
    #[error("the script returned something that JSON has no word for: {0}")]
    NotJson(String),
    #[error("the script returned {0} bytes of JSON, more than a payload may have")]
    TooLarge(usize),
    #[error("{0} scripts of this workspace do not end though their time is over; more are run when they have ended")]
    Stuck(usize),
    #[error("the script could not be started: {0}")]
    Unavailable(String),
}
