//! Persons who act on machines, at any server: with a fresh, a stale or no version, again under the same key, twice at
//! once. They assign states, change contexts and fork runs.

use everstep_core::actor::Actor;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::machine::{Act, Applied, Assignment, AssignmentChange};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply, State};
use everstep_core::time::Timestamp;
use everstep_engine::{Error, RunInput};
use everstep_store::RunRow;
use serde_json::{Value, json};

use super::audit::{self, Asked};
use super::client::Client;
use super::executor::OUTSIDE;
use super::ledger::{Fate, Ledger};
use super::machines::{self, BACK, GO, Machines, PERSONS, VOTERS};
use super::offers;

/// The persons. Cheap to clone.
#[derive(Clone)]
pub(super) struct People {
    pub(super) client: Client,
    pub(super) machines: Machines,
}

/// A request of a person, and the replies to it.
#[derive(Clone)]
pub(super) struct PersonRequest {
    pub(super) run: RunId,
    pub(super) act: Act,
    pub(super) is_keyed: bool,
    /// How often it was sent, and how often the reply was that nothing was written.
    sent: usize,
    denied: usize,
    /// The servers at which it has arrived, and when.
    pub(super) arrivals: Vec<(usize, Timestamp)>,
    /// The first answer.
    pub(super) answer: Option<Applied>,
}

impl PersonRequest {
    /// What its replies say about the journal.
    pub(super) fn fate(&self) -> Fate {
        match &self.answer {
            Some(_) => Fate::Accepted,
            None if self.denied == self.sent => Fate::Nothing,
            // One of the requests may still arrive.
            None => Fate::Unknown,
        }
    }
}

/// The version that a person sends.
#[derive(Clone, Copy)]
enum Sight {
    Fresh,
    Stale,
    None,
}

impl People {
    /// Acts on all runs of machines, all the time.
    pub(super) async fn act(self) {
        let slowest = if self.client.judge.store.ledger().is_shared { 1_500 } else { 4_000 };
        loop {
            self.client.sleep(20, slowest).await;
            let (runs, is_calm) = {
                let ledger = self.client.judge.store.ledger();
                (ledger.runs(), ledger.is_calm)
            };
            for run in runs {
                let Ok(row) = self.client.judge.row(run) else { continue };
                if !self.machines.contains_key(&row.workflow) {
                    continue;
                }
                if is_calm { self.finish(&row) } else { self.approach(&row) }
            }
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.client.executor.spawn(OUTSIDE, work);
    }

    fn person(&self) -> &'static str {
        self.client.executor.with_random(|random| *random.pick(PERSONS))
    }

    /// In the storm anything may be requested, also of a run that has ended.
    fn approach(&self, row: &RunRow) {
        let (run, person) = (row.id, self.person());
        match self.client.executor.with_random(|random| random.below(100)) {
            0..45 => {
                let sight = match self.client.executor.with_random(|random| random.below(10)) {
                    0..5 => Sight::Fresh,
                    5..7 => Sight::Stale,
                    _ => Sight::None,
                };
                self.request(row, person, sight);
            }
            45..52 => {
                self.request(row, person, Sight::None);
                self.request(row, person, Sight::None);
            }
            52..62 => self.spawn(self.clone().repeat(run)),
            62..68 => self.spawn(self.clone().assign(run)),
            68..74 => self.spawn(self.clone().change_voters(run)),
            74..77 if row.origin.is_none() => self.spawn(self.client.clone().fork(run, None)),
            _ => {}
        }
    }

    /// In the calm every person moves a run toward its end, unless it continues without them.
    fn finish(&self, row: &RunRow) {
        let Ok(state) = self.state(row) else { return };
        let has_child = state.open().next().is_some();
        if state.has_ended() || state.is_paused() || state.next_due().is_some() || has_child {
            return;
        }
        for person in PERSONS {
            let act = self.act_of(row, person, GO, state.place_of_machine().map(|(_, version)| version));
            self.spawn(self.clone().send(row.id, act, false));
        }
    }

    fn state(&self, row: &RunRow) -> Result<State, String> {
        self.client.judge.fold(row, &self.client.judge.journal(row.id)?)
    }

