//! Events of code workflows: publish reports, waits for events, and triggers of a registration.

use std::collections::BTreeSet;
use std::time::Duration;

use everstep_core::code::{Report, Since, StepKind};
use everstep_core::ids::EventId;
use everstep_core::payload::Payload;
use everstep_core::topics::{DeclaredTrigger, TopicEvent, TriggerKind};
use everstep_engine::{Engine, Hello, ServedWorkflow, StepOutcome, StepRecord, Turn, WorkerMessage};
use everstep_store::{EventQuery, EventRow};
use serde_json::{Value, json};

use crate::support::WORKSPACE;
use crate::worker::{Worker, journal, place, returned, start};

fn event(engine: &Engine, topic: &str, data: Value) -> TopicEvent {
    let now = engine.world().clock.now();
    let id = EventId::new(now, engine.world().random.next());
    TopicEvent {
        id,
        workspace: WORKSPACE,
        topic: topic.to_owned(),
        source: "shop".to_owned(),
        event_id: id.to_string(),
        at: now,
        data: Payload::from(data),
        depth: 0,
        subject: None,
        extensions: None,
        replay_of: None,
    }
}

/// Publishes an event, and waits until its fan-out is done.
async fn publish(engine: &Engine, event: TopicEvent) -> EventRow {
    let id = event.id;
    assert!(engine.topics().publish(event).await.unwrap().is_published());
    let fanned = engine.topics().fanned(WORKSPACE, id);
    tokio::time::timeout(Duration::from_secs(30), fanned).await.expect("the fan-out ends").unwrap()
}

fn published(step: &str, topic: &str, data: Value) -> Report {
    Report::Published { step: step.into(), topic: topic.to_owned(), data: Payload::from(data), id: None, subject: None }
}

fn waited(step: &str, event: &str, pattern: Value) -> Report {
    let pattern = Payload::from(pattern);
    Report::Waited { step: step.into(), event: Some(event.to_owned()), pattern, timeout_ms: None, since: None }
}

/// The next message, which wakes the function.
async fn wake(worker: &mut Worker, turn: &Turn) -> StepRecord {
    match worker.next().await {
        WorkerMessage::Wake { run, turn: number, step } if (run, number) == (turn.run, turn.turn) => step,
        message => panic!("expected a wake, not {message:?}"),
    }
}

async fn connect(engine: &Engine, version: u32, triggers: &[Value]) -> Worker {
    let evaluate = &*engine.world().evaluate;
    let triggers = triggers.iter().map(|trigger| DeclaredTrigger::from_registration(trigger, evaluate).unwrap());
    let served = ServedWorkflow {
        name: "order".to_owned(),
        version,
        retention_days: None,
        input_schema: None,
        triggers: triggers.collect(),
        index: Vec::new(),
    };
    let worker = format!("worker {version}");
    let hello = Hello { workspace: WORKSPACE, worker, sdk: None, workflows: vec![served], capacity: 10, holds: vec![] };
    let session = engine.open_session(hello).await.unwrap();
    let carrier = engine.attach(&session);
    Worker { engine: engine.clone(), session, carrier, messages: Default::default(), n: 0 }
}

#[tokio::test]
async fn a_publish_report_is_decided_at_once_and_publishes_once() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    let run = start(&engine).await;
    let turn = worker.turn().await;
    assert_eq!(turn.trigger, None);
    worker.tell(&turn, published("announce", "order.placed", json!({"order": 7})));
    // The result precedes the acknowledgement: the function continues with the result.
    let step = wake(&mut worker, &turn).await;
    assert_eq!((step.step.as_str(), step.kind), ("announce", StepKind::Publish));
    let StepOutcome::Completed { output } = &step.outcome else { panic!("{step:?}") };
    assert_eq!(output.value()["topic"], "order.placed");
    let answer = worker.next().await;
    assert!(matches!(answer, WorkerMessage::Ack { n: 1, seq: Some(seq) } if seq < step.seq), "{answer:?}");
    worker.done(&turn, published("announce", "order.placed", json!({"order": 7}))).await;
    // The step fails, and the function may catch the error.
    worker.tell(&turn, published("wrong", "order placed", json!(1)));
    let failed = wake(&mut worker, &turn).await;
    assert!(matches!(&failed.outcome, StepOutcome::Failed { failure, .. } if failure.code == "INVALID_CONFIG"));
    worker.next().await;
    worker.done(&turn, returned(json!(1))).await;
    let kinds = ["RunStarted", "TurnStarted", "StepDispatched", "StepCompleted", "StepDispatched", "StepFailed"];
    assert_eq!(journal(&engine, run).await[..6], kinds);
    let query = EventQuery { limit: 10, ..EventQuery::default() };
    let events = engine.world().topics.list_events(WORKSPACE, &query).await.unwrap();
    let [listed] = &events[..] else { panic!("{events:?}") };
    assert_eq!(output.value()["id"], listed.id.to_string());
    let row = engine.world().topics.event(WORKSPACE, listed.id).await.unwrap().unwrap();
    assert_eq!((row.event.source.as_str(), row.event.event_id.as_str()), (&*format!("run:{run}"), "announce"));
    assert_eq!((row.event.topic.as_str(), row.event.data.value()), ("order.placed", &json!({"order": 7})));
}

