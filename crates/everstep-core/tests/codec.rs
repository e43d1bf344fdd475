//! Events as rows, and rows that were written long ago.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use everstep_core::actor::{Actor, ActorKind};
use everstep_core::code::End;
use everstep_core::failure::Failure;
use everstep_core::ids::{DeliveryId, EventId, RunId, SubscriptionId};
use everstep_core::journal::codec::{self, DecodeError, Row};
use everstep_core::journal::law;
use everstep_core::journal::{
    Assigned, AutoAction, Ballot, Cause, DecidedEnd, Delivery, Dispatch, Entry, Event, Kind, Outcome, Resolution,
    TimerPurpose, TransitionApplied, VoteCast,
};
use everstep_core::machine::AssignmentChange;
use everstep_core::payload::Payload;
use everstep_core::retry::RetryPolicy;
use everstep_core::run::keys;
use everstep_core::run::{Child, Input, OpenActivity, OpenStep, Parent, Reply, State};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::{EventRef, Publication, Trigger, TriggerKind};
use everstep_core::workflow::Workflow;
use everstep_expressions::Expressions;
use serde_json::{Value, json};

use super::support::{Random, code, load};

fn child(version: Option<u32>, due: Option<Timestamp>) -> Arc<Child> {
    let (run, input) = (RunId::new(Timestamp::EPOCH, 5), Payload::from(json!({"order": [1]})));
    Arc::new(Child { run, workflow: "other".into(), version, input, waits: due.is_some(), due })
}

fn parent(waits: bool) -> Parent {
    Parent { run: RunId::new(Timestamp::EPOCH, 6), step: "each[3].call".into(), attempt: 2, waits, depth: 4 }
}

/// A transition without optional fields.
fn transition() -> TransitionApplied {
    TransitionApplied {
        action: "@start".into(),
        from: None,
        to: "open".into(),
        version_no: 1,
        by: Actor::system(Actor::START),
        on_behalf_of: None,
        comment: None,
        data: None,
        set: None,
        files: vec![],
        assigned: vec![],
        voters: BTreeMap::new(),
        votes: vec![],
        shown: None,
        auto: None,
        end: None,
        request: None,
    }
}

fn full_transition() -> TransitionApplied {
    let any = Ballot { of: None, need: 2 };
    let named = Ballot { of: Some(vec!["ann".into(), "bob".into()]), need: 1 };
    TransitionApplied {
        action: "APPROVE".into(),
        from: Some("review".into()),
        to: "done".into(),
        version_no: 7,
        by: Actor::person("ann"),
        on_behalf_of: Some(Actor::person("bob")),
        comment: Some("ja\n\"ü\"".into()),
        data: Some(Payload::from(json!({"total": 1.5}))),
        set: Some(Payload::from(json!({"approver": "ann"}))),
        files: vec!["f1".into()],
        assigned: vec!["cid".into()],
        voters: BTreeMap::from([("SIGN".to_owned(), any), ("REJECT".to_owned(), named)]),
        votes: vec![Actor::person("ann"), Actor::key("7"), Actor::new(ActorKind::Worker, "w")],
        shown: Some("0a".into()),
        auto: Some(AutoAction { action: "ROUTE".into(), data: Some(Payload::from(json!({"x": [1]}))) }),
        end: None,
        request: Some("ff".into()),
    }
}

/// A delivery with every field, or with those that it must have.
fn delivery(is_full: bool) -> Arc<Delivery> {
    let config = json!({"target": "https://a.example/ü", "delivery": {"id": "x", "data": {"payload": [1.5]}}});
    let retry = RetryPolicy { max_attempts: 5, non_retryable: vec!["HTTP_STATUS".into()], ..RetryPolicy::delivery() };
    Arc::new(Delivery {
        id: DeliveryId::new(Timestamp::EPOCH, 9),
        kind: if is_full { Delivery::WEBHOOK } else { Delivery::WORKFLOW }.into(),
        config: Payload::from(if is_full { config } else { json!({"workflow": "other", "input": {}}) }),
        secrets: if is_full { vec!["/secret".into()] } else { vec![] },
        retry: is_full.then_some(retry),
    })
}

