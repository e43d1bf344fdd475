//! People and programs: they start runs, signal, pause, resume, cancel, retry and read, at any server.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::actor::Actor;
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_engine::{Error, RunInput, SaveError, Start};
use everstep_store::RunRow;
use serde_json::{Value, json};

use super::audit::{self, Asked};
use super::executor::{Executor, OUTSIDE};
use super::judge::{Judge, is_code};
use super::ledger::{Fate, Signal};
use super::machines::STARTER;
use super::people;
use super::server::Server;

/// A client. Cheap to clone.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) executor: Executor,
    pub(super) servers: Vec<Server>,
    pub(super) judge: Arc<Judge>,
}

impl Client {
    pub(super) fn server(&self) -> &Server {
        &self.servers[self.executor.with_random(|random| random.below(self.servers.len()))]
    }

    pub(super) async fn sleep(&self, from: u64, to: u64) {
        let millis = self.executor.with_random(|random| random.between(from, to));
        self.executor.sleep(Duration::from_millis(millis)).await;
    }

    /// Starts one run, and repeats the request until it is answered, and sometimes after that.
    pub(super) async fn start(self, name: String, version: Option<u32>, definitions: Arc<[(String, Value)]>, n: u64) {
        let key = format!("{name}-{n}");
        let allow_unserved = self.judge.is_scripted(&name);
        let items: Vec<u64> = (0..self.executor.with_random(|random| random.between(0, 5))).collect();
        let mut answers = 0;
        let wanted = self.executor.with_random(|random| random.between(1, 3));
        while answers < wanted {
            self.sleep(0, 4_000).await;
            let to_save = Arc::clone(&definitions);
            let audit = self.audit(Asked::Start(key.clone()));
            let row = audit.id;
            let begin_at = self.executor.chance(15).then(|| {
                let millis = self.executor.with_random(|random| random.between(1, 5_000));
                self.executor.now().plus(Duration::from_millis(millis))
            });
            let start = Start {
                audit: Some(audit),
                key: Some((name.clone(), key.clone())),
                version,
                allow_unserved,
                by: Some(Actor::person(STARTER)),
                begin_at,
                ..Start::new(name.clone(), people::input(n, &items))
            };
            let answer = self.server().ask(|engine| async move {
                for (name, definition) in &*to_save {
                    engine.library().publish(WorkspaceId::DEFAULT, name, definition).await?;
                }
                engine.start_run(start).await.map_err(SaveError::Engine)
            });
            let started = match answer.await {
                Some(Ok(started)) => started,
                Some(Err(SaveError::Invalid(problems))) => {
                    let text = format!("a generated definition is invalid: {problems:?}\n{definitions:?}");
                    return self.judge.store.ledger().violation(text);
                }
                // It is not known whether the run was started; the key shows it.
                Some(Err(SaveError::Engine(_))) | None => continue,
            };
            answers += 1;
            let mut ledger = self.judge.store.ledger();
            ledger.answer_audited(row, if started.created { Fate::Accepted } else { Fate::Nothing });
            let before = ledger.started.insert(key.clone(), started.run);
            if before.is_some_and(|before| before != started.run) {
                ledger.violation(format!("key {key} was answered with two runs"));
            }
        }
    }

    /// Waits for a run's end, at any server, for as long as it takes.
    pub(super) async fn follow(self, run: RunId) {
        self.judge.store.ledger().followed.insert(run);
        loop {
            let wait =
                self.server().ask_patiently(|engine| async move { engine.wait(WorkspaceId::DEFAULT, run).await });
            match wait.await {
                Some(Ok(row)) => {
                    let mut ledger = self.judge.store.ledger();
                    ledger.followed.remove(&run);
                    if row.ended_at.is_none() {
                        ledger.violation(format!("{run} was reported as ended and has not ended"));
                    }
                    return;
                }
                Some(Err(_)) | None => self.sleep(1, 200).await,
            }
        }
    }

