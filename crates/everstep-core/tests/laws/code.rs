//! Laws that hold for every function, whichever worker runs it and however often it runs from the top.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everstep_core::code::{End, Moment, Report};
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Event, Kind};
use everstep_core::limits;
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::decide::decide;
use everstep_core::run::{Cx, Input, OpenActivity, Reply, State};
use everstep_core::status::Status;
use serde_json::json;

use crate::support::{Game, Random, code, now, often, steady};

/// The stages of a function; the steps of one stage run in parallel.
struct Function {
    stages: Vec<Vec<(StepKey, Act)>>,
}

#[derive(Clone, Copy, Debug)]
enum Act {
    /// Fails this many times before it succeeds, if its policy allows that many attempts.
    Run {
        failures: u32,
    },
    /// Fails finally, and the function catches the failure or not.
    Broken {
        is_caught: bool,
    },
    Sleep(u64),
    Wait {
        timeout_ms: Option<u64>,
    },
    Call {
        timeout_ms: Option<u64>,
    },
}

impl Function {
    fn random(random: &mut Random) -> Self {
        let mut count = 0;
        let mut stage = |random: &mut Random| {
            let acts = (0..1 + random.below(3)).map(|_| {
                count += 1;
                let timeout_ms = random.chance(50).then(|| random.below(200) as u64);
                let act = match random.below(10) {
                    0..=3 => Act::Run { failures: random.below(3) as u32 },
                    4 => Act::Broken { is_caught: random.chance(70) },
                    5 | 6 => Act::Sleep(random.below(200) as u64),
                    7 | 8 => Act::Wait { timeout_ms },
                    _ => Act::Call { timeout_ms },
                };
                // The order of names differs from the order of steps.
                (StepKey::from(format!("s{}", (count * 7) % 31)), act)
            });
            acts.collect()
        };
        Self { stages: (0..1 + random.below(6)).map(|_| stage(random)).collect() }
    }

    /// The next report of a worker that has received the whole journal; several if it may choose.
    fn go_on(&self, state: &State) -> Vec<Report> {
        for stage in &self.stages {
            let mut waits = false;
            let mut reports = Vec::new();
            for (step, act) in stage {
                let known = state.code().unwrap().step(step);
                match known.and_then(|known| known.end.as_ref()) {
                    Some(End::Failure(failure)) if !act.is_caught() => {
                        return vec![Report::threw(failure.clone(), Some(step.clone()))];
                    }
                    Some(_) => continue,
                    None => waits = true,
                }
                if !state.is_open(step) {
                    reports.push(act.report(step, known.map_or(1, |known| known.attempt + 1)));
                }
            }
            if waits {
                return reports;
            }
        }
        let given =
            |(step, _): &(StepKey, Act)| match state.code().unwrap().step(step).and_then(|known| known.end.as_ref()) {
                Some(End::Output(output) | End::Signal(output) | End::Event { data: output, .. }) => {
                    output.value().clone()
                }
                Some(End::Failure(_) | End::Slept | End::Timeout) | None => json!(null),
            };
        let output: Vec<_> = self.stages.iter().flatten().map(given).collect();
        vec![Report::returned(json!(output))]
    }
}

impl Act {
    fn is_caught(self) -> bool {
        !matches!(self, Self::Broken { is_caught: false })
    }

    fn report(self, step: &StepKey, attempt: u32) -> Report {
        let (step, took) = (step.clone(), u64::from(attempt) * 10);
        let failed = |step, failure| Report::Failed { step, attempt, failure, retry: steady(), logs: vec![], took };
        match self {
            Self::Run { failures } if attempt <= failures => failed(step, Failure::transient("FLAKY", "again")),
            Self::Run { .. } => {
                let output = Payload::from(json!({"step": step.as_str(), "attempt": attempt}));
                Report::Completed { step, attempt, output, logs: vec![], took }
            }
            Self::Broken { .. } => failed(step, Failure::fatal("BROKEN", "no")),
            Self::Sleep(millis) => Report::Slept { step, until: Moment::After(millis) },
            Self::Wait { timeout_ms } => {
                let pattern = Payload::from(json!({"x": 1}));
                Report::Waited { step, event: Some("go".into()), pattern, timeout_ms, since: None }
            }
            Self::Call { timeout_ms } => {
                let input = Payload::from(json!({"n": 1}));
                Report::Called { step, workflow: "other".into(), version: None, input, timeout_ms }
            }
        }
    }
}

