//! Reports that no worker sends, and journals that no function writes.

use std::time::Duration;

use everstep_core::code::{Moment, Report};
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Dispatch, Entry, Event, Outcome, Resolution};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::retry::{Backoff, RetryPolicy};
use everstep_core::run::decide::decide;
use everstep_core::run::inbox::inputs_after;
use everstep_core::run::{Child, Cx, Input, OpenActivity, Reply, State};
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_expressions::Expressions;
use serde_json::json;

use super::{WORDS, purpose, wild_value};
use crate::support::{Game, Random, code, compile, definition, often, steady};

const STEPS: &[&str] = &["a", "b", "c", "d", "", "each[3].a", "\u{0}", "ä"];

fn step(random: &mut Random) -> StepKey {
    let most = if random.chance(90) { 4 } else { STEPS.len() };
    STEPS[random.below(most)].into()
}

fn number(random: &mut Random) -> u32 {
    *random.pick(&[0, 1, 1, 1, 2, 2, 3, 4, u32::MAX])
}

fn millis(random: &mut Random) -> u64 {
    *random.pick(&[0, 1, 5, 50, u64::MAX, u64::MAX / 1_000, 86_400_000])
}

fn failure(random: &mut Random) -> Failure {
    let retry_after_ms = random.chance(20).then(|| number(random));
    let code = *random.pick(&["A", "STEP_TIMEOUT", "", "NONDETERMINISTIC"]);
    Failure { retryable: random.chance(60), retry_after_ms, ..Failure::fatal(code, "no") }
}

fn payload(random: &mut Random) -> Payload {
    if random.chance(3) {
        return Payload::from_json("[".repeat(150) + &"]".repeat(150)).unwrap();
    }
    if random.chance(50) { Payload::from(json!({})) } else { Payload::from(wild_value(random, 2)) }
}

fn wild_policy(random: &mut Random) -> RetryPolicy {
    let numbers = [0.0, 0.2, 1.0, -1.0, 1e300, f64::INFINITY, f64::NAN];
    RetryPolicy {
        max_attempts: number(random),
        backoff: *random.pick(&[Backoff::Fixed, Backoff::Linear, Backoff::Exp]),
        base_ms: millis(random),
        max_ms: millis(random),
        multiplier: *random.pick(&numbers),
        jitter: *random.pick(&numbers),
        non_retryable: if random.chance(10) { vec!["A".into()] } else { vec![] },
    }
}

fn wild_report(random: &mut Random) -> Report {
    let (step, attempt, took) = (step(random), number(random), millis(random));
    let timeout_ms = random.chance(50).then(|| millis(random));
    match random.below(12) {
        0..=2 => Report::Completed { step, attempt, output: payload(random), logs: vec!["x".into()], took },
        3 | 4 => {
            let (failure, retry) = (failure(random), wild_policy(random));
            Report::Failed { step, attempt, failure, retry, logs: vec![], took }
        }
        5 if random.chance(50) => Report::Slept { step, until: Moment::After(millis(random)) },
        5 => {
            let at = *random.pick(&[i64::MIN, -1, 0, 1_000_000_000, i64::MAX]);
            Report::Slept { step, until: Moment::At(Timestamp::from_micros(at)) }
        }
        6 | 7 => {
            let event = random.chance(50).then(|| (*random.pick(&["go", "a", ""])).to_owned());
            Report::Waited { step, event, pattern: payload(random), timeout_ms, since: None }
        }
        8 | 9 => {
            let (workflow, version, input) = ("other".into(), random.chance(20).then_some(0), payload(random));
            Report::Called { step, workflow, version, input, timeout_ms }
        }
        _ => match random.below(5) {
            0 if random.chance(20) => {
                Report::Returned { output: payload(random), unawaited: vec![step; random.below(30)] }
            }
            1 if random.chance(40) => {
                let unawaited = vec![step.clone(); random.below(30)];
                let stack = random.chance(50).then(|| "x".repeat(random.below(40_000)));
                Report::Threw { failure: failure(random), step: random.chance(60).then_some(step), stack, unawaited }
            }
            2 => Report::Diverged { failure: failure(random) },
            3 => Report::Blocked { seq: millis(random) },
            _ => Report::Declined { failure: failure(random) },
        },
    }
}

