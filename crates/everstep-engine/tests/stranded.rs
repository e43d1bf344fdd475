//! A run of code that can continue is at a worker, or due in its lane, in every case.

use std::time::Duration;

use everstep_core::code::Report;
use everstep_core::payload::Payload;
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_engine::{StepOutcome, Turn, WorkerMessage, WorkerReport};
use serde_json::{Value, json};

use crate::support::{engine_with, finish, open, options};
use crate::worker::{Worker, completed, hasty, journal, place, returned, start};

fn waited(step: &str, pattern: Value) -> Report {
    Report::Waited { step: step.into(), event: None, pattern: Payload::from(pattern), timeout_ms: None, since: None }
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"in": inner}))
}

#[tokio::test]
async fn a_worker_that_is_refused_something_is_not_blocked() {
    let (_folder, engine) = place().await;
    for others in [vec![], vec![waited("other", json!({}))]] {
        let mut worker = Worker::come(&engine, 10, vec![]).await;
        let run = start(&engine).await;
        let turn = worker.turn().await;
        let reports = others.into_iter().chain([waited("deep", nested(200)), Report::Blocked { seq: turn.seq }]);
        let reported = |(n, report)| WorkerReport { n, run, turn: turn.turn, report };
        let reports: Vec<_> = (1..).zip(reports).map(reported).collect();
        let count = reports.len();
        engine.report(&worker.session, reports);
        let mut answers = Vec::new();
        for _ in 0..count {
            answers.push(worker.next().await);
        }
        assert!(matches!(answers[count - 2], WorkerMessage::Refused { .. }), "{answers:?}");
        assert!(matches!(answers[count - 1], WorkerMessage::Ack { .. }), "{answers:?}");
        // The worker dies before it reports the result.
        engine.close_session(&worker.session);
        let mut next = Worker::come(&engine, 10, vec![]).await;
        let again = next.turn().await;
        assert_eq!((again.run, again.turn), (run, 2));
        next.done(&again, returned(json!(1))).await;
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
        engine.close_session(&next.session);
    }
}

#[tokio::test]
async fn a_worker_that_is_refused_something_of_one_run_is_blocked_in_others() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    start(&engine).await;
    start(&engine).await;
    let (one, other) = (worker.turn().await, worker.turn().await);
    let reports = [
        (&one, waited("deep", nested(200))),
        (&other, waited("go", json!({}))),
        (&one, Report::Blocked { seq: one.seq }),
        (&other, Report::Blocked { seq: other.seq }),
    ];
    let reported =
        |(n, (turn, report)): (u64, (&Turn, Report))| WorkerReport { n, run: turn.run, turn: turn.turn, report };
    engine.report(&worker.session, (1..).zip(reports).map(reported).collect());
    loop {
        match worker.next().await {
            WorkerMessage::Revoked { run, .. } => break assert_eq!(run, other.run),
            message => {
                assert!(matches!(message, WorkerMessage::Ack { .. } | WorkerMessage::Refused { .. }), "{message:?}");
            }
        }
    }
}

/// The next turn; other messages are ignored.
async fn next_turn(worker: &mut Worker) -> Turn {
    loop {
        if let WorkerMessage::Turn(turn) = worker.next().await {
            return *turn;
        }
    }
}

#[tokio::test]
async fn a_run_that_is_paused_and_resumed_at_once_gets_another_turn() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    for _ in 0..5 {
        let run = start(&engine).await;
        let turn = next_turn(&mut worker).await;
        // While this is being written the two inputs wait, and are decided together.
        worker.tell(&turn, completed("pay", json!(5)));
        let (pause, resume) =
            tokio::join!(engine.send(run, Input::Pause { reason: None }), engine.send(run, Input::Resume));
        assert!(pause.unwrap().is_accepted() && resume.unwrap().is_accepted());
        let again = next_turn(&mut worker).await;
        assert_eq!((again.run, again.turn, again.steps.len()), (run, 2, 1));
        worker.tell(&again, returned(json!(1)));
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
}

