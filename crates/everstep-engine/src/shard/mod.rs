//! Owns runs: takes their inputs through the core, has what follows committed, and acts on it after the commit.
//!
//! A run belongs to one shard, and a shard is one loop: nothing here needs a lock.
//! A run has at most one item in flight; inputs that arrive meanwhile wait in its mailbox.

pub(crate) mod load;
mod settled;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey};
use everstep_core::planted::{self, Bug};
use everstep_core::run::decide;
use everstep_core::run::task;
use everstep_core::run::{Cx, Input};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_handlers::Task;
use everstep_store::Item;
use futures_util::future::{self, AbortHandle, Either};
use tokio::sync::{mpsc, oneshot};

use crate::commit::CROWD;
use crate::commit::propose::{self, Writer};
use crate::count::Tally;
use crate::error::Error;
use crate::library::Library;
use crate::look::Look;
use crate::message::{Mail, Proposal, ShardSender, Shared, StartRequest, ToClaimer, ToShard, Watcher};
use crate::options::Options;
use crate::ports::World;
use crate::run::active::{Becomes, Decided, Held, Loading, Slot, Tenure};
use crate::shard::load::Pausing;
use crate::start;
use crate::tasks::{Dispatcher, Job};
use crate::workers::Workers;

/// Messages taken at once.
const BATCH: usize = 256;

/// The shard that a run belongs to. The low bits of an id are random.
pub(crate) fn shard_of(run: RunId, shards: usize) -> usize {
    (run.uuid().as_u128() as u64 % shards as u64) as usize
}

pub(crate) struct Shard {
    pub(crate) world: World,
    pub(crate) options: Options,
    pub(crate) node: NodeId,
    pub(crate) index: usize,
    pub(crate) me: ShardSender,
    pub(crate) shards: Vec<ShardSender>,
    pub(crate) messages: mpsc::UnboundedReceiver<ToShard>,
    pub(crate) committer: mpsc::UnboundedSender<Proposal>,
    pub(crate) claimer: mpsc::UnboundedSender<ToClaimer>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) library: Arc<Library>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) runs: BTreeMap<RunId, Slot>,
    pub(crate) timers: BTreeSet<(Timestamp, RunId)>,
    pub(crate) watchers: BTreeMap<RunId, Vec<Watcher>>,
    /// Nodes where somebody follows a run of ours, and until when that is believed.
    pub(crate) followers: BTreeMap<RunId, BTreeMap<NodeId, Duration>>,
    /// How many watched runs there may be before those that nobody watches any more are forgotten.
    pub(crate) most_watched: usize,
    /// Runs that cannot be read and whose pause is on its way.
    pub(crate) pausing: BTreeMap<RunId, Pausing>,
    /// Runs whose inbox rows are left alone, and until when.
    pub(crate) shunned: BTreeMap<RunId, Duration>,
    pub(crate) weight: usize,
    pub(crate) drained: Option<oneshot::Sender<()>>,
}

