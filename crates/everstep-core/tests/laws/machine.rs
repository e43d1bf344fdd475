//! Laws that hold for every machine and every sequence of requests.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::actor::{Actor, ActorKind};
use everstep_core::failure::Failure;
use everstep_core::ids::{FileId, StepKey};
use everstep_core::journal::{Dispatch, Entry, Event, Outcome};
use everstep_core::machine::{
    Act, Applied, Assignment, AssignmentChange, Rights, actions, evaluate, may_read, shown, situation,
};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::{Cx, Input, OpenActivity, Reply};
use everstep_core::status::Status;
use everstep_core::workflow::{Style, Workflow};
use everstep_expressions::Expressions;
use serde_json::{Value, json};

use crate::support::{ACTIONS, Game, PERSONS, Random, actor, compile_machine, load_machine, often, random_machine};

/// A machine that can be loaded. Of a random one, some value may be wrong: then another is taken.
fn workflow(random: &mut Random) -> (Workflow, Value) {
    loop {
        let definition = random_machine(random);
        if let Ok(machine) = load_machine(&definition) {
            let style = Style::Machine(machine);
            return (
                Workflow { name: "test".into(), version: 1, style, is_unsaved: false, publisher: Default::default() },
                definition,
            );
        }
    }
}

fn person(random: &mut Random) -> Actor {
    let name: &str = random.pick::<&str>(PERSONS);
    actor(name)
}

/// Plays a run with random requests, including stale, repeated and invalid ones.
struct Player {
    game: Game,
    definition: Value,
    random: Random,
    seed: u64,
    starter: Actor,
    /// The answers under each key, by actor and request.
    answers: BTreeMap<(Actor, String), (String, Applied)>,
    counts: Counts,
    items: Vec<u64>,
}

#[derive(Default)]
struct Counts {
    codes: BTreeMap<String, usize>,
    kinds: BTreeMap<&'static str, usize>,
    by: BTreeMap<String, usize>,
    applied: usize,
    counted: usize,
    repeated: usize,
    paused: usize,
}

