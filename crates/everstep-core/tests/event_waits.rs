//! Events that a run takes: each once, by every wait that it matches.

use everstep_core::code::{Report, Since};
use everstep_core::ids::{EventId, StepKey};
use everstep_core::journal::{Entry, Event, Kind};
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply, State};
use everstep_core::status::Status;
use everstep_core::topics::EventRef;
use serde_json::{Value, json};

use super::support::{Game, code, compile, definition};

fn event_id(n: u128) -> EventId {
    EventId::new(Game::BEGIN, n)
}

fn event(n: u128, data: Value) -> Input {
    let event = EventRef { id: event_id(n), topic: "tick".to_owned(), source: "clock".to_owned(), at: Game::BEGIN };
    Input::Event { event, data: Payload::from(data) }
}

/// A code run in its first turn.
fn function() -> Game {
    let mut game = Game::new(code());
    game.input(Input::Start { input: Payload::from(json!({})), cause: None });
    game.input(Input::BeginTurn { worker: "w".to_owned() });
    game
}

fn report(game: &mut Game, report: Report) -> (Vec<Entry>, Reply) {
    game.input(Input::Report { turn: 1, report: Box::new(report) })
}

fn wait(game: &mut Game, step: &str, pattern: Value) {
    let (event, pattern) = (Some("tick".to_owned()), Payload::from(pattern));
    let waited = Report::Waited { step: step.into(), event, pattern, timeout_ms: None, since: Some(Since::Start) };
    assert_eq!(report(game, waited).1, Reply::Accepted);
}

fn count(entries: &[Entry], kind: Kind) -> usize {
    entries.iter().filter(|entry| entry.event.kind() == kind).count()
}

#[test]
fn a_run_takes_an_event_once_however_many_it_has_taken() {
    let mut game = function();
    for n in 0..300 {
        wait(&mut game, &format!("wait {n}"), json!({}));
        // The events arrive out of order, and each arrives twice.
        let taken = (n * 7) % 300;
        assert_eq!(game.input(event(taken, json!(0))).1, Reply::Accepted);
        assert_eq!(game.input(event(taken, json!(0))).1, Reply::Repeated);
    }
    wait(&mut game, "last", json!({}));
    game.reload();
    let snapshot = serde_json::to_vec(&game.state).unwrap();
    assert_eq!(State::from_snapshot(&game.workflow, &snapshot).unwrap(), game.state);
    for n in 0..300 {
        assert_eq!(game.input(event(n, json!(0))).1, Reply::Repeated);
    }
    let taken: Vec<_> = game.state.events_taken_since(Game::BEGIN).collect();
    assert_eq!(taken, (0..300).map(event_id).collect::<Vec<_>>());
    assert_eq!(game.input(event(300, json!(0))).1, Reply::Accepted);
}

#[test]
fn events_and_signals_do_not_displace_the_keys_of_each_other() {
    let mut game = function();
    let signal = || Input::BufferedSignal { event: "go".to_owned(), payload: Payload::null() };
    assert_eq!(game.keyed(signal(), Some("first")).1, Reply::Buffered);
    for (n, _) in (0..).zip(0..=limits::REMEMBERED_KEYS) {
        wait(&mut game, &format!("wait {n}"), json!({}));
        assert_eq!(game.input(event(n, json!(0))).1, Reply::Accepted);
    }
    assert_eq!(game.keyed(signal(), Some("first")).1, Reply::Repeated);
    // A signal under the key of an event is another input.
    wait(&mut game, "last", json!({}));
    let tick = Input::Signal { event: "tick".to_owned(), payload: Payload::null() };
    assert_eq!(game.keyed(tick, Some(&format!("evt:{}", event_id(9_999)))).1, Reply::Accepted);
    wait(&mut game, "after", json!({}));
    assert_eq!(game.input(event(9_999, json!(1))).1, Reply::Accepted);
}

#[test]
fn an_event_that_fails_its_wait_is_taken() {
    let head = "start -> wait -> end\nwait: wait {\"config\": {\"event\": \"tick\"}}";
    let mut game = Game::new(compile(&definition(head)).unwrap());
    game.input(Input::Start { input: Payload::from(json!({})), cause: None });
    let large = "x".repeat(limits::PAYLOAD_BYTES - 100);
    // The context is filled until nothing more fits.
    let set = |seq: u64| Input::SetContext { values: Payload::from(json!({(format!("v{seq}")): large})) };
    while game.input(set(game.state.seq)).1 == Reply::Accepted {}
    let (entries, reply) = game.input(event(1, json!(large)));
    assert_eq!((reply, count(&entries, Kind::StepFailed)), (Reply::Accepted, 1));
    assert_eq!(game.state.events_taken_since(Game::BEGIN).collect::<Vec<_>>(), [event_id(1)]);
}

#[test]
fn an_event_that_does_not_fit_fails_the_run_of_a_function() {
    let mut game = function();
    let large = || Payload::from(json!("x".repeat(limits::PAYLOAD_BYTES - 100)));
    for n in 0..15 {
        let step = format!("step {n}").as_str().into();
        let completed = Report::Completed { step, attempt: 1, output: large(), logs: vec![], took: 1 };
        assert_eq!(report(&mut game, completed).1, Reply::Accepted);
    }
    wait(&mut game, "one", json!({}));
    wait(&mut game, "two", json!({}));
    let (entries, reply) = game.input(event(1, large().value().clone()));
    assert_eq!(reply, Reply::Accepted);
    let [resolved, failed] = &entries[..] else { panic!("{} entries", entries.len()) };
    assert_eq!(resolved.event.kind(), Kind::WaitResolved);
    let Event::RunFailed { failure, step, .. } = &failed.event else { panic!("{failed:?}") };
    assert_eq!((failure.code.as_ref(), step.as_ref().map(StepKey::as_str)), ("CONTEXT_TOO_LARGE", Some("two")));
    assert_eq!(game.state.status(), Status::Failed);
}

#[test]
fn an_event_is_compared_in_full_with_every_wait() {
    let items = |from: u32, count: u32| json!((from..from + count).collect::<Vec<_>>());
    let mut game = function();
    // Each comparison uses more than half of the fuel of a part.
    for n in 0..5 {
        wait(&mut game, &format!("wait {n}"), json!({"list": items(500, 900)}));
    }
    let (entries, _) = game.input(event(1, json!({"list": items(0, 1_400)})));
    assert_eq!(count(&entries, Kind::WaitResolved), 5);
}
