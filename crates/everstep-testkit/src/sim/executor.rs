//! Polls futures one at a time, in an order that the seed decides, on a clock that moves only when nothing is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_engine::{Clock, Random, Spawn};

use super::random::SeededRng;

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The process of a task. Process 0 is the world outside, which never crashes.
pub(super) type Process = u64;

/// The process of the world outside, of the wire and of the database.
pub(super) const OUTSIDE: Process = 0;

/// The beginning of virtual time.
pub(super) const BEGIN: Timestamp = Timestamp::from_millis(1_800_000_000_000);

#[derive(Clone)]
pub(super) struct Executor(Arc<Mutex<Core>>);

struct Core {
    random: SeededRng,
    now: Timestamp,
    next_id: u64,
    processes: Process,
    tasks: BTreeMap<u64, Task>,
    ready: Arc<Mutex<BTreeSet<u64>>>,
    /// Processes that are not polled at present.
    asleep: BTreeSet<Process>,
    timers: BTreeMap<(Timestamp, u64), Waker>,
    polls: u64,
    trace: Option<Vec<String>>,
}

struct Task {
    process: Process,
    waker: Waker,
    /// Absent while it is polled.
    future: Option<BoxFuture>,
}

struct TaskWaker {
    id: u64,
    ready: Arc<Mutex<BTreeSet<u64>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.lock().expect("one thread").insert(self.id);
    }
}

/// The result of a step of the executor.
pub(super) enum Step {
    Polled,
    /// Time has moved.
    Waited,
    /// Nothing is ready and nothing will be.
    Stuck,
}

impl Executor {
    pub(super) fn new(seed: u64, has_trace: bool) -> Self {
        Self(Arc::new(Mutex::new(Core {
            random: SeededRng::new(seed),
            now: BEGIN,
            next_id: 1,
            processes: OUTSIDE,
            tasks: BTreeMap::new(),
            ready: Arc::default(),
            asleep: BTreeSet::new(),
            timers: BTreeMap::new(),
            polls: 0,
            trace: has_trace.then(Vec::new),
        })))
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.0.lock().expect("one thread")
    }

    pub(super) fn now(&self) -> Timestamp {
        self.core().now
    }

    pub(super) fn polls(&self) -> u64 {
        self.core().polls
    }

    /// Draws from the seed.
    pub(super) fn with_random<T>(&self, ask: impl FnOnce(&mut SeededRng) -> T) -> T {
        ask(&mut self.core().random)
    }

    pub(super) fn chance(&self, percent: u64) -> bool {
        self.with_random(|random| random.chance(percent))
    }

    pub(super) fn note(&self, text: impl FnOnce() -> String) {
        let mut core = self.core();
        let (now, polls) = (core.now, core.polls);
        if let Some(trace) = &mut core.trace {
            trace.push(format!("{polls} +{}ms {}", now.since(BEGIN).as_millis(), text()));
        }
    }

    pub(super) fn take_trace(&self) -> Vec<String> {
        self.core().trace.take().unwrap_or_default()
    }

    pub(super) fn spawn(&self, process: Process, future: impl Future<Output = ()> + Send + 'static) {
        let mut core = self.core();
        let id = core.next_id;
        core.next_id += 1;
        let waker = Waker::from(Arc::new(TaskWaker { id, ready: Arc::clone(&core.ready) }));
        core.tasks.insert(id, Task { process, waker, future: Some(Box::pin(future)) });
        core.ready.lock().expect("one thread").insert(id);
    }

    /// A process number that was not used before.
    pub(super) fn new_process(&self) -> Process {
        let mut core = self.core();
        core.processes += 1;
        core.processes
    }

