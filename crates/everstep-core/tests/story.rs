//! The story of a run: the fold of a journal for readers. The laws compare it with the state for every random run.

use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Dispatch, Entry, Event, Outcome, Resolution, TimerPurpose};
use everstep_core::payload::Payload;
use everstep_core::run::{Child, State};
use everstep_core::status::{Status, StepStatus};
use everstep_core::story::{StepChange, Story, Update};
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use serde_json::{Value, json};

use super::support::{Random, code, compile, often};

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1_000)
}

fn graph(definition: &Value) -> Arc<Workflow> {
    Arc::new(compile(definition).unwrap_or_else(|problems| panic!("{problems:#?}")))
}

fn code_workflow() -> Arc<Workflow> {
    Arc::new(code())
}

/// Entries numbered from 1, one per second.
fn entries(events: Vec<Event>) -> Vec<Entry> {
    let numbered = (1..).zip(events);
    numbered.map(|(seq, event)| Entry::new(seq, at(i64::try_from(seq).unwrap()), event)).collect()
}

fn fold(workflow: Option<&Arc<Workflow>>, events: Vec<Event>) -> Story {
    let mut story = Story::new(workflow);
    for entry in entries(events) {
        story.apply(&entry);
    }
    story
}

fn started() -> Event {
    Event::RunStarted { input: Payload::null(), cause: None, definition: None }
}

fn dispatched(step: &str, attempt: u32, dispatch: Dispatch) -> Event {
    Event::StepDispatched { step: step.into(), attempt, dispatch }
}

fn completed(step: &str, attempt: u32, output: Value) -> Event {
    Event::StepCompleted { step: step.into(), attempt, outcome: Outcome::from_output(output) }
}

fn failed(step: &str, failure: Failure) -> Event {
    Event::failed(step.into(), 1, failure)
}

fn statuses(story: &Story) -> Vec<(&str, &str)> {
    story.steps().map(|step| (step.key.as_str(), step.status.as_str())).collect()
}

#[test]
fn attempts_are_listed_one_by_one() {
    let failure = Failure::transient("BROKEN", "no luck");
    let logs = vec!["x".to_owned()];
    let events = vec![
        dispatched("a", 1, Dispatch::Task),
        Event::StepFailed { step: "a".into(), attempt: 1, failure, logs, started_at: None },
        Event::TimerSet { step: "a".into(), attempt: 1, due: at(4), why: TimerPurpose::Retry },
        Event::TimerFired { step: "a".into(), attempt: 1 },
        dispatched("a", 2, Dispatch::Task),
        completed("a", 2, json!(7)),
    ];
    let waiting = fold(None, events[..3].to_vec());
    let step = waiting.steps().next().unwrap();
    assert_eq!((step.status, step.due, step.is_retrying()), (StepStatus::Waiting, Some(at(4)), true));
    let story = fold(None, events);
    let step = story.steps().next().unwrap();
    assert_eq!((step.status, step.since, step.ended_at), (StepStatus::Completed, Some(at(1)), Some(at(6))));
    let attempts: Vec<_> = step.attempts.iter().map(|attempt| (attempt.attempt, attempt.status)).collect();
    assert_eq!(attempts, [(1, StepStatus::Failed), (2, StepStatus::Completed)]);
    assert_eq!(step.logs().collect::<Vec<_>>(), ["x"]);
    assert_eq!((step.output.as_ref().unwrap().json(), &step.error), ("7", &None));
}

