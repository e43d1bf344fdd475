//! Threads for scripts: started when needed, ended when idle, replaced when a script does not release one.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::execute::{self, Cancellation};
use crate::log::Log;
use crate::priority::{self, Thread};
use crate::script::{Error, Script};

/// The time for which a script may continue after it was stopped before its thread is abandoned.
pub(crate) const STOP_GRACE: Duration = Duration::from_millis(250);
/// An idle thread ends after this time.
const THREAD_IDLE_TIMEOUT: Duration = Duration::from_secs(30);
const THREAD_STACK_BYTES: usize = 4 * 1024 * 1024;
/// The maximum number of abandoned threads, for each thread of the pool. Beyond this bound their permits stay in use:
/// some built-ins of the library never check the deadline (`indexOf` of a long text, `sort` of a large typed array; their
/// time is bounded by `built_ins.js`, or by the memory limit), and the CPU time that they use must be bounded.
const ABANDONED_PER_THREAD_MAX: usize = 8;
/// Abandoned threads of one owner. With this many, the owner's scripts are rejected, so that others can run.
const ABANDONED_PER_OWNER_MAX: usize = 2;

pub(crate) struct Pool {
    permits: Arc<Semaphore>,
    abandoned_max: usize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    idle: usize,
    next: u64,
    /// **Invariant**: every running script is in this table, with its permit unless its thread was abandoned.
    running: BTreeMap<u64, Running>,
}

struct Running {
    owner: u128,
    overdue: Instant,
    /// Its thread, when it has one.
    thread: Option<Thread>,
    permit: Option<OwnedSemaphorePermit>,
}

struct Job {
    id: u64,
    script: Script,
    cancellation: Cancellation,
    log: Log,
    reply: oneshot::Sender<Result<String, Error>>,
}

/// A script that has been queued for a thread.
pub(crate) struct StartedScript {
    pub(crate) id: u64,
    pub(crate) reply: oneshot::Receiver<Result<String, Error>>,
}

impl Pool {
    pub(crate) fn new(threads: usize) -> Self {
        let threads = threads.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(threads)),
            abandoned_max: threads.saturating_mul(ABANDONED_PER_THREAD_MAX),
            state: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Waits for a free thread. While it waits, it abandons threads whose scripts are overdue.
    pub(crate) async fn acquire(&self) -> OwnedSemaphorePermit {
        // One future throughout: a new one would wait at the end of the queue.
        let mut permit = pin!(Arc::clone(&self.permits).acquire_owned());
        loop {
            match tokio::time::timeout(STOP_GRACE, permit.as_mut()).await {
                Ok(permit) => return permit.expect("the semaphore is never closed"),
                Err(_) => self.abandon_overdue(),
            }
        }
    }

    /// Passes a script to a thread.
    pub(crate) fn start(
        self: &Arc<Self>,
        script: Script,
        cancellation: &Cancellation,
        log: &Log,
        permit: OwnedSemaphorePermit,
    ) -> Result<StartedScript, Error> {
        let (sender, reply) = oneshot::channel();
        let mut state = self.state();
        let stuck = state.running.values().filter(|it| it.owner == script.owner && it.permit.is_none()).count();
        if stuck >= ABANDONED_PER_OWNER_MAX {
            return Err(Error::Stuck(stuck));
        }
        let id = state.next;
        state.next += 1;
        state.running.insert(
            id,
            Running {
                owner: script.owner,
                overdue: cancellation.deadline + STOP_GRACE,
                thread: None,
                permit: Some(permit),
            },
        );
        state.queue.push_back(Job { id, script, cancellation: cancellation.clone(), log: log.clone(), reply: sender });
        if state.idle >= state.queue.len() {
            self.wake.notify_one();
            return Ok(StartedScript { id, reply });
        }
        let pool = Arc::clone(self);
        let builder = thread::Builder::new().name("everstep-script".to_owned()).stack_size(THREAD_STACK_BYTES);
        if let Err(error) = builder.spawn(move || pool.work()) {
            state.queue.retain(|job| job.id != id);
            state.running.remove(&id);
            return Err(Error::Unavailable(format!("no thread could be started: {error}")));
        }
        Ok(StartedScript { id, reply })
    }

    /// The caller of a script no longer waits for it: it is overdue after the grace period.
    pub(crate) fn stop_waiting(&self, id: u64) {
        if let Some(running) = self.state().running.get_mut(&id) {
            running.overdue = running.overdue.min(Instant::now() + STOP_GRACE);
        }
    }

    /// Releases the permits of scripts that do not end although they were stopped. Their threads end with them.
    pub(crate) fn abandon_overdue(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let abandoned = state.running.values().filter(|running| running.permit.is_none()).count();
        let overdue = state.running.values_mut().filter(|running| running.permit.is_some() && running.overdue <= now);
        for running in overdue.take(self.abandoned_max.saturating_sub(abandoned)) {
            running.permit = None;
            if let Some(thread) = running.thread {
                priority::lower_abandoned(thread);
            }
        }
    }

    /// The loop of a thread.
    fn work(&self) {
        let thread = priority::lower_current();
        while let Some(job) = self.next_job() {
            let Job { id, script, cancellation, log, reply } = job;
            if let Some(running) = self.state().running.get_mut(&id) {
                running.thread = Some(thread);
            }
            let result = panic::catch_unwind(AssertUnwindSafe(|| execute::execute(script, &cancellation, &log)));
            let result = result.unwrap_or_else(|_| Err(Error::Unavailable("the sandbox panicked".to_owned())));
            // The permit is released before the reply is sent, so that the receiver of the reply finds a free thread.
            let was_abandoned = self.state().running.remove(&id).is_none_or(|running| running.permit.is_none());
            let _ = reply.send(result);
            if was_abandoned {
                return;
            }
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.state();
        if let Some(job) = state.queue.pop_front() {
            return Some(job);
        }
        state.idle += 1;
        let waited = self.wake.wait_timeout_while(state, THREAD_IDLE_TIMEOUT, |state| state.queue.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state.queue.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