fn wild_input(random: &mut Random, state: &State) -> Input {
    let (step, attempt) = (step(random), number(random));
    let turn = if random.chance(80) { state.code().map_or(0, |code| code.turn) } else { number(random) };
    let event = (*random.pick(&["go", "a", "b", "c", ""])).to_owned();
    match random.below(30) {
        0..=13 => Input::Report { turn, report: Box::new(wild_report(random)) },
        14..=16 => Input::BeginTurn { worker: (*random.pick(WORDS)).to_owned() },
        17 => Input::LoseTurn { turn },
        18 => Input::Signal { event, payload: payload(random) },
        19 => Input::BufferedSignal { event, payload: payload(random) },
        20 => Input::Timer { step, attempt },
        21 => match state.first_due(Timestamp::NEVER) {
            Some((step, attempt)) => Input::Timer { step, attempt },
            None => Input::Settle,
        },
        22 => {
            let open = state.open().find_map(|open| Some((open.step.clone(), open.attempt, child_of(&open.activity)?)));
            let (step, attempt, child) = open.unwrap_or((step, attempt, RunId::new(Game::BEGIN, 3)));
            let result = if random.chance(50) { Ok(payload(random)) } else { Err(failure(random)) };
            Input::ChildEnded { step, attempt, child, result }
        }
        23 => Input::Result { step, attempt, result: Ok(Outcome::default()), logs: vec![] },
        24 => Input::TaskLost { step, attempt },
        25 => Input::Pause { reason: random.chance(50).then(|| failure(random)) },
        26 => Input::Resume,
        27 | 28 => Input::Retry,
        _ => match random.below(12) {
            0 => Input::Cancel { reason: None },
            1 => Input::Fail { failure: failure(random) },
            2 => Input::SetContext { values: payload(random) },
            3 => Input::Start { input: payload(random), cause: None },
            _ => Input::Resume,
        },
    }
}

fn child_of(what: &OpenActivity<'_>) -> Option<RunId> {
    match what {
        OpenActivity::Child(child) => Some(child.run),
        _ => None,
    }
}

/// Every report is accepted or rejected, and the laws hold after it.
#[test]
fn any_report_in_any_state_is_decided() {
    let mut random = Random::new(6);
    let mut accepted = 0;
    for _ in 0..often(300) {
        let mut game = Game::new(code());
        if random.chance(95) {
            game.input(Input::Start { input: payload(&mut random), cause: None });
        }
        for _ in 0..random.below(60) {
            let input = wild_input(&mut random, &game.state);
            // A run that stopped waiting for a child has no record that the child ended in time.
            let is_late = matches!(&input, Input::ChildEnded { .. }) && game.state.first_due(game.now).is_some();
            if is_late {
                continue;
            }
            let key = random.chance(5).then_some("k");
            let (entries, reply) = game.keyed(input, key);
            accepted += usize::from(reply == Reply::Accepted && !entries.is_empty());
            if random.chance(20) {
                game.now = game.now.plus(Duration::from_millis(random.below(100) as u64));
            }
            if random.chance(5) {
                game.reload();
            }
        }
        game.check(false);
    }
    assert!(accepted > 1_000, "{accepted}");
}

/// A report may reach a run through another node.
#[test]
fn a_report_reads_back_as_it_was_written() {
    let mut random = Random::new(9);
    for _ in 0..often(500) {
        let mut report = wild_report(&mut random);
        if let Report::Failed { retry, .. } = &mut report {
            *retry = steady();
        }
        let input = Input::Report { turn: number(&mut random), report: Box::new(report) };
        let text = serde_json::to_string(&input).unwrap();
        assert_eq!(serde_json::from_str::<Input>(&text).unwrap(), input, "{text}");
    }
}

fn wild_event(random: &mut Random) -> Event {
    let (step, attempt) = (step(random), random.below(4) as u32);
    let due = Game::BEGIN;
    match random.below(16) {
        0 => Event::RunStarted { input: Payload::null(), cause: None, definition: None },
        1 | 2 => {
            let dispatch = match random.below(6) {
                0 => Dispatch::Task,
                1 => Dispatch::Instant,
                2 => Dispatch::Delay { due },
                3 => Dispatch::Wait { event: "go".into(), pattern: Payload::null(), due: None, since: None },
                4 => Dispatch::Body { items: vec![Payload::null()] },
                _ => {
                    let run = RunId::new(Game::BEGIN, random.below(3) as u128);
                    let (input, due) = (Payload::null(), random.chance(50).then_some(due));
                    let waits = random.chance(70);
                    Dispatch::Child(Child { run, workflow: "other".into(), version: None, input, waits, due }.into())
                }
            };
            Event::StepDispatched { step, attempt, dispatch }
        }
        3 => Event::StepCompleted { step, attempt, outcome: Outcome::default() },
        4 => Event::failed(step, attempt, failure(random)),
        5 => Event::TimerSet { step, attempt, due, why: purpose(random) },
        6 => Event::TimerFired { step, attempt },
        7 => Event::WaitOpened { step, attempt, event: None, pattern: payload(random), due: Some(due), since: None },
        8 => {
            let buffered = random.chance(50).then(|| random.below(20) as u64);
            let signal = Resolution::Signal { event: "go".into(), payload: payload(random), buffered };
            let by = if random.chance(50) { signal } else { Resolution::Timeout };
            Event::WaitResolved { step, attempt, by }
        }
        9 => Event::SignalBuffered { event: "go".into(), payload: payload(random), until: due },
        10 => Event::TurnStarted { turn: attempt, worker: "w".into() },
        11 => Event::TurnLost { turn: attempt },
        12 => Event::RunPaused { reason: None },
        13 => random.pick(&[Event::RunResumed, Event::RunRetried]).clone(),
        14 => {
            random.pick(&[Event::StepSkipped { step }, Event::ContextSet { values: Payload::from(json!({})) }]).clone()
        }
        _ => random
            .pick(&[
                Event::run_completed(Payload::null()),
                Event::run_failed(Failure::fatal("A", ""), Some(step.clone())),
                Event::RunCancelled { reason: None },
            ])
            .clone(),
    }
}