fn vote() -> VoteCast {
    VoteCast {
        action: "APPROVE".into(),
        version_no: 2,
        by: Actor::new(ActorKind::Run, "r1"),
        on_behalf_of: None,
        comment: None,
        files: vec![],
        shown: None,
        is_withdrawn: false,
        request: None,
    }
}

fn event_ref() -> EventRef {
    let at = Timestamp::from_millis(1_700_000_000_000);
    EventRef { id: EventId::new(at, 7), topic: "order.paid".into(), source: "shop \"ü\"".into(), at }
}

fn publication(id: Option<&str>) -> Publication {
    let data = Payload::from(json!({"published": {"id": 1}}));
    Publication { topic: "order.paid".into(), data, id: id.map(str::to_owned), subject: id.map(str::to_owned) }
}

fn trigger() -> Trigger {
    Trigger {
        kind: TriggerKind::Event,
        id: event_ref().id.to_string(),
        topic: Some("order.paid".into()),
        subscription: Some(SubscriptionId::new(Timestamp::EPOCH, 1)),
        source: Some("shop".into()),
        depth: 3,
        scheduled_for: Some(Timestamp::from_millis(5)),
    }
}

/// Events of every kind, with every field in every shape.
fn events() -> Vec<Event> {
    let step = || "each[3].fetch".into();
    let due = Timestamp::from_millis(1_700_000_000_123);
    let dispatches = [
        Dispatch::Task,
        Dispatch::Instant,
        Dispatch::Delay { due },
        Dispatch::Publish,
        Dispatch::Wait { event: "order.paid".into(), pattern: Payload::from(json!({"id": 7})), due: None, since: None },
        Dispatch::Wait { event: "ü".into(), pattern: Payload::from(json!({})), due: Some(due), since: None },
        Dispatch::Wait { event: "a".into(), pattern: Payload::from(json!({})), due: None, since: Some(due) },
        Dispatch::Child(child(None, None)),
        Dispatch::Child(child(Some(7), Some(due))),
        Dispatch::Body { items: vec![] },
        Dispatch::Body { items: vec![Payload::null(), Payload::from(json!([1, {"a": "b"}]))] },
        Dispatch::Delivery(delivery(true)),
        Dispatch::Delivery(delivery(false)),
    ];
    let outcomes = [
        Outcome::default(),
        Outcome::from_output(json!({"a": [1.5, null, "x"]})),
        Outcome::from_output(json!("text")).by("timeout"),
        Outcome { logs: vec!["one".into(), "two\n".into()], ..Outcome::from_output(json!(5)) },
        Outcome { started_at: Some(due), ..Outcome::from_output(json!({"startedAt": 1})) },
        Outcome { event: Some(Box::new(event_ref())), ..Outcome::from_output(json!({"id": 7})) },
        Outcome { published: Some(Box::new(publication(None))), ..Outcome::from_output(json!({"topic": "a"})) },
        Outcome { published: Some(Box::new(publication(Some("7")))), ..Outcome::default() },
    ];
    let signal = |buffered| Resolution::Signal {
        event: "order.paid".into(),
        payload: Payload::from(json!({"buffered": [1]})),
        buffered,
    };
    let failures = [Failure::fatal("A", "no"), Failure::transient("B", "später")];
    let mut events = vec![
        Event::RunStarted { input: Payload::from(json!({"x": 1})), cause: None, definition: None },
        Event::RunStarted { input: Payload::null(), cause: None, definition: None },
        Event::RunStarted {
            input: Payload::from(json!({"definition": 1})),
            cause: None,
            definition: Some(Payload::from(json!({"nodes": []}))),
        },
        Event::RunStarted {
            input: Payload::from_json("{\n}").unwrap(),
            cause: Some(parent(true).into()),
            definition: None,
        },
        Event::RunStarted { input: Payload::null(), cause: Some(parent(false).into()), definition: None },
        Event::StepSkipped { step: step() },
        Event::TimerSet { step: step(), attempt: 2, due, why: TimerPurpose::Sleep },
        Event::TimerSet { step: step(), attempt: 2, due, why: TimerPurpose::Retry },
        Event::TimerSet { step: step(), attempt: 2, due, why: TimerPurpose::Pace },
        Event::TimerSet { step: step(), attempt: 2, due, why: TimerPurpose::After },
        Event::TimerFired { step: step(), attempt: 2 },
        Event::WaitOpened {
            step: step(),
            attempt: 1,
            event: None,
            pattern: Payload::from(json!({})),
            due: None,
            since: None,
        },
        Event::WaitOpened {
            step: step(),
            attempt: 1,
            event: Some("ü".into()),
            pattern: Payload::from(json!({"id": 7})),
            due: Some(due),
            since: None,
        },
        Event::WaitOpened {
            step: step(),
            attempt: 1,
            event: Some("ü".into()),
            pattern: Payload::from(json!({"id": 7})),
            due: Some(due),
            since: Some(due),
        },
        Event::WaitResolved { step: step(), attempt: 1, by: signal(None) },
        Event::WaitResolved { step: step(), attempt: 1, by: signal(Some(5)) },
        Event::WaitResolved { step: step(), attempt: 1, by: Resolution::Timeout },
        Event::WaitResolved {
            step: step(),
            attempt: 1,
            by: Resolution::Event { event: event_ref(), data: Payload::from(json!({"event": [1]})) },
        },
        Event::SignalBuffered { event: "go".into(), payload: Payload::null(), until: due },
        Event::TurnStarted { turn: 1, worker: "host:1".into() },
        Event::TurnStarted { turn: u32::MAX, worker: String::new() },
        Event::TurnLost { turn: 7 },
        Event::TransitionApplied(Box::new(transition())),
        Event::TransitionApplied(Box::new(full_transition())),
        Event::TransitionApplied(Box::new(TransitionApplied {
            end: Some(DecidedEnd::Completed { output: Payload::from(json!({"state": "done"})) }),
            ..transition()
        })),
        Event::TransitionApplied(Box::new(TransitionApplied {
            end: Some(DecidedEnd::Failed { failure: Failure::fatal("END_ERROR", "no") }),
            ..transition()
        })),
        Event::VoteCast(Box::new(vote())),
        Event::VoteCast(Box::new(VoteCast {
            on_behalf_of: Some(Actor::person("cid")),
            comment: Some("no".into()),
            files: vec!["f1".into()],
            shown: Some("0a".into()),
            is_withdrawn: true,
            request: Some("ff".into()),
            ..vote()
        })),
        Event::Assigned(Box::new(Assigned {
            change: AssignmentChange::Who(vec!["ann".into(), "key:7".into()]),
            by: Actor::system(Actor::TIMER),
            reason: None,
            request: None,
        })),
        Event::Assigned(Box::new(Assigned {
            change: AssignmentChange::Voter { from: "ann".into(), to: "bob".into() },
            by: Actor::person("cid"),
            reason: Some("left".into()),
            request: Some("ff".into()),
        })),
        Event::RunStarted { input: Payload::null(), cause: Some(Actor::person("@timer").into()), definition: None },
        Event::RunStarted {
            input: Payload::null(),
            cause: Some(Cause { parent: Some(parent(true)), by: Some(Actor::key("7")), ..Cause::default() }),
            definition: None,
        },
        Event::RunStarted {
            input: Payload::null(),
            cause: Some(Cause::default().forked(Actor::person("ann")).forked(Actor::key("8"))),
            definition: None,
        },
        Event::RunStarted {
            input: Payload::null(),
            cause: Some(Cause {
                by: Some(Actor::system(Actor::TRIGGER)),
                trigger: Some(Box::new(trigger())),
                ..Cause::default()
            }),
            definition: None,
        },
        Event::ContextSet { values: Payload::from(json!({"x": {"y": 1}})) },
        Event::RunPaused { reason: None },
        Event::RunResumed,
        Event::RunRetried,
        Event::run_completed(Payload::from(json!({"x": 1}))),
        Event::RunCompleted { output: Payload::from(json!({"unawaited": 1})), unawaited: vec!["one".into(), step()] },
        Event::RunCancelled { reason: None },
        Event::RunCancelled { reason: Some("not needed".into()) },
    ];
    for dispatch in dispatches {
        events.push(Event::StepDispatched { step: step(), attempt: 1, dispatch });
    }
    for outcome in outcomes {
        events.push(Event::StepCompleted { step: step(), attempt: u32::MAX, outcome });
    }
    for failure in failures {
        events.push(Event::failed(step(), 3, failure.clone()));
        events.push(Event::StepFailed {
            step: step(),
            attempt: 3,
            failure: failure.clone(),
            logs: vec!["x".into()],
            started_at: Some(Timestamp::from_micros(7)),
        });
        events.push(Event::RunPaused { reason: Some(failure.clone()) });
        events.push(Event::run_failed(failure.clone(), None));
        events.push(Event::run_failed(failure.clone(), Some(step())));
        let (stack, unawaited) = (Some("Error: no\n    at run (a.js:1:2)".into()), vec!["one".into()]);
        events.push(Event::RunFailed { failure, step: None, stack, unawaited });
    }
    events
}

