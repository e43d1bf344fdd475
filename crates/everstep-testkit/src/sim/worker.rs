//! A worker: a user's process with functions of code workflows. It takes turns, runs steps and reports, as an SDK does.
//!
//! * A function runs from the top with the records of the journal, and continues in memory when results of its steps
//!   arrive.
//! * Messages are handled in the order of their numbers, once. Reports are sent again until they are answered.
//! * A worker that has not received bytes from a server for a lease starts no step until it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_core::code::{Moment, Report};
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::retry::RetryPolicy;
use everstep_core::time::Timestamp;
use everstep_engine::{Hello, ServedWorkflow, SessionId, StepRecord, Turn, WorkerBatch, WorkerMessage, WorkerReport};
use serde_json::json;
use tokio::sync::Notify;

use super::executor::{Executor, Process};
use super::function::{Function, Next, Status};
use super::scripts::{self, Demand, Op, Scripts};
use super::server::Server;
use super::store::SimStore;

/// The time after which a worker repeats a report that no server accepted.
const REPORT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// One process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Worker {
    pub(super) name: String,
    pub(super) process: Process,
    pub(super) executor: Executor,
    pub(super) servers: Vec<Server>,
    pub(super) store: SimStore,
    scripts: Scripts,
    serves: Arc<[(String, u32)]>,
    capacity: usize,
    pub(super) lease: Duration,
    inner: Arc<Mutex<Inner>>,
    /// Reports must be sent.
    pub(super) to_send: Arc<Notify>,
}

#[derive(Default)]
struct Inner {
    link: Option<Link>,
    /// When bytes last arrived from a server.
    heard: Option<Timestamp>,
    /// The last handled message, and those that arrived before their turn.
    seen: u64,
    early: BTreeMap<u64, Arc<WorkerBatch>>,
    held: BTreeMap<RunId, Function>,
    /// Revoked turns: steps that were running are still reported.
    revoked: BTreeSet<(RunId, u32)>,
    /// Reports without a reply.
    unanswered: BTreeMap<u64, Unanswered>,
    last: u64,
    /// Whether it has declined a workflow: it does so once.
    has_declined: bool,
}

/// The server that the worker is connected to.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) server: Server,
    pub(super) session: SessionId,
    /// Whether the transport is a socket.
    pub(super) is_socket: bool,
}

struct Unanswered {
    reported: WorkerReport,
    sent: Sent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    No,
    Yes,
    /// Not before this time.
    Later(Timestamp),
}

impl Inner {
    /// A run's function, if it belongs to this turn.
    fn held_as(&mut self, run: RunId, turn: u32) -> Option<&mut Function> {
        self.held.get_mut(&run).filter(|function| function.turn.turn == turn)
    }
}

