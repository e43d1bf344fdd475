//! Code workflows: workers take turns, report step after step, are lost, and connect again.

use std::collections::BTreeMap;
use std::time::Duration;

use everstep_core::code::{Moment, Report};
use everstep_core::failure::Failure;
use everstep_core::ids::RunId;
use everstep_core::journal::Event;
use everstep_core::payload::Payload;
use everstep_core::retry::{Backoff, RetryPolicy};
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_engine::{
    Engine, Hello, SaveOptions, ServedWorkflow, Start, StepOutcome, Turn, TurnEnd, WorkerMessage, WorkerReport,
};
use everstep_store::Precondition;
use serde_json::{Value, json};

use crate::support::{self, WORKSPACE, chain, engine_with, finish, open, options, publish};
use crate::worker::{Worker, completed, hasty, journal, place, returned, start};

fn slept(step: &str, millis: u64) -> Report {
    Report::Slept { step: step.into(), until: Moment::After(millis) }
}

#[tokio::test]
async fn a_run_goes_from_step_to_step_in_one_turn() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    assert_eq!((turn.run, turn.turn, turn.steps.len()), (run, 1, 0));
    assert_eq!(turn.input.json(), r#"{"id":7}"#);
    worker.done(&turn, completed("pay", json!(5))).await;
    // The same report again is acknowledged again, with its entry.
    assert!(matches!(worker.say(&turn, completed("pay", json!(5))).await, WorkerMessage::Ack { seq: Some(3), .. }));
    assert!(matches!(worker.say(&turn, completed("pay", json!(6))).await, WorkerMessage::Refused { .. }));
    worker.done(&turn, completed("ship", json!("sent"))).await;
    worker.done(&turn, returned(json!({"done": true}))).await;
    let row = finish(&engine, run).await;
    assert_eq!((row.status, row.output.unwrap().json()), (Status::Completed, r#"{"done":true}"#));
    let kinds = journal(&engine, run).await;
    assert_eq!(kinds, ["RunStarted", "TurnStarted", "StepCompleted", "StepCompleted", "RunCompleted"]);
    assert_eq!(engine.workers(WORKSPACE)[0].running, 0, "the seat is free again");
}

#[tokio::test]
async fn a_run_that_only_waits_leaves_its_worker_and_wakes_with_a_new_turn() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    worker.done(&turn, completed("pay", json!(5))).await;
    worker.done(&turn, slept("nap", 400)).await;
    let seq = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap().seq;
    worker.done(&turn, Report::Blocked { seq }).await;
    assert_eq!(worker.next().await, WorkerMessage::Revoked { run, turn: 1, end: TurnEnd::Parked });
    let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    assert_eq!((row.status, row.owner), (Status::Waiting, None));
    let again = worker.turn().await;
    assert_eq!(again.turn, 2);
    let known: Vec<_> = again.steps.iter().map(|step| (step.step.as_str(), &step.outcome)).collect();
    assert_eq!(
        known,
        [("pay", &StepOutcome::Completed { output: Payload::from(json!(5)) }), ("nap", &StepOutcome::Slept)]
    );
    let late = worker.say(&turn, completed("ship", json!(1))).await;
    assert!(matches!(&late, WorkerMessage::Refused { code, .. } if code == "FENCED"), "{late:?}");
    worker.done(&again, returned(json!(1))).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}

#[tokio::test]
async fn a_short_sleep_wakes_the_function_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, options()).await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    worker.tell(&turn, slept("nap", 50));
    worker.tell(&turn, Report::Blocked { seq: turn.seq });
    let mut messages = Vec::new();
    while messages.len() < 3 {
        messages.push(worker.next().await);
    }
    assert!(
        matches!(&messages[2], WorkerMessage::Wake { turn: 1, step, .. } if step.outcome == StepOutcome::Slept),
        "{messages:?}"
    );
    worker.done(&turn, returned(json!(1))).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    let kinds = journal(&engine, run).await;
    assert_eq!(kinds, ["RunStarted", "TurnStarted", "TimerSet", "TimerFired", "RunCompleted"]);
}