    /// Sends random controls and signals to runs, all the time.
    pub(super) async fn act(self) {
        let slowest = if self.judge.store.ledger().is_shared { 2_000 } else { 5_000 };
        loop {
            self.sleep(50, slowest).await;
            let (runs, is_calm, result) = {
                let ledger = self.judge.store.ledger();
                let runs = ledger.runs();
                let result = (!ledger.results.is_empty()).then(|| {
                    ledger.results[self.executor.with_random(|random| random.below(ledger.results.len()))].clone()
                });
                (runs, ledger.is_calm, result)
            };
            for run in runs {
                if let Ok(row) = self.judge.row(run)
                    && (!is_calm || self.is_wanted(&row))
                {
                    self.act_on(&row, is_calm);
                }
            }
            if let Some((run, input)) = result.filter(|_| !is_calm && self.executor.chance(50)) {
                // A result that is delivered again.
                self.send(run, input);
            }
        }
    }

    /// Sends inputs to runs at the moment when they continue.
    pub(super) async fn meddle(self) {
        let bother = Arc::clone(&self.judge.store.ledger().bother);
        loop {
            bother.notified().await;
            let (runs, is_calm) = {
                let mut ledger = self.judge.store.ledger();
                (std::mem::take(&mut ledger.bothered), ledger.is_calm)
            };
            for run in runs.into_iter().filter(|_| !is_calm) {
                let client = self.clone();
                self.executor.spawn(OUTSIDE, async move {
                    client.sleep(0, 150).await;
                    match client.executor.with_random(|random| random.below(3)) {
                        0 => client.send(run, Input::Cancel { reason: None }),
                        1 => client.send(run, Input::Pause { reason: None }),
                        _ => client.signal(run).await,
                    }
                });
            }
        }
    }

    /// In the calm no client touches a run that does not wait for a person: it must continue without inputs. A child
    /// that its parent has left must be cancelled.
    fn is_wanted(&self, row: &RunRow) -> bool {
        (row.status == Status::Paused || !self.waits(row.id).is_empty()) && !self.judge.is_left(row).unwrap_or(false)
    }

    fn act_on(&self, row: &RunRow, is_calm: bool) {
        let luck = self.executor.with_random(|random| random.below(100));
        let input = match (row.status, luck) {
            (Status::Completed | Status::Cancelled, _) => return,
            // A failed child has notified its parent.
            (Status::Failed, 0..20) if !is_calm && row.parent.is_none() => Input::Retry,
            (Status::Failed, _) => return,
            (Status::Paused, 0..40) => Input::Resume,
            (Status::Paused, _) if is_calm => Input::Resume,
            (_, 0..3) if !is_calm => Input::Cancel { reason: Some("no longer wanted".into()) },
            (_, 3..5) if !is_calm => {
                // The caller stops waiting, perhaps before the request is done.
                self.send(row.id, Input::Pause { reason: None });
                Input::Resume
            }
            (_, 5..8) if !is_calm => Input::Pause { reason: None },
            (_, 8..20) if !is_calm => {
                self.executor.spawn(OUTSIDE, self.clone().inspect(row.id));
                return;
            }
            _ => {
                self.executor.spawn(OUTSIDE, self.clone().signal(row.id));
                return;
            }
        };
        self.send(row.id, input);
    }

    /// Inspects the state that a server holds of a run.
    async fn inspect(self, run: RunId) {
        let state = self.server().ask(|engine| async move { engine.inspect(run).await }).await.flatten();
        if let Some(state) = state
            && let Err(fault) = self.judge.compare(&state)
        {
            self.judge.store.ledger().violation(fault);
        }
    }

