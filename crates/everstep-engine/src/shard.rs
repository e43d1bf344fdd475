//! Owns runs: takes their inputs through the core, has what follows committed, and acts on it after the commit.
//!
//! A run belongs to one shard, and a shard is one loop: nothing here needs a lock.
//! A run has at most one item in flight; inputs that arrive meanwhile wait in its mailbox.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::decide;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::{CommitId, NodeId, RunId, StepKey};
use everstep_core::input::Input;
use everstep_core::planted::{self, Bug};
use everstep_core::status::Status;
use everstep_core::task;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_handlers::Task;
use everstep_store::{Gate, Item, Loaded, NewEntry, Outcome, Projection, Snapshot};
use futures_util::future::{self, AbortHandle, Either};
use tokio::sync::{mpsc, oneshot};

use crate::engine::Started;
use crate::error::Error;
use crate::held::{self, Becomes, Decided, Flight, Held, Loading, Slot, Tenure};
use crate::library::Library;
use crate::message::{Mail, Place, Proposal, ShardSender, Shared, StartRequest, ToClaimer, ToShard, Verdict};
use crate::options::Options;
use crate::perform::{Dispatcher, Job};
use crate::ports::World;
use crate::propose::{self, Writer};

/// Messages taken at once.
const BATCH: usize = 256;
/// A run that wrote this many entries since its last snapshot gets a new one when it leaves memory.
const SNAPSHOT_AFTER: u64 = 1_000;

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
    pub(crate) messages: mpsc::UnboundedReceiver<ToShard>,
    pub(crate) committer: mpsc::UnboundedSender<Proposal>,
    pub(crate) claimer: mpsc::UnboundedSender<ToClaimer>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) library: Arc<Library>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) runs: BTreeMap<RunId, Slot>,
    pub(crate) timers: BTreeSet<(Timestamp, RunId)>,
    pub(crate) watchers: BTreeMap<RunId, Vec<mpsc::UnboundedSender<u64>>>,
    /// How many watched runs there may be before those that nobody watches any more are forgotten.
    pub(crate) most_watched: usize,
    /// Runs that cannot be read and whose pause is on its way.
    pub(crate) pausing: BTreeSet<RunId>,
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
                    return;
                }
                self.take(message);
            }
            self.fire_timers();
            self.evict();
            self.finish_draining();
        }
    }

    fn take(&mut self, message: ToShard) {
        match message {
            ToShard::Start(request) => self.start(*request),
            ToShard::Mail(run, mail) => self.deliver(run, mail),
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
            ToShard::Watch(run, watcher) => {
                self.watchers.entry(run).or_default().push(watcher);
                self.forget_watchers();
            }
            ToShard::Drain(done) => self.drained = Some(done),
            ToShard::Nudge | ToShard::Quit => {}
        }
    }

    /// Starts a run: owned by this node if it has room, else left for whoever claims it.
    fn start(&mut self, request: StartRequest) {
        let StartRequest { run, workspace, workflow, new, input, reply } = request;
        if self.shared.is_stopping() {
            let _ = reply.send(Err(Error::Stopping));
            return;
        }
        let now = self.world.clock.now();
        let mut held = Held::new(workspace, workflow, run);
        let input = Input::Start { input };
        let has_room = self.shared.active.load(Ordering::SeqCst) < self.options.max_active_runs;
        let (decided, becomes) = if has_room {
            held.mailbox.push_back(Mail::of(input));
            let decided = held.decide_all(now, &*self.world.evaluate);
            let becomes = held.becomes(now, self.options.park_after);
            (decided, becomes)
        } else {
            let entries = decide::record(&held.workflow, &mut held.state, input, now, &*self.world.evaluate);
            (Decided { entries, answered: Vec::new() }, Becomes::Parked(now))
        };
        let writer = self.writer(now);
        let (mut item, bytes, mut flight) = propose::propose(&mut held, decided, Some(new), becomes, &writer);
        if !has_room && let Some(projection) = &mut item.projection {
            projection.status = Status::Pending;
        }
        flight.start = Some(reply);
        held.flight = Some(flight);
        held.place = Some(self.place());
        self.runs.insert(run, Slot::Held(Box::new(held)));
        self.submit(item, bytes);
    }

    fn writer(&self, now: Timestamp) -> Writer {
        Writer { node: self.node, commit: CommitId::new(now, self.world.random.next()), now }
    }

    fn submit(&self, item: Item, bytes: usize) {
        // The committer lives as long as the shards do.
        let _ = self.committer.send(Proposal { run: item.run, item: Some(item), bytes, shard: self.index });
    }

    /// Puts an input into its run's mailbox; a run that is not in memory is loaded first.
    fn deliver(&mut self, run: RunId, mail: Mail) {
        if self.pausing.contains(&run) {
            return mail.answer(Err(Error::Unavailable(format!("run {run} is being paused: it cannot be read"))));
        }
        match self.runs.get_mut(&run) {
            Some(Slot::Loading(loading)) => {
                if !has_row(&loading.mailbox, None, &mail) {
                    loading.mailbox.push_back(mail);
                }
            }
            Some(Slot::Held(held)) => {
                if !has_row(&held.mailbox, held.flight.as_ref(), &mail) {
                    held.mailbox.push_back(mail);
                    self.advance(run);
                }
            }
            // A result of a run that has left memory is late: nobody waits for it.
            None if matches!(mail.input, Input::Result { .. }) => {}
            None => self.load(run, Loading { mailbox: VecDeque::from([mail]), ..Loading::default() }),
        }
    }

    fn claimed(&mut self, run: RunId) {
        let place = Place::adopt(&self.shared, &self.claimer);
        match self.runs.get_mut(&run) {
            None => self.load(run, Loading { place: Some(place), ..Loading::default() }),
            Some(Slot::Loading(loading)) => {
                loading.must_reload = true;
                loading.place = Some(place);
            }
            // It visits here to answer an input, or is about to be parked, and was claimed meanwhile.
            Some(Slot::Held(held)) => held.claim = Some(place),
        }
    }

    /// The database says that a run is ours. One that is not held as such was claimed without our learning of it.
    fn owned(&mut self, run: RunId) {
        if self.pausing.contains(&run) {
            return;
        }
        match self.runs.get_mut(&run) {
            None => self.load(run, Loading::default()),
            Some(Slot::Loading(loading)) => loading.must_reload = true,
            Some(Slot::Held(held)) => {
                let leaves = held.flight.as_ref().is_some_and(|flight| flight.becomes != Becomes::Owned);
                if (held.tenure == Tenure::Visiting || leaves) && held.claim.is_none() {
                    held.claim = Some(Place::take(&self.shared, &self.claimer));
                }
            }
        }
    }

    fn place(&self) -> Place {
        Place::take(&self.shared, &self.claimer)
    }

    /// Reads a run's journal, beside this loop.
    fn load(&mut self, run: RunId, loading: Loading) {
        self.runs.insert(run, Slot::Loading(loading));
        let (world, library, me) = (self.world.clone(), Arc::clone(&self.library), self.me.clone());
        self.world.spawn.spawn(Box::pin(async move {
            let loaded = load_run(&world, &library, run).await;
            let _ = me.send(ToShard::Loaded(run, Box::new(loaded)));
        }));
    }

    fn loaded(&mut self, run: RunId, loaded: Result<(Loaded, Result<Arc<Workflow>, Failure>), Error>) {
        let Some(Slot::Loading(loading)) = self.runs.remove(&run) else { return };
        if loading.must_reload {
            self.load(run, Loading { must_reload: false, ..loading });
            return;
        }
        let (loaded, workflow) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::error!(%run, %error, "a run cannot be loaded");
                return self.give_up(loading, &error);
            }
        };
        let tenure = match loaded.run.owner {
            Some(owner) if owner == self.node => Tenure::Owned,
            None => Tenure::Visiting,
            Some(owner) => return self.give_up(loading, &Error::Elsewhere(owner)),
        };
        let held = match workflow.and_then(|workflow| Held::load(&loaded, &workflow, tenure)) {
            Ok(held) => held,
            Err(failure) => return self.pause_unreadable(loaded, loading, failure),
        };
        self.hold(run, held, loading, loaded);
    }

    fn hold(&mut self, run: RunId, mut held: Held, loading: Loading, loaded: Loaded) {
        let is_owned = held.tenure == Tenure::Owned;
        held.place = is_owned.then(|| loading.place.unwrap_or_else(|| self.place()));
        held.performing = loading.performing;
        held.performing.keep_open(&held.state);
        held.conflict = loading.conflict;
        held.urgent = loading.urgent;
        if is_owned {
            held.mailbox.push_back(Mail::of(Input::Settle));
        }
        // The inbox as it was read counts. A row that came by mail and is not there was answered, or came later.
        let rows: BTreeSet<_> = loaded.inbox.iter().map(|arrival| arrival.id).collect();
        for arrival in loaded.inbox {
            match serde_json::from_slice(&arrival.input) {
                Ok(input) => held.mailbox.push_back(Mail::arrived(arrival.id, input)),
                Err(error) => tracing::error!(%run, %error, "an inbox row cannot be read"),
            }
        }
        for mail in loading.mailbox {
            match mail.inbox {
                None => held.mailbox.push_back(mail),
                Some(row) if rows.contains(&row) => {}
                Some(_) => _ = self.claimer.send(ToClaimer::Inbox),
            }
        }
        if is_owned {
            held.find_lost_tasks();
        }
        if planted::is_planted(Bug::TimerLostOnReload) {
            held.timer = held.state.next_due();
        }
        self.runs.insert(run, Slot::Held(Box::new(held)));
        self.set_timer(run);
        self.advance(run);
    }

    fn give_up(&mut self, loading: Loading, error: &Error) {
        for mail in loading.mailbox {
            mail.answer(Err(error.clone()));
        }
    }

    /// Pauses a run whose journal this build cannot read. It is never failed: another build may read it.
    fn pause_unreadable(&mut self, loaded: Loaded, loading: Loading, failure: Failure) {
        tracing::error!(run = %loaded.run.id, %failure, "paused");
        let error = Error::Unavailable(failure.to_string());
        let now = self.world.clock.now();
        if loaded.run.owner == Some(self.node) {
            let event = everstep_core::event::Event::RunPaused { reason: Some(failure.clone()) };
            let read = loaded.entries.last().map(|entry| entry.seq).or(loaded.snapshot.map(|snapshot| snapshot.seq));
            let last = loaded.unreadable.map(|(last, _)| last).or(read).unwrap_or(0);
            let entry = NewEntry { seq: last + 1, at: now, row: everstep_core::codec::encode(&event) };
            let was_paused = loaded.run.status == Status::Paused;
            let writer = self.writer(now);
            let item = Item {
                commit: writer.commit,
                run: loaded.run.id,
                workspace: loaded.run.workspace,
                gate: Gate::Owned,
                entries: if was_paused { Vec::new() } else { vec![entry] },
                projection: Some(Projection {
                    status: Status::Paused,
                    owner: None,
                    wake_at: Timestamp::NEVER,
                    output: None,
                    error: Some(failure),
                    ended_at: None,
                }),
                waits: Vec::new(),
                taken: Vec::new(),
                messages: Vec::new(),
            };
            self.pausing.insert(loaded.run.id);
            self.submit(item, 512);
        }
        self.give_up(loading, &error);
    }

    /// Takes all waiting inputs of one run through the core and hands one item to the committer.
    fn advance(&mut self, run: RunId) {
        let now = self.world.clock.now();
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if held.flight.is_some() {
            return;
        }
        let decided = held.decide_all(now, &*self.world.evaluate);
        self.propose(run, decided, now, None);
    }

    /// Has a decision committed. `becomes` is given where more than the decision says what the run is to be.
    fn propose(&mut self, run: RunId, decided: Decided, now: Timestamp, becomes: Option<Becomes>) {
        let writer = self.writer(now);
        let park_after = self.options.park_after;
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let becomes = becomes.unwrap_or_else(|| held.becomes(now, park_after));
        let leaves = held.tenure == Tenure::Owned && becomes != Becomes::Owned;
        let has_rows = decided.answered.iter().any(|(mail, _)| mail.inbox.is_some());
        if decided.entries.is_empty() && !has_rows && !leaves {
            for (mail, reply) in decided.answered {
                mail.answer(Ok(reply));
            }
            self.rest(run);
            return;
        }
        if planted::is_planted(Bug::DispatchBeforeCommit) {
            let dispatched: Vec<_> =
                decided.entries.iter().filter_map(|entry| entry.event.step()).map(|(s, a)| (s.clone(), a)).collect();
            self.dispatch(run, &dispatched);
        }
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let (item, bytes, flight) = propose::propose(held, decided, None, becomes, &writer);
        held.flight = Some(flight);
        self.submit(item, bytes);
    }

    /// Nothing is left to decide: a visitor leaves, an owned run waits for its timer.
    fn rest(&mut self, run: RunId) {
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

    fn committed(&mut self, run: RunId, verdict: Verdict) {
        if self.pausing.remove(&run) {
            return;
        }
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let Some(flight) = held.flight.take() else { return };
        match verdict {
            Verdict::Stored(Outcome::Applied(_) | Outcome::Duplicate) => self.applied(run, flight),
            Verdict::Stored(Outcome::Exists(winner)) => {
                if let Some(reply) = flight.start {
                    let _ = reply.send(Ok(Started { run: winner, created: false }));
                }
                self.forget(run);
            }
            Verdict::Stored(Outcome::Conflict) => self.conflict(run, flight),
            Verdict::Stored(Outcome::Lost) => self.reload(run, flight, None, None),
            Verdict::Refused(message) => self.refused(run, flight, message),
            Verdict::Full(message) => self.abandon(run, flight, &Error::Full(message)),
            Verdict::Fenced => self.abandon(run, flight, &Error::Stopping),
        }
    }

    /// The item is durable: answer, dispatch, and go on.
    fn applied(&mut self, run: RunId, flight: Flight) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let was_owned = held.tenure == Tenure::Owned;
        held.tenure = if flight.becomes == Becomes::Owned { Tenure::Owned } else { Tenure::Visiting };
        held.status = flight.status;
        held.conflict = None;
        held.performing.keep_open(&held.state);
        let is_owned = held.tenure == Tenure::Owned;
        // What was open while nobody owned the run, or while it was paused or over, is performed by nobody.
        let is_woken = flight
            .answered
            .iter()
            .any(|(mail, reply)| reply.is_accepted() && matches!(mail.input, Input::Resume | Input::Retry));
        if is_owned && (!was_owned || is_woken) {
            let fresh: BTreeSet<_> = flight.dispatched.iter().cloned().collect();
            held.find_lost_tasks();
            held.mailbox.retain(|mail| match &mail.input {
                Input::TaskLost { step, attempt } => !fresh.contains(&(step.clone(), *attempt)),
                _ => true,
            });
        }
        if !is_owned {
            held.place = None;
        } else if held.place.is_none() {
            held.place = Some(Place::take(&self.shared, &self.claimer));
        }
        if let Some(reply) = flight.start {
            let _ = reply.send(Ok(Started { run, created: true }));
        }
        for (mail, reply) in flight.answered {
            mail.answer(Ok(reply));
        }
        self.dispatch(run, &flight.dispatched);
        self.tell_watchers(run);
        if let Becomes::Parked(due) = flight.becomes {
            self.parked(run, due);
        }
        self.go_on(run);
    }

    fn parked(&mut self, run: RunId, due: Timestamp) {
        if due < Timestamp::NEVER {
            let _ = self.claimer.send(ToClaimer::Parked(due));
        }
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if planted::is_planted(Bug::ParkIgnoresInbox) {
            held.mailbox.clear();
        }
        if held.state.seq > held.snapshot_seq + SNAPSHOT_AFTER {
            held.snapshot_seq = held.state.seq;
            let state = serde_json::to_vec(&held.state).expect("a state is plain data");
            let snapshot = Snapshot { seq: held.state.seq, format: everstep_core::event::FORMAT, state };
            let world = self.world.clone();
            self.world.spawn.spawn(Box::pin(async move {
                if let Err(error) = world.store.put_snapshot(run, snapshot).await {
                    tracing::warn!(%run, %error, "no snapshot was written; the journal will be read whole");
                }
            }));
        }
    }

    /// After an item: decide what arrived meanwhile, or rest.
    fn go_on(&mut self, run: RunId) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if held.mailbox.is_empty() && !held.has_more {
            self.rest(run);
        } else {
            self.advance(run);
        }
    }

    /// Another entry stands where ours should: read the journal and decide again.
    fn conflict(&mut self, run: RunId, flight: Flight) {
        let Some(Slot::Held(held)) = self.runs.get(&run) else { return };
        let seq = flight.first_seq;
        let urgent = (seq > 0 && held.conflict == Some(seq)).then(|| {
            let message = format!("entry {seq} was refused again after a reload");
            let reason = Failure::fatal(code::JOURNAL_CONFLICT, message);
            tracing::error!(%run, %reason, "paused");
            Input::Pause { reason: Some(reason) }
        });
        self.reload(run, flight, Some(seq), urgent);
    }

    /// Forgets a run's state and reads it anew, keeping its inputs and its tasks.
    fn reload(&mut self, run: RunId, flight: Flight, conflict: Option<u64>, urgent: Option<Input>) {
        if let Some(reply) = flight.start {
            let _ = reply.send(Err(Error::Unavailable("the run's id is taken; start it again".to_owned())));
        }
        let Some(held) = self.take_out(run) else { return };
        let mut mailbox: VecDeque<_> =
            flight.answered.into_iter().map(|(mail, _)| mail).filter(|mail| !is_own(&mail.input)).collect();
        mailbox.extend(held.mailbox.into_iter().filter(|mail| !is_own(&mail.input)));
        let place = held.claim.or(held.place);
        self.load(run, Loading { mailbox, performing: held.performing, place, must_reload: false, conflict, urgent });
    }

    /// The database refuses this item for ever: the run fails without the payload that it cannot store.
    fn refused(&mut self, run: RunId, flight: Flight, message: String) {
        tracing::error!(%run, message, "the database refused an item");
        let error = Error::Refused(message.clone());
        if flight.start.is_some() {
            return self.abandon(run, flight, &error);
        }
        let Flight { answered, .. } = flight;
        for (mail, _) in answered {
            mail.answer(Err(error.clone()));
        }
        let Some(held) = self.take_out(run) else { return };
        let failure = Failure::fatal(code::STORE_REFUSED, message);
        let mailbox = held.mailbox.into_iter().filter(|mail| !is_own(&mail.input)).collect();
        let (place, urgent) = (held.claim.or(held.place), Some(Input::Fail { failure }));
        self.load(run, Loading { mailbox, performing: held.performing, place, urgent, ..Loading::default() });
    }

    /// Drops a run and tells everybody who waits for it.
    fn abandon(&mut self, run: RunId, flight: Flight, error: &Error) {
        if let Some(reply) = flight.start {
            let _ = reply.send(Err(error.clone()));
        }
        for (mail, _) in flight.answered {
            mail.answer(Err(error.clone()));
        }
        let Some(held) = self.take_out(run) else { return };
        for mail in held.mailbox {
            mail.answer(Err(error.clone()));
        }
    }

    fn take_out(&mut self, run: RunId) -> Option<Box<Held>> {
        match self.runs.remove(&run)? {
            Slot::Held(held) => {
                if let Some(due) = held.timer {
                    self.timers.remove(&(due, run));
                }
                self.weight -= held.weight;
                Some(held)
            }
            slot @ Slot::Loading(_) => {
                self.runs.insert(run, slot);
                None
            }
        }
    }

    fn forget(&mut self, run: RunId) {
        self.take_out(run);
    }

    /// Hands committed tasks to their handlers.
    fn dispatch(&mut self, run: RunId, dispatched: &[(StepKey, u32)]) {
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
                context: spec.context,
                timeout: spec.timeout.unwrap_or(Duration::ZERO),
            };
            self.dispatcher.submit(Job { task, abort: registration, reply: self.me.clone() });
        }
    }

    fn set_timer(&mut self, run: RunId) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        let next = held.state.next_due().filter(|_| held.tenure == Tenure::Owned);
        if held.timer != next {
            if let Some(before) = held.timer {
                self.timers.remove(&(before, run));
            }
            if let Some(next) = next {
                self.timers.insert((next, run));
            }
            held.timer = next;
        }
        let weight = held.state.weight();
        self.weight = self.weight + weight - held.weight;
        held.weight = weight;
    }

    fn fire_timers(&mut self) {
        let now = self.world.clock.now();
        while let Some((due, run)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, run));
            if let Some(Slot::Held(held)) = self.runs.get_mut(&run) {
                held.timer = None;
                self.advance(run);
            }
        }
    }

    /// Parks idle runs while they take more memory than they may: those that wait longest first.
    fn evict(&mut self) {
        if self.weight <= self.options.max_state_bytes / self.options.shards {
            return;
        }
        let now = self.world.clock.now();
        let mut excess = self.weight - self.options.max_state_bytes / self.options.shards;
        let mut idle = Vec::new();
        for (due, run) in self.timers.iter().rev() {
            if let Some(Slot::Held(held)) = self.runs.get(run)
                && held.is_idle()
            {
                idle.push((*due, *run));
                excess = excess.saturating_sub(held.weight);
                if excess == 0 {
                    break;
                }
            }
        }
        for (due, run) in idle {
            let decided = Decided { entries: Vec::new(), answered: Vec::new() };
            self.propose(run, decided, now, Some(Becomes::Parked(due)));
        }
    }

    fn tell_watchers(&mut self, run: RunId) {
        let Some(watchers) = self.watchers.get_mut(&run) else { return };
        let Some(Slot::Held(held)) = self.runs.get(&run) else { return };
        watchers.retain(|watcher| watcher.send(held.state.seq).is_ok());
        if watchers.is_empty() || held.state.has_ended() {
            self.watchers.remove(&run);
        }
    }

    /// Watchers of runs that end elsewhere, or never, go without a word: they are looked for now and then.
    fn forget_watchers(&mut self) {
        if self.watchers.len() > self.most_watched {
            self.watchers.retain(|_, watchers| watchers.iter().any(|watcher| !watcher.is_closed()));
            self.most_watched = 1_024.max(2 * self.watchers.len());
        }
    }

    /// A shard is drained when no item is in flight and no task is performed any more.
    fn finish_draining(&mut self) {
        if self.drained.is_none() {
            return;
        }
        let is_busy = self.runs.values().any(|slot| match slot {
            Slot::Loading(_) => true,
            Slot::Held(held) => held.flight.is_some(),
        });
        let is_performing = self.shared.performing.load(Ordering::SeqCst) > 0;
        if !is_busy
            && !is_performing
            && let Some(done) = self.drained.take()
        {
            let _ = done.send(());
        }
    }
}

