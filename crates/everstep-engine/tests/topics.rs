//! Events: the runs that they start, and the waits that they resolve.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::dead_letter::DeadLetterSource;
use everstep_core::ids::{EventId, RunId, SubscriptionId};
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_core::topics::{Filter, Origin, Pattern, Subscription, Target, TopicEvent, TriggerKind};
use everstep_engine::{Engine, Error, NodeClock, RunInput, Start, World};
use everstep_handlers::{Ports, Registry};
use everstep_store::{
    DeadLetterFilter, DeadLetterQuery, EventQuery, EventResult, EventRow, PublishOutcome, RunFilter, RunRow,
    StoredEntry, SubscriptionOutcome, UnmatchedEvents,
};
use everstep_testkit::held::{HeldClock, StoreGate};
use serde_json::{Value, json};

use crate::support::{WORKSPACE, chain, engine, finish, open, options, publish, start, world};

fn quick() -> Value {
    chain(&[("work", "noop", json!({}))])
}

fn waits_for(event: &str, fields: Value) -> Value {
    let mut config = fields;
    config["event"] = event.into();
    chain(&[("wait", "wait", json!({"config": config}))])
}

fn event(engine: &Engine, topic: &str, id: &str, data: Value) -> TopicEvent {
    let now = engine.world().clock.now();
    TopicEvent {
        id: EventId::new(now, engine.world().random.next()),
        workspace: WORKSPACE,
        topic: topic.to_owned(),
        source: "test".to_owned(),
        event_id: id.to_owned(),
        at: now,
        data: Payload::from(data),
        depth: 0,
        subject: None,
        extensions: None,
        replay_of: None,
    }
}

/// Publishes an event, and waits until its fan-out is done.
async fn fan_out(engine: &Engine, event: TopicEvent) -> EventRow {
    let id = event.id;
    assert!(engine.topics().publish(event).await.unwrap().is_published());
    fanned(engine, id).await
}

async fn fanned(engine: &Engine, id: EventId) -> EventRow {
    let fanned = engine.topics().fanned(WORKSPACE, id);
    tokio::time::timeout(Duration::from_secs(30), fanned).await.expect("the fan-out ends").unwrap()
}

fn subscription(engine: &Engine, pattern: &str, workflow: &str) -> Subscription {
    let now = engine.world().clock.now();
    Subscription {
        id: SubscriptionId::new(now, engine.world().random.next()),
        workspace: WORKSPACE,
        pattern: Pattern::parse(pattern).unwrap(),
        filter: None,
        target: Target::Workflow { name: workflow.to_owned(), version: None, retention_days: None, key: None },
        input: None,
        origin: Origin::Api,
        paused_at: None,
        created_at: now,
    }
}

async fn subscribe(engine: &Engine, subscription: &Subscription) {
    let added = engine.world().topics.add_subscription(subscription, 10_000).await.unwrap();
    assert_eq!(added, SubscriptionOutcome::Added);
}

async fn results(engine: &Engine, id: EventId) -> Vec<EventResult> {
    let mut results = Vec::new();
    let mut after = None;
    loop {
        let page = engine.world().topics.event_results(WORKSPACE, id, after, 10).await.unwrap();
        results.extend(page.results);
        after = page.next;
        if after.is_none() {
            return results;
        }
    }
}

/// The runs that an event has started.
async fn started(engine: &Engine, id: EventId) -> Vec<RunId> {
    let trigger = Some((TriggerKind::Event, id.to_string()));
    let filter = RunFilter { trigger, ..RunFilter::default() };
    let page = engine.world().runs.list_runs(WORKSPACE, filter, None, 1_000).await.unwrap();
    page.runs.into_iter().map(|run| run.id).collect()
}

async fn row(engine: &Engine, run: RunId) -> RunRow {
    engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap()
}

async fn journal(engine: &Engine, run: RunId) -> Vec<StoredEntry> {
    engine.world().runs.journal(run, 0, 1_000).await.unwrap()
}