#[tokio::test]
async fn a_function_publishes_an_id_once() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    start(&engine).await;
    let turn = worker.turn().await;
    let mut outcomes = Vec::new();
    for (step, order) in [("one", 7), ("two", 7), ("three", 8)] {
        let (topic, data, id) = ("order.placed".to_owned(), Payload::from(json!({"order": order})), "order".to_owned());
        worker.tell(&turn, Report::Published { step: step.into(), topic, data, id: Some(id), subject: None });
        outcomes.push(wake(&mut worker, &turn).await.outcome);
        worker.next().await;
    }
    let [StepOutcome::Completed { output: first }, StepOutcome::Completed { output: again }, other] = &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!((&first.value()["created"], &again.value()["created"]), (&json!(true), &json!(false)));
    assert_eq!(first.value()["id"], again.value()["id"]);
    assert!(matches!(other, StepOutcome::Failed { failure, .. } if failure.code == "IDEMPOTENCY_KEY_REUSED"));
    let query = EventQuery { limit: 10, ..EventQuery::default() };
    let listed = engine.world().topics.list_events(WORKSPACE, &query).await.unwrap();
    assert_eq!(
        listed.iter().map(|event| event.id.to_string()).collect::<Vec<_>>(),
        [first.value()["id"].as_str().unwrap()]
    );
    worker.done(&turn, returned(json!(1))).await;
}

#[tokio::test]
async fn a_loop_of_waits_that_look_back_takes_each_event_once() {
    const EVENTS: usize = 300;
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    start(&engine).await;
    let turn = worker.turn().await;
    for n in 0..EVENTS {
        worker.renew_lease();
        publish(&engine, event(&engine, "tick", json!(n))).await;
    }
    let mut taken = BTreeSet::new();
    for n in 0..EVENTS {
        let (step, event, pattern) =
            (format!("wait {n}").as_str().into(), Some("tick".to_owned()), Payload::from(json!({})));
        worker.done(&turn, Report::Waited { step, event, pattern, timeout_ms: None, since: Some(Since::Start) }).await;
        let step = wake(&mut worker, &turn).await;
        let StepOutcome::Resolved { payload, .. } = &step.outcome else { panic!("{step:?}") };
        assert!(taken.insert(payload.json().to_owned()), "event {} was taken twice", payload.json());
    }
    assert_eq!(taken.len(), EVENTS);
    worker.done(&turn, returned(json!(1))).await;
}

#[tokio::test]
async fn an_event_wakes_a_function_with_its_data_and_its_reference() {
    let (_folder, engine) = place().await;
    let mut worker = Worker::come(&engine, 10, vec![]).await;
    start(&engine).await;
    let turn = worker.turn().await;
    worker.done(&turn, waited("a", "order.paid", json!({"order": 7}))).await;
    worker.done(&turn, waited("b", "order.paid", json!({}))).await;
    worker.done(&turn, waited("c", "order.paid", json!({"order": 8}))).await;
    let event = event(&engine, "order.paid", json!({"order": 7, "by": "Ada"}));
    let reference = event.reference();
    assert_eq!(publish(&engine, event).await.matched.waits, 2);
    for name in ["a", "b"] {
        let step = wake(&mut worker, &turn).await;
        assert_eq!((step.step.as_str(), step.kind), (name, StepKind::Wait));
        let StepOutcome::Resolved { payload, event } = &step.outcome else { panic!("{step:?}") };
        assert_eq!(payload.value(), &json!({"order": 7, "by": "Ada"}));
        assert_eq!(event.as_deref(), Some(&reference));
    }
    worker.done(&turn, returned(json!(1))).await;
}

#[tokio::test]
async fn a_registered_trigger_starts_runs_while_its_version_is_active() {
    let (_folder, engine) = place().await;
    let mut first = connect(&engine, 1, &[json!({"event": "order.*", "match": {"plan": "pro"}})]).await;
    assert_eq!(publish(&engine, event(&engine, "order.placed", json!({"plan": "free"}))).await.matched.workflows, 0);
    let placed = event(&engine, "order.placed", json!({"plan": "pro", "order": 7}));
    let id = placed.id;
    assert_eq!(publish(&engine, placed).await.matched.workflows, 1);
    let turn = first.turn().await;
    assert_eq!((turn.version, turn.input.value()), (1, &json!({"plan": "pro", "order": 7})));
    let trigger = turn.trigger.as_ref().unwrap();
    assert_eq!((trigger.kind, &trigger.id, trigger.depth), (TriggerKind::Event, &id.to_string(), 0));
    assert_eq!((trigger.topic.as_deref(), trigger.source.as_deref()), (Some("order.placed"), Some("shop")));
    // A run that an event started publishes with the next depth.
    first.tell(&turn, published("announce", "mail.sent", json!(1)));
    wake(&mut first, &turn).await;
    first.next().await;
    first.done(&turn, returned(json!(1))).await;
    let query = EventQuery { topic: Some("mail.sent".to_owned()), limit: 1, ..EventQuery::default() };
    assert_eq!(engine.world().topics.list_events(WORKSPACE, &query).await.unwrap()[0].depth, 1);
    // The next version has other triggers, and they alone are in force.
    let mut second = connect(&engine, 2, &[json!({"event": "user.signup"})]).await;
    let old = event(&engine, "order.placed", json!({"plan": "pro"}));
    assert_eq!(publish(&engine, old).await.matched.workflows, 0);
    assert_eq!(publish(&engine, event(&engine, "user.signup", json!({"user": 7}))).await.matched.workflows, 1);
    let turn = second.turn().await;
    assert_eq!((turn.version, turn.input.value()), (2, &json!({"user": 7})));
    second.done(&turn, returned(json!(1))).await;
    // A registration without triggers removes them.
    connect(&engine, 2, &[]).await;
    assert_eq!(publish(&engine, event(&engine, "user.signup", json!({"user": 8}))).await.matched.workflows, 0);
}