#[test]
fn a_loop_and_a_run_that_end_cancel_what_is_open() {
    let failure = || Failure::fatal("BROKEN", "no luck");
    let events = vec![
        started(),
        dispatched("each", 1, Dispatch::Body { items: vec![] }),
        dispatched("each[0].a", 1, Dispatch::Task),
        dispatched("b", 1, Dispatch::Task),
        failed("each", failure()),
        Event::run_failed(failure(), None),
        Event::RunRetried,
    ];
    let story = fold(None, events[..6].to_vec());
    assert_eq!(statuses(&story), [("each", "failed"), ("each[0].a", "cancelled"), ("b", "cancelled")]);
    let ends: Vec<_> = story.steps().map(|step| step.ended_at).collect();
    assert_eq!(ends, [Some(at(5)), Some(at(5)), None]);
    assert_eq!((story.status(), story.run.failure.as_ref()), (Status::Failed, Some(&failure())));
    // A retry continues inside the loop.
    let story = fold(None, events);
    assert_eq!(statuses(&story), [("each", "running"), ("each[0].a", "running"), ("b", "running")]);
}

#[test]
fn a_retry_leaves_a_loop_alone_whose_failure_was_handled() {
    let workflow = graph(&json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": {"sourceVariable": [1]}},
            {"id": "a", "type": "noop"},
            {"id": "b", "type": "noop"},
            {"id": "end", "type": "end", "joinMode": "any"},
        ],
        "edges": [
            {"source": "start", "target": "each"},
            {"source": "each", "target": "a", "sourceHandle": "loop"},
            {"source": "each", "target": "b", "sourceHandle": "error"},
            {"source": "each", "target": "end", "sourceHandle": "done"},
            {"source": "b", "target": "end"},
        ],
    }));
    let failure = || Failure::fatal("BROKEN", "no luck");
    let events = vec![
        started(),
        dispatched("each", 1, Dispatch::Body { items: vec![Payload::null()] }),
        failed("each", failure()),
        dispatched("b", 1, Dispatch::Task),
        failed("b", failure()),
        Event::run_failed(failure(), None),
        Event::RunRetried,
        dispatched("b", 2, Dispatch::Task),
    ];
    let story = fold(Some(&workflow), events);
    assert_eq!(statuses(&story), [("each", "failed"), ("b", "running")]);
    assert_eq!(story.step(&"each".into()).unwrap().kind.as_deref(), Some("loop"));
}

/// The journal of a run of code.
fn code_events() -> Vec<Event> {
    let outcome = Outcome { started_at: Some(at(1)), ..Outcome::from_output(json!(7)) };
    let pay = |attempt, failure| {
        let started_at = Some(at(1 + 2 * i64::from(attempt)));
        Event::StepFailed { step: "pay.now".into(), attempt, failure, logs: vec![], started_at }
    };
    let wait = |step: &str| Event::WaitOpened {
        step: step.into(),
        attempt: 1,
        event: None,
        pattern: Payload::from(json!({})),
        due: None,
        since: None,
    };
    let signal = Resolution::Signal { event: "ok".to_owned(), payload: Payload::from(json!("yes")), buffered: None };
    vec![
        started(),
        Event::TurnStarted { turn: 1, worker: "w".to_owned() },
        Event::StepCompleted { step: "a".into(), attempt: 1, outcome },
        pay(1, Failure::transient("X", "no")),
        Event::TimerSet { step: "pay.now".into(), attempt: 1, due: at(9), why: TimerPurpose::Retry },
        Event::TimerSet { step: "nap".into(), attempt: 1, due: at(8), why: TimerPurpose::Sleep },
        Event::TimerFired { step: "nap".into(), attempt: 1 },
        Event::TimerFired { step: "pay.now".into(), attempt: 1 },
        pay(2, Failure::fatal("X", "never")),
        wait("ok"),
        wait("late"),
        Event::WaitResolved { step: "ok".into(), attempt: 1, by: signal },
        Event::WaitResolved { step: "late".into(), attempt: 1, by: Resolution::Timeout },
    ]
}