/// Plays a function with random inputs, including late, repeated and invalid ones.
struct Player {
    game: Game,
    function: Function,
    random: Random,
    /// The accepted reports, with their turns.
    sent: Vec<(u32, Report)>,
    items: BTreeSet<u64>,
    seed: u64,
}

impl Player {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let function = Function::random(&mut random);
        Self { game: Game::new(code()), function, random, sent: Vec::new(), items: BTreeSet::new(), seed }
    }

    fn input(&mut self, input: Input) -> (usize, Reply) {
        // Due timers fire before everything else.
        while let Some((step, attempt)) = self.game.state.first_due(self.game.now) {
            self.game.input(Input::Timer { step, attempt });
        }
        let key = format!("k{}", self.random.below(20));
        let is_keyed = matches!(input, Input::Signal { .. } | Input::BufferedSignal { .. } | Input::Retry);
        let (entries, reply) = self.game.keyed(input, (is_keyed && self.random.chance(40)).then_some(&*key));
        self.items.insert(self.game.state.seq);
        (entries.len(), reply)
    }

    fn report(&mut self, turn: u32, report: Report) -> Reply {
        let before = self.game.state.seq;
        let may_go_on = self.game.state.code().unwrap().may_go_on(turn) && self.game.state.status() != Status::Paused;
        let (_, reply) = self.input(Input::Report { turn, report: Box::new(report.clone()) });
        if matches!(reply, Reply::Accepted) {
            let is_result = matches!(report, Report::Completed { .. } | Report::Failed { .. });
            assert!(may_go_on || is_result, "seed {}: {report:?} at {before}", self.seed);
            self.sent.push((turn, report));
        }
        reply
    }

    /// The worker that holds the turn sends its next report.
    fn work(&mut self) {
        let turn = self.game.state.code().unwrap().turn;
        if !self.game.state.code().unwrap().may_go_on(turn) {
            self.input(Input::BeginTurn { worker: format!("w{turn}") });
            return;
        }
        let reports = self.function.go_on(&self.game.state);
        if !reports.is_empty() {
            let report = self.random.pick(&reports).clone();
            let reply = self.report(turn, report.clone());
            assert!(
                !matches!(reply, Reply::Refused { .. }) || self.game.state.has_ended() || self.is_paused(),
                "seed {}: {reply:?} to {report:?}",
                self.seed
            );
        }
    }

    fn is_paused(&self) -> bool {
        self.game.state.is_paused()
    }

    /// Repeats a report that was accepted before: nothing is written.
    fn repeat(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let (turn, report) = self.random.pick(&self.sent).clone();
        // Due timers fire first, and are not part of the reply.
        self.input(Input::Settle);
        let is_last = turn == self.game.state.code().unwrap().turn;
        let (written, reply) = self.input(Input::Report { turn, report: Box::new(report.clone()) });
        let is_refused = matches!(reply, Reply::Refused { .. });
        assert_eq!(written, 0, "seed {}: {report:?} is written twice", self.seed);
        assert!(is_last || is_refused, "seed {}: {reply:?} to {report:?} of turn {turn}", self.seed);
    }

    fn news_of_a_child(&mut self) {
        let open = self.game.state.open().filter_map(|open| match open.activity {
            OpenActivity::Child(child) => Some((open.step.clone(), open.attempt, child.run)),
            _ => None,
        });
        let open: Vec<_> = open.collect();
        let all = self.game.family.all();
        let known = if self.random.chance(70) { open } else { all };
        if known.is_empty() {
            return;
        }
        let (step, attempt, child) = self.random.pick(&known).clone();
        let child = if self.random.chance(5) { RunId::new(Game::BEGIN, 5) } else { child };
        let result = if self.random.chance(80) { Ok(Payload::null()) } else { Err(Failure::transient("LOST", "")) };
        // A child that ends at its due time ends too late.
        self.input(Input::Settle);
        self.input(Input::ChildEnded { step, attempt, child, result });
    }

    fn play(&mut self) {
        self.game.input(Input::Start { input: Payload::from(json!({"n": 1})), cause: None });
        for _ in 0..self.random.below(150) {
            let turn = self.game.state.code().unwrap().turn;
            match self.random.below(100) {
                0..=39 => self.work(),
                40..=54 => self.repeat(),
                55..=59 => drop(self.input(Input::BeginTurn { worker: "other".into() })),
                60..=64 => {
                    let turn = turn.saturating_sub(self.random.below(2) as u32);
                    self.input(Input::LoseTurn { turn });
                }
                65..=79 => {
                    self.game.now = self.game.now.plus(Duration::from_millis(self.random.below(900) as u64));
                    self.input(Input::Settle);
                }
                80..=85 => {
                    let payload = Payload::from(json!({"x": self.random.below(3)}));
                    let event = "go".to_owned();
                    let signal = if self.random.chance(50) {
                        Input::Signal { event, payload }
                    } else {
                        Input::BufferedSignal { event, payload }
                    };
                    self.input(signal);
                }
                86..=89 => self.news_of_a_child(),
                90 | 91 => drop(self.input(Input::Pause { reason: None })),
                92 | 93 => drop(self.input(Input::Resume)),
                94 | 95 => drop(self.input(Input::Retry)),
                96 => self.game.reload(),
                97 if self.random.chance(10) => drop(self.input(Input::Cancel { reason: None })),
                98 if self.random.chance(20) => drop(self.input(Input::Fail { failure: Failure::fatal("NO", "") })),
                99 => drop(self.report(turn, Report::Diverged { failure: Failure::fatal("ODD", "") })),
                _ => drop(self.input(Input::Settle)),
            }
        }
    }

    /// From here on every report succeeds: the run must end.
    fn finish(&mut self) {
        self.input(Input::Resume);
        self.input(Input::Retry);
        for _ in 0..2_000 {
            if self.game.state.has_ended() {
                self.game.check(false);
                return;
            }
            self.work();
            if self.game.state.has_ended() {
                continue;
            }
            let children: Vec<_> = self
                .game
                .state
                .open()
                .filter_map(|open| match open.activity {
                    OpenActivity::Child(child) => Some((open.step.clone(), open.attempt, child.run)),
                    _ => None,
                })
                .collect();
            for (step, attempt, child) in children {
                self.input(Input::ChildEnded { step, attempt, child, result: Ok(Payload::null()) });
            }
            self.input(Input::Signal { event: "go".into(), payload: Payload::from(json!({"x": 1})) });
            if let Some(due) = self.game.state.next_due() {
                self.game.now = self.game.now.max(due);
            }
        }
        panic!("seed {}: the run does not end: {:?}", self.seed, self.game.state);
    }

    /// Every step that was not interrupted has one end, and the output consists of the outputs of the steps.
    fn check_end(&self) {
        let mut ends = BTreeMap::<&StepKey, usize>::new();
        let mut retries = 0;
        for entry in &self.game.journal {
            match &entry.event {
                Event::StepCompleted { step, .. } | Event::WaitResolved { step, .. } => {
                    *ends.entry(step).or_default() += 1;
                }
                Event::StepFailed { step, failure, .. } if !failure.retryable => *ends.entry(step).or_default() += 1,
                Event::RunRetried => retries += 1,
                _ => {}
            }
        }
        let most = ends.values().max().copied().unwrap_or(0);
        assert!(most <= 1 + retries, "seed {}: {ends:?} after {retries} retries", self.seed);
        if self.game.state.status() == Status::Completed {
            let expected = self.function.go_on(&self.game.state);
            let [Report::Returned { output, .. }] = expected.as_slice() else {
                panic!("seed {}: {expected:?}", self.seed)
            };
            assert_eq!(self.game.state.output(), Some(output), "seed {}", self.seed);
        }
    }
}

