//! The public interface of the sandbox.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::TIMEOUT_MAX_DEFAULT;
use crate::execute::Cancellation;
use crate::log::Log;
use crate::pool::{Pool, STOP_GRACE};
use crate::script::{Error, Script, ScriptFailure, ScriptOutput};
use crate::syntax::{self, SyntaxError};

/// Runs scripts on a bounded number of threads. Cheap to clone; clones share the threads.
#[derive(Clone)]
pub struct Sandbox {
    pool: Arc<Pool>,
    threads: usize,
    timeout_max: Duration,
}

impl Sandbox {
    /// A sandbox with this number of threads. They are started when scripts arrive.
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        Self { pool: Arc::new(Pool::new(threads)), threads, timeout_max: TIMEOUT_MAX_DEFAULT }
    }

    /// The same sandbox with another maximum of timeouts.
    pub fn with_timeout_max(self, timeout_max: Duration) -> Self {
        Self { timeout_max, ..self }
    }

    /// The longest timeout that its host should give to a script.
    pub fn timeout_max(&self) -> Duration {
        self.timeout_max
    }

    /// The number of scripts that run at the same time.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Compiles a script without running it, on the calling thread. Returns its first syntax error.
    pub fn check(code: &str) -> Option<SyntaxError> {
        syntax::check(code)
    }

    /// Runs a script, after waiting for a thread.
    ///
    /// 1. It ends within its timeout plus half a second, whatever the script does.
    /// 2. Dropping the future stops the script, and all its requests in progress.
    /// 3. A built-in that does not check for the cancellation keeps its thread; another thread replaces it in the pool.
    pub async fn run(&self, script: Script) -> Result<ScriptOutput, ScriptFailure> {
        let permit = self.pool.acquire().await;
        let timeout = script.timeout;
        let cancellation = Cancellation::new(timeout, script.fetch.clone());
        let log = Log::default();
        let failed = |error: Error| ScriptFailure { error, logs: log.take_lines() };
        let started = self.pool.start(script, &cancellation, &log, permit).map_err(failed)?;
        let _guard = Guard { pool: &self.pool, id: started.id, cancellation: &cancellation };
        let last = tokio::time::Instant::from_std(cancellation.deadline + STOP_GRACE);
        match tokio::time::timeout_at(last, started.reply).await {
            Ok(Ok(Ok(json))) => Ok(ScriptOutput { json, logs: log.take_lines() }),
            Ok(Ok(Err(error))) => Err(failed(error)),
            Ok(Err(_)) => Err(failed(Error::Unavailable("its thread has ended".to_owned()))),
            Err(_) => {
                self.pool.abandon_overdue();
                Err(failed(Error::Timeout(timeout)))
            }
        }
    }
}

impl Default for Sandbox {
    /// One thread fewer than there are cores, so that the engine always has one.
    fn default() -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Self::new(cores.saturating_sub(1))
    }
}

/// Stops the script when its caller no longer waits for it.
struct Guard<'g> {
    pool: &'g Pool,
    id: u64,
    cancellation: &'g Cancellation,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.cancellation.stop();
        self.pool.stop_waiting(self.id);
    }
}