impl Shard {
    pub(crate) async fn run(mut self) {
        let mut messages = Vec::with_capacity(BATCH);
        let mut alarm: Option<(Timestamp, crate::ports::BoxFuture)> = None;
        loop {
            let next = self.timers.first().map(|(due, _)| *due);
            if alarm.as_ref().map(|(due, _)| *due) != next {
                alarm = next.map(|due| (due, self.world.clock.sleep_until(due)));
            }
            let received = {
                let receive = std::pin::pin!(self.messages.recv_many(&mut messages, BATCH));
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
            for message in messages.drain(..) {
                if let ToShard::Quit = message {
                    return self.abort_tasks();
                }
                self.take(message);
            }
            self.fire_timers();
            self.evict();
            self.workers.flush();
            self.finish_draining();
        }
    }

    pub(crate) fn take(&mut self, message: ToShard) {
        match message {
            ToShard::Start(request) => self.start(*request),
            ToShard::Mail(run, mail) => self.deliver(run, mail),
            ToShard::Reports(session, reports) => self.reported(&session, reports),
            ToShard::TurnBack(run, turn) => self.turn_back(run, turn),
            ToShard::Committed(verdicts) => {
                for (run, verdict) in verdicts {
                    self.committed(run, verdict);
                }
            }
            ToShard::Loaded(run, loaded) => self.loaded(run, *loaded),
            ToShard::Claimed(runs) => {
                for run in runs {
                    self.claimed(run);
                }
            }
            ToShard::Owned(runs) => {
                for run in runs {
                    self.owned(run);
                }
            }
            ToShard::Inspect(run, reply) => {
                let state = match self.runs.get(&run) {
                    Some(Slot::Held(held)) if held.flight.is_none() => Some(held.state.clone()),
                    _ => None,
                };
                let _ = reply.send(state);
            }
            ToShard::Look(run, reply) => _ = reply.send(self.look(run)),
            ToShard::Watch(run, watcher) => {
                let watchers = self.watchers.entry(run).or_default();
                watchers.retain(|watcher| !watcher.sender.is_closed());
                watchers.push(watcher);
                self.forget_watchers();
            }
            ToShard::Has(run, reply) => _ = reply.send(self.runs.contains_key(&run)),
            ToShard::Follow(run, by) => self.follow(run, by),
            ToShard::Told(run, news) => self.told(run, news),
            ToShard::Ticked => self.ticked(),
            ToShard::Drain(done) => self.drained = Some(done),
            ToShard::Nudge | ToShard::Quit => {}
        }
    }

    /// What a run is about. Only while nobody else can own it is what is known here sure to be the newest.
    fn look(&self, run: RunId) -> Option<Look> {
        match self.runs.get(&run)? {
            Slot::Held(held) if held.flight.is_none() && held.tenure == Tenure::Owned => {
                self.shared.may_dispatch(&self.world.clock).then(|| held.look())
            }
            Slot::Held(_) | Slot::Loading(_) => None,
        }
    }

    /// Starts a run: owned by this node if it has room, else left for whoever claims it.
    pub(crate) fn start(&mut self, request: StartRequest) {
        let StartRequest { run, workspace, workflow, new, input, parent, arrivals, is_shown, reply } = request;
        if self.shared.is_stopping() {
            let _ = reply.send(Err(Error::Stopping));
            return;
        }
        // The id of a child is known before it starts: somebody may have asked for it, or be starting it.
        if self.runs.contains_key(&run) {
            let _ = reply.send(Err(Error::Busy(format!("run {run} is in use; try again"))));
            return;
        }
        let now = self.world.clock.now();
        let mut held = Held::new(workspace, workflow, run);
        held.is_test = new.is_test;
        let input = Input::Start { input, parent };
        let most = self.options.max_active_runs;
        let most = if held.workflow.needs_worker() { most - most / 4 } else { most };
        let has_place = self.shared.active.load(Ordering::SeqCst) < most;
        let code = held.state.code().filter(|_| has_place);
        let seat = code.and_then(|code| self.workers.seat_of_new(&held.lane, run, code));
        let has_room = has_place && (seat.is_some() || !held.workflow.needs_worker());
        let (decided, becomes) = if has_room {
            held.mailbox.push_back(Mail::of(input));
            held.mailbox.extend(arrivals.iter().filter_map(Mail::read));
            let mut decided = held.decide_all(now, &*self.world.evaluate);
            if let Some(seat) = seat.filter(|_| !held.state.has_ended()) {
                held.take_seat(seat, &mut decided, now, &*self.world.evaluate);
            }
            let becomes = held.becomes(now, self.options.park_after);
            (decided, becomes)
        } else {
            let entries =
                decide::record(&held.workflow, &mut held.state, input, Cx { now, evaluate: &*self.world.evaluate });
            (Decided { entries, ..Decided::default() }, Becomes::Parked(now))
        };
        let writer = self.writer(now);
        let (mut item, bytes, mut flight) = propose::propose(&mut held, decided, Some(new), becomes, &writer);
        if !has_room && let Some(projection) = &mut item.projection {
            projection.status = Status::Pending;
            flight.status = Status::Pending;
        }
        flight.start = Some(reply);
        flight.row = if is_shown { start::row_of(&item) } else { None };
        held.flight = Some(flight);
        held.place = Some(self.place());
        self.runs.insert(run, Slot::Held(Box::new(held)));
        self.submit(item, bytes);
    }

    pub(crate) fn writer(&self, now: Timestamp) -> Writer {
        Writer { node: self.node, commit: CommitId::new(now, self.world.random.next()), now }
    }

    pub(crate) fn submit(&self, item: Item, bytes: usize) {
        if self.shared.queued.fetch_add(1, Ordering::Relaxed) + 1 == CROWD {
            self.shared.crowd.notify_one();
        }
        // The committer lives as long as the shards do.
        let _ = self.committer.send(Proposal { run: item.run, item: Some(item), bytes, shard: self.index });
    }

    /// Puts an input into its run's mailbox; a run that is not in memory is loaded first.
    pub(crate) fn deliver(&mut self, run: RunId, mail: Mail) {
        if self.pausing.contains_key(&run) {
            return mail.answer(Err(Error::Busy(format!("run {run} is being paused: it cannot be read"))));
        }
        let is_shunned = mail.inbox.is_some() && self.is_shunned(run);
        match self.runs.get_mut(&run) {
            Some(Slot::Loading(loading)) => {
                if mail.inbox.is_none() || loading.mailbox.iter().all(|waiting| waiting.inbox != mail.inbox) {
                    loading.mailbox.push_back(mail);
                }
            }
            Some(Slot::Held(held)) => {
                if !held.has_row(&mail) {
                    held.mailbox.push_back(mail);
                    self.advance(run);
                }
            }
            // A result of a run that has left memory is late: nobody waits for it. Its children it finds anew.
            None if mail.inbox.is_none() && is_own_result(&mail.input) => {}
            None if is_shunned => {}
            None => self.load(run, Loading { mailbox: VecDeque::from([mail]), ..Loading::default() }),
        }
    }

    fn is_shunned(&mut self, run: RunId) -> bool {
        if self.shunned.is_empty() {
            return false;
        }
        let now = self.world.clock.monotonic();
        self.shunned.retain(|_, until| *until > now);
        self.shunned.contains_key(&run)
    }

    /// Takes all waiting inputs of one run through the core and hands one item to the committer.
    pub(crate) fn advance(&mut self, run: RunId) {
        let now = self.world.clock.now();
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if held.flight.is_some() {
            return;
        }
        let mut decided = held.decide_all(now, &*self.world.evaluate);
        self.seek_turn(run, &mut decided, now);
        self.propose(run, decided, now, None);
    }

    /// Has a decision committed. `becomes` is given where more than the decision says what the run is to be.
    pub(crate) fn propose(&mut self, run: RunId, decided: Decided, now: Timestamp, becomes: Option<Becomes>) {
        let writer = self.writer(now);
        let park_after = self.options.park_after;
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let becomes = becomes.unwrap_or_else(|| match held.becomes(now, park_after) {
            // Paused in the item that dispatches: what it dispatches is performed all the same, and reports here.
            Becomes::Parked(_) if decided.entries.iter().any(propose::is_task) => Becomes::Owned,
            becomes => becomes,
        });
        let leaves = held.tenure == Tenure::Owned && becomes != Becomes::Owned;
        let has_rows = decided.answered.iter().any(|(mail, _)| mail.inbox.is_some());
        // Whoever owns the run does so. Two who only visit it would write the same rows at once, and neither be refused.
        let renews_waits = held.renews_waits && held.tenure == Tenure::Owned;
        if decided.entries.is_empty() && !has_rows && !leaves && !renews_waits {
            // No gate was asked: only while nobody else can own the run is its state here sure to be the newest.
            let is_sure = held.tenure == Tenure::Visiting || self.shared.may_dispatch(&self.world.clock);
            for (mail, reply) in decided.answered {
                let unsure = || Error::Busy("this node has lost touch with its database; try again".to_owned());
                mail.answer(if is_sure { Ok(reply) } else { Err(unsure()) });
            }
            self.tell_turn(run, Becomes::Owned, false);
            self.rest(run);
            return;
        }
        if planted::is_planted(Bug::DispatchBeforeCommit) {
            let dispatched: Vec<_> =
                decided.entries.iter().filter_map(|entry| entry.event.step()).map(|(s, a)| (s.clone(), a)).collect();
            self.dispatch(run, &dispatched);
        }
        if planted::is_planted(Bug::TurnBeforeCommit) {
            self.tell_turn(run, Becomes::Owned, false);
        }
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let (item, bytes, flight) = propose::propose(held, decided, None, becomes, &writer);
        held.flight = Some(flight);
        self.submit(item, bytes);
    }

    /// Nothing is left to decide: a visitor leaves, an owned run waits for its timer.
    pub(crate) fn rest(&mut self, run: RunId) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if held.tenure == Tenure::Owned {
            return self.set_timer(run);
        }
        let claim = held.claim.take();
        self.forget(run);
        if claim.is_some() {
            self.load(run, Loading { place: claim, ..Loading::default() });
        }
    }