#[test]
fn random_functions_keep_the_laws_and_reach_an_end() {
    let mut seen = BTreeMap::<Status, usize>::new();
    let mut kinds = BTreeMap::<&str, usize>::new();
    for seed in 0..often(250) {
        let mut player = Player::new(seed);
        player.play();
        player.finish();
        player.check_end();
        *seen.entry(player.game.state.status()).or_default() += 1;
        for entry in &player.game.journal {
            *kinds.entry(entry.event.kind().name()).or_default() += 1;
        }
    }
    for status in [Status::Completed, Status::Failed, Status::Cancelled] {
        assert!(seen.get(&status).is_some_and(|count| *count > 5), "{seen:?}");
    }
    let of_others = [Kind::StepSkipped, Kind::ContextSet, Kind::TransitionApplied, Kind::VoteCast, Kind::Assigned];
    for kind in Kind::ALL.iter().filter(|kind| !of_others.contains(kind)) {
        assert!(kinds.get(kind.name()).is_some_and(|count| *count > 5), "{} is rare: {kinds:?}", kind.name());
    }
}

#[test]
fn a_fork_of_a_function_at_any_item_keeps_the_laws_and_reaches_an_end() {
    let mut forks = 0;
    for seed in 0..often(30) {
        let mut player = Player::new(seed);
        player.play();
        for at in std::mem::take(&mut player.items) {
            let game = player.game.fork(at);
            if game.state.has_ended() {
                continue;
            }
            let mut fork = Player::new(seed);
            fork.game = game;
            fork.input(Input::Settle);
            fork.finish();
            fork.check_end();
            forks += 1;
        }
    }
    assert!(forks > 100, "{forks}");
}