#[tokio::test]
async fn a_run_that_waits_is_not_overtaken_by_those_that_start() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 1, vec![]).await;
    start(&engine).await;
    let mut turn = worker.turn().await;
    let waiting = start(&engine).await;
    let starts = tokio::spawn({
        let engine = engine.clone();
        async move {
            loop {
                start(&engine).await;
            }
        }
    });
    let mut before = 0;
    while turn.run != waiting {
        worker.tell(&turn, returned(json!(1)));
        turn = next_turn(&mut worker).await;
        before += 1;
        assert!(before < 10, "others go first, again and again");
    }
    starts.abort();
}

#[tokio::test]
async fn a_worker_whose_socket_has_gone_gets_no_turns() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, options()).await;
    let mut gone = Worker::named(&engine, "gone", 1, 100, vec![]).await;
    gone.session.detach(gone.carrier, engine.world().clock.monotonic());
    let mut here = Worker::named(&engine, "here", 1, 1, vec![]).await;
    for _ in 0..3 {
        let run = start(&engine).await;
        let turn = next_turn(&mut here).await;
        assert_eq!(turn.run, run);
        here.tell(&turn, returned(json!(1)));
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
    engine.close_session(&here.session);
    // The worker connects again, and receives the turn of the new run.
    let run = start(&engine).await;
    gone.carrier = engine.attach(&gone.session);
    assert_eq!(gone.turn().await.run, run);
}

#[tokio::test]
async fn a_run_that_is_due_stays_so_when_others_look_at_it() {
    let folder = tempfile::tempdir().unwrap();
    let stores = open(folder.path()).await;
    let engine = engine_with(stores.clone(), hasty()).await;
    let registered = Worker::connect(&engine, "bob", ("unserved", 1), 10, vec![]).await;
    engine.close_session(&registered.session);
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    let called = Report::Called {
        step: "call".into(),
        workflow: "unserved".into(),
        version: None,
        input: Payload::from(json!({})),
        timeout_ms: None,
    };
    worker.done(&turn, called).await;
    worker.done(&turn, completed("pay", json!(5))).await;
    engine.close_session(&worker.session);
    engine.stop(Duration::from_secs(5)).await.unwrap();
    let engine = engine_with(stores, hasty()).await;
    let signal = Input::BufferedSignal { event: "later".into(), payload: Payload::from(json!({})) };
    engine.send(run, signal).await.unwrap();
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let again = worker.turn().await;
    assert_eq!((again.run, again.turn, again.steps.len()), (run, 2, 2));
    assert_eq!(again.steps[0].outcome, StepOutcome::Open);
}

#[tokio::test]
async fn a_worker_that_connects_again_is_notified_that_its_run_has_ended() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let [before, after] = [start(&engine).await, start(&engine).await];
    worker.turn().await;
    worker.turn().await;
    // The worker is silent for its lease.
    while !worker.session.is_over() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    engine.send(before, Input::Cancel { reason: None }).await.unwrap();
    engine.send(after, Input::Pause { reason: None }).await.unwrap();
    let mut again = Worker::come(&engine, 10, vec![(before, 1), (after, 1)]).await;
    engine.send(after, Input::Cancel { reason: None }).await.unwrap();
    let mut cancelled = Vec::new();
    for _ in 0..2 {
        match again.next().await {
            WorkerMessage::Cancelled { run, turn: 1, .. } => cancelled.push(run),
            message => panic!("expected a cancel, not {message:?}"),
        }
    }
    cancelled.sort();
    let mut expected = [before, after];
    expected.sort();
    assert_eq!(cancelled, expected);
    assert_eq!(journal(&engine, after).await, ["RunStarted", "TurnStarted", "TurnLost", "RunPaused", "RunCancelled"]);
}