async fn completions(engine: &Engine, run: RunId, step: &str) -> usize {
    let is_it = |entry: &&StoredEntry| {
        entry.row.kind == Kind::StepCompleted && entry.row.step.as_ref().is_some_and(|key| key.as_str() == step)
    };
    journal(engine, run).await.iter().filter(is_it).count()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

async fn is_waiting(engine: &Engine, run: RunId) -> bool {
    row(engine, run).await.status == Status::Waiting
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_starts_one_run_per_subscription() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "onboard", &quick()).await;
    publish(&engine, "greet", &quick()).await;
    let (one, two) = (subscription(&engine, "user.*", "onboard"), subscription(&engine, "user.signup", "greet"));
    for subscription in [&one, &two, &subscription(&engine, "order.#", "onboard")] {
        subscribe(&engine, subscription).await;
    }
    let first = event(&engine, "user.signup", "s-1", json!({"name": "Ann"}));
    let fanned = fan_out(&engine, first.clone()).await;
    assert_eq!((fanned.matched.workflows, fanned.matched.waits, fanned.matched.failed), (2, 0, 0));
    // The same id again is the same event.
    let again = event(&engine, "user.signup", "s-1", json!({"name": "Ann"}));
    let PublishOutcome::Known(known) = engine.topics().publish(again).await.unwrap() else { panic!("it is known") };
    assert_eq!((known.event.id, known.fanned_at.is_some()), (first.id, true));
    let other = event(&engine, "user.signup", "s-1", json!({"name": "Bob"}));
    assert_eq!(engine.topics().publish(other).await.unwrap(), PublishOutcome::Reused(first.id));

    let runs = started(&engine, first.id).await;
    assert_eq!(runs.len(), 2);
    let mut reached = BTreeSet::new();
    for run in runs {
        let ended = finish(&engine, run).await;
        assert_eq!((ended.status, ended.input.value()), (Status::Completed, &json!({"name": "Ann"})));
        let trigger = ended.trigger.unwrap();
        assert_eq!((trigger.kind, trigger.id, trigger.depth), (TriggerKind::Event, first.id.to_string(), 0));
        assert_eq!((trigger.topic.as_deref(), trigger.source.as_deref()), (Some("user.signup"), Some("test")));
        reached.insert(trigger.subscription.unwrap());
        assert_eq!(journal(&engine, run).await[0].row.kind, Kind::RunStarted);
        let result = EventResult::Run { subscription: trigger.subscription.unwrap(), run };
        assert!(results(&engine, first.id).await.contains(&result));
    }
    assert_eq!(reached, BTreeSet::from([one.id, two.id]));
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_and_templates_decide_which_runs_start_and_with_what_input() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &quick()).await;
    let evaluate = &*engine.world().evaluate;
    let filter = |value: Value| Some(Filter::parse(&value, evaluate).unwrap());
    let plain = subscription(&engine, "order.paid", "w");
    let matching = Subscription {
        filter: filter(json!({"plan": "pro", "$expr": "payload.total > 10"})),
        input: Some(Payload::from(json!({"total": {"$expr": "payload.total"}, "topic": "{{ event.topic }}"}))),
        ..subscription(&engine, "order.paid", "w")
    };
    let unmatched = Subscription { filter: filter(json!({"plan": "free"})), ..subscription(&engine, "order.#", "w") };
    let missing = subscription(&engine, "order.paid", "nothing");
    let paused =
        Subscription { paused_at: Some(engine.world().clock.now()), ..subscription(&engine, "order.paid", "w") };
    for subscription in [&plain, &matching, &unmatched, &missing, &paused] {
        subscribe(&engine, subscription).await;
    }
    engine.world().topics.pause_subscription(WORKSPACE, paused.id, paused.paused_at).await.unwrap();
    let paid = event(&engine, "order.paid", "1", json!({"plan": "pro", "total": 20}));
    let fanned = fan_out(&engine, paid.clone()).await;
    assert_eq!((fanned.matched.workflows, fanned.matched.failed), (2, 1));
    let results = results(&engine, paid.id).await;
    for result in &results {
        match result {
            EventResult::Run { subscription, run } => {
                let expected = if *subscription == matching.id {
                    json!({"total": 20, "topic": "order.paid"})
                } else {
                    assert_eq!(*subscription, plain.id);
                    json!({"plan": "pro", "total": 20})
                };
                assert_eq!(finish(&engine, *run).await.input.value(), &expected);
            }
            EventResult::Failed { subscription, code, .. } => {
                assert_eq!((*subscription, code.as_str()), (missing.id, "WORKFLOW_NOT_FOUND"));
            }
            EventResult::Wait { .. } => panic!("no run waits: {results:?}"),
        }
    }
    assert_eq!(results.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_of_many_slices_reaches_every_target_once() {
    const TARGETS: usize = 1_200;
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &quick()).await;
    for _ in 0..TARGETS {
        subscribe(&engine, &subscription(&engine, "a.b", "w")).await;
    }
    let published = event(&engine, "a.b", "1", json!({}));
    let fanned = fan_out(&engine, published.clone()).await;
    assert_eq!(fanned.matched.workflows, TARGETS as u64);
    let results = results(&engine, published.id).await;
    let reached: BTreeSet<_> = results
        .iter()
        .map(|result| match result {
            EventResult::Run { subscription, run } => (*subscription, *run),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!((results.len(), reached.len()), (TARGETS, TARGETS));
    for (_, run) in reached {
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_resolves_the_waits_that_it_matches() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &waits_for("order.paid", json!({"match": {"order": "{{ ctx.input.order }}"}}))).await;
    let mut runs = Vec::new();
    for order in ["1", "2", "2"] {
        runs.push(start(&engine, "w", json!({"order": order})).await);
    }
    for run in &runs {
        until("the wait is open", async || is_waiting(&engine, *run).await).await;
    }
    let paid = event(&engine, "order.paid", "1", json!({"order": "2", "total": 7}));
    let fanned = fan_out(&engine, paid.clone()).await;
    assert_eq!((fanned.matched.workflows, fanned.matched.waits), (0, 2));
    for run in &runs[1..] {
        let ended = finish(&engine, *run).await;
        assert_eq!(ended.status, Status::Completed);
        assert_eq!(completions(&engine, *run, "wait").await, 1);
        let found = results(&engine, paid.id).await;
        assert!(found.contains(&EventResult::Wait { run: *run, step: "wait".into() }), "{found:?}");
    }
    assert!(is_waiting(&engine, runs[0]).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_waits_of_one_run_take_the_same_event() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let wait = |pattern: Value| json!({"event": "order.paid", "match": pattern});
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "one", "type": "wait", "config": wait(json!({"order": 2}))},
            {"id": "two", "type": "wait", "config": wait(json!({"order": 2, "total": 7}))},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "one"}, {"source": "start", "target": "two"},
            {"source": "one", "target": "end"}, {"source": "two", "target": "end"},
        ],
    });
    publish(&engine, "w", &definition).await;
    let run = start(&engine, "w", json!({})).await;
    until("the waits are open", async || is_waiting(&engine, run).await).await;
    let fanned = fan_out(&engine, event(&engine, "order.paid", "1", json!({"order": 2, "total": 7}))).await;
    assert_eq!(fanned.matched.waits, 2);
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    assert_eq!((completions(&engine, run, "one").await, completions(&engine, run, "two").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_and_a_wait_in_any_order_meet_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let config = json!({"match": {"n": "{{ ctx.input.n }}"}, "sinceSeconds": 600});
    publish(&engine, "w", &waits_for("go.now", config)).await;
    let mut pairs = Vec::new();
    for n in 0..60 {
        let engine = engine.clone();
        pairs.push(tokio::spawn(async move {
            let text = n.to_string();
            let publish = async || {
                let published = event(&engine, "go.now", &format!("e{n}"), json!({"n": text}));
                engine.topics().publish(published).await.unwrap()
            };
            let begin = async || start(&engine, "w", json!({"n": text})).await;
            match n % 3 {
                0 => {
                    publish().await;
                    begin().await
                }
                1 => {
                    let run = begin().await;
                    publish().await;
                    run
                }
                _ => tokio::join!(begin(), publish()).0,
            }
        }));
    }
    for pair in pairs {
        let run = pair.await.unwrap();
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
        assert_eq!(completions(&engine, run, "wait").await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn look_back_and_fan_out_deliver_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let wait = || json!({"config": {"event": "go.now", "sinceSeconds": 600}});
    publish(&engine, "w", &chain(&[("one", "wait", wait()), ("two", "wait", wait())])).await;
    let mut runs = Vec::new();
    // A wait without a match accepts data of any type.
    for (n, data) in [json!({}), json!(null), json!("a text")].iter().cycle().take(21).enumerate() {
        let published = event(&engine, "go.now", &format!("e{n}"), data.clone());
        let (run, _) = tokio::join!(start(&engine, "w", json!({})), engine.topics().publish(published));
        runs.push(run);
    }
    // Every run looks back to the first event for its first wait. It has taken that event, so that the second wait needs
    // another one.
    for run in runs {
        let ended = finish(&engine, run).await;
        assert_eq!(ended.status, Status::Completed);
        assert_eq!((completions(&engine, run, "one").await, completions(&engine, run, "two").await), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_looks_back_to_data_that_is_not_an_object() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    for (n, data) in [json!(null), json!("a text"), json!([1])].into_iter().enumerate() {
        let topic = format!("go.{n}");
        let workflow = format!("w{n}");
        publish(&engine, &workflow, &waits_for(&topic, json!({"sinceSeconds": 600}))).await;
        fan_out(&engine, event(&engine, &topic, &topic, data.clone())).await;
        let run = start(&engine, &workflow, json!({})).await;
        assert_eq!(finish(&engine, run).await.status, Status::Completed, "{data}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_does_not_need_an_event_and_an_event_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &waits_for("go.now", json!({}))).await;
    let (by_signal, by_event) = (start(&engine, "w", json!({})).await, start(&engine, "w", json!({})).await);
    for run in [by_signal, by_event] {
        until("the wait is open", async || is_waiting(&engine, run).await).await;
    }
    let signal = Input::Signal { event: "go.now".to_owned(), payload: Payload::from(json!({"by": "signal"})) };
    assert_eq!(engine.route(RunInput::new(WORKSPACE, by_signal, signal)).await, Ok(Reply::Accepted));
    let fanned = fan_out(&engine, event(&engine, "go.now", "1", json!({"by": "event"}))).await;
    assert_eq!(fanned.matched.waits, 1);
    for run in [by_signal, by_event] {
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_events_with_one_key_name_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &quick()).await;
    let key = Some("order {{ payload.order }}".to_owned());
    let target = Target::Workflow { name: "w".to_owned(), version: None, retention_days: None, key };
    let subscription = Subscription { target, ..subscription(&engine, "a.*", "w") };
    subscribe(&engine, &subscription).await;
    let mut named = Vec::new();
    for id in ["first", "second"] {
        let fanned = fan_out(&engine, event(&engine, "a.b", id, json!({"order": 7, "event": id}))).await;
        assert_eq!(fanned.matched.workflows, 1);
        named.extend(results(&engine, fanned.event.id).await);
    }
    let [EventResult::Run { run, .. }, second] = &named[..] else { panic!("{named:?}") };
    assert_eq!(second, &named[0]);
    assert_eq!(finish(&engine, *run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_publishes_an_event_that_starts_another() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let config = json!({"topic": "order.paid", "data": {"order": "{{ ctx.input.order }}"}});
    publish(&engine, "publisher", &chain(&[("announce", "publish", json!({"config": config}))])).await;
    publish(&engine, "follower", &quick()).await;
    subscribe(&engine, &subscription(&engine, "order.*", "follower")).await;
    let run = engine.start_run(Start::new("publisher", json!({"order": "7"}))).await.unwrap().run;
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    let query = EventQuery { limit: 10, ..Default::default() };
    let events = engine.world().topics.list_events(WORKSPACE, &query).await.unwrap();
    assert_eq!(events.len(), 1);
    let published = engine.world().topics.event(WORKSPACE, events[0].id).await.unwrap().unwrap().event;
    assert_eq!((published.source.clone(), published.event_id.as_str()), (format!("run:{run}"), "announce"));
    assert_eq!(published.data.value(), &json!({"order": "7"}));
    let fanned = fanned(&engine, published.id).await;
    assert_eq!(fanned.matched.workflows, 1);
    let followers = started(&engine, published.id).await;
    assert_eq!(followers.len(), 1);
    let follower = finish(&engine, followers[0]).await;
    assert_eq!((follower.status, follower.input.value()), (Status::Completed, &json!({"order": "7"})));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_that_another_process_left_open_is_continued_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path()).await;
    publish(&first, "w", &quick()).await;
    subscribe(&first, &subscription(&first, "a.*", "w")).await;
    // The process has died after the commit of the events.
    let left: Vec<_> = (0..100).map(|n| event(&first, "a.b", &n.to_string(), json!({}))).collect();
    first.stop(Duration::from_secs(1)).await.unwrap();
    first.world().topics.publish(&left, UnmatchedEvents::Done).await.unwrap();
    drop(first);
    let second = engine(folder.path()).await;
    for event in left {
        let fanned = fanned(&second, event.id).await;
        assert_eq!(fanned.matched.workflows, 1);
        let runs = started(&second, event.id).await;
        assert_eq!(runs.len(), 1);
        assert_eq!(finish(&second, runs[0]).await.status, Status::Completed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_receives_no_earlier_event_also_in_a_late_slice() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path()).await;
    publish(&first, "w", &quick()).await;
    let early = subscription(&first, "a.*", "w");
    subscribe(&first, &early).await;
    let published = event(&first, "a.b", "1", json!({}));
    let late =
        Subscription { created_at: published.at.plus(Duration::from_micros(1)), ..subscription(&first, "a.b", "w") };
    first.stop(Duration::from_secs(1)).await.unwrap();
    // The process has died after the publish. The first slice is made after the second subscription was created.
    let topics = &first.world().topics;
    topics.publish(std::slice::from_ref(&published), UnmatchedEvents::Open).await.unwrap();
    subscribe(&first, &late).await;
    drop(first);
    let second = engine(folder.path()).await;
    let fanned = fanned(&second, published.id).await;
    assert_eq!(fanned.matched.workflows, 1);
    let results = results(&second, published.id).await;
    assert!(matches!(results[..], [EventResult::Run { subscription, .. }] if subscription == early.id), "{results:?}");
    // The next event reaches both.
    assert_eq!(fan_out(&second, event(&second, "a.b", "2", json!({}))).await.matched.workflows, 2);
}

/// How long a stopping engine waits for the answer to a batch.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_the_database_refuses_is_a_dead_letter() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::<StoreGate>::default();
    gate.open();
    gate.refuse_starts();
    let stores = open(folder.path()).await;
    let letters = Arc::clone(&stores.dead_letters);
    let topics = gate.hold_events(Arc::clone(&stores.topics));
    let world = World { topics, ..world(stores, Registry::standard(Ports::none())) };
    let engine = Engine::start(world, options()).await.unwrap();
    publish(&engine, "w", &quick()).await;
    let subscriptions = ["a.*", "a.b"].map(|pattern| subscription(&engine, pattern, "w"));
    for subscription in &subscriptions {
        subscribe(&engine, subscription).await;
    }
    let fanned = fan_out(&engine, event(&engine, "a.b", "1", json!({"order": 7}))).await;
    assert_eq!((fanned.matched.workflows, fanned.matched.failed), (0, 2));
    let results = results(&engine, fanned.event.id).await;
    assert!(results.iter().all(|result| matches!(result, EventResult::Failed { code, .. } if code == "STORE_REFUSED")));
    let filter = DeadLetterFilter { source: Some(DeadLetterSource::Start), ..DeadLetterFilter::default() };
    let query = DeadLetterQuery { filter, before: None, limit: 10 };
    let letters = letters.list_letters(WORKSPACE, &query).await.unwrap();
    assert!(letters.iter().all(|row| row.letter.error() == "STORE_REFUSED" && row.letter.target == "w"));
    let found: BTreeSet<_> = letters.iter().filter_map(|row| row.letter.subscription).collect();
    assert_eq!(found, subscriptions.iter().map(|subscription| subscription.id).collect());
}

/// Stops an engine while one event is in flight and another one waits. Returns their answers, and the ids of the events
/// that exist.
async fn stop_in_flight(end: impl Fn(&StoreGate, &HeldClock)) -> ([Result<PublishOutcome, Error>; 2], Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let (gate, held) = (Arc::<StoreGate>::default(), HeldClock::new(STOP_PATIENCE));
    let stores = open(folder.path()).await;
    let topics = gate.hold_events(Arc::clone(&stores.topics));
    let clock = Arc::new(NodeClock::new(Arc::clone(&held) as _));
    let world = World { topics, clock, ..world(stores, Registry::with([])) };
    let engine = Engine::start(world, options()).await.unwrap();
    let publish = |id: &str| {
        let (engine, event) = (engine.clone(), event(&engine, "a.b", id, json!({})));
        tokio::spawn(async move { engine.topics().publish(event).await })
    };
    let first = publish("first");
    until("a batch", async || gate.batches() == 1).await;
    let second = publish("second");
    until("an event that waits", async || engine.topics().waiting() == 1).await;
    let stopping = {
        let engine = engine.clone();
        tokio::spawn(async move { engine.stop(Duration::from_secs(1)).await })
    };
    // Only the event publisher has something to wait for.
    until("the event publisher to stop", async || held.sleepers() == 1).await;
    end(&gate, &held);
    stopping.await.unwrap().unwrap();
    let answers = [first.await.unwrap(), second.await.unwrap()];
    drop(engine);
    let query = EventQuery { limit: 10, ..EventQuery::default() };
    let events = open(folder.path()).await.topics.list_events(WORKSPACE, &query).await.unwrap();
    (answers, events.into_iter().map(|event| event.event_id).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_engine_answers_the_events_in_flight_and_refuses_the_others() {
    let ([first, second], stored) = stop_in_flight(|gate, _| gate.open()).await;
    assert!(first.unwrap().is_published());
    assert_eq!(second, Err(Error::Stopping));
    assert_eq!(stored, ["first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_in_flight_has_an_unknown_outcome_if_the_database_does_not_reply() {
    let ([first, _], stored) = stop_in_flight(|_, held| held.wake()).await;
    assert_eq!(first, Err(Error::Unanswered));
    assert!(stored.is_empty());
}