    /// Sends an input that may be lost: clients try again.
    fn send(&self, run: RunId, input: Input) {
        let client = self.clone();
        self.executor.spawn(OUTSIDE, async move {
            let is_retry = input == Input::Retry;
            let is_cancel = matches!(input, Input::Cancel { .. });
            client.deliver(run, input, None).await;
            if is_cancel && client.executor.chance(50) {
                // A result that arrives after the end.
                let late = client.judge.store.ledger().results.iter().rfind(|(of, _)| *of == run).cloned();
                if let Some((_, result)) = late {
                    client.deliver(run, result, None).await;
                }
            }
            if is_retry {
                // An inbox signal to the failed run was lost; its wait, opened again, receives another.
                client.judge.store.ledger().inbox_signals.retain(|(of, _)| *of != run);
            }
        });
    }

    /// The steps of a run that wait for a person.
    fn waits(&self, run: RunId) -> Vec<StepKey> {
        let waits = self.judge.store.waits_for("person");
        waits.into_iter().filter(|(of, _)| *of == run).map(|(_, wait)| wait.step).collect()
    }

    /// Sends a signal under a key, again while its outcome is not known.
    async fn signal(self, run: RunId) {
        let number = self.executor.with_random(|random| random.number() >> 12);
        self.judge.store.ledger().signals.insert(number, Signal { run, fate: Fate::Unknown });
        let mut was_unknown = false;
        let keeps = self.judge.row(run).is_ok_and(|row| is_code(&row)) && self.executor.chance(30);
        for _ in 0..3 {
            let (event, payload) = ("person".into(), Payload::from(json!({"signal": number})));
            let input = if keeps { Input::BufferedSignal { event, payload } } else { Input::Signal { event, payload } };
            let fate = match self.deliver(run, input, Some(number.to_string())).await {
                Fate::Accepted => Fate::Accepted,
                // An earlier request may still arrive.
                Fate::Nothing if was_unknown => Fate::Unknown,
                fate => fate,
            };
            was_unknown |= fate == Fate::Unknown;
            if let Some(signal) = self.judge.store.ledger().signals.get_mut(&number) {
                signal.fate = fate;
            }
            if fate != Fate::Unknown {
                return;
            }
            self.sleep(1, 500).await;
        }
    }

    /// Delivers an input through any server. A reply that no wait is open must be true.
    async fn deliver(&self, run: RunId, input: Input, key: Option<String>) -> Fate {
        let server = self.server();
        let is_signal = matches!(input, Input::Signal { .. } | Input::BufferedSignal { .. });
        let waited = if is_signal { self.waits(run) } else { Vec::new() };
        let audit = Asked::from_input(run, &input).map(|asked| self.audit(asked));
        let row = audit.as_ref().map(|row| row.id);
        let addressed = RunInput { key, audit, ..RunInput::new(WorkspaceId::DEFAULT, run, input) };
        self.executor.note(|| format!("{run} {:?} by server {}", addressed.input, server.index));
        let reply = server.ask(|engine| async move { engine.route(addressed).await }).await;
        self.executor.note(|| format!("{run} {reply:?} by server {}", server.index));
        if let Some(row) = row {
            self.judge.store.ledger().answer_audited(row, audit::fate_of_reply(reply.as_ref()));
        }
        match reply {
            Some(Ok(Reply::Accepted | Reply::Buffered | Reply::Repeated | Reply::Applied(_))) => Fate::Accepted,
            Some(Ok(Reply::Ignored(_) | Reply::Refused { .. })) => {
                let still = self.waits(run);
                if let Some(step) = waited.iter().find(|step| still.contains(step)) {
                    let text = format!("{run}: a signal was ignored although {step} waits for it");
                    self.judge.store.ledger().violation(text);
                }
                Fate::Nothing
            }
            Some(Err(Error::RunNotFound(_))) => {
                self.judge.store.ledger().violation(format!("{run} was started and is not found"));
                Fate::Nothing
            }
            Some(Err(Error::OutcomeUnknown(_))) | None => Fate::Unknown,
            Some(Err(_)) => Fate::Nothing,
        }
    }
}