#[test]
fn the_first_entry_of_a_step_of_code_determines_its_kind() {
    let story = fold(Some(&code_workflow()), code_events());
    let rows: Vec<_> = story
        .steps()
        .map(|step| (step.node.as_str(), step.kind.as_deref().unwrap_or("?"), step.status.as_str()))
        .collect();
    let expected = [
        ("a", "run", "completed"),
        ("pay.now", "run", "failed"),
        ("nap", "sleep", "completed"),
        ("ok", "wait", "completed"),
        ("late", "wait", "completed"),
    ];
    assert_eq!(rows, expected);
    let step = |key: &str| story.step(&key.into()).unwrap();
    assert_eq!((step("a").since, step("a").ended_at), (Some(at(1)), Some(at(3))));
    let began: Vec<_> = step("pay.now").attempts.iter().map(|attempt| attempt.began_at).collect();
    assert_eq!(began, [Some(at(3)), Some(at(5))]);
    let output = |key: &str| step(key).output.clone().unwrap().json().to_owned();
    assert_eq!(output("nap"), r#"{"slept_until":"1970-01-01T00:00:08.000000Z"}"#);
    assert_eq!((output("ok"), output("late")), ("\"yes\"".to_owned(), r#"{"timeout":true}"#.to_owned()));
    assert_eq!(step("late").handle.as_deref(), Some("timeout"));
}

#[test]
fn a_retry_of_code_opens_the_steps_that_failed_the_run_and_no_others() {
    let run = RunId::new(Timestamp::EPOCH, 1);
    let fatal = |step: &str| failed(step, Failure::fatal("X", "no"));
    let called = |attempt| {
        let step = StepKey::from("call");
        let child = Child {
            run: Child::id(run, &step, attempt, at(0)),
            workflow: "other".to_owned(),
            version: None,
            input: Payload::null(),
            waits: true,
            due: None,
        };
        Event::StepDispatched { step, attempt, dispatch: Dispatch::Child(child.into()) }
    };
    let mut events = vec![
        started(),
        Event::TurnStarted { turn: 1, worker: "w".to_owned() },
        fatal("handled"),
        dispatched("refused", 1, Dispatch::Instant),
        fatal("refused"),
        called(1),
        fatal("last"),
        Event::run_failed(Failure::fatal("X", "no"), Some("last".into())),
    ];
    let workflow = code_workflow();
    let handled = [("handled", "failed"), ("refused", "failed")];
    let ended = fold(Some(&workflow), events.clone());
    assert_eq!(statuses(&ended), [&handled[..], &[("call", "cancelled"), ("last", "failed")]].concat());
    let kinds: Vec<_> = ended.steps().map(|step| step.kind.as_deref().unwrap_or("?")).collect();
    assert_eq!(kinds, ["run", "call", "call", "run"]);
    events.extend([Event::RunRetried, Event::TurnStarted { turn: 2, worker: "w".to_owned() }, called(2)]);
    let retried = fold(Some(&workflow), events);
    assert_eq!(statuses(&retried), [&handled[..], &[("call", "waiting"), ("last", "running")]].concat());
    let attempts: Vec<_> =
        retried.step(&"call".into()).unwrap().attempts.iter().map(|it| (it.attempt, it.status)).collect();
    assert_eq!(attempts, [(1, StepStatus::Cancelled), (2, StepStatus::Waiting)]);
}

#[test]
fn a_second_retry_of_code_counts_from_the_step_that_was_open() {
    let fatal = |step: &str| failed(step, Failure::fatal("X", "no"));
    let turn = |turn| Event::TurnStarted { turn, worker: "w".to_owned() };
    let run_failed = |step: Option<&str>| Event::run_failed(Failure::fatal("X", "no"), step.map(Into::into));
    let nap = Event::TimerSet { step: "nap".into(), attempt: 1, due: Timestamp::NEVER, why: TimerPurpose::Sleep };
    let events = vec![
        started(),
        turn(1),
        nap,
        fatal("handled"),
        fatal("last"),
        run_failed(Some("last")),
        Event::RunRetried,
        turn(2),
        fatal("last"),
        run_failed(None),
        Event::RunRetried,
    ];
    let workflow = code_workflow();
    let story = fold(Some(&workflow), events);
    assert_eq!(statuses(&story), [("nap", "waiting"), ("handled", "running"), ("last", "running")]);
}

#[test]
fn a_live_story_keeps_open_steps_only() {
    let mut story = Story::live(None, None);
    let events = vec![
        dispatched("each", 1, Dispatch::Body { items: vec![] }),
        Event::StepSkipped { step: "each[0].a".into() },
        dispatched("each[0].b", 1, Dispatch::Task),
        completed("each[0].b", 1, Value::Null),
        dispatched("each[1].b", 1, Dispatch::Task),
        dispatched("c", 1, Dispatch::Task),
    ];
    let journal = entries([events, vec![completed("each", 1, Value::Null)]].concat());
    for entry in &journal {
        story.apply(entry);
    }
    assert_eq!(statuses(&story), [("c", "running")]);
}

#[test]
fn a_follower_that_joins_during_a_sleep_sees_it_end() {
    let workflow = code_workflow();
    let mut state = State::new(RunId::new(Timestamp::EPOCH, 1), &workflow);
    let journal = entries(code_events());
    let (before, after) = journal.split_at(6);
    for entry in before {
        state.apply(&workflow, entry).unwrap();
    }
    let mut story = Story::live(Some(&workflow), Some(&state));
    let mut changes = Vec::new();
    for entry in after {
        for update in story.apply(entry) {
            let Update::Step(update) = update else { continue };
            changes.push((update.step.to_string(), update.change));
            if update.step.as_str() == "nap" {
                let output = update.output.unwrap().json().to_owned();
                assert_eq!(output, r#"{"slept_until":"1970-01-01T00:00:08.000000Z"}"#);
            }
        }
    }
    let expected = [("nap", StepChange::Completed), ("pay.now", StepChange::RetryDue), ("pay.now", StepChange::Failed)];
    assert_eq!(changes[..3], expected.map(|(step, change)| (step.to_owned(), change)));
    assert_eq!(story.steps().count(), 0, "only open steps are kept");
}

#[test]
fn a_timer_of_a_loop_is_not_a_retry() {
    let mut story = Story::new(None);
    let events = vec![
        dispatched("each", 1, Dispatch::Body { items: vec![Payload::null()] }),
        Event::TimerSet { step: "each".into(), attempt: 1, due: at(9), why: TimerPurpose::Pace },
        Event::TimerFired { step: "each".into(), attempt: 1 },
    ];
    let mut changes = Vec::new();
    for entry in entries(events) {
        changes.extend(story.apply(&entry).into_iter().filter_map(|update| match update {
            Update::Step(update) => Some((update.change, update.status)),
            Update::Run(_) => None,
        }));
    }
    let running = StepStatus::Running;
    assert_eq!(changes, [(StepChange::Began, running), (StepChange::Paces, running), (StepChange::PaceDue, running)]);
}

#[test]
fn updates_are_written_as_json_with_and_without_values() {
    let outcome = Outcome { logs: vec!["hello".to_owned()], ..Outcome::from_output(json!({"n": 1})) };
    let events = vec![
        started(),
        dispatched("each[0].a", 1, Dispatch::Task),
        Event::StepCompleted { step: "each[0].a".into(), attempt: 1, outcome },
        Event::run_completed(Payload::from(json!(1))),
    ];
    let journal = entries(events);
    let mut story = Story::new(None);
    let updates: Vec<_> = journal.iter().flat_map(|entry| story.apply(entry)).collect();
    let written: Vec<_> = updates.iter().map(|update| json!(update)).collect();
    assert_eq!(written[0], json!({"of": "run", "seq": 1, "at": "1970-01-01T00:00:01.000000Z", "change": "started"}));
    let expected = json!({
        "of": "step", "seq": 3, "at": "1970-01-01T00:00:03.000000Z", "step": "each[0].a", "node": "a", "attempt": 1,
        "status": "completed", "change": "completed", "since": "1970-01-01T00:00:02.000000Z",
        "output": {"n": 1}, "logs": ["hello"],
    });
    assert_eq!(written[2], expected);
    assert_eq!(written[3]["output"], 1);
    for update in updates {
        let without = json!(update.without_values());
        assert!(without.get("output").is_none() && without.get("logs").is_none(), "{without}");
    }
}

#[test]
fn any_journal_has_a_story() {
    let mut random = Random::new(5);
    let workflow = code_workflow();
    for _ in 0..often(300) {
        let events: Vec<_> = (0..random.below(30)).map(|_| wild_event(&mut random)).collect();
        let journal = entries(events);
        let stories = [Story::new(None), Story::new(Some(&workflow)), Story::page(None), Story::live(None, None)];
        for mut story in stories {
            for entry in &journal {
                story.begins_step(entry);
                story.apply(entry);
                story.status();
            }
            story.end_unread();
            assert!(story.steps().all(|step| !step.is_open()));
        }
    }
}

fn wild_event(random: &mut Random) -> Event {
    let step: StepKey = (*random.pick(&["a", "each", "each[0].a", "each[0].in", "each[0].in[1].b", "", "["])).into();
    let attempt = u32::try_from(random.below(3)).unwrap();
    let failure = Failure { retryable: random.chance(50), ..Failure::fatal("X", "no") };
    let due = at(i64::try_from(random.below(100)).unwrap());
    match random.below(16) {
        0 => started(),
        1 => Event::StepDispatched { step, attempt, dispatch: Dispatch::Task },
        2 => Event::StepDispatched { step, attempt, dispatch: Dispatch::Body { items: vec![] } },
        3 => Event::StepDispatched { step, attempt, dispatch: Dispatch::Delay { due } },
        4 => Event::StepCompleted { step, attempt, outcome: Outcome::default() },
        5 => Event::StepFailed { step, attempt, failure, logs: vec![], started_at: None },
        6 => Event::StepSkipped { step },
        7 => {
            let purposes = [TimerPurpose::Sleep, TimerPurpose::Retry, TimerPurpose::Pace, TimerPurpose::After];
            Event::TimerSet { step, attempt, due, why: *random.pick(&purposes) }
        }
        8 => Event::TimerFired { step, attempt },
        9 => Event::WaitOpened { step, attempt, event: None, pattern: Payload::null(), due: None, since: None },
        10 => Event::WaitResolved { step, attempt, by: Resolution::Timeout },
        11 => Event::RunPaused { reason: None },
        12 => Event::RunResumed,
        13 => Event::RunRetried,
        14 => Event::run_failed(failure, Some(step)),
        _ => Event::RunCancelled { reason: None },
    }
}

#[test]
fn the_end_of_a_function_names_unawaited_steps_and_keeps_its_stack() {
    let threw = Event::RunFailed {
        failure: Failure::fatal("BROKEN", "no luck"),
        step: None,
        stack: Some("Error: no luck\n    at run".into()),
        unawaited: vec!["one".into()],
    };
    let returned = Event::RunCompleted { output: Payload::null(), unawaited: vec!["two".into(), "three".into()] };
    let story = fold(None, vec![started(), threw.clone()]);
    assert_eq!(story.run.stack.as_deref(), Some("Error: no luck\n    at run"));
    assert_eq!(story.run.unawaited, ["one".into()]);
    // A retry continues the run: only its next end counts.
    let story = fold(None, vec![started(), threw.clone(), Event::RunRetried]);
    assert_eq!((&story.run.stack, &story.run.unawaited), (&None, &vec![]));
    let story = fold(None, vec![started(), threw.clone(), Event::RunRetried, returned]);
    assert_eq!((&story.run.stack, &story.run.unawaited), (&None, &vec!["two".into(), "three".into()]));

    let entry = Entry::new(2, at(2), threw);
    let mut story = Story::new(None);
    let update = story.apply(&entry).remove(0);
    let json = serde_json::to_value(&update).unwrap();
    assert_eq!(json["unawaited"], json!(["one"]));
    assert_eq!(json["stack"], "Error: no luck\n    at run");
    let json = serde_json::to_value(update.without_values()).unwrap();
    assert_eq!((&json["unawaited"], json.get("stack")), (&json!(["one"]), None));
}