#[tokio::test]
async fn a_failed_attempt_is_tried_again_and_fails_for_good() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    let retry = RetryPolicy { max_attempts: 2, backoff: Backoff::Fixed, base_ms: 20, ..RetryPolicy::code() };
    let failed = |attempt| Report::Failed {
        step: "pay".into(),
        attempt,
        failure: Failure::transient("DOWN", "no answer"),
        retry: retry.clone(),
        logs: vec![],
        took: 5,
    };
    worker.done(&turn, failed(1)).await;
    let wake = worker.next().await;
    assert!(
        matches!(&wake, WorkerMessage::Wake { step, .. } if step.outcome == StepOutcome::Retry { attempt: 2 }),
        "{wake:?}"
    );
    // The final failure is sent before the report is acknowledged.
    let wake = worker.say(&turn, failed(2)).await;
    assert!(
        matches!(&wake, WorkerMessage::Wake { step, .. } if matches!(step.outcome, StepOutcome::Failed { attempts: 2, .. }))
    );
    assert!(matches!(worker.next().await, WorkerMessage::Ack { .. }));
    let threw = Report::threw(Failure::fatal("DOWN", "no answer"), Some("pay".into()));
    worker.done(&turn, threw).await;
    let row = finish(&engine, run).await;
    assert_eq!((row.status, row.error.unwrap().code.as_str()), (Status::Failed, "DOWN"));
}

#[tokio::test]
async fn a_silent_worker_loses_its_runs_to_another() {
    let (_folder, engine) = place().await;
    let mut silent = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = silent.turn().await;
    silent.done(&turn, completed("pay", json!(5))).await;
    let mut other = Worker::named(&engine, "bob", 1, 10, vec![]).await;
    let again = other.turn().await;
    assert_eq!((again.turn, again.steps.len()), (2, 1));
    assert!(silent.session.is_over());
    assert!(engine.session(WORKSPACE, silent.session.id).is_none());
    // It connects again with a turn that has ended.
    let mut late = Worker::come(&engine, 10, vec![(run, 1)]).await;
    let refusal = late.say(&turn, completed("ship", json!(1))).await;
    assert!(matches!(&refusal, WorkerMessage::Refused { code, .. } if code == "FENCED"), "{refusal:?}");
    other.done(&again, returned(json!(1))).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    let kinds = journal(&engine, run).await;
    assert_eq!(kinds, ["RunStarted", "TurnStarted", "StepCompleted", "TurnLost", "TurnStarted", "RunCompleted"]);
}

#[tokio::test]
async fn a_worker_that_outlives_its_server_keeps_its_turns() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let engine = engine_with(stores.clone(), hasty()).await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    worker.done(&turn, completed("pay", json!(5))).await;
    engine.stop(Duration::from_secs(5)).await.unwrap();
    assert!(worker.session.is_over());
    let engine = engine_with(stores, hasty()).await;
    let mut worker = Worker::come(&engine, 10, vec![(run, 1)]).await;
    // Reports from the time without a connection count, before and after the run is found.
    worker.tell(&turn, completed("ship", json!("sent")));
    let (mut has_turn, mut has_ack) = (false, false);
    while !(has_turn && has_ack) {
        match worker.next().await {
            WorkerMessage::Turn(again) => {
                assert_eq!((again.run, again.turn), (run, 1), "it is the turn that it has");
                has_turn = true;
            }
            WorkerMessage::Ack { .. } => has_ack = true,
            message => panic!("{message:?}"),
        }
    }
    worker.done(&turn, returned(json!(1))).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    let kinds = journal(&engine, run).await;
    assert_eq!(kinds, ["RunStarted", "TurnStarted", "StepCompleted", "StepCompleted", "RunCompleted"]);
}