/// Whether an inbox row waits in a mailbox, or is being answered.
fn has_row(mailbox: &VecDeque<Mail>, flight: Option<&Flight>, mail: &Mail) -> bool {
    let Some(row) = mail.inbox else { return false };
    mailbox.iter().any(|waiting| waiting.inbox == Some(row))
        || flight.is_some_and(|flight| flight.answered.iter().any(|(answered, _)| answered.inbox == Some(row)))
}

/// Inputs that follow from a run's state: after a reload they are found anew.
fn is_own(input: &Input) -> bool {
    matches!(input, Input::Settle | Input::Timer { .. } | Input::TaskLost { .. } | Input::Start { .. })
}

/// Reads a run and its workflow. What this build cannot read is the run's own failure.
async fn load_run(
    world: &World,
    library: &Library,
    run: RunId,
) -> Result<(Loaded, Result<Arc<Workflow>, Failure>), Error> {
    let unreadable = |reason: String| Failure::fatal(code::JOURNAL_UNREADABLE, reason);
    loop {
        let loaded = match world.store.load_run(run).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Err(Error::RunNotFound(run)),
            Err(error) if error.is_transient() => {
                tracing::warn!(%run, %error, "loading failed; trying again");
                world.sleep(Duration::from_millis(200)).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if let Some((_, reason)) = &loaded.unreadable {
            let failure = unreadable(reason.clone());
            return Ok((loaded, Err(failure)));
        }
        let row = &loaded.run;
        let version = match library.find(row.workspace, &row.workflow, Some(row.version)).await {
            Ok(version) => version,
            Err(Error::Unavailable(_)) => {
                world.sleep(Duration::from_millis(200)).await;
                continue;
            }
            Err(error) => return Ok((loaded, Err(unreadable(error.to_string())))),
        };
        match without_unusable_snapshot(world, loaded).await {
            Ok(loaded) => return Ok((loaded, Ok(Arc::clone(&version.workflow)))),
            Err(error) => {
                tracing::warn!(%run, %error, "loading failed; trying again");
                world.sleep(Duration::from_millis(200)).await;
            }
        }
    }
}

/// A snapshot of another format is no use: then the journal is read from its beginning.
async fn without_unusable_snapshot(world: &World, mut loaded: Loaded) -> Result<Loaded, Error> {
    if loaded.snapshot.as_ref().is_none_or(held::is_usable) {
        return Ok(loaded);
    }
    let last = loaded.entries.last().map_or_else(|| loaded.snapshot.as_ref().map_or(0, |s| s.seq), |entry| entry.seq);
    loaded.snapshot = None;
    loaded.entries.clear();
    while loaded.entries.last().map_or(0, |entry| entry.seq) < last {
        let after = loaded.entries.last().map_or(0, |entry| entry.seq);
        let page = world.store.journal(loaded.run.id, after, 10_000).await?;
        if page.is_empty() {
            break;
        }
        loaded.entries.extend(page);
    }
    loaded.entries.retain(|entry| entry.seq <= last);
    Ok(loaded)
}