impl Worker {
    pub(super) fn new(
        name: String,
        store: SimStore,
        servers: Vec<Server>,
        scripts: Scripts,
        serves: Arc<[(String, u32)]>,
    ) -> Self {
        let executor = store.executor.clone();
        let capacity = executor.with_random(|random| random.between(1, 8)) as usize;
        let lease = store.ledger().worker_lease;
        Self {
            name,
            process: executor.new_process(),
            executor,
            servers,
            store,
            scripts,
            serves,
            capacity,
            lease,
            inner: Arc::default(),
            to_send: Arc::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("one thread")
    }

    fn violation(&self, text: &str) {
        self.store.ledger().violation(format!("{}: {text}", self.name));
    }

    /// Its hello, for a first or a later connection.
    pub(super) fn hello(&self) -> Hello {
        let served = |(name, version): &(String, u32)| ServedWorkflow {
            name: name.clone(),
            version: *version,
            retention_days: None,
            input_schema: None,
            triggers: Vec::new(),
            index: Vec::new(),
        };
        let inner = self.inner();
        Hello {
            workspace: WorkspaceId::DEFAULT,
            worker: self.name.clone(),
            sdk: None,
            workflows: self.serves.iter().map(served).collect(),
            capacity: self.capacity,
            holds: inner.held.iter().map(|(run, held)| (*run, held.turn.turn)).collect(),
        }
    }

    /// A session was opened. All unanswered reports are sent again.
    pub(super) fn linked(&self, link: Link, asked: Timestamp) {
        let session = link.session;
        {
            let mut inner = self.inner();
            (inner.link, inner.heard, inner.seen) = (Some(link), Some(asked), 0);
            inner.early.clear();
            for function in inner.held.values_mut() {
                function.unconfirm();
            }
        }
        self.executor.spawn(self.process, self.clone().forget_unconfirmed(session));
        self.send_all_again();
        self.to_send.notify_one();
        self.drive_all();
    }

    /// A turn that no server has confirmed within a lease belongs to another worker. But the server may still continue
    /// it here, in the same turn: steps that are running or being reported would then run twice, so they must end
    /// first.
    async fn forget_unconfirmed(self, session: SessionId) {
        self.executor.sleep(self.lease).await;
        loop {
            {
                let mut inner = self.inner();
                if inner.link.as_ref().is_none_or(|link| link.session != session) {
                    return;
                }
                let Inner { held, unanswered, .. } = &mut *inner;
                let unanswered: BTreeSet<RunId> =
                    unanswered.values().map(|unanswered| unanswered.reported.run).collect();
                held.retain(|run, function| {
                    function.is_confirmed() || function.is_running() || unanswered.contains(run)
                });
                if held.values().all(Function::is_confirmed) {
                    return;
                }
            }
            self.executor.sleep(self.lease / 10).await;
        }
    }

    pub(super) fn unlink(&self, session: SessionId) {
        let mut inner = self.inner();
        if inner.link.as_ref().is_some_and(|link| link.session == session) {
            inner.link = None;
        }
    }

    pub(super) fn link(&self) -> Option<Link> {
        self.inner().link.clone()
    }

    pub(super) fn has_declined(&self) -> bool {
        self.inner().has_declined
    }

    pub(super) fn seen(&self) -> u64 {
        self.inner().seen
    }

    /// A few reports that must be sent now.
    pub(super) fn next_batch(&self) -> Vec<WorkerReport> {
        let now = self.executor.now();
        let most = self.executor.with_random(|random| random.between(1, 6)) as usize;
        let mut inner = self.inner();
        let is_due = |sent: Sent| match sent {
            Sent::No => true,
            Sent::Yes => false,
            Sent::Later(time) => time <= now,
        };
        let due = inner.unanswered.values_mut().filter(|unanswered| is_due(unanswered.sent)).take(most);
        due.map(|unanswered| {
            unanswered.sent = Sent::Yes;
            unanswered.reported.clone()
        })
        .collect()
    }

    /// The connection to the server has broken: all unanswered reports are sent again.
    pub(super) fn send_all_again(&self) {
        for unanswered in self.inner().unanswered.values_mut() {
            unanswered.sent = Sent::No;
        }
    }

    /// These reports have no reply: they are sent again.
    pub(super) fn not_answered(&self, batch: &[WorkerReport]) {
        let mut inner = self.inner();
        for reported in batch {
            if let Some(unanswered) = inner.unanswered.get_mut(&reported.n) {
                unanswered.sent = Sent::No;
            }
        }
    }

    /// Handles messages, in the order of their numbers, each once.
    pub(super) fn take_in(&self, session: SessionId, asked: Timestamp, messages: Vec<Arc<WorkerBatch>>) {
        let ready = {
            let mut inner = self.inner();
            if inner.link.as_ref().is_none_or(|link| link.session != session) {
                return;
            }
            inner.heard = inner.heard.max(Some(asked));
            for message in messages {
                if message.m > inner.seen {
                    inner.early.insert(message.m, message);
                }
            }
            let mut ready = Vec::new();
            while let Some(message) = {
                let next = inner.seen + 1;
                inner.early.remove(&next)
            } {
                inner.seen += 1;
                ready.push(message);
            }
            ready
        };
        for batch in ready {
            self.read(&batch.messages);
        }
        self.drive_all();
    }

    /// Handles one message: first turns, then replies and wakes in the order of the journal.
    fn read(&self, messages: &[WorkerMessage]) {
        let mut news: Vec<_> = messages.iter().filter(|message| !matches!(message, WorkerMessage::Turn(_))).collect();
        news.sort_by_key(|message| match message {
            // A report that was sent twice has two replies, and only one with its entry.
            WorkerMessage::Ack { seq: None, .. } => (1, 0),
            WorkerMessage::Ack { seq: Some(seq), .. } => (0, *seq),
            WorkerMessage::Wake { step, .. } => (0, step.seq),
            WorkerMessage::Refused { .. } | WorkerMessage::Later { .. } => (1, 0),
            WorkerMessage::Turn(_) | WorkerMessage::Cancelled { .. } | WorkerMessage::Revoked { .. } => (2, 0),
        });
        for message in messages {
            if let WorkerMessage::Turn(turn) = message {
                self.executor.note(|| format!("{}: {} turn {}", self.name, turn.run, turn.turn));
                self.begin(turn);
            }
        }
        for message in news {
            self.executor.note(|| format!("{}: {message:?}", self.name));
            match message {
                WorkerMessage::Ack { n, seq } => self.acked(*n, *seq),
                WorkerMessage::Wake { run, turn, step } => self.learn(*run, *turn, step),
                WorkerMessage::Refused { n, code, detail } => self.refused(*n, code, detail),
                WorkerMessage::Later { n } => {
                    let at = self.executor.now().plus(REPORT_RETRY_DELAY);
                    if let Some(unanswered) = self.inner().unanswered.get_mut(n) {
                        unanswered.sent = Sent::Later(at);
                    }
                }
                WorkerMessage::Cancelled { run, turn, .. } => self.forget(*run, *turn),
                WorkerMessage::Revoked { run, turn, .. } => {
                    self.inner().revoked.insert((*run, *turn));
                    self.forget(*run, *turn);
                }
                WorkerMessage::Turn(_) => {}
            }
        }
    }

    fn begin(&self, turn: &Turn) {
        self.store.watch_turn(&self.name, turn);
        let (run, number) = (turn.run, turn.turn);
        if !self.serves.contains(&(turn.workflow.clone(), turn.version)) {
            return self.violation(&format!("{run} needs {} {}, which is not served", turn.workflow, turn.version));
        }
        let is_new = {
            let mut inner = self.inner();
            let last = inner.held.get(&run).map(|function| function.turn.turn);
            if last.is_some_and(|last| last > number) {
                return;
            }
            let is_new = last != Some(number);
            if is_new {
                inner.held.insert(run, Function::from_turn(turn));
            }
            is_new
        };
        for known in &turn.steps {
            self.learn(run, number, known);
        }
        if let Some(function) = self.inner().held_as(run, number) {
            function.accept_turn(turn.seq);
        }
        if !is_new {
            return;
        }
        self.watch_replay(turn);
        let is_calm = self.store.ledger().is_calm;
        if !is_calm && self.executor.chance(2) {
            self.forget(run, number);
            self.inner().has_declined = true;
            let failure = Failure::fatal("WorkflowVersionMismatch", "another worker should do it");
            self.report(run, number, Report::Declined { failure });
        }
    }

    /// A function that is run again reaches all steps that it had reached, unless it was retried.
    fn watch_replay(&self, turn: &Turn) {
        let demands = {
            let inner = self.inner();
            let Some(function) = inner.held.get(&turn.run) else { return };
            scripts::play(self.script(turn), &function.ends).demands
        };
        let stranger = turn.steps.iter().find(|known| !demands.contains_key(&known.step));
        if let Some(known) = stranger
            && !self.store.was_retried(turn.run)
        {
            self.violation(&format!(
                "{}: the journal contains {}, which the function does not reach",
                turn.run, known.step
            ));
        }
    }

    /// Receives the journal's record of a step.
    fn learn(&self, run: RunId, turn: u32, known: &StepRecord) {
        let mut inner = self.inner();
        let Some(function) = inner.held_as(run, turn) else { return };
        let learnt = function.learn(known);
        drop(inner);
        self.check(run, learnt);
    }

    fn check(&self, run: RunId, learnt: Result<(), String>) {
        if let Err(fault) = learnt {
            self.violation(&format!("{run}: {fault}"));
        }
    }

    fn acked(&self, n: u64, seq: Option<u64>) {
        let Some(Unanswered { reported, .. }) = self.inner().unanswered.remove(&n) else { return };
        let WorkerReport { run, turn, report, .. } = reported;
        self.store.watch_ack(&self.name, run, &report, seq);
        let mut inner = self.inner();
        let Some(function) = inner.held_as(run, turn) else { return };
        let learnt = function.acked(n, &report, seq);
        drop(inner);
        self.check(run, learnt);
        let is_over = matches!(
            report,
            Report::Returned { .. } | Report::Threw { .. } | Report::Diverged { .. } | Report::Declined { .. }
        );
        if is_over {
            self.forget(run, turn);
        }
    }

    fn refused(&self, n: u64, code: &str, detail: &str) {
        let Some(Unanswered { reported, .. }) = self.inner().unanswered.remove(&n) else { return };
        if !matches!(code, "FENCED" | "RUN_ENDED") {
            return self.violation(&format!("{} {:?} was rejected: {code}: {detail}", reported.run, reported.report));
        }
        self.forget(reported.run, reported.turn);
    }

    fn forget(&self, run: RunId, turn: u32) {
        let mut inner = self.inner();
        if inner.held.get(&run).is_some_and(|held| held.turn.turn == turn) {
            inner.held.remove(&run);
        }
    }

    fn report(&self, run: RunId, turn: u32, report: Report) -> u64 {
        let n = {
            let mut inner = self.inner();
            inner.last += 1;
            let n = inner.last;
            let reported = WorkerReport { n, run, turn, report };
            inner.unanswered.insert(n, Unanswered { reported, sent: Sent::No });
            n
        };
        self.to_send.notify_one();
        n
    }

    fn drive_all(&self) {
        let runs: Vec<_> = self.inner().held.keys().copied().collect();
        for run in runs {
            self.drive(run);
        }
    }

    /// Runs a function as far as possible.
    fn drive(&self, run: RunId) {
        let now = self.executor.now();
        let (turn, next) = {
            let mut inner = self.inner();
            // A worker whose lease may have expired starts nothing.
            if inner.heard.is_none_or(|heard| now.since(heard) > self.lease) {
                return;
            }
            let Some(function) = inner.held.get_mut(&run) else { return };
            (function.turn.turn, function.next(self.script(&function.turn)))
        };
        match next {
            Next::Ended(report) => _ = self.report(run, turn, report),
            Next::Steps(steps) => {
                for (step, demand, attempt) in steps {
                    self.start(run, turn, step, &demand, attempt);
                }
                self.say_blocked(run, turn);
            }
            Next::Nothing => {}
        }
    }

    fn script(&self, turn: &Turn) -> &[Op] {
        &self.scripts[&(turn.workflow.clone(), turn.version)]
    }

    fn start(&self, run: RunId, turn: u32, step: StepKey, demand: &Demand, attempt: u32) {
        let started_at = self.inner().held[&run].turn.started_at;
        let report = match demand {
            Demand::Run { fails, attempts } => {
                self.set(run, &step, Status::Running(attempt));
                let (worker, fails, attempts) = (self.clone(), *fails, *attempts);
                self.executor.spawn(self.process, async move {
                    worker.perform(run, turn, step, attempt, fails, attempts).await;
                });
                return;
            }
            Demand::Sleep { millis, is_until: false } => {
                Report::Slept { step: step.clone(), until: Moment::After(*millis) }
            }
            Demand::Sleep { millis, is_until: true } => {
                let time = started_at.plus(Duration::from_millis(*millis));
                Report::Slept { step: step.clone(), until: Moment::At(time) }
            }
            Demand::Wait { event, timeout } => Report::Waited {
                step: step.clone(),
                event: Some((*event).to_owned()),
                pattern: Payload::from(json!({})),
                timeout_ms: *timeout,
                since: None,
            },
            Demand::Event { topic, n, since, timeout } => Report::Waited {
                step: step.clone(),
                event: Some((*topic).to_owned()),
                pattern: Payload::from(json!({"n": n})),
                timeout_ms: *timeout,
                since: *since,
            },
            Demand::Publish { topic, n } => Report::Published {
                step: step.clone(),
                topic: (*topic).to_owned(),
                data: Payload::from(json!({"n": n})),
                id: None,
                subject: None,
            },
            Demand::Call { workflow, timeout } => Report::Called {
                step: step.clone(),
                workflow: (*workflow).to_owned(),
                version: None,
                input: Payload::from(json!({"n": 1, "items": [1]})),
                timeout_ms: *timeout,
            },
        };
        let n = self.report(run, turn, report);
        self.set(run, &step, Status::Reported(n, attempt));
    }

    fn set(&self, run: RunId, step: &StepKey, status: Status) {
        if let Some(held) = self.inner().held.get_mut(&run) {
            held.steps.insert(step.clone(), status);
        }
    }

    /// Runs a step's function. Its output contains the turn in which it was run.
    async fn perform(self, run: RunId, turn: u32, step: StepKey, attempt: u32, fails: u32, attempts: u32) {
        let (luck, millis) = self.executor.with_random(|random| (random.below(100), random.between(1, 1_500)));
        match luck {
            0..50 => self.executor.waver().await,
            50..97 => self.executor.sleep(Duration::from_millis(millis)).await,
            _ => self.executor.sleep(self.lease * 2).await,
        }
        let token = self.executor.with_random(|random| random.number() >> 12);
        self.store.ledger().tokens.insert((run, step.clone(), token));
        let took = millis * 1_000;
        let report = if attempt <= fails {
            let failure = Failure::transient("UNLUCKY", format!("{turn} {token}"));
            let retry = RetryPolicy { max_attempts: attempts, base_ms: 100, max_ms: 2_000, ..RetryPolicy::code() };
            Report::Failed { step: step.clone(), attempt, failure, retry, logs: vec![], took }
        } else {
            let output = Payload::from(json!({"step": step.as_str(), "turn": turn, "token": token}));
            Report::Completed { step: step.clone(), attempt, output, logs: vec![], took }
        };
        let is_wanted = {
            let inner = self.inner();
            inner.held.get(&run).is_some_and(|held| held.turn.turn == turn) || inner.revoked.contains(&(run, turn))
        };
        // Some steps do not notice that their turn was revoked.
        if is_wanted || self.executor.chance(50) {
            let n = self.report(run, turn, report);
            let mut inner = self.inner();
            if let Some(held) = inner.held.get_mut(&run).filter(|held| held.turn.turn == turn) {
                held.steps.insert(step, Status::Reported(n, attempt));
            }
        }
    }

    /// Reports that the function only waits for steps that are open in the journal, once for each state of it. Those
    /// steps may still be in flight to the journal.
    fn say_blocked(&self, run: RunId, turn: u32) {
        let is_hasty = self.executor.chance(50);
        let seq = {
            let mut inner = self.inner();
            let unanswered = inner.unanswered.values().map(|unanswered| &unanswered.reported);
            let unanswered: Vec<_> = unanswered.filter(|reported| reported.run == run).collect();
            let opens = |report: &Report| {
                matches!(report, Report::Slept { .. } | Report::Waited { .. } | Report::Called { .. })
            };
            if !unanswered.iter().all(|reported| is_hasty && reported.turn == turn && opens(&reported.report)) {
                return;
            }
            let on_their_way: BTreeSet<_> = unanswered.iter().map(|reported| reported.n).collect();
            let Some(seq) = inner.held.get_mut(&run).and_then(|held| held.block(&on_their_way)) else { return };
            seq
        };
        self.report(run, turn, Report::Blocked { seq });
    }
}
