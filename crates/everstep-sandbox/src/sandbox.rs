//! The sandbox as its users see it.

use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use crate::execute::Limit;
use crate::log::Log;
use crate::pool::{GRACE, Pool};
use crate::script::{Error, Ran, Script, Stopped};

/// Runs scripts on a bounded number of threads. Cheap to clone; clones share the threads.
#[derive(Clone)]
pub struct Sandbox {
    pool: Arc<Pool>,
    threads: usize,
}

impl Sandbox {
    /// A sandbox with so many threads. They are started when scripts come.
    pub fn new(threads: usize) -> Self {
        let threads = threads.max(1);
        Self { pool: Arc::new(Pool::new(threads)), threads }
    }

    /// How many scripts run at once.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs a script, waiting for a thread first.
    ///
    /// 1. It ends within its timeout and half a second more, whatever the script does.
    /// 2. Dropping the future stops the script, and every request that it has under way.
    /// 3. A built-in that does not notice the limit keeps its thread; another takes the thread's place.
    pub async fn run(&self, script: Script) -> Result<Ran, Stopped> {
        let place = self.pool.place().await;
        let timeout = script.timeout;
        let limit = Limit::new(timeout, script.fetch.clone());
        let log = Log::default();
        let stopped = |error: Error| Stopped { error, logs: log.take() };
        let started = self.pool.start(script, &limit, &log, place).map_err(stopped)?;
        let _guard = Guard { pool: &self.pool, id: started.id, limit: &limit };
        let last = tokio::time::Instant::from_std(limit.deadline + GRACE);
        match tokio::time::timeout_at(last, started.reply).await {
            Ok(Ok(Ok(json))) => Ok(Ran { json, logs: log.take() }),
            Ok(Ok(Err(error))) => Err(stopped(error)),
            Ok(Err(_)) => Err(stopped(Error::Unavailable("its thread is gone".to_owned()))),
            Err(_) => {
                self.pool.give_up_overdue();
                Err(stopped(Error::Timeout(timeout)))
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

/// Stops the script when nobody waits for it any more.
struct Guard<'g> {
    pool: &'g Pool,
    id: u64,
    limit: &'g Limit,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.limit.stop();
        self.pool.abandon(self.id);
    }
}