impl Player {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (workflow, definition) = workflow(&mut random);
        let starter = person(&mut random);
        let game = Game::new(workflow);
        let (answers, counts, items) = (BTreeMap::new(), Counts::default(), Vec::new());
        Self { game, definition, random, seed, starter, answers, counts, items }
    }

    fn start(&mut self) {
        let mut input = json!({"n": self.random.below(4), "team": ["bob", "cid"], "deadline": "1970-01-01T00:20:00Z"});
        if self.random.chance(65) {
            input["boss"] = "dora".into();
        }
        let cause = Some(self.starter.clone().into());
        self.game.input(Input::Start { input: Payload::from(input), cause });
        self.items.push(self.game.state.seq);
    }

    fn rights(&mut self) -> Rights {
        let known = ["Manager", "Clerk"].map(str::to_owned);
        let granted: Vec<_> = known.iter().filter(|_| self.random.chance(50)).cloned().collect();
        let can_manage = self.random.chance(30);
        let granted_set = granted.iter().cloned().collect();
        Rights { name: None, roles: granted, granted: granted_set, known: known.into_iter().collect(), can_manage }
    }

    fn random_act(&mut self) -> Act {
        let version_no = self.game.state.machine().unwrap().version_no();
        let version = match self.random.below(10) {
            0 => Some(version_no.saturating_sub(1)),
            1..=4 => None,
            _ => Some(version_no),
        };
        let open: Vec<_> = self.open_actions();
        let action = match open.is_empty() || self.random.chance(10) {
            true => (*self.random.pick(&["A", "B", "C", "D", "DROP", "NONE"])).to_owned(),
            false => self.random.pick(&open).clone(),
        };
        let data = match self.random.below(8) {
            0 => Some(json!({"n": self.random.below(8)})),
            1 => Some(json!({"boss": self.random.pick(PERSONS)})),
            2 if self.random.chance(20) => Some(json!([1])),
            _ => None,
        };
        let shown = match self.random.below(10) {
            0 => Some("00".to_owned()),
            1 | 2 => shown(&self.game.workflow, &self.game.state).map(|shown| shown.digest),
            _ => None,
        };
        let by = person(&mut self.random);
        let comment = self.random.chance(50).then(|| "why not".to_owned());
        let withdraw = self.random.chance(8);
        // Few ids, so that a file is offered again.
        let count = if self.random.chance(15) && !withdraw { 1 + self.random.below(2) } else { 0 };
        let first = self.random.below(6);
        let files: Vec<_> = (first..first + count).map(|n| FileId::new(Game::BEGIN, n as u128)).collect();
        let digest = format!("{action} {version:?} {data:?} {comment:?} {withdraw} {files:?}");
        let (data, rights) = (data.map(Payload::from), self.rights());
        Act { action, version, by, rights, comment, data, shown, withdraw, files, files_until: None, digest }
    }

    /// The actions of the present state.
    fn open_actions(&self) -> Vec<String> {
        let by = Actor::person("ann");
        let cx = Cx { now: self.game.now, evaluate: &self.game.evaluate, meter: &Meter::new() };
        let views = actions(&self.game.workflow, &self.game.state, &by, &Rights::default(), cx);
        views.into_iter().map(|view| view.action).collect()
    }

    fn act(&mut self) {
        let act = self.random_act();
        let key = self.random.chance(40).then(|| format!("k{}", self.random.below(5)));
        self.request(&act, key.as_deref());
        // A caller that has heard no answer sends the same again.
        if self.random.chance(20) {
            self.request(&act, key.as_deref());
        }
    }

    /// A rejected request leaves nothing; an accepted one is recorded once; a dry run before it has the same result.
    fn request(&mut self, act: &Act, key: Option<&str>) {
        let seed = self.seed;
        let before = self.game.state.clone();
        let is_due = before.first_due(self.game.now).is_some();
        let foreseen = evaluate(
            &self.game.workflow,
            &before,
            act,
            Cx { now: self.game.now, evaluate: &self.game.evaluate, meter: &Meter::new() },
        );
        let (entries, reply) = self.game.keyed(Input::Transition(Box::new(act.clone())), key);
        self.items.push(self.game.state.seq);
        let recorded = entries.iter().filter(|entry| is_record_of(entry, &act.by)).count();
        let foreseen_code = foreseen.reasons.first().map(|reason| reason.code.clone());
        match &reply {
            Reply::Applied(applied) if applied.repeated => {
                assert!(entries.is_empty(), "seed {seed}: a repeated request wrote {entries:?}");
                let known = &self.answers[&(act.by.clone(), key.unwrap().to_owned())];
                assert_eq!(*known, (act.digest.clone(), Applied { repeated: false, ..(**applied).clone() }));
                self.counts.repeated += 1;
            }
            Reply::Applied(applied) => {
                assert_eq!(recorded, 1, "seed {seed}: {act:?} wrote {entries:?}");
                if !is_due {
                    assert_eq!(foreseen_code, None, "seed {seed}: {act:?} was not foreseen");
                    let place = self.game.state.place_of_machine().unwrap();
                    assert_eq!((foreseen.next_state.as_deref(), foreseen.version_no), (Some(place.0), place.1));
                }
                let place = self.game.state.place_of_machine().unwrap();
                assert_eq!((&*applied.next_state, applied.version_no), place, "seed {seed}");
                // A run in a terminal state ends after its last delivery.
                assert_eq!(applied.is_completed, ["end", "bad"].contains(&place.0), "seed {seed}");
                assert!(applied.is_completed || !self.game.state.has_ended(), "seed {seed}");
                if let Some(key) = key {
                    self.answers.insert((act.by.clone(), key.to_owned()), (act.digest.clone(), (**applied).clone()));
                }
                self.counts.applied += usize::from(applied.applied);
                self.counts.counted += usize::from(!applied.applied);
            }
            Reply::Refused { code, details, .. } => {
                assert_eq!(recorded, 0, "seed {seed}: {code} and {entries:?}");
                assert!(entries.iter().all(|entry| entry.key.is_none()), "seed {seed}");
                assert!(is_due || entries.is_empty(), "seed {seed}: a rejected request wrote {entries:?}");
                let place = self.game.state.place_of_machine();
                let details = details.as_ref().unwrap();
                assert_eq!(details.state.as_deref(), place.map(|place| place.0));
                if code != "IDEMPOTENCY_KEY_REUSED" && !is_due {
                    assert_eq!(foreseen_code.as_deref(), Some(&**code), "seed {seed}: {act:?}");
                }
                *self.counts.codes.entry(code.to_string()).or_default() += 1;
            }
            other => panic!("seed {seed}: {other:?} to {act:?}"),
        }
    }

    fn assign(&mut self) {
        let (by, rights) = (person(&mut self.random), self.rights());
        let change = match self.random.chance(50) {
            true => AssignmentChange::Who(vec![(*self.random.pick(PERSONS)).to_owned()]),
            false => AssignmentChange::Voter {
                from: (*self.random.pick(PERSONS)).to_owned(),
                to: (*self.random.pick(&["eve", "ann", "bob"])).to_owned(),
            },
        };
        let digest = format!("{change:?}");
        let assignment = Assignment { by, rights, change, reason: None, digest };
        let key = self.random.chance(30).then(|| format!("k{}", self.random.below(5)));
        let (_, reply) = self.game.keyed(Input::Assign(Box::new(assignment.clone())), key.as_deref());
        if let (Reply::Applied(applied), Some(key)) = (&reply, key)
            && !applied.repeated
        {
            self.answers.insert((assignment.by, key), (assignment.digest, (**applied).clone()));
        }
        self.items.push(self.game.state.seq);
    }

    fn child(&mut self) {
        let open = self.game.state.open().find_map(|open| match open.activity {
            OpenActivity::Child(child) => Some((open.step.clone(), open.attempt, child.run)),
            _ => None,
        });
        let Some((step, attempt, child)) = open else { return };
        let result = match self.random.chance(60) {
            true => Ok(Payload::from(json!({"ok": true}))),
            false => Err(Failure::transient("BROKEN", "no luck")),
        };
        self.game.input(Input::ChildEnded { step, attempt, child, result });
    }

    /// Performs a delivery, or loses it.
    fn deliver(&mut self) {
        let tasks = self.game.state.open().filter(|open| open.activity == OpenActivity::Task);
        let tasks: Vec<_> = tasks.map(|open| (open.step.clone(), open.attempt)).collect();
        if tasks.is_empty() {
            return;
        }
        let before = self.game.state.place_of_machine().map(|(name, version_no)| (name.to_owned(), version_no));
        let (step, attempt) = self.random.pick(&tasks).clone();
        let result = match self.random.below(10) {
            0..=4 => Ok(Outcome::from_output(json!({"status": 204}))),
            5 => Err(Failure::transient("HTTP_ERROR", "no luck")),
            _ => Err(Failure::fatal("HTTP_STATUS", "no luck")),
        };
        let input = match self.random.chance(15) {
            true => Input::TaskLost { step, attempt },
            false => Input::Result { step, attempt, result, logs: Vec::new() },
        };
        self.game.input(input);
        let place = self.game.state.place_of_machine().map(|(name, version_no)| (name.to_owned(), version_no));
        assert_eq!(place, before, "seed {}: a delivery moves nothing", self.seed);
    }

    /// Every delivery was performed, is open, was skipped by a fork, or is a dead letter with all its attempts; none is
    /// two of these.
    fn check_deliveries(&self) {
        let seed = self.seed;
        let mut fates = BTreeMap::<StepKey, Vec<&'static str>>::new();
        let mut failures = BTreeMap::<StepKey, usize>::new();
        for entry in &self.game.journal {
            match &entry.event {
                Event::StepDispatched { step, dispatch: Dispatch::Delivery(_), .. } => {
                    assert!(fates.insert(step.clone(), Vec::new()).is_none(), "seed {seed}: {step} is decided once");
                }
                Event::StepCompleted { step, .. } => fates.entry(step.clone()).or_default().push("performed"),
                Event::StepFailed { step, .. } => *failures.entry(step.clone()).or_default() += 1,
                _ => {}
            }
        }
        for letter in &self.game.dead_letters {
            let step = letter.step.clone().unwrap();
            let ended = usize::from(letter.error() == "RUN_CANCELLED");
            let failures = failures.get(&step).copied().unwrap_or_default();
            assert_eq!(letter.attempts.len(), failures + ended, "seed {seed}: {letter:?}");
            fates.get_mut(&step).unwrap().push("dead");
        }
        for (step, fates) in fates.iter().filter(|(step, _)| !step.as_str().starts_with("@run[")) {
            let is_open = !self.game.state.has_ended() && self.game.state.is_open(step);
            assert_eq!(fates.len() + usize::from(is_open), 1, "seed {seed}: {step} is {fates:?}");
        }
    }

    fn pass(&mut self) {
        let millis = *self.random.pick(&[1, 500, 1_000, 60_000, 120_000, 400_000]);
        self.game.now = self.game.now.plus(Duration::from_millis(millis));
        if self.random.chance(60) {
            self.fire();
        }
    }

    fn fire(&mut self) {
        let due: Vec<(StepKey, u32)> = self.game.state.due(self.game.now);
        for (step, attempt) in due {
            self.game.input(Input::Timer { step, attempt });
        }
    }

    fn play(&mut self) {
        self.start();
        for _ in 0..20 + self.random.below(60) {
            if self.game.state.has_ended() && self.random.chance(40) {
                break;
            }
            if self.game.state.is_paused() && self.random.chance(30) {
                self.game.input(Input::Resume);
                self.fire();
            }
            match self.random.below(100) {
                0..=59 => self.act(),
                60..=67 => self.assign(),
                68..=79 => self.pass(),
                80..=83 => self.child(),
                84..=86 => self.deliver(),
                87..=89 => drop(self.game.input(Input::Pause { reason: None })),
                90 => drop(self.game.keyed(Input::Pause { reason: None }, Some("k1"))),
                91..=94 => {
                    self.game.input(Input::Resume);
                    self.fire();
                }
                95 | 96 => {
                    let values = json!({"boss": "dora", "n": self.random.below(5)});
                    self.game.input(Input::SetContext { values: Payload::from(values) });
                }
                97 => self.game.reload(),
                98 => drop(self.game.input(Input::Settle)),
                _ => drop(self.game.input(Input::Signal { event: "go".into(), payload: Payload::null() })),
            }
            self.items.push(self.game.state.seq);
            self.check();
        }
        self.counts.paused += usize::from(self.game.state.is_paused());
        if self.random.chance(30) {
            self.game.input(Input::Cancel { reason: None });
        }
        for _ in 0..self.random.below(30) {
            self.deliver();
            self.pass();
        }
        self.game.reload();
        self.check_journal();
        self.check_deliveries();
        for entry in &self.game.journal {
            *self.counts.kinds.entry(entry.event.kind().name()).or_default() += 1;
            if let Event::TransitionApplied(applied) = &entry.event
                && applied.by.kind == ActorKind::System
            {
                *self.counts.by.entry(applied.by.id.clone()).or_default() += 1;
            }
        }
    }

    /// A machine with nothing to do waits, and readers have an answer.
    fn check(&self) {
        let Game { workflow, state, evaluate, now, .. } = &self.game;
        let cx = Cx { now: *now, evaluate, meter: &Meter::new() };
        if !state.has_ended() && !state.is_paused() {
            assert_eq!(state.status(), Status::Waiting, "seed {}", self.seed);
        }
        let place = state.place_of_machine().map(|(name, _)| name.to_owned());
        assert_eq!(situation(workflow, state).map(|situation| situation.state), place, "seed {}", self.seed);
        assert!(place.is_none() || may_read(workflow, state, &self.starter, &Rights::default(), cx));
    }

    /// No actor performed an action from which the definition excludes them.
    fn check_journal(&self) {
        let mut performed = BTreeMap::<String, Vec<Actor>>::new();
        for entry in &self.game.journal {
            let Event::TransitionApplied(applied) = &entry.event else { continue };
            let Some(from) = &applied.from else { continue };
            let states = self.definition["states"].as_array().unwrap();
            let state = states.iter().find(|state| state["name"] == **from).unwrap();
            let not_by = state["on"][&applied.action]["require"]["notBy"].as_array().cloned().unwrap_or_default();
            let persons: Vec<_> = std::iter::once(&applied.by)
                .chain(&applied.votes)
                .filter(|actor| actor.kind != ActorKind::System)
                .cloned()
                .collect();
            for name in not_by.iter().filter_map(Value::as_str) {
                let excluded = match name {
                    "@start" => vec![self.starter.clone()],
                    name => performed.get(name).cloned().unwrap_or_default(),
                };
                let found = persons.iter().find(|person| excluded.contains(person));
                assert_eq!(found, None, "seed {}: entry {} by an excluded person", self.seed, entry.seq);
            }
            performed.entry(applied.action.clone()).or_default().extend(persons);
        }
    }
}