/// A damaged journal is rejected; or it is folded, and then the run can be decided.
#[test]
fn a_damaged_journal_of_a_function_is_refused_or_decided() {
    let mut random = Random::new(7);
    let workflow = code();
    let (mut refused, mut folded) = (0, 0);
    for _ in 0..often(3_000) {
        let mut events = sound(&mut random);
        for _ in 0..1 + random.below(3) {
            let at = random.below(events.len() + 1);
            match random.below(4) {
                0 if at < events.len() => drop(events.remove(at)),
                1 if at < events.len() => events.push(events[at].clone()),
                2 if at < events.len() => events[at] = wild_event(&mut random),
                _ => events.insert(at, wild_event(&mut random)),
            }
        }
        let entries = events.into_iter().enumerate();
        let journal: Vec<_> = entries.map(|(i, event)| Entry::new(i as u64 + 1, Game::BEGIN, event)).collect();
        match State::fold(RunId::new(Game::BEGIN, 7), &workflow, &journal) {
            Ok(state) => {
                folded += 1;
                decide_on(state, &workflow, &mut random);
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("does not fit"), "{error}");
            }
        }
    }
    assert!(folded > 300 && refused > 300, "{folded} folded, {refused} refused");
}

/// The events of an ordinary run.
fn sound(random: &mut Random) -> Vec<Event> {
    let mut game = Game::new(code());
    game.input(Input::Start { input: Payload::null(), cause: None });
    for _ in 0..random.below(15) {
        let input = wild_input(random, &game.state);
        if !matches!(input, Input::ChildEnded { .. }) {
            game.input(input);
        }
    }
    game.journal.into_iter().map(|entry| entry.event).collect()
}

fn decide_on(mut state: State, workflow: &Workflow, random: &mut Random) {
    let evaluate = Expressions::default();
    for _ in 0..8 {
        let input = wild_input(random, &state);
        let key = random.chance(20).then_some("k");
        let mut decision = decide(
            workflow,
            &mut state,
            input,
            key,
            Cx { now: Game::BEGIN, evaluate: &evaluate, meter: &Meter::new() },
        );
        for _ in 0..20 {
            if !decision.has_more {
                break;
            }
            decision = decide(
                workflow,
                &mut state,
                Input::Settle,
                None,
                Cx { now: Game::BEGIN, evaluate: &evaluate, meter: &Meter::new() },
            );
        }
        inputs_after(&state, &decision.entries);
        assert!(!decision.has_more, "{state:?}");
    }
}

/// A journal of a function is rejected for a graph, and a journal of a graph for a function.
#[test]
fn a_journal_of_another_style_is_refused() {
    let graph = compile(&definition("start -> a -> end")).unwrap();
    let mut random = Random::new(8);
    let run = RunId::new(Game::BEGIN, 7);
    for _ in 0..often(50) {
        let events = sound(&mut random);
        let is_turn_or_signal =
            |event: &Event| matches!(event, Event::TurnStarted { .. } | Event::SignalBuffered { .. });
        let is_of_code = events.iter().any(is_turn_or_signal);
        let entries = events.into_iter().enumerate();
        let journal: Vec<_> = entries.map(|(i, event)| Entry::new(i as u64 + 1, Game::BEGIN, event)).collect();
        assert_eq!(State::fold(run, &graph, &journal).is_err(), is_of_code, "{journal:?}");
        let mut state = State::new(run, &graph);
        state.apply(&graph, &journal[0]).unwrap();
        decide_on(state, &graph, &mut random);
    }
    let mut game = Game::new(graph);
    game.input(Input::Start { input: Payload::null(), cause: None });
    game.input(Input::Result { step: "a".into(), attempt: 1, result: Ok(Outcome::default()), logs: vec![] });
    assert!(State::fold(run, &code(), &game.journal).is_err());
}