    fn request(&self, row: &RunRow, person: &str, sight: Sight) {
        let present = row.machine.as_ref().map(|place| place.version_no);
        let version = match sight {
            Sight::Fresh => present,
            Sight::Stale => present.map(|version| {
                let back = self.client.executor.with_random(|random| random.between(1, 2)) as u32;
                version.saturating_sub(back)
            }),
            Sight::None => None,
        };
        let action = if self.client.executor.chance(75) { GO } else { BACK };
        let is_keyed = self.client.executor.chance(50);
        let mut act = self.act_of(row, person, action, version);
        act.withdraw = act.data.is_none() && self.client.executor.chance(5);
        if !act.withdraw && self.client.executor.chance(30) {
            act.files = self.pick_file(person).into_iter().collect();
        }
        self.spawn(self.clone().send(row.id, act, is_keyed));
    }

    /// A request for an action, with the data that its condition needs. Some persons leave it out.
    fn act_of(&self, row: &RunRow, person: &str, action: &str, version: Option<u32>) -> Act {
        let state = row.machine.as_ref().map_or("", |place| &place.state);
        let definition = &self.machines[&row.workflow];
        let needs_data = machines::action(definition, state, action).is_some_and(|it| it.get("condition").is_some());
        let is_calm = self.client.judge.store.ledger().is_calm;
        let has_data = needs_data && (is_calm || self.client.executor.chance(80));
        Act {
            action: action.to_owned(),
            version,
            by: Actor::person(person),
            rights: machines::rights_of(person),
            comment: None,
            data: has_data.then(|| Payload::from(json!({"ok": true}))),
            shown: None,
            withdraw: false,
            files: Vec::new(),
            files_until: None,
            digest: String::new(),
        }
    }

    /// Sends a request. Under a key it is sent again while its outcome is not known, and sometimes after that.
    async fn send(self, run: RunId, mut act: Act, is_keyed: bool) {
        let number = self.client.executor.with_random(|random| random.number() >> 12);
        // The number is in the entry that the request writes.
        act.comment = Some(number.to_string());
        act.digest = number.to_string();
        let request = PersonRequest { run, act, is_keyed, sent: 0, denied: 0, arrivals: Vec::new(), answer: None };
        self.client.judge.store.ledger().requests.insert(number, request);
        let times = if is_keyed { self.client.executor.with_random(|random| random.between(1, 3)) } else { 1 };
        for _ in 0..times {
            self.deliver(number).await;
            self.client.sleep(1, 500).await;
        }
    }

    /// Sends an earlier request again, however long ago it was answered.
    async fn repeat(self, run: RunId) {
        let number = {
            let ledger = self.client.judge.store.ledger();
            let of_run = |(_, request): &(&u64, &PersonRequest)| request.run == run && request.is_keyed;
            let numbers: Vec<u64> = ledger.requests.iter().filter(of_run).map(|(number, _)| *number).collect();
            drop(ledger);
            if numbers.is_empty() {
                return;
            }
            self.client.executor.with_random(|random| *random.pick(&numbers))
        };
        self.deliver(number).await;
    }

    /// Delivers a request through any server.
    async fn deliver(&self, number: u64) {
        let request = {
            let mut ledger = self.client.judge.store.ledger();
            let Some(request) = ledger.requests.get_mut(&number) else { return };
            request.sent += 1;
            request.clone()
        };
        let was_accepted = request.answer.is_some();
        let server = self.client.server();
        let audit = self.client.audit(Asked::Act(request.run, number));
        let row = audit.id;
        let key = request.is_keyed.then(|| number.to_string());
        let (run, mut act) = (request.run, request.act);
        self.client.executor.note(|| format!("{run} {act:?} by server {}", server.index));
        let (index, executor, store) = (server.index, self.client.executor.clone(), self.client.judge.store.clone());
        let reply = server.ask(|engine| async move {
            offers::reserve(&engine, run, &mut act).await?;
            if let Some(request) = store.ledger().requests.get_mut(&number) {
                request.arrivals.push((index, executor.now()));
            }
            let input = Input::Transition(Box::new(act));
            engine.route(RunInput { key, audit: Some(audit), ..RunInput::new(WorkspaceId::DEFAULT, run, input) }).await
        });
        let reply = reply.await;
        self.client.executor.note(|| format!("{} {number} {reply:?} by server {}", request.run, server.index));
        let mut ledger = self.client.judge.store.ledger();
        ledger.answer_audited(row, audit::fate_of_reply(reply.as_ref()));
        ledger.answer_request(number, reply, was_accepted);
    }