/// Every event, without a key, and with one if a signal or control may have written it.
pub(crate) fn entries() -> Vec<Entry> {
    let at = Timestamp::from_millis(5);
    let plain = events().into_iter().map(|event| Entry::new(77, at, event));
    let keyed = plain.clone().filter(|entry| {
        matches!(
            entry.event.kind(),
            Kind::StepCompleted
                | Kind::StepFailed
                | Kind::WaitResolved
                | Kind::SignalBuffered
                | Kind::TransitionApplied
                | Kind::VoteCast
                | Kind::Assigned
                | Kind::ContextSet
                | Kind::RunPaused
                | Kind::RunResumed
                | Kind::RunRetried
                | Kind::RunCancelled
        )
    });
    plain.chain(keyed.map(|entry| Entry { key: Some("k 1\n\"ü".into()), ..entry })).collect()
}

pub(crate) fn decode(row: Row) -> Result<Entry, DecodeError> {
    codec::decode(77, Timestamp::from_millis(5), row)
}

#[test]
fn every_entry_reads_back_as_it_was_written() {
    let mut kinds = BTreeSet::new();
    for entry in entries() {
        let row = codec::encode(&entry);
        kinds.insert(row.kind);
        assert_eq!(decode(row).unwrap(), entry);
    }
    assert_eq!(kinds, Kind::ALL.iter().copied().collect());
}