#[tokio::test]
async fn more_runs_than_seats_take_their_turns_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, options()).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(start(&engine).await);
    }
    let row = engine.world().runs.get_run(WORKSPACE, runs[0]).await.unwrap().unwrap();
    assert_eq!((row.status, row.owner), (Status::Pending, None), "no worker serves it");
    let mut worker = Worker::come(&engine, 3, vec![]).await;
    for _ in 0..15 {
        runs.push(start(&engine).await);
    }
    let mut turns: BTreeMap<RunId, Turn> = BTreeMap::new();
    let mut ended = 0;
    while ended < runs.len() {
        match worker.next().await {
            WorkerMessage::Turn(turn) => {
                turns.insert(turn.run, *turn);
                assert!(turns.len() <= 3, "at most three at once");
                let turn = turns.values().next().unwrap().clone();
                if turns.len() == 3 || ended + turns.len() == runs.len() {
                    worker.tell(&turn, returned(json!(1)));
                    turns.remove(&turn.run);
                    ended += 1;
                }
            }
            WorkerMessage::Ack { .. } => {
                if let Some(turn) = turns.values().next().cloned().filter(|_| ended + turns.len() == runs.len()) {
                    worker.tell(&turn, returned(json!(1)));
                    turns.remove(&turn.run);
                    ended += 1;
                }
            }
            message => panic!("{message:?}"),
        }
    }
    for run in runs {
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
}

#[tokio::test]
async fn a_signal_wakes_a_run_that_has_left_its_worker() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    let pattern = Payload::from(json!({"userId": 42}));
    let wait = Report::Waited { step: "verify".into(), event: None, pattern, timeout_ms: Some(600_000), since: None };
    worker.tell(&turn, wait);
    worker.tell(&turn, Report::Blocked { seq: turn.seq });
    while !matches!(worker.next().await, WorkerMessage::Revoked { .. }) {}
    let signal = |payload: Value| Input::Signal { event: "verify".into(), payload: Payload::from(payload) };
    let dropped = engine.send(run, signal(json!({"userId": 1}))).await.unwrap();
    assert!(!dropped.is_accepted());
    assert!(engine.send(run, signal(json!({"userId": 42, "by": "mail"}))).await.unwrap().is_accepted());
    let again = worker.turn().await;
    let payload = Payload::from(json!({"userId": 42, "by": "mail"}));
    assert_eq!((again.turn, &again.steps[0].outcome), (2, &StepOutcome::Resolved { payload, event: None }));
    worker.done(&again, returned(json!(1))).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}

#[tokio::test]
async fn a_cancelled_run_is_taken_from_its_worker() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    engine.send(run, Input::Cancel { reason: Some("duplicate".into()) }).await.unwrap();
    let end = TurnEnd::Cancelled(Some("duplicate".into()));
    assert_eq!(worker.next().await, WorkerMessage::Cancelled { run, turn: 1, end });
    let late = worker.say(&turn, completed("pay", json!(5))).await;
    assert!(matches!(&late, WorkerMessage::Refused { code, .. } if code == "RUN_ENDED"), "{late:?}");
    assert_eq!(finish(&engine, run).await.status, Status::Cancelled);
    assert_eq!(journal(&engine, run).await, ["RunStarted", "TurnStarted", "RunCancelled"]);
}

#[tokio::test]
async fn a_paused_run_keeps_what_was_under_way_and_resumes_with_a_new_turn() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    let reason = Failure::fatal("BUDGET", "too many mails");
    engine.send(run, Input::Pause { reason: Some(reason) }).await.unwrap();
    let end = TurnEnd::Paused(Some("BUDGET: too many mails".into()));
    assert_eq!(worker.next().await, WorkerMessage::Revoked { run, turn: 1, end });
    worker.done(&turn, completed("pay", json!(5))).await;
    assert!(matches!(worker.say(&turn, returned(json!(1))).await, WorkerMessage::Refused { .. }));
    engine.send(run, Input::Resume).await.unwrap();
    let again = worker.turn().await;
    assert_eq!((again.turn, again.steps.len()), (2, 1));
    worker.done(&again, returned(json!(1))).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}

#[tokio::test]
async fn steps_that_run_in_a_paused_run_are_notified_of_its_cancellation() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    worker.turn().await;
    engine.send(run, Input::Pause { reason: None }).await.unwrap();
    assert!(matches!(worker.next().await, WorkerMessage::Revoked { turn: 1, .. }));
    engine.send(run, Input::Cancel { reason: None }).await.unwrap();
    let message = worker.next().await;
    assert_eq!(message, WorkerMessage::Cancelled { run, turn: 1, end: TurnEnd::Cancelled(None) });
}