    /// Hands committed tasks to their handlers.
    pub(crate) fn dispatch(&mut self, run: RunId, dispatched: &[(StepKey, u32)]) {
        if self.shared.is_stopping() {
            return;
        }
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        for (step, attempt) in dispatched {
            if held.state.has_ended() || !held.state.has_open_task(step, *attempt) {
                continue;
            }
            let spec = match task::describe(&held.workflow, &held.state, step, &*self.world.evaluate) {
                Ok(spec) => spec,
                Err(failure) => {
                    let (step, attempt) = (step.clone(), *attempt);
                    let input = Input::Result { step, attempt, result: Err(failure), logs: Vec::new() };
                    held.mailbox.push_back(Mail::of(input));
                    continue;
                }
            };
            let (abort, registration) = AbortHandle::new_pair();
            held.performing.insert(step.clone(), *attempt, abort);
            let task = Task {
                workspace: held.workspace,
                run,
                step: step.clone(),
                attempt: *attempt,
                kind: spec.kind,
                config: spec.config,
                secrets: spec.secrets,
                context: spec.context,
                timeout: spec.timeout.unwrap_or(Duration::ZERO),
            };
            self.dispatcher.submit(Job { task, abort: registration, reply: self.me.clone() });
        }
    }
}

/// Whether an input is the answer to something that a run in memory has asked for.
fn is_own_result(input: &Input) -> bool {
    matches!(
        input,
        Input::Result { .. } | Input::ChildStarted { .. } | Input::ChildEnded { .. } | Input::LoseTurn { .. }
    )
}