#[test]
fn a_key_is_on_a_separate_line() {
    let row = |event: Event, key: &str| {
        let entry = Entry { key: Some(key.into()), ..Entry::new(1, Timestamp::EPOCH, event) };
        String::from_utf8(codec::encode(&entry).payload).unwrap()
    };
    // Payloads of users are stored as they were written, including line breaks.
    let values = Payload::from_json("{\n  \"key\": \"mine\"\n}").unwrap();
    assert_eq!(row(Event::ContextSet { values }, "k"), "{\n  \"key\": \"mine\"\n}\n{\"key\":\"k\"}");
    assert_eq!(row(Event::RunPaused { reason: None }, "k"), "null\n{\"key\":\"k\"}");
    assert_eq!(row(Event::RunResumed, "k"), "\n{\"key\":\"k\"}");
}

#[test]
fn a_parent_is_beside_the_input() {
    let payload = |parent: Option<Parent>| {
        let cause: Option<Cause> = parent.map(Into::into);
        let event = Event::RunStarted { input: Payload::from(json!({"parent": 1})), cause, definition: None };
        String::from_utf8(codec::encode(&Entry::new(1, Timestamp::EPOCH, event)).payload).unwrap()
    };
    assert_eq!(payload(None), r#"{"parent":1}"#);
    let run = parent(true).run;
    let parent_text = format!(r#"{{"run":"{run}","step":"each[3].call","attempt":2,"waits":true,"depth":4}}"#);
    let line = format!(r#"{{"cause":{{"parent":{parent_text}}}}}"#);
    assert_eq!(payload(Some(parent(true))), format!("{{\"parent\":1}}\n{line}"));
}

#[test]
fn a_cause_of_a_later_build_is_read_without_what_it_adds() {
    let payload = |line: &str| format!("{{}}\n{line}").into_bytes();
    let row = |line| Row { kind: Kind::RunStarted, step: None, attempt: 0, payload: payload(line) };
    let cause = |line| match decode(row(line)).unwrap().event {
        Event::RunStarted { cause, .. } => cause,
        other => panic!("{other:?}"),
    };
    assert_eq!(cause(r#"{"cause":{"by":"ann","trigger":{"type":"schedule"}}}"#), Some(Cause::default()));
    assert_eq!(cause(r#"{"definition":{}}"#), None);
}

#[test]
fn what_a_later_build_adds_beside_an_event_is_passed_over() {
    let row = codec::encode(&Entry::new(77, Timestamp::from_millis(5), Event::RunPaused { reason: None }));
    let decoded = decode(Row { payload: b"null\n{\"key\":\"k\",\"by\":\"ann\"}".to_vec(), ..row.clone() }).unwrap();
    assert_eq!(decoded.key.as_deref(), Some("k"));
    for more in ["{}\n{}", "5", "{\"key\":5}", "x"] {
        let payload = format!("null\n{more}").into_bytes();
        assert!(decode(Row { payload, ..row.clone() }).is_err(), "{more}");
    }
}

#[test]
fn kinds_have_numbers_of_their_own() {
    let numbers: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.number()).collect();
    assert_eq!(numbers.len(), Kind::ALL.len());
    for number in 0..=255 {
        let kind = Kind::from_number(number);
        assert_eq!(kind.is_some(), numbers.contains(&number));
        assert!(kind.is_none_or(|kind| kind.number() == number && !kind.name().is_empty()));
    }
    let words: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.legacy_name()).collect();
    assert_eq!(words.len(), Kind::ALL.len());
    for word in ["INPUT_SET", "NODE_COMPLETED", "NODE_FAILED", "NODE_DISPATCHED", "SYSTEM_SET"] {
        assert!(words.contains(word), "{word}");
    }
}

#[test]
fn a_payload_that_cannot_be_read_is_reported() {
    for entry in entries() {
        let row = codec::encode(&entry);
        for garbage in ["{", "5x", "\"text", "{\"later\": {\"field\": 1}}", "[[", "\u{fffd}"] {
            let row = Row { payload: garbage.as_bytes().to_vec(), ..row.clone() };
            if let Err(unreadable) = decode(row) {
                assert!(unreadable.to_string().starts_with("entry 77 cannot be read: "));
            }
        }
        let cut = Row { payload: b"{".to_vec(), ..row.clone() };
        assert!(decode(cut).is_err(), "{entry:?}");
        if row.step.is_some() {
            let unreadable = decode(Row { step: None, ..row }).unwrap_err();
            assert!(unreadable.to_string().contains("has no step"));
        }
    }
    let dispatch = br#"{"teleport": {"to": "mars"}}"#.to_vec();
    let row = Row { kind: Kind::StepDispatched, step: Some("a".into()), attempt: 1, payload: dispatch };
    assert!(decode(row).unwrap_err().to_string().contains("teleport"));
}

#[test]
fn damaged_rows_never_panic() {
    let mut random = Random::new(4);
    let rows: Vec<_> = entries().iter().map(codec::encode).collect();
    for _ in 0..5_000 {
        let mut row = random.pick(&rows).clone();
        row.kind = *random.pick(Kind::ALL);
        for _ in 0..random.below(4) {
            let at = random.below(row.payload.len() + 1);
            match random.below(3) {
                0 => row.payload.truncate(at),
                1 if at < row.payload.len() => row.payload[at] = random.next() as u8,
                _ => row.payload.insert(at, random.next() as u8),
            }
        }
        let _ = decode(row);
    }
}

pub(crate) fn histories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("histories")
}

/// The rows of a history file, one per line: kind, step, attempt, payload, and the time as entries have it.
pub(crate) fn read_history(name: &str) -> Vec<(Timestamp, Row)> {
    let text = fs::read_to_string(histories().join(name)).unwrap();
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let number = |field: &str| line[field].as_u64().unwrap();
        let row = Row {
            kind: Kind::from_number(u8::try_from(number("kind")).unwrap()).unwrap(),
            step: line["step"].as_str().map(Into::into),
            attempt: u32::try_from(number("attempt")).unwrap(),
            payload: line["payload"].as_str().unwrap().as_bytes().to_vec(),
        };
        (line["at"].as_str().unwrap().parse().unwrap(), row)
    };
    text.lines().map(read).collect()
}

/// The states of the journals in a history, which obey the laws.
fn replay(name: &str, definition: &str) -> Vec<State> {
    let definition = fs::read_to_string(histories().join(definition)).unwrap();
    replay_of(name, &load(&serde_json::from_str(&definition).unwrap()).unwrap())
}

fn replay_of(name: &str, workflow: &Workflow) -> Vec<State> {
    let mut journals = Vec::<Vec<Entry>>::new();
    for (at, row) in read_history(name) {
        if row.kind == Kind::RunStarted {
            journals.push(Vec::new());
        }
        let journal = journals.last_mut().unwrap();
        journal.push(codec::decode(journal.len() as u64 + 1, at, row).unwrap());
    }
    let run = RunId::new(Timestamp::from_millis(1_000_000), 7);
    let check = |journal: &Vec<Entry>| law::check(run, workflow, journal, &Expressions::default(), false).unwrap();
    journals.iter().map(check).collect()
}

/// The numbers of the kinds that a history holds.
fn kinds_in(name: &str) -> Vec<u8> {
    let kinds: BTreeSet<_> = read_history(name).iter().map(|(_, row)| row.kind.number()).collect();
    kinds.into_iter().collect()
}

/// Journals of the first format. The file is never changed: every later build reads what was once written.
#[test]
fn the_first_journals_are_read_for_ever() {
    assert_eq!(kinds_in("1.jsonl"), [1, 2, 3, 4, 5, 6, 7, 8, 20, 21, 22, 30, 31, 32], "it holds every kind of its day");
    let states = replay("1.jsonl", "1.definition.json");
    let statuses: Vec<_> = states.iter().map(State::status).collect();
    assert_eq!(statuses, [Status::Completed, Status::Cancelled]);
    assert_eq!(states[0].output().unwrap().json(), r#"{"all":["A","B"],"note":"checked","approved":true}"#);
}

/// Journals with the keys of signals and controls.
#[test]
fn journals_with_keys_are_read_for_ever() {
    let states = replay("2.jsonl", "2.definition.json");
    let statuses: Vec<_> = states.iter().map(State::status).collect();
    assert_eq!(statuses, [Status::Cancelled, Status::Failed]);
    let signal = Input::Signal { event: "go".into(), payload: Payload::null() };
    let values = Input::SetContext { values: Payload::null() };
    let (pause, cancel) = (Input::Pause { reason: None }, Input::Cancel { reason: None });
    for (state, input, key) in [
        (&states[0], &values, "set"),
        (&states[0], &pause, "pause"),
        (&states[0], &signal, "signal"),
        (&states[0], &Input::Resume, "resume"),
        (&states[0], &cancel, "cancel"),
        (&states[1], &Input::Retry, "retry"),
        (&states[1], &signal, "too much"),
    ] {
        assert_eq!(keys::answer(state, input, key, state.updated_at), Some(Reply::Repeated), "{key}");
    }
}

/// Journals of a run that started others, and of one that was started.
#[test]
fn journals_with_children_are_read_for_ever() {
    let states = replay("3.jsonl", "3.definition.json");
    let statuses: Vec<_> = states.iter().map(State::status).collect();
    assert_eq!(statuses, [Status::Waiting, Status::Completed]);
    assert_eq!((states[0].parent(), states[0].depth()), (None, 0));
    let open: Vec<_> = states[0].open().collect();
    assert!(
        matches!(open.as_slice(), [OpenStep { attempt: 2, activity: OpenActivity::Child(child), .. }]
            if child.workflow == "pay" && child.version == Some(3) && child.waits && child.due.is_some()),
        "{open:?}"
    );
    let parent = states[1].parent().unwrap();
    assert_eq!((parent.step.as_str(), parent.attempt, parent.waits, parent.depth), ("each[0].call", 2, true, 5));
    assert_eq!(states[1].output().unwrap().json(), r#"{"paid":true}"#);
}

/// A journal that contains its workflow, and one of a fork that started its own child in place of its original's.
#[test]
fn journals_of_test_runs_and_forks_are_read_for_ever() {
    let states = replay("4.jsonl", "4.definition.json");
    let statuses: Vec<_> = states.iter().map(State::status).collect();
    assert_eq!(statuses, [Status::Waiting, Status::Waiting]);
    let (at, row) = read_history("4.jsonl").remove(0);
    let Event::RunStarted { definition: Some(definition), .. } = codec::decode(1, at, row).unwrap().event else {
        panic!("it holds its workflow");
    };
    assert_eq!(definition.value()["nodes"][0]["id"], "start");
    for (state, attempt) in states.iter().zip([1, 2]) {
        let open: Vec<_> = state.open().map(|open| (open.step.to_string(), open.attempt)).collect();
        assert_eq!(open, [("call".to_owned(), attempt)]);
        assert!(state.parent_of(&"call".into(), attempt).is_some(), "the child is its own");
    }
}

/// Journals of functions: one with every kind of step, a cancelled one that was called, one that waits, a fork, and one
/// whose workers were lost.
#[test]
fn journals_of_functions_are_read_for_ever() {
    let of_functions = [1, 2, 3, 4, 6, 7, 9, 10, 11, 14, 15, 20, 21, 22, 30, 31, 32];
    assert_eq!(kinds_in("5.jsonl"), of_functions, "it holds every kind that such a run can have");
    let states = replay_of("5.jsonl", &code());
    let statuses: Vec<_> = states.iter().map(State::status).collect();
    let expected = [Status::Completed, Status::Cancelled, Status::Running, Status::Running, Status::Failed];
    assert_eq!(statuses, expected);
    let turns: Vec<_> = states.iter().map(|state| state.code().unwrap().turn).collect();
    assert_eq!(turns, [4, 1, 2, 2, 10]);
    assert_eq!(states[0].output().unwrap().json(), r#"{"ok":true}"#);
    assert_eq!(states[4].failure().unwrap().code, "WORKER_LOST");

    let end = |state: &State, step: &str| state.code().unwrap().step(&step.into()).unwrap().end.clone();
    let gave = |json: &str| Some(End::Output(Payload::from_json(json).unwrap()));
    let got = |json: &str| Some(End::Signal(Payload::from_json(json).unwrap()));
    assert_eq!(end(&states[0], "create"), gave(r#"{"id":"u1"}"#));
    assert_eq!(end(&states[0], "mail"), gave("null"));
    assert_eq!(end(&states[0], "nap"), Some(End::Slept));
    assert_eq!(end(&states[0], "score"), Some(End::Failure(Failure::fatal("NO_SCORE", "no luck"))));
    assert_eq!(end(&states[0], "early"), got(r#"{"n":1}"#));
    assert_eq!(end(&states[0], "paid"), got(r#"{"order":7,"sum":12.5}"#));
    assert_eq!(end(&states[0], "verified"), Some(End::Timeout));
    assert!(matches!(end(&states[0], "slow"), Some(End::Failure(failure)) if failure.code == "STEP_TIMEOUT"));
    assert_eq!(end(&states[0], "ship"), gave(r#"{"parcel":9}"#));
    assert_eq!(end(&states[0], "invoice"), gave("12.5"));
    assert!(matches!(end(&states[1], "deeper"), Some(End::Failure(failure)) if failure.code == "TOO_DEEP"));
    assert_eq!(end(&states[3], "pay"), gave("2"));

    let open: Vec<_> = states[2].open().map(|open| (open.step.as_str(), open.attempt)).collect();
    assert_eq!(open, [("c", 1), ("nap", 1), ("ok", 1), ("pay", 1)]);
    let retried = states[2].code().unwrap().step(&"b".into()).unwrap();
    assert_eq!((retried.attempt, retried.failures, &retried.end), (1, 1, &None), "it may be tried again");
}

/// Journals of functions that ended without awaiting a step; the second one has thrown an error outside its steps.
#[test]
fn journals_with_stacks_and_unawaited_steps_are_read_for_ever() {
    let states = replay_of("6.jsonl", &code());
    let statuses: Vec<_> = states.iter().map(State::status).collect();
    assert_eq!(statuses, [Status::Completed, Status::Failed]);
    assert_eq!(states[0].output().unwrap().json(), r#"{"ok":true}"#);
    assert_eq!(states[1].failure().unwrap(), &Failure::fatal("TYPE_ERROR", "no luck"));
    let rows = read_history("6.jsonl");
    let event = |at: usize| codec::decode(1, rows[at].0, rows[at].1.clone()).unwrap().event;
    let Event::RunCompleted { unawaited, .. } = event(3) else { panic!("{:?}", event(3)) };
    assert_eq!(unawaited, ["one".into(), "nap".into()]);
    let Event::RunFailed { stack, unawaited, .. } = event(6) else { panic!("{:?}", event(6)) };
    assert_eq!(stack.as_deref(), Some("TypeError: no luck\n    at run (file:///app/order.js:3:9)"));
    assert_eq!(unawaited, ["one".into()]);
}