/// Whether an entry records a request of an actor.
fn is_record_of(entry: &Entry, by: &Actor) -> bool {
    match &entry.event {
        Event::TransitionApplied(applied) => applied.by == *by,
        Event::VoteCast(vote) => vote.by == *by,
        Event::Assigned(assigned) => assigned.by == *by,
        _ => false,
    }
}

#[test]
fn random_machines_keep_the_laws() {
    let mut counts = Counts::default();
    let mut seen = BTreeMap::<Status, usize>::new();
    for seed in 0..often(250) {
        let mut player = Player::new(seed);
        player.play();
        *seen.entry(player.game.state.status()).or_default() += 1;
        for (code, count) in player.counts.codes {
            *counts.codes.entry(code).or_default() += count;
        }
        for (kind, count) in player.counts.kinds {
            *counts.kinds.entry(kind).or_default() += count;
        }
        for (by, count) in player.counts.by {
            *counts.by.entry(by).or_default() += count;
        }
        counts.applied += player.counts.applied;
        counts.counted += player.counts.counted;
        counts.repeated += player.counts.repeated;
        counts.paused += player.counts.paused;
    }
    for code in [
        "RUN_ENDED",
        "RUN_PAUSED",
        "CONCURRENCY_ERROR",
        "UNKNOWN_ACTION",
        "ACTION_CLOSED",
        "PERMISSION_DENIED",
        "ALREADY_VOTED",
        "NOT_VOTED",
        "VALIDATION_ERROR",
        "SHOWN_CHANGED",
        "CONDITION_FAILED",
        "EXPRESSION_ERROR",
        "IDEMPOTENCY_KEY_REUSED",
    ] {
        assert!(counts.codes.get(code).is_some_and(|count| *count > 5), "{code} is rare: {:?}", counts.codes);
    }
    for by in [Actor::TIMER, Actor::RUN, Actor::AUTO, Actor::QUORUM] {
        assert!(counts.by.get(by).is_some_and(|count| *count > 5), "{by} is rare: {:?}", counts.by);
    }
    assert!(
        counts.applied > 200 && counts.counted > 100 && counts.repeated > 50,
        "{} applied, {} votes, {} repeated",
        counts.applied,
        counts.counted,
        counts.repeated
    );
    assert!(seen.len() >= 4, "{seen:?}");
}