    async fn assign(self, run: RunId) {
        let who = self.some_persons(2);
        let person = self.person();
        let assignment = Assignment {
            by: Actor::person(person),
            rights: machines::rights_of(person),
            change: AssignmentChange::Who(who),
            reason: None,
            digest: String::new(),
        };
        self.control(run, Input::Assign(Box::new(assignment))).await;
    }

    /// Changes the persons who vote in states that are entered later.
    async fn change_voters(self, run: RunId) {
        let values = Payload::from(json!({"voters": self.some_persons(VOTERS)}));
        self.control(run, Input::SetContext { values }).await;
    }

    fn some_persons(&self, count: usize) -> Vec<String> {
        let first = self.client.executor.with_random(|random| random.below(PERSONS.len()));
        PERSONS.iter().cycle().skip(first).take(count).map(ToString::to_string).collect()
    }

    /// Sends an input that may be lost.
    async fn control(&self, run: RunId, input: Input) {
        let input = RunInput::new(WorkspaceId::DEFAULT, run, input);
        let server = self.client.server();
        self.client.executor.note(|| format!("{run} {:?} by server {}", input.input, server.index));
        let reply = server.ask(|engine| async move { engine.route(input).await }).await;
        self.client.executor.note(|| format!("{run} {reply:?} by server {}", server.index));
    }
}

impl Ledger {
    /// Records the reply to a request. A repeated request is answered as before, and each version is answered once.
    /// `was_accepted` says that the request had been accepted before it was sent this time.
    fn answer_request(&mut self, number: u64, reply: Option<Result<Reply, Error>>, was_accepted: bool) {
        let Some(request) = self.requests.get_mut(&number) else { return };
        let run = request.run;
        let mut violation = None;
        let is_denied = match reply {
            Some(Ok(Reply::Applied(answer))) => {
                let answer = Applied { repeated: false, ..*answer };
                match &request.answer {
                    Some(first) if *first != answer => {
                        violation = Some(format!("{run}: request {number} was answered {first:?}, then {answer:?}"));
                    }
                    Some(_) => {}
                    None => {
                        let is_other = |other: &u64| *other != number;
                        let mover = answer.applied.then(|| self.moves.insert((run, answer.version_no), number));
                        if let Some(other) = mover.flatten().filter(is_other) {
                            let version = answer.version_no;
                            violation = Some(format!("{run}: {other} and {number} have both led to version {version}"));
                        }
                        request.answer = Some(answer);
                    }
                }
                false
            }
            Some(Ok(Reply::Refused { code, details, .. })) => {
                let is_named = details.as_ref().is_some_and(|details| details.version_no.is_some());
                if was_accepted {
                    violation = Some(format!("{run}: request {number} was accepted, and is refused now: {code}"));
                } else if !is_named && code != "RUN_PENDING" {
                    violation = Some(format!("{run}: the refusal of {number} does not name the version: {code}"));
                }
                true
            }
            Some(Ok(reply)) => {
                violation = Some(format!("{run}: request {number} was answered {reply:?}"));
                true
            }
            Some(Err(Error::RunNotFound(_))) => {
                violation = Some(format!("{run} was started and is not found"));
                true
            }
            Some(Err(Error::OutcomeUnknown(_))) | None => false,
            Some(Err(_)) => true,
        };
        request.denied += usize::from(is_denied);
        if let Some(text) = violation {
            self.violation(text);
        }
    }
}

/// The fields of the input of a run that the templates of machines read.
pub(super) fn input(n: u64, items: &[u64]) -> Value {
    let mut input = machines::context();
    input["n"] = n.into();
    input["items"] = items.into();
    input
}
