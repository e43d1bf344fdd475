//! Passes tasks to handlers: at most a fixed number of a kind at the same time, round-robin over workspaces.

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use everstep_core::failure::{Failure, code};
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::run::Input;
use everstep_handlers::{Handler, Task, TaskResult};
use futures_util::FutureExt;
use futures_util::future::{self, AbortRegistration, Abortable, Either};

use crate::message::Shared;
use crate::ports::World;
use crate::run::Envelope;
use crate::shard::{ShardSender, ToShard};

pub(crate) struct Dispatcher {
    world: World,
    shared: Arc<Shared>,
    kinds: BTreeMap<String, KindQueue>,
    shards: Vec<ShardSender>,
}

/// The tasks of one kind.
struct KindQueue {
    handler: Arc<dyn Handler>,
    running_max: usize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    running: usize,
    waiting: BTreeMap<WorkspaceId, VecDeque<Job>>,
    /// The workspace that was served last.
    last: Option<WorkspaceId>,
}

/// A task on its way to its handler.
pub(crate) struct Job {
    pub(crate) task: Task,
    /// Aborts the work when its run no longer needs it.
    pub(crate) abort: AbortRegistration,
    pub(crate) reply: ShardSender,
}

impl Dispatcher {
    pub(crate) fn new(world: World, shared: Arc<Shared>, shards: Vec<ShardSender>) -> Arc<Self> {
        let kinds = world.handlers.descriptions().filter_map(|description| {
            let name = description.info.name.clone();
            let handler = Arc::clone(world.handlers.find_handler(&name)?);
            Some((name, KindQueue { handler, running_max: description.concurrency.max(1), queue: Mutex::default() }))
        });
        let kinds = kinds.collect();
        Arc::new(Self { world, shared, kinds, shards })
    }

    /// Accepts a task: performs it at once if its kind has capacity, else in its turn.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) {
        let Some(kind) = self.kinds.get(&job.task.kind) else {
            let message = format!("this server has no node kind {:?}", job.task.kind);
            let Task { run, step, attempt, .. } = job.task;
            report(&job.reply, run, step, attempt, Err(Failure::fatal(code::UNKNOWN_KIND, message)).into());
            return;
        };
        let mut queue = kind.queue.lock().expect("no holder of the lock panics");
        if queue.running >= kind.running_max || !self.may_dispatch() {
            queue.waiting.entry(job.task.workspace).or_default().push_back(job);
            return;
        }
        queue.running += 1;
        drop(queue);
        let dispatcher = Arc::clone(self);
        self.world.spawn.spawn(Box::pin(async move { dispatcher.work(job).await }));
    }

    /// Called while the lock of a queue is held, so that [`Dispatcher::go_on`] misses no task.
    fn may_dispatch(&self) -> bool {
        self.shared.may_dispatch(&self.world.clock) && !self.shared.is_stopping()
    }

    /// The lease was renewed: performs the tasks that waited for the renewal.
    pub(crate) fn go_on(self: &Arc<Self>) {
        for kind in self.kinds.values() {
            loop {
                let mut queue = kind.queue.lock().expect("no holder of the lock panics");
                if queue.running >= kind.running_max || !self.may_dispatch() {
                    break;
                }
                let Some(job) = queue.next_job() else { break };
                queue.running += 1;
                drop(queue);
                let dispatcher = Arc::clone(self);
                self.world.spawn.spawn(Box::pin(async move { dispatcher.work(job).await }));
            }
        }
    }

    /// Performs a task, then the tasks that wait for its capacity.
    async fn work(self: Arc<Self>, first: Job) {
        let kind = &self.kinds[&first.task.kind];
        let mut next = Some(first);
        while let Some(job) = next {
            self.shared.performing.fetch_add(1, Ordering::SeqCst);
            self.perform(kind, job).await;
            let mut queue = kind.queue.lock().expect("no holder of the lock panics");
            next = if !self.may_dispatch() { None } else { queue.next_job() };
            if next.is_none() {
                queue.running -= 1;
            }
        }
    }

    async fn perform(&self, kind: &KindQueue, job: Job) {
        let Job { task, abort, reply } = job;
        let timeout = task.timeout;
        let (run, step, attempt) = (task.run, task.step.clone(), task.attempt);
        let work = AssertUnwindSafe(kind.handler.perform(task)).catch_unwind();
        let work = async {
            if timeout.is_zero() || kind.handler.times_itself() {
                return work.await;
            }
            // The timeout counts from here, not from the dispatch.
            let deadline = self.world.clock.sleep_until(self.world.clock.now().plus(timeout));
            match future::select(std::pin::pin!(work), deadline).await {
                Either::Left((result, _)) => result,
                Either::Right(_) => {
                    let message = format!("no result within {} s", timeout.as_secs_f64());
                    Ok(Err(Failure::transient(code::STEP_TIMEOUT, message)).into())
                }
            }
        };
        let result = Abortable::new(work, abort).await;
        // Before the result is sent: a draining shard must not count the task when it receives the result.
        let is_last = self.shared.performing.fetch_sub(1, Ordering::SeqCst) == 1;
        if let Ok(result) = result {
            let panicked = |_| Err(Failure::transient("HANDLER_PANICKED", "the handler panicked")).into();
            report(&reply, run, step, attempt, result.unwrap_or_else(panicked));
        }
        if is_last && self.shared.is_stopping() {
            for shard in &self.shards {
                let _ = shard.send(ToShard::TaskDropped);
            }
        }
    }
}