#[tokio::test]
async fn a_worker_that_leaves_in_order_hands_its_runs_on() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    worker.done(&turn, completed("pay", json!(5))).await;
    let mut other = Worker::named(&engine, "bob", 1, 10, vec![]).await;
    engine.close_session(&worker.session);
    let again = other.turn().await;
    assert_eq!((again.turn, again.steps.len()), (2, 1));
    other.done(&again, returned(json!(1))).await;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    assert!(!journal(&engine, run).await.contains(&"TurnLost"));
}

#[tokio::test]
async fn a_worker_that_drains_gives_a_turn_back_and_still_serves_its_version() {
    let (_folder, engine) = place().await;
    let mut drains = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = drains.turn().await;
    drains.done(&turn, completed("pay", json!(5))).await;
    engine.set_capacity(&drains.session, 0);
    let mut other = Worker::named(&engine, "bob", 1, 10, vec![]).await;
    drains.done(&turn, Report::Declined { failure: Failure::fatal("WORKER_STOPPING", "it stops") }).await;
    let again = other.turn().await;
    assert_eq!((again.run, again.turn, again.steps.len()), (run, 2, 1));
    assert!(engine.workers(WORKSPACE).iter().all(|worker| worker.workflows.len() == 1));
    other.done(&again, returned(json!(1))).await;
    assert_eq!(
        journal(&engine, run).await,
        ["RunStarted", "TurnStarted", "StepCompleted", "TurnStarted", "RunCompleted"]
    );
}

#[tokio::test]
async fn concurrent_results_are_sent_in_the_order_of_the_journal() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    let waited = Report::Waited {
        step: "go".into(),
        event: None,
        pattern: Payload::from(json!({})),
        timeout_ms: None,
        since: None,
    };
    worker.done(&turn, waited).await;
    // While the first is being written the others queue, and are written together.
    worker.tell(&turn, completed("a", json!(1)));
    worker.tell(&turn, completed("b", json!(2)));
    let signal = Input::Signal { event: "go".into(), payload: Payload::from(json!({})) };
    let signalled = engine.send(run, signal);
    let (signalled, messages) = tokio::join!(signalled, async {
        let mut messages = Vec::new();
        while messages.len() < 3 {
            messages.push(worker.next().await);
        }
        messages
    });
    assert!(signalled.unwrap().is_accepted());
    let seqs = messages.iter().map(|message| match message {
        WorkerMessage::Ack { seq, .. } => seq.unwrap(),
        WorkerMessage::Wake { step, .. } => step.seq,
        message => panic!("{message:?}"),
    });
    assert_eq!(seqs.collect::<Vec<_>>(), [4, 5, 6]);
    worker.done(&turn, returned(json!(1))).await;
}

