//! Passes tasks to handlers: a bounded number of a kind at the same time, whose places the workspaces share.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;

use everstep_core::failure::{Failure, code};
use everstep_core::fair_share::{FairShare, PlaceRequest, ShareBounds};
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::run::Input;
use everstep_core::time::Timestamp;
use everstep_handlers::{Handler, Registry, Task, TaskResult};
use futures_util::FutureExt;
use futures_util::future::{self, AbortRegistration, Abortable};
use tokio::sync::oneshot;

use crate::message::Shared;
use crate::node::clock::NodeClock;
use crate::ports::{Spawn, World};
use crate::run::Envelope;
use crate::shard::{ShardSender, ToShard};

pub(crate) struct Dispatcher {
    clock: Arc<NodeClock>,
    spawn: Arc<dyn Spawn>,
    shared: Arc<Shared>,
    kinds: BTreeMap<String, Arc<KindQueue>>,
    shards: Vec<ShardSender>,
    /// The first workspace that this node has seen, and whether it has seen another.
    first_workspace: OnceLock<WorkspaceId>,
    is_shared: AtomicBool,
}

/// The tasks of one kind.
struct KindQueue {
    handler: Arc<dyn Handler>,
    share: Mutex<FairShare<Box<str>, Box<Job>>>,
}

/// A task with its place. The task is boxed, because it is moved many times before it is performed.
type PlacedJob = PlaceRequest<Box<str>, Box<Job>>;

/// A task on its way to its handler.
pub(crate) struct Job {
    pub(crate) task: Task,
    /// Aborts the work when its run no longer needs it.
    pub(crate) abort: AbortRegistration,
    pub(crate) reply: JobReply,
}

/// The receiver of a task's result.
pub(crate) enum JobReply {
    /// The shard of its run.
    Shard(ShardSender),
    /// A caller that performs the task of a dead letter.
    Caller(oneshot::Sender<PerformedTask>),
}

/// The result of a task that belongs to no step in progress.
pub(crate) struct PerformedTask {
    pub(crate) began_at: Timestamp,
    pub(crate) result: TaskResult,
}

impl Dispatcher {
    pub(crate) fn new(world: &World, shared: Arc<Shared>, shards: Vec<ShardSender>) -> Arc<Self> {
        Self::with_ports(Arc::clone(&world.clock), Arc::clone(&world.spawn), &world.handlers, shared, shards)
    }