    /// Polls one ready task that the seed chooses, or moves the clock to the next timer.
    pub(super) fn step(&self) -> Step {
        let (id, waker, mut future) = {
            let mut core = self.core();
            let ready = core.ready();
            if ready.is_empty() {
                let Some(((due, _), waker)) = core.timers.pop_first() else { return Step::Stuck };
                core.now = core.now.max(due);
                drop(core);
                waker.wake();
                return Step::Waited;
            }
            let id = ready[core.random.below(ready.len())];
            core.ready.lock().expect("one thread").remove(&id);
            core.polls += 1;
            let Some(task) = core.tasks.get_mut(&id) else { return Step::Polled };
            let Some(future) = task.future.take() else { return Step::Polled };
            (id, task.waker.clone(), future)
        };
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        let mut core = self.core();
        let rest = match poll {
            Poll::Ready(()) => core.tasks.remove(&id).map(|_| future),
            Poll::Pending => {
                // The task may have been killed while it was polled.
                match core.tasks.get_mut(&id) {
                    Some(task) => {
                        task.future = Some(future);
                        None
                    }
                    None => Some(future),
                }
            }
        };
        drop(core);
        drop(rest);
        Step::Polled
    }

    /// Stops polling the tasks of a process until it is woken. Time continues without it.
    pub(super) fn put_to_sleep(&self, process: Process) {
        self.core().asleep.insert(process);
    }

    pub(super) fn awaken(&self, process: Process) {
        self.core().asleep.remove(&process);
    }

    /// Ends every task of a process at once.
    pub(super) fn kill(&self, process: Process) {
        let dead: Vec<_> = {
            let mut core = self.core();
            core.asleep.remove(&process);
            let ids: Vec<u64> =
                core.tasks.iter().filter(|(_, task)| task.process == process).map(|(id, _)| *id).collect();
            ids.into_iter().filter_map(|id| core.tasks.remove(&id)).collect()
        };
        drop(dead);
    }

    /// Moves the clock forward at once.
    pub(super) fn jump(&self, by: Duration) {
        let mut core = self.core();
        core.now = core.now.plus(by);
        let now = core.now;
        let later = core.timers.split_off(&(now, u64::MAX));
        let due = std::mem::replace(&mut core.timers, later);
        drop(core);
        for waker in due.into_values() {
            waker.wake();
        }
    }

    pub(super) fn sleep_until(&self, time: Timestamp) -> Sleep {
        Sleep { executor: self.clone(), time, key: None }
    }

    pub(super) async fn sleep(&self, duration: Duration) {
        self.sleep_until(self.now().plus(duration)).await;
    }

    /// Yields to other tasks, a few times.
    pub(super) async fn waver(&self) {
        for _ in 0..self.with_random(|random| random.below(3)) {
            Yield(false).await;
        }
    }
}

impl Core {
    /// The tasks that may be polled, in the order of their ids.
    fn ready(&self) -> Vec<u64> {
        let is_awake = |id: &u64| {
            self.asleep.is_empty() || self.tasks.get(id).is_none_or(|task| !self.asleep.contains(&task.process))
        };
        self.ready.lock().expect("one thread").iter().copied().filter(is_awake).collect()
    }
}

pub(super) struct Sleep {
    executor: Executor,
    time: Timestamp,
    key: Option<(Timestamp, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let executor = self.executor.clone();
        let mut core = executor.core();
        if core.now >= self.time {
            return Poll::Ready(());
        }
        let time = self.time;
        let key = *self.key.get_or_insert_with(|| {
            core.next_id += 1;
            (time, core.next_id)
        });
        core.timers.insert(key, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.executor.core().timers.remove(&key);
        }
    }
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The ports of one process.
pub(super) struct Ports {
    pub(super) executor: Executor,
    pub(super) process: Process,
    /// Microseconds by which its machine's clock is ahead.
    pub(super) skew: Arc<AtomicI64>,
}

impl Clock for Ports {
    fn monotonic(&self) -> Duration {
        self.executor.now().since(Timestamp::EPOCH)
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(self.executor.now().micros() + self.skew.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        Box::pin(self.executor.sleep_until(self.executor.now().plus(duration)))
    }
}

impl Spawn for Ports {
    fn spawn(&self, future: BoxFuture) {
        self.executor.spawn(self.process, future);
    }
}

impl Random for Ports {
    fn next(&self) -> u128 {
        self.executor.with_random(|random| u128::from(random.number()) << 64 | u128::from(random.number()))
    }
}