#[test]
fn a_fork_of_a_machine_keeps_the_laws() {
    let mut forks = 0;
    for seed in 0..often(40) {
        let mut player = Player::new(seed);
        player.play();
        let mut items = std::mem::take(&mut player.items);
        items.dedup();
        for at in items {
            let game = player.game.fork(at);
            if game.state.has_ended() {
                continue;
            }
            let place = game.state.place_of_machine().map(|(name, version)| (name.to_owned(), version));
            let votes = game.state.machine().unwrap().votes();
            let mut fork = Player::new(seed);
            (fork.starter, fork.game) = (player.starter.clone(), game);
            fork.random = Random::new(seed ^ at);
            fork.game.input(Input::Settle);
            assert_eq!(fork.game.state.place_of_machine().map(|(name, v)| (name.to_owned(), v)), place);
            assert_eq!(fork.game.state.machine().unwrap().votes(), votes);
            // Keys of the original are known, with answers that this player has not heard.
            for _ in 0..10 {
                let act = fork.random_act();
                fork.request(&act, None);
                fork.pass();
            }
            let shared = &player.game.journal[..usize::try_from(at).unwrap()];
            for letter in &fork.game.dead_letters {
                let is_shared =
                    |entry: &Entry| entry.event.step().is_some_and(|(step, _)| Some(step) == letter.step.as_ref());
                assert!(!shared.iter().any(is_shared), "seed {seed}: a fork has a dead letter of its original");
            }
            fork.check_journal();
            forks += 1;
        }
    }
    assert!(forks > 200, "{forks}");
}

#[test]
fn a_saved_random_machine_is_loaded_as_it_was_saved() {
    let mut random = Random::new(3);
    let mut saved = 0;
    for _ in 0..often(200) {
        let definition = random_machine(&mut random);
        let Ok(machine) = compile_machine(&definition) else { continue };
        let again = everstep_core::machine::load(machine.definition(), &Expressions::default()).unwrap();
        assert_eq!(again.definition().to_string(), machine.definition().to_string());
        saved += 1;
    }
    assert!(saved > 20, "{saved}");
    assert_eq!(ACTIONS.len(), 4);
}