    fn with_ports(
        clock: Arc<NodeClock>,
        spawn: Arc<dyn Spawn>,
        handlers: &Registry,
        shared: Arc<Shared>,
        shards: Vec<ShardSender>,
    ) -> Arc<Self> {
        let kinds = handlers.descriptions().filter_map(|description| {
            let name = description.info.name.clone();
            let handler = Arc::clone(handlers.find_handler(&name)?);
            let share = Mutex::new(FairShare::new(at_least_one(handler.bounds())));
            Some((name, Arc::new(KindQueue { handler, share })))
        });
        let kinds = kinds.collect();
        let (first_workspace, is_shared) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { clock, spawn, shared, kinds, shards, first_workspace, is_shared })
    }

    /// Makes a workspace known. From the second one on, the queue of every kind knows that it is shared, also if a
    /// workspace has no tasks of that kind yet.
    fn introduce(&self, workspace: WorkspaceId) {
        if self.is_shared.load(Ordering::Relaxed) {
            return;
        }
        let first = *self.first_workspace.get_or_init(|| workspace);
        if first != workspace {
            self.is_shared.store(true, Ordering::Relaxed);
            for kind in self.kinds.values() {
                let mut share = kind.share.lock().expect("no holder of the lock panics");
                share.introduce(first);
                share.introduce(workspace);
            }
        }
    }

    /// Accepts a task: performs it at once if its kind has capacity, else in its turn.
    pub(crate) fn submit(self: &Arc<Self>, job: Box<Job>) {
        let Some(kind) = self.kinds.get(&job.task.kind) else {
            let message = format!("this server has no node kind {:?}", job.task.kind);
            let Job { task: Task { run, step, attempt, .. }, reply, .. } = *job;
            let result = Err(Failure::fatal(code::UNKNOWN_KIND, message)).into();
            reply.send(run, step, attempt, PerformedTask { began_at: self.clock.now(), result });
            return;
        };
        let (workspace, key) = (job.task.workspace, kind.handler.place_key(&job.task));
        self.introduce(workspace);
        let mut share = kind.share.lock().expect("no holder of the lock panics");
        if self.may_dispatch() && share.try_take(workspace, &key, 1) {
            drop(share);
            return self.spawn(kind, PlaceRequest { workspace, key, amount: 1, item: job });
        }
        share.request(workspace, key, 1, job).expect("every kind has a place");
        drop(share);
        self.admit(kind);
    }

    fn spawn(self: &Arc<Self>, kind: &Arc<KindQueue>, job: PlacedJob) {
        self.spawn.spawn(Box::pin(Arc::clone(self).work(Arc::clone(kind), job)));
    }

    /// Called with the lock of a queue before a task is left in the queue, so that [`Dispatcher::go_on`] misses no task. A
    /// task that begins calls it without the lock: if it may not begin, it returns to its queue, where it is called again.
    fn may_dispatch(&self) -> bool {
        self.shared.may_dispatch(&self.clock) && !self.shared.is_stopping()
    }

    /// The lease was renewed: performs the tasks that waited for the renewal.
    pub(crate) fn go_on(self: &Arc<Self>) {
        self.kinds.values().for_each(|kind| self.admit(kind));
    }

    /// Performs the tasks that wait and whose places are free.
    fn admit(self: &Arc<Self>, kind: &Arc<KindQueue>) {
        loop {
            let mut share = kind.share.lock().expect("no holder of the lock panics");
            if !self.may_dispatch() {
                return;
            }
            let Some(job) = share.admit_next() else { return };
            drop(share);
            self.spawn(kind, job);
        }
    }

    /// Performs a task, then the tasks that wait for its place.
    async fn work(self: Arc<Self>, kind: Arc<KindQueue>, first: PlacedJob) {
        let mut next = Some(first);
        while let Some(placed) = next {
            // The lease may have expired, or the stop begun, since the task was admitted: it was spawned then and is
            // polled only now, for example because the process was suspended.
            if !self.may_dispatch() {
                return self.hand_back(&kind, placed);
            }
            let PlaceRequest { workspace, key, amount, item: job } = placed;
            self.shared.performing.fetch_add(1, Ordering::SeqCst);
            let turn = kind.handler.turn().map(|turn| (turn, self.clock.monotonic()));
            self.perform(&kind, job).await;
            let was_long = turn.is_some_and(|(turn, began)| self.clock.monotonic().saturating_sub(began) >= turn);
            let mut share = kind.share.lock().expect("no holder of the lock panics");
            share.release(workspace, &key, amount);
            if was_long {
                share.use_turn(workspace);
            }
            next = if self.may_dispatch() { share.admit_next() } else { None };
        }
    }

    /// Returns an admitted task to its queue. It then waits for the renewal of the lease, like a task that was
    /// submitted after the lease expired.
    fn hand_back(self: &Arc<Self>, kind: &Arc<KindQueue>, placed: PlacedJob) {
        let PlaceRequest { workspace, key, amount, item: job } = placed;
        let mut share = kind.share.lock().expect("no holder of the lock panics");
        share.release(workspace, &key, amount);
        share.request(workspace, key, amount, job).expect("every kind has a place");
        drop(share);
        // The lease may have been renewed before the task was in its queue again.
        self.admit(kind);
    }

    async fn perform(&self, kind: &KindQueue, job: Box<Job>) {
        let Job { task, abort, reply } = *job;
        let (timeout, began_at) = (task.timeout, self.clock.now());
        let (run, step, attempt) = (task.run, task.step.clone(), task.attempt);
        let mut work = AssertUnwindSafe(kind.handler.perform(task)).catch_unwind();
        let work = async {
            if timeout.is_zero() || kind.handler.times_itself() {
                return work.await;
            }
            // The timeout counts from here, not from the dispatch. A task that ends at once needs no timer.
            let mut deadline = None;
            future::poll_fn(|cx| {
                if let Poll::Ready(result) = work.poll_unpin(cx) {
                    return Poll::Ready(result);
                }
                let sleep = || self.clock.sleep_until(began_at.plus(timeout));
                deadline.get_or_insert_with(sleep).poll_unpin(cx).map(|()| {
                    let message = format!("no result within {} s", timeout.as_secs_f64());
                    Ok(Err(Failure::transient(code::STEP_TIMEOUT, message)).into())
                })
            })
            .await
        };
        let result = Abortable::new(work, abort).await;
        // Before the result is sent: a draining shard must not count the task when it receives the result.
        let is_last = self.shared.performing.fetch_sub(1, Ordering::SeqCst) == 1;
        if let Ok(result) = result {
            let panicked = |_| Err(Failure::transient("HANDLER_PANICKED", "the handler panicked")).into();
            reply.send(run, step, attempt, PerformedTask { began_at, result: result.unwrap_or_else(panicked) });
        }
        if is_last && self.shared.is_stopping() {
            for shard in &self.shards {
                let _ = shard.send(ToShard::TaskDropped);
            }
        }
    }
}

