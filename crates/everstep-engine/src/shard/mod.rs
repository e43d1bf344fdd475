//! A shard owns runs: it passes their inputs through the core, submits the result to the committer, and acts on it
//! after the commit.
//!
//! A run belongs to one shard, and a shard is one loop, so that nothing here needs a lock. A run has at most one item
//! in flight; inputs that arrive in that time wait in its mailbox.
//!
//! A message about a run takes four steps: look the run up once, call a method of [`ActiveRun`] with the shard's
//! [`Services`], receive a [`Next`], apply it ([`Shard::apply`]). The messages are handled in
//!
//! * `start`: starts of runs
//! * `deliver`: inputs, reports of workers, questions about a run
//! * `load`: claimed runs, and loaded runs
//! * `settled`: verdicts on items
//! * `timers`: due timers, eviction, draining
//! * `watchers`: the followers of runs
//! * `unreadable`: runs that this build cannot read
//!
//! `deferred` holds decisions of workspaces that have used their time, so that those of others come first.

mod deferred;
mod deliver;
mod load;
mod message;
mod services;
mod settled;
mod start;
mod timers;
mod unreadable;
mod watchers;

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use futures_util::future::{self, Either};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::deferred::{DeferredDecision, DeferredDecisions};
pub(crate) use self::message::{BeginningRun, Presence, ShardSender, ToShard};
pub(crate) use self::services::Services;
pub(crate) use self::timers::{Schedule, Scheduled};
use self::unreadable::UnreadableRuns;
pub(crate) use self::watchers::Watchers;
use crate::ports::BoxFuture;
use crate::run::{ActiveRun, Loading, Next, RunSlot};
use crate::start::StartRequest;

/// The number of messages that are received together.
const MESSAGES_MAX: usize = 256;

/// The shard that a run belongs to. The low bits of an id are random.
pub(crate) fn shard_of(run: RunId, shards: usize) -> usize {
    (run.uuid().as_u128() as u64 % shards as u64) as usize
}