#[tokio::test]
async fn a_function_calls_a_graph_and_a_graph_calls_a_function() {
    let (_folder, engine) = place().await;
    publish(&engine, "sum", &chain(&[("nap", "delay", json!({"config": {"delayMs": 5}}))])).await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    publish(&engine, "parent", &chain(&[("call", "workflow", json!({"config": {"workflow": "order"}}))])).await;
    let parent = engine.start_run(Start::new("parent", json!({}))).await.unwrap().run;
    let turn = worker.turn().await;
    let called = |step: &str, workflow: &str| Report::Called {
        step: step.into(),
        workflow: workflow.into(),
        version: None,
        input: Payload::from(json!({})),
        timeout_ms: None,
    };
    worker.done(&turn, called("sum", "sum")).await;
    let wake = worker.next().await;
    assert!(
        matches!(&wake, WorkerMessage::Wake { step, .. } if matches!(step.outcome, StepOutcome::Completed { .. })),
        "{wake:?}"
    );
    // A workflow that a worker has registered once waits for the next worker that serves it.
    let gone = Worker::connect(&engine, "bob", ("payment", 1), 10, vec![]).await;
    engine.close_session(&gone.session);
    worker.done(&turn, called("later", "payment")).await;
    let mut other = Worker::connect(&engine, "bob", ("payment", 1), 10, vec![]).await;
    let child = other.turn().await;
    other.done(&child, returned(json!("at last"))).await;
    let wake = worker.next().await;
    assert!(
        matches!(&wake, WorkerMessage::Wake { step, .. } if matches!(step.outcome, StepOutcome::Completed { .. })),
        "{wake:?}"
    );
    // The call of an unknown name fails.
    let options = SaveOptions { activate: false, precondition: Precondition::Anything };
    engine.library().save(WORKSPACE, "draft", &chain(&[]), None, options).await.unwrap();
    let start = Start { allow_unserved: true, ..Start::new("draft", json!({})) };
    assert_eq!(engine.start_run(start).await.err().unwrap().code(), "NOT_FOUND");
    let not_found =
        |message: &str| StepOutcome::Failed { failure: Failure::fatal("WORKFLOW_NOT_FOUND", message), attempts: 1 };
    for (step, workflow, message) in [
        ("wrong", "No Name", r#"workflow "No Name" was not found"#),
        ("draft", "draft", r#"workflow "draft" was not found"#),
        ("typo", "paymnet", r#"workflow "paymnet" was not found; did you mean "payment"?"#),
    ] {
        worker.done(&turn, called(step, workflow)).await;
        let wake = worker.next().await;
        let WorkerMessage::Wake { step, .. } = wake else { panic!("{wake:?}") };
        assert_eq!(step.outcome, not_found(message));
    }
    worker.done(&turn, returned(json!("from code"))).await;
    let row = finish(&engine, parent).await;
    assert_eq!(row.status, Status::Completed, "{:?}", row.error);
}

#[tokio::test]
async fn five_hundred_parallel_steps_are_two_items() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 1, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    let report = |n: u64| completed(&format!("step-{n}"), json!(n));
    let reports = (1..=500).map(|n| WorkerReport { n, run, turn: turn.turn, report: report(n) }).collect();
    worker.engine.report(&worker.session, reports);
    for n in 1..=500 {
        let message = worker.next().await;
        assert!(matches!(message, WorkerMessage::Ack { n: answered, .. } if answered == n), "{message:?}");
    }
    worker.n = 500;
    worker.done(&turn, returned(json!(1))).await;
    finish(&engine, run).await;
    let entries = engine.world().runs.journal(run, 0, 1_000).await.unwrap();
    let items = entries.iter().filter(|entry| entry.commit.is_some()).count();
    assert_eq!((entries.len(), items), (503, 4), "the start, two items, the end");
}

#[tokio::test]
async fn a_worker_that_raises_its_capacity_gets_what_waits() {
    let (_folder, engine) = place().await;
    let run = start(&engine).await;
    let mut worker = Worker::come(&engine, 0, vec![]).await;
    assert!(worker.session.next_batch().is_none());
    engine.set_capacity(&worker.session, 1);
    assert_eq!(worker.turn().await.run, run);
}

#[tokio::test]
async fn a_worker_cannot_report_for_a_run_of_another_lane() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 1, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    let mut foreign = Worker::named(&engine, "eve", 7, 1, vec![(run, 1)]).await;
    let declined = Report::Declined { failure: Failure::fatal("NO", "not mine") };
    for report in [completed("pay", json!("stolen")), returned(json!("stolen")), declined] {
        let answer = foreign.say(&turn, report).await;
        assert!(matches!(&answer, WorkerMessage::Refused { code, .. } if code == "FENCED"), "{answer:?}");
    }
    worker.done(&turn, returned(json!(1))).await;
    assert_eq!(finish(&engine, run).await.output.unwrap().json(), "1");
}

#[tokio::test]
async fn stale_holds_of_a_worker_use_no_capacity() {
    let (_folder, engine) = place().await;
    let waiting = start(&engine).await;
    let gone = RunId::new(everstep_core::time::Timestamp::EPOCH, 99);
    let calls = engine.world().runs.calls();
    let mut worker = Worker::come(&engine, 1, vec![(gone, 3)]).await;
    // The worker receives a turn, and is notified that the run that it holds does not exist, in any order.
    let turn = match (worker.next().await, worker.next().await) {
        (WorkerMessage::Turn(turn), WorkerMessage::Cancelled { run, turn: 3, .. })
        | (WorkerMessage::Cancelled { run, turn: 3, .. }, WorkerMessage::Turn(turn))
            if run == gone =>
        {
            turn
        }
        messages => panic!("expected a turn and a cancellation, not {messages:?}"),
    };
    assert_eq!(turn.run, waiting);
    assert!(engine.world().runs.calls() - calls < 50, "nothing is claimed repeatedly");
    worker.done(&turn, returned(json!(1))).await;
}

#[tokio::test]
async fn the_number_of_workers_of_a_workspace_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, options()).await;
    for _ in 0..1_000 {
        Worker::come(&engine, 1, vec![]).await;
    }
    let workflows = vec![ServedWorkflow {
        name: "fresh".into(),
        version: 1,
        retention_days: None,
        input_schema: None,
        triggers: Vec::new(),
        index: Vec::new(),
    }];
    let hello = Hello { workspace: WORKSPACE, worker: "ann".into(), sdk: None, workflows, capacity: 1, holds: vec![] };
    let error = engine.open_session(hello).await.err().unwrap();
    assert_eq!(error.code(), "UNAVAILABLE");
    assert!(error.to_string().contains("at most 1000 workers"), "{error}");
    assert!(engine.library().find(WORKSPACE, "fresh", None).await.is_err());
}

