//! Threads for scripts: started when needed, ended when idle, replaced when a script does not let go of one.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::execute::{self, Limit};
use crate::log::Log;
use crate::priority::{self, Thread};
use crate::script::{Error, Script};

/// How long a script may go on after it was told to stop before its thread is given up.
pub(crate) const GRACE: Duration = Duration::from_millis(250);
const IDLE: Duration = Duration::from_secs(30);
const STACK_BYTES: usize = 4 * 1024 * 1024;
/// Threads that may be given up at a time, for each of the pool. Beyond it their places stay taken: some built-ins
/// of the library never look at the clock (`reverse`, `slice` or `sort` of a list without items but with a length,
/// `indexOf` of a long text), and what they burn must be bounded.
const GIVEN_UP: usize = 8;
/// How many of them one owner may have. Then its scripts are refused, so that others go on.
const OF_ONE_OWNER: usize = 2;

pub(crate) struct Pool {
    places: Arc<Semaphore>,
    most_given_up: usize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    idle: usize,
    next: u64,
    /// **Invariant**: a running script is here, with its place unless its thread was given up.
    running: BTreeMap<u64, Running>,
}

struct Running {
    owner: u128,
    overdue: Instant,
    /// Its thread, once it has one.
    thread: Option<Thread>,
    place: Option<OwnedSemaphorePermit>,
}

struct Job {
    id: u64,
    script: Script,
    limit: Limit,
    log: Log,
    reply: oneshot::Sender<Result<String, Error>>,
}

/// A script that has been handed to a thread.
pub(crate) struct Started {
    pub(crate) id: u64,
    pub(crate) reply: oneshot::Receiver<Result<String, Error>>,
}

impl Pool {
    pub(crate) fn new(threads: usize) -> Self {
        let threads = threads.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            places: Arc::new(Semaphore::new(threads)),
            most_given_up: threads.saturating_mul(GIVEN_UP),
            state: Mutex::default(),
            wake: Condvar::new(),
        }
    }

    /// Waits for a thread to be free. While it waits it looks for threads that must be given up.
    pub(crate) async fn place(&self) -> OwnedSemaphorePermit {
        // One future throughout: a new one would begin to wait at the end of the line.
        let mut place = pin!(Arc::clone(&self.places).acquire_owned());
        loop {
            match tokio::time::timeout(GRACE, place.as_mut()).await {
                Ok(place) => return place.expect("the semaphore is never closed"),
                Err(_) => self.give_up_overdue(),
            }
        }
    }

    /// Hands a script to a thread.
    pub(crate) fn start(
        self: &Arc<Self>,
        script: Script,
        limit: &Limit,
        log: &Log,
        place: OwnedSemaphorePermit,
    ) -> Result<Started, Error> {
        let (sender, reply) = oneshot::channel();
        let mut state = self.state();
        let stuck = state.running.values().filter(|it| it.owner == script.owner && it.place.is_none()).count();
        if stuck >= OF_ONE_OWNER {
            return Err(Error::Stuck(stuck));
        }
        let id = state.next;
        state.next += 1;
        state.running.insert(
            id,
            Running { owner: script.owner, overdue: limit.deadline + GRACE, thread: None, place: Some(place) },
        );
        state.queue.push_back(Job { id, script, limit: limit.clone(), log: log.clone(), reply: sender });
        if state.idle >= state.queue.len() {
            self.wake.notify_one();
            return Ok(Started { id, reply });
        }
        let pool = Arc::clone(self);
        let builder = thread::Builder::new().name("everstep-script".to_owned()).stack_size(STACK_BYTES);
        if let Err(error) = builder.spawn(move || pool.work()) {
            state.queue.retain(|job| job.id != id);
            state.running.remove(&id);
            return Err(Error::Unavailable(format!("no thread: {error}")));
        }
        Ok(Started { id, reply })
    }

    /// Notes that nobody waits for a script any more.
    pub(crate) fn abandon(&self, id: u64) {
        if let Some(running) = self.state().running.get_mut(&id) {
            running.overdue = running.overdue.min(Instant::now() + GRACE);
        }
    }

    /// Frees the places of scripts that do not end though they were told to. Their threads end with them.
    pub(crate) fn give_up_overdue(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let given_up = state.running.values().filter(|running| running.place.is_none()).count();
        let overdue = state.running.values_mut().filter(|running| running.place.is_some() && running.overdue <= now);
        for running in overdue.take(self.most_given_up.saturating_sub(given_up)) {
            running.place = None;
            if let Some(thread) = running.thread {
                priority::give_up(thread);
            }
        }
    }

    /// A thread's life.
    fn work(&self) {
        let thread = priority::lower();
        while let Some(job) = self.next_job() {
            let Job { id, script, limit, log, reply } = job;
            if let Some(running) = self.state().running.get_mut(&id) {
                running.thread = Some(thread);
            }
            let result = panic::catch_unwind(AssertUnwindSafe(|| execute::execute(script, &limit, &log)));
            let result = result.unwrap_or_else(|_| Err(Error::Unavailable("the sandbox panicked".to_owned())));
            // The place is free before the reply is, so that whoever has the reply finds it so.
            let was_given_up = self.state().running.remove(&id).is_none_or(|running| running.place.is_none());
            let _ = reply.send(result);
            if was_given_up {
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
        let waited = self.wake.wait_timeout_while(state, IDLE, |state| state.queue.is_empty());
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state.queue.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