/// A kind without a place would never perform its tasks.
fn at_least_one(bounds: ShareBounds) -> ShareBounds {
    let ShareBounds { places, workspace_max, key_max } = bounds;
    ShareBounds { places: places.max(1), workspace_max: workspace_max.max(1), key_max: key_max.max(1) }
}

impl JobReply {
    fn send(self, run: RunId, step: StepKey, attempt: u32, performed: PerformedTask) {
        match self {
            Self::Shard(shard) => {
                let TaskResult { result, logs } = performed.result;
                let input = Input::Result { step, attempt, result, logs };
                let _ = shard.send(ToShard::Input(run, Envelope::new(input)));
            }
            // A caller that is gone needs no result.
            Self::Caller(caller) => _ = caller.send(performed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use async_trait::async_trait;
    use everstep_core::evaluate::Fault;
    use everstep_core::journal::Outcome;
    use everstep_core::kinds::KindInfo;
    use everstep_core::payload::Payload;
    use everstep_core::schema::Schema;
    use everstep_handlers::Description;
    use futures_util::future::AbortHandle;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    use super::*;
    use crate::node::permits::RunPermits;
    use crate::ports::{BoxFuture, Clock};

    const LEASE: Duration = Duration::from_secs(7);
    const KIND: &str = "count";

    /// A machine whose process is polled only when the test says so.
    #[derive(Default)]
    struct Machine {
        monotonic: Mutex<Duration>,
        spawned: Mutex<Vec<BoxFuture>>,
    }

    impl Machine {
        fn advance(&self, time: Duration) {
            *self.monotonic.lock().unwrap() += time;
        }

        /// Polls everything that was spawned, once.
        fn poll_spawned(&self) {
            let spawned = std::mem::take(&mut *self.spawned.lock().unwrap());
            for future in spawned {
                assert!(future.now_or_never().is_some(), "every task of this kind ends at once");
            }
        }
    }

    impl Clock for Machine {
        fn monotonic(&self) -> Duration {
            *self.monotonic.lock().unwrap()
        }

        fn wall(&self) -> Timestamp {
            Timestamp::EPOCH
        }

        fn sleep(&self, _: Duration) -> BoxFuture {
            Box::pin(std::future::pending())
        }
    }

    impl Spawn for Machine {
        fn spawn(&self, future: BoxFuture) {
            self.spawned.lock().unwrap().push(future);
        }
    }

    /// Counts its tasks, one at a time.
    struct Count {
        description: Description,
        performed: AtomicUsize,
    }

    #[async_trait]
    impl Handler for Count {
        fn describe(&self) -> &Description {
            &self.description
        }

        fn check(&self, _config: &Value) -> Vec<Fault> {
            Vec::new()
        }

        async fn perform(&self, _task: Task) -> TaskResult {
            self.performed.fetch_add(1, Ordering::SeqCst);
            TaskResult::from(Ok(Outcome::default()))
        }
    }

    struct Node {
        machine: Arc<Machine>,
        shared: Arc<Shared>,
        handler: Arc<Count>,
        dispatcher: Arc<Dispatcher>,
    }

    impl Node {
        fn new() -> Self {
            let description = Description {
                info: KindInfo { name: KIND.into(), ..KindInfo::default() },
                title: "Count",
                group: "Test",
                icon: "zap",
                summary: "Counts its tasks.",
                output: "Nothing.",
                schema: Schema::built_in(&json!({})),
                examples: Vec::new(),
                is_internal: true,
                concurrency: 1,
            };
            let handler = Arc::new(Count { description, performed: AtomicUsize::new(0) });
            let handlers = Registry::with([Arc::clone(&handler) as Arc<dyn Handler>]);
            let permits = RunPermits::new(1, mpsc::unbounded_channel().0);
            let shared = Arc::new(Shared::new(Some(LEASE), permits, Arc::default()));
            let machine = Arc::new(Machine::default());
            let clock = Arc::new(NodeClock::new(Arc::clone(&machine) as _));
            let dispatcher =
                Dispatcher::with_ports(clock, Arc::clone(&machine) as _, &handlers, Arc::clone(&shared), Vec::new());
            Self { machine, shared, handler, dispatcher }
        }

        fn submit(&self, step: &str) -> oneshot::Receiver<PerformedTask> {
            let task = Task {
                workspace: WorkspaceId::DEFAULT,
                run: RunId::new(Timestamp::EPOCH, 1),
                step: StepKey::new(step),
                attempt: 1,
                kind: KIND.to_owned(),
                config: Value::Null,
                secrets: Vec::new(),
                written: Value::Null,
                context: Payload::null(),
                timeout: Duration::ZERO,
                actor: Arc::default(),
            };
            let (reply, answer) = oneshot::channel();
            let (_, abort) = AbortHandle::new_pair();
            self.dispatcher.submit(Box::new(Job { task, abort, reply: JobReply::Caller(reply) }));
            answer
        }

        /// The tasks that were performed, the places in use, the tasks that wait, and those that handlers perform.
        fn counts(&self) -> (usize, u64, usize, usize) {
            let share = self.dispatcher.kinds[KIND].share.lock().unwrap();
            let performing = self.shared.performing.load(Ordering::SeqCst);
            (self.handler.performed.load(Ordering::SeqCst), share.used(), share.waiting(), performing)
        }
    }

    #[test]
    fn a_task_that_was_admitted_before_the_lease_expired_waits_for_the_renewal() {
        let node = Node::new();
        let mut answers = [node.submit("a"), node.submit("b")];
        assert_eq!(node.counts(), (0, 1, 1, 0), "one of them has the place");
        // The process is suspended before the first task is polled.
        node.machine.advance(LEASE);
        node.machine.poll_spawned();
        assert_eq!(node.counts(), (0, 0, 2, 0));
        assert!(node.machine.spawned.lock().unwrap().is_empty());

        node.shared.renewed(2 * LEASE);
        node.dispatcher.go_on();
        node.machine.poll_spawned();
        assert_eq!(node.counts(), (2, 0, 0, 0));
        assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()));
    }

    #[test]
    fn a_task_that_was_admitted_before_the_node_stopped_is_not_begun() {
        let node = Node::new();
        let mut answer = node.submit("a");
        node.shared.is_stopping.store(true, Ordering::SeqCst);
        node.machine.poll_spawned();
        assert_eq!(node.counts(), (0, 0, 1, 0));
        assert!(answer.try_recv().is_err());
    }
}
