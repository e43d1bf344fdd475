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
use everstep_handlers::{Handler, Task, TaskResult};
use futures_util::FutureExt;
use futures_util::future::{self, AbortRegistration, Abortable};
use tokio::sync::oneshot;

use crate::message::Shared;
use crate::ports::World;
use crate::run::Envelope;
use crate::shard::{ShardSender, ToShard};

pub(crate) struct Dispatcher {
    world: World,
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
    pub(crate) fn new(world: World, shared: Arc<Shared>, shards: Vec<ShardSender>) -> Arc<Self> {
        let kinds = world.handlers.descriptions().filter_map(|description| {
            let name = description.info.name.clone();
            let handler = Arc::clone(world.handlers.find_handler(&name)?);
            let share = Mutex::new(FairShare::new(at_least_one(handler.bounds())));
            Some((name, Arc::new(KindQueue { handler, share })))
        });
        let kinds = kinds.collect();
        let (first_workspace, is_shared) = (OnceLock::new(), AtomicBool::new(false));
        Arc::new(Self { world, shared, kinds, shards, first_workspace, is_shared })
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
            reply.send(run, step, attempt, PerformedTask { began_at: self.world.clock.now(), result });
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
        self.world.spawn.spawn(Box::pin(Arc::clone(self).work(Arc::clone(kind), job)));
    }

    /// Called while the lock of a queue is held, so that [`Dispatcher::go_on`] misses no task.
    fn may_dispatch(&self) -> bool {
        self.shared.may_dispatch(&self.world.clock) && !self.shared.is_stopping()
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
        while let Some(PlaceRequest { workspace, key, amount, item: job }) = next {
            self.shared.performing.fetch_add(1, Ordering::SeqCst);
            let turn = kind.handler.turn().map(|turn| (turn, self.world.clock.monotonic()));
            self.perform(&kind, job).await;
            let was_long = turn.is_some_and(|(turn, began)| self.world.clock.monotonic().saturating_sub(began) >= turn);
            let mut share = kind.share.lock().expect("no holder of the lock panics");
            share.release(workspace, &key, amount);
            if was_long {
                share.use_turn(workspace);
            }
            next = if self.may_dispatch() { share.admit_next() } else { None };
        }
    }

    async fn perform(&self, kind: &KindQueue, job: Box<Job>) {
        let Job { task, abort, reply } = *job;
        let (timeout, began_at) = (task.timeout, self.world.clock.now());
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
                let sleep = || self.world.clock.sleep_until(began_at.plus(timeout));
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