/// Lets other tasks run.
async fn yield_once() {
    let mut has_yielded = false;
    future::poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub(crate) struct Shard {
    services: Services,
    messages: mpsc::UnboundedReceiver<ToShard>,
    runs: BTreeMap<RunId, RunSlot>,
    unreadable: UnreadableRuns,
    /// The workspace of the last start.
    last_starter: Option<WorkspaceId>,
    /// Answered when the shard is drained.
    drained: Option<oneshot::Sender<()>>,
}

impl Shard {
    pub(crate) fn new(services: Services, messages: mpsc::UnboundedReceiver<ToShard>) -> Self {
        let unreadable = UnreadableRuns::default();
        Self { services, messages, runs: BTreeMap::new(), unreadable, last_starter: None, drained: None }
    }

    pub(crate) async fn run(mut self) {
        let mut messages = Vec::with_capacity(MESSAGES_MAX);
        // The alarm sleeps on the monotonic clock, so it is set for a time and for a number of clock steps.
        let mut alarm: Option<((Timestamp, u64), BoxFuture)> = None;
        loop {
            let clock = &self.services.world.clock;
            let next = self.services.schedule.first().map(|due| (due, clock.steps()));
            if alarm.as_ref().map(|(set_for, _)| *set_for) != next {
                alarm = next.map(|(due, steps)| ((due, steps), clock.sleep_until(due)));
            }
            let received = if !self.services.deferred.is_empty() {
                // Other tasks of this thread come between two slices of deferred decisions.
                yield_once().await;
                while messages.len() < MESSAGES_MAX
                    && let Ok(message) = self.messages.try_recv()
                {
                    messages.push(message);
                }
                usize::MAX
            } else {
                let receive = std::pin::pin!(self.messages.recv_many(&mut messages, MESSAGES_MAX));
                match &mut alarm {
                    None => receive.await,
                    Some((_, sleep)) => match future::select(receive, sleep).await {
                        Either::Left((received, _)) => received,
                        Either::Right(_) => {
                            alarm = None;
                            usize::MAX
                        }
                    },
                }
            };
            if received == 0 {
                return;
            }
            let now = self.services.world.clock.monotonic();
            self.services.note_sharing(now);
            let mut received = messages.drain(..);
            while let Some(message) = received.next() {
                match message {
                    ToShard::Quit => return self.quit(received.collect()).await,
                    ToShard::Start(request) => self.start_in_turn(request, now),
                    message => self.handle(message),
                }
            }
            drop(received);
            self.decide_deferred();
            self.fire_timers();
            self.evict();
            self.services.workers.flush();
            self.finish_draining();
        }
    }

    /// Starts a run, or defers its start if its workspace has used its time.
    fn start_in_turn(&mut self, request: Box<StartRequest>, now: Duration) {
        let workspace = request.workspace;
        self.services.shared.pace.note_workspace(&mut self.last_starter, workspace, now);
        self.services.note_sharing(now);
        if self.services.deferred.must_wait(workspace) {
            return self.services.deferred.push(workspace, DeferredDecision::Start(request));
        }
        self.start(*request);
    }

    /// Makes deferred decisions for a while.
    fn decide_deferred(&mut self) {
        if !self.services.deferred.is_empty() {
            let began = self.services.world.clock.monotonic();
            while let Some((workspace, decision)) = self.services.deferred.next() {
                match decision {
                    DeferredDecision::Start(request) => self.start(*request),
                    DeferredDecision::Run(id) => self.advance_deferred(id),
                }
                if self.services.world.clock.monotonic().saturating_sub(began) >= deferred::SLICE {
                    self.services.deferred.pass_turn(workspace);
                    break;
                }
            }
        }
        self.services.deferred.end_round();
    }

    fn advance_deferred(&mut self, id: RunId) {
        if let Some(RunSlot::Active(run)) = self.runs.get_mut(&id)
            && run.is_deferred()
        {
            let next = run.advance_in_turn(&mut self.services);
            self.apply(id, next);
        }
    }

    fn handle(&mut self, message: ToShard) {
        match message {
            ToShard::Input(run, envelope) => self.deliver(run, envelope),
            ToShard::Reports(session, reports) => self.report(&session, reports),
            ToShard::TurnBack(run, turn) => self.give_turn_back(run, turn),
            ToShard::Settled(verdicts) => {
                for (run, verdict) in verdicts {
                    self.settled(run, verdict);
                }
            }
            ToShard::Loaded(run, loaded) => self.loaded(run, *loaded),
            ToShard::Claimed(runs) => {
                for (run, permit) in runs {
                    self.claimed(run, permit);
                }
            }
            ToShard::Begin(runs) => {
                for run in runs {
                    self.begin(run);
                }
            }
            ToShard::Owned(runs, _reserved) => {
                for run in runs {
                    self.owned(run);
                }
            }
            ToShard::Inspect(run, reply) => _ = reply.send(self.inspect(run)),
            ToShard::Snapshot(run, reply) => _ = reply.send(self.snapshot(run)),
            ToShard::Find(run, workspace, reply) => _ = reply.send(self.find(run, workspace)),
            ToShard::Ping(reply) => _ = reply.send(()),
            ToShard::Watch(run, watcher) => self.watch(run, watcher),
            ToShard::Follow(run, by) => self.follow(run, by),
            ToShard::Notify(run, notification) => self.services.watchers.notify(run, notification),
            ToShard::LookedBack(run, looked) => self.looked_back(run, *looked),
            ToShard::Ticked => self.ticked(),
            ToShard::Drain(done) => self.drained = Some(done),
            // After every message the loop fires due timers and sets its alarm.
            ToShard::ClockStepped | ToShard::TaskDropped => {}
            ToShard::Start(_) | ToShard::Quit => unreachable!("the loop handles them"),
        }
    }

    /// Performs the action that the last message of a run led to.
    fn apply(&mut self, id: RunId, next: Next) {
        match next {
            Next::Keep => {}
            Next::Park => {
                let claim = self.remove(id).and_then(|mut run| run.take_claim());
                if claim.is_some() {
                    self.load(id, Loading { permit: claim, ..Loading::default() });
                }
            }
            Next::Reload(loading) => {
                self.remove(id);
                self.load(id, *loading);
            }
            Next::Drop => _ = self.remove(id),
        }
    }

    /// Takes a run out of memory.
    fn remove(&mut self, id: RunId) -> Option<Box<ActiveRun>> {
        let RunSlot::Active(mut run) = self.runs.remove(&id)? else {
            unreachable!("only an active run leaves memory");
        };
        self.services.schedule.forget(&mut run);
        Some(run)
    }
}