/// A run in its first turn.
fn begun() -> Game {
    let mut game = Game::new(code());
    game.input(Input::Start { input: Payload::null(), cause: None });
    game.input(Input::BeginTurn { worker: "w1".into() });
    game
}

fn complete(game: &mut Game, step: String) -> Reply {
    let (step, output) = (step.into(), Payload::from(json!({"n": 1})));
    let report = Report::Completed { step, attempt: 1, output, logs: vec![], took: 5 };
    let input = Input::Report { turn: 1, report: Box::new(report) };
    decide(
        &game.workflow,
        &mut game.state,
        input,
        None,
        Cx { now: game.now, evaluate: &game.evaluate, meter: &Meter::new() },
    )
    .reply
}

#[test]
fn a_step_costs_the_same_early_and_late() {
    let mut game = begun();
    let mut step = 0;
    let mut run = |count: usize| {
        // The work is shorter than a tick of the thread's clock; the best of ten measurements counts.
        let began = now();
        for _ in 0..count {
            step += 1;
            assert_eq!(complete(&mut game, format!("step-{step}")), Reply::Accepted);
        }
        began.elapsed()
    };
    run(50);
    let early = (0..10).map(|_| run(50)).min().unwrap();
    run(50_000);
    let late = (0..10).map(|_| run(50)).min().unwrap();
    // A hundred times as many steps are in the journal.
    assert!(late < early * 8, "early {early:?}, late {late:?}");
}

#[test]
fn a_journal_that_is_too_long_fails_the_run() {
    let mut game = begun();
    let nearly = limits::JOURNAL_ENTRIES - limits::EVENTS_PER_DECISION as u64 - 10;
    // The same run at this point of its journal.
    let snapshot = serde_json::to_string(&game.state).unwrap().replacen("\"seq\":2,", &format!("\"seq\":{nearly},"), 1);
    game.state = serde_json::from_str(&snapshot).unwrap();
    for step in 0..10 {
        assert_eq!((complete(&mut game, format!("{step}")), game.state.has_ended()), (Reply::Accepted, step == 9));
    }
    assert_eq!(game.state.failure().unwrap().code, "JOURNAL_TOO_LONG");
    assert_eq!(game.state.seq, nearly + 11);
}

#[test]
fn a_run_keeps_a_hundred_signals_and_forgets_the_expired() {
    let mut game = begun();
    let signal = |game: &mut Game, n: usize| {
        let input = Input::BufferedSignal { event: "go".into(), payload: Payload::from(json!({"n": n})) };
        game.input(input).1
    };
    for n in 0..limits::BUFFERED_SIGNALS {
        assert_eq!(signal(&mut game, n), Reply::Buffered);
    }
    assert!(matches!(signal(&mut game, 100), Reply::Refused { code, .. } if code == "TOO_MANY_SIGNALS"));
    game.now = game.now.plus(Duration::from_secs(limits::BUFFERED_DAYS * 86_400));
    assert_eq!(signal(&mut game, 101), Reply::Buffered);
    let wait = |game: &mut Game, step: &str| {
        let (event, pattern) = (Some("go".into()), Payload::from(json!({})));
        let report = Report::Waited { step: step.into(), event, pattern, timeout_ms: None, since: None };
        game.input(Input::Report { turn: 1, report: Box::new(report) });
        game.state.code().unwrap().step(&step.into()).unwrap().end.clone()
    };
    assert_eq!(wait(&mut game, "first"), Some(End::Signal(Payload::from(json!({"n": 101})))));
    assert_eq!(wait(&mut game, "second"), None, "the others were kept for long enough");
}

#[test]
fn a_step_begins_when_it_says_but_never_before_its_run() {
    let mut game = begun();
    game.now = game.now.plus(Duration::from_secs(10));
    for (step, took, ago) in [("a", 3_000_000, 3), ("b", 20_000_000, 10), ("c", u64::MAX, 10), ("d", 0, 0)] {
        let report = Report::Completed { step: step.into(), attempt: 1, output: Payload::null(), logs: vec![], took };
        let (entries, _) = game.input(Input::Report { turn: 1, report: Box::new(report) });
        let Event::StepCompleted { outcome, .. } = &entries[0].event else { panic!("{entries:?}") };
        assert_eq!(game.now.since(outcome.started_at.unwrap()), Duration::from_secs(ago), "{step}");
    }
}