impl Queue {
    /// The next task: of the workspace after the one that was served last.
    fn next_job(&mut self) -> Option<Job> {
        let after = self.last.and_then(|last| {
            use std::ops::Bound::{Excluded, Unbounded};
            self.waiting.range((Excluded(last), Unbounded)).next().map(|(workspace, _)| *workspace)
        });
        let workspace = after.or_else(|| self.waiting.keys().next().copied())?;
        let jobs = self.waiting.get_mut(&workspace)?;
        let job = jobs.pop_front();
        if jobs.is_empty() {
            self.waiting.remove(&workspace);
        }
        self.last = Some(workspace);
        job
    }
}

fn report(reply: &ShardSender, run: RunId, step: StepKey, attempt: u32, report: TaskResult) {
    let TaskResult { result, logs } = report;
    let input = Input::Result { step, attempt, result, logs };
    let _ = reply.send(ToShard::Input(run, Envelope::new(input)));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use everstep_core::payload::Payload;
    use everstep_core::time::Timestamp;
    use futures_util::future::AbortHandle;
    use serde_json::Value;

    use super::*;

    fn job(workspace: u128, step: &str) -> Job {
        let task = Task {
            workspace: WorkspaceId::new(Timestamp::EPOCH, workspace),
            run: RunId::new(Timestamp::EPOCH, 1),
            step: step.into(),
            attempt: 1,
            kind: "noop".to_owned(),
            config: Value::Null,
            secrets: Vec::new(),
            written: Value::Null,
            context: Payload::null(),
            timeout: Duration::ZERO,
            actor: Arc::default(),
        };
        let (_, abort) = AbortHandle::new_pair();
        Job { task, abort, reply: tokio::sync::mpsc::unbounded_channel().0 }
    }

    #[test]
    fn workspaces_take_turns_however_much_each_has_queued() {
        let mut queue = Queue::default();
        for job in [job(1, "a1"), job(1, "a2"), job(1, "a3"), job(2, "b1"), job(3, "c1"), job(3, "c2")] {
            queue.waiting.entry(job.task.workspace).or_default().push_back(job);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.next_job()).map(|job| job.task.step.to_string()).collect();
        assert_eq!(order, ["a1", "b1", "c1", "a2", "c2", "a3"]);
    }
}