#[tokio::test]
async fn an_event_of_a_turn_names_its_worker() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 1, vec![]).await;
    let run = start(&engine).await;
    worker.turn().await;
    let entries = engine.world().runs.journal(run, 1, 1).await.unwrap();
    let entry = everstep_core::journal::codec::decode(2, entries[0].at, entries[0].row.clone()).unwrap();
    assert!(matches!(entry.event, Event::TurnStarted { turn: 1, worker } if worker == "ann"));
    assert_eq!(engine.snapshot(run).await.unwrap().worker.as_deref(), Some("ann"));
}

/// A run that waits for a signal named `go`, parked.
async fn waiting(engine: &Engine) -> RunId {
    let pattern = Payload::from(json!({}));
    parked(engine, Report::Waited { step: "go".into(), event: None, pattern, timeout_ms: Some(600_000), since: None })
        .await
}

/// A run whose function waits for the step that it reports, parked.
async fn parked(engine: &Engine, report: Report) -> RunId {
    let mut worker = Worker::come(engine, 10, vec![]).await;
    let run = start(engine).await;
    let turn = worker.turn().await;
    worker.tell(&turn, report);
    worker.tell(&turn, Report::Blocked { seq: turn.seq });
    while !matches!(worker.next().await, WorkerMessage::Revoked { .. }) {}
    engine.close_session(&worker.session);
    run
}

#[tokio::test]
async fn a_copy_of_the_database_goes_on_by_itself() {
    let [folder, copy, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let stores = support::open_sqlite(folder.path()).await;
    let engine = engine_with(stores, hasty()).await;
    let run = waiting(&engine).await;
    let asleep = parked(&engine, slept("nap", 1_500)).await;
    engine.stop(Duration::from_secs(5)).await.unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        for place in [&copy, &other] {
            std::fs::copy(file.path(), place.path().join(file.file_name())).unwrap();
        }
    }
    let original = engine_with(support::open_sqlite(other.path()).await, hasty()).await;
    let fork = engine_with(support::open_sqlite(copy.path()).await, hasty()).await;
    let mut worker = Worker::come(&fork, 10, vec![]).await;
    let turn = worker.turn().await;
    assert_eq!((turn.run, turn.turn, &turn.steps[0].outcome), (asleep, 2, &StepOutcome::Slept));
    let signal = Input::Signal { event: "go".into(), payload: Payload::from(json!({"here": true})) };
    assert!(fork.send(run, signal).await.unwrap().is_accepted());
    let turn = worker.turn().await;
    assert_eq!((turn.run, turn.turn), (run, 2));
    worker.done(&turn, returned(json!("in the copy"))).await;
    assert_eq!(finish(&fork, run).await.status, Status::Completed);
    let row = original.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
    assert_eq!((row.status, row.output), (Status::Waiting, None), "the original has no record of it");
}
