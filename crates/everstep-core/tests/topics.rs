//! Topics: waits that are found by their hashes, triggers of definitions, filters and templates of subscriptions, and
//! events that runs publish.

use std::borrow::Cow;

use everstep_core::contains;
use everstep_core::definition::{compile, load};
use everstep_core::evaluate::Lookup;
use everstep_core::ids::{EventId, SubscriptionId, WorkspaceId};
use everstep_core::journal::Event;
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::Input;
use everstep_core::time::Timestamp;
use everstep_core::topics::{
    DeclaredTrigger, EventView, Filter, Origin, Pattern, Subscription, Target, TopicEvent, WaitShape, match_hash,
    published_after,
};
use everstep_expressions::Expressions;
use serde_json::{Value, json};

use super::support::{Game, Random, TestKinds, compile as compile_graph, definition};

const AT: Timestamp = Timestamp::from_millis(1_000_000);

fn event(topic: &str, data: Value) -> TopicEvent {
    TopicEvent {
        id: EventId::new(AT, 1),
        workspace: WorkspaceId::DEFAULT,
        topic: topic.to_owned(),
        source: "shop".to_owned(),
        event_id: "7".to_owned(),
        at: AT,
        data: Payload::from(data),
        depth: 0,
        subject: Some("order-7".to_owned()),
        extensions: None,
        replay_of: None,
    }
}

fn subscription(pattern: &str) -> Subscription {
    Subscription {
        id: SubscriptionId::new(AT, 1),
        workspace: WorkspaceId::DEFAULT,
        pattern: Pattern::parse(pattern).unwrap(),
        filter: None,
        target: Target::Workflow { name: "onboard".to_owned(), version: None, retention_days: None, key: None },
        input: None,
        origin: Origin::Api,
        paused_at: None,
        created_at: AT,
    }
}

/// A small document: few names and few values, so that documents often contain one another.
fn document(random: &mut Random, depth: usize) -> Value {
    let scalars = [
        json!(null),
        json!(true),
        json!(0),
        json!(-0.0),
        json!(1),
        json!(1.0),
        json!(0.5),
        json!(9_007_199_254_740_993_u64),
        json!(9_007_199_254_740_992_u64),
        json!(9_007_199_254_740_992.0),
        json!("1"),
        json!("x"),
    ];
    match random.below(if depth == 0 { 2 } else { 5 }) {
        0 | 1 => scalars[random.below(scalars.len())].clone(),
        2 => (0..random.below(3)).map(|_| document(random, depth - 1)).collect::<Vec<_>>().into(),
        _ => {
            let names = ["a", "b", "0", "x/y", "~"];
            let field =
                |random: &mut Random| (names[random.below(names.len())].to_owned(), document(random, depth - 1));
            (0..random.below(4)).map(|_| field(random)).collect::<serde_json::Map<_, _>>().into()
        }
    }
}

#[test]
fn waits_are_found_by_their_hashes_as_by_their_matches() {
    let (mut found, mut covered) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let data = Payload::from(document(&mut random, 3));
        let pattern = if random.chance(30) { part(data.value(), &mut random) } else { document(&mut random, 3) };
        let pattern = Payload::from(pattern);
        let wait = WaitShape::of_wait("go", &pattern);
        let is_candidate = match_hash("go", &wait.shape, data.value()) == Some(wait.match_hash);
        let is_match = contains::matches(&data, &pattern);
        assert!(!is_match || is_candidate, "seed {seed}: {} contains {}", data.json(), pattern.json());
        // The converse holds if the hash covers the whole match.
        if is_covered(pattern.value()) {
            assert_eq!(is_candidate, is_match, "seed {seed}: {} and {}", data.json(), pattern.json());
            covered += 1;
        }
        found += usize::from(is_match);
    }
    assert!(found > 4_000 && covered > 4_000, "{found} documents matched, {covered} matches were covered");
}

/// Whether a hash covers all of a match: no array and no empty object within it, no integer with more digits than a
/// floating-point number holds, and no name that is also the place of an item.
fn is_covered(pattern: &Value) -> bool {
    let is_whole = |value: &Value| match value {
        Value::Array(_) => false,
        Value::Object(fields) => !fields.is_empty() && is_covered(value),
        Value::Number(number) => number.is_f64() || number.as_u64().is_none_or(|number| number < 1 << 53),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    };
    match pattern {
        Value::Object(fields) => fields.iter().all(|(name, value)| name != "0" && is_whole(value)),
        scalar => is_whole(scalar),
    }
}

/// A document that another one contains.
fn part(value: &Value, random: &mut Random) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|_| random.chance(70)).collect::<Vec<_>>();
            kept.into_iter()
                .map(|(name, value)| (name.clone(), part(value, random)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        }
        other => other.clone(),
    }
}

#[test]
fn a_filter_has_fields_and_an_expression() {
    let evaluate = Expressions::default();
    let paid = event("order.paid", json!({"id": 7, "total": 120, "customer": {"plan": "pro", "age": 3}}));
    let passes =
        |filter: Value| Filter::parse(&filter, &evaluate).unwrap().matches(&paid, &evaluate, &Meter::new()).unwrap();
    assert!(passes(json!({})));
    assert!(passes(json!({"id": 7.0, "customer": {"plan": "pro"}})));
    assert!(!passes(json!({"id": 8})));
    assert!(passes(json!({"$expr": "payload.total > 100 and event.topic == 'order.paid'"})));
    assert!(!passes(json!({"$expr": "payload.total > 100", "id": 8})));
    assert!(!passes(json!({"$expr": "event.source == 'other'", "id": 7})));
    assert!(passes(json!({"$expr": "event.subject == 'order-7' and event.eventId == '7'"})));
    for wrong in [json!(5), json!({"$expr": 5}), json!({"$expr": "payload."}), json!({"$expr": "ctx.total > 1"})] {
        assert!(Filter::parse(&wrong, &evaluate).is_err(), "{wrong}");
    }
    let text = event("order.paid", json!("plain"));
    assert!(Filter::parse(&json!({}), &evaluate).unwrap().matches(&text, &evaluate, &Meter::new()).unwrap());
    assert!(!Filter::parse(&json!({"a": 1}), &evaluate).unwrap().matches(&text, &evaluate, &Meter::new()).unwrap());
}

#[test]
fn filters_do_not_copy_the_data_and_charge_for_their_comparisons() {
    let evaluate = Expressions::default();
    let large =
        event("order.paid", json!({"text": "x".repeat(900_000), "id": 7, "list": (0..1_000).collect::<Vec<_>>()}));
    let fields = EventView::new(&large).local_fields("event").map(|fields| {
        let data = fields.iter().find(|(name, _)| name == "data");
        data.is_some_and(|(_, value)| matches!(value, Cow::Borrowed(_)))
    });
    assert_eq!(fields, Some(true));
    let used = |filter: Value| {
        let meter = Meter::new();
        let filter = Filter::parse(&filter, &evaluate).unwrap();
        (filter.matches(&large, &evaluate, &meter).unwrap(), meter.used())
    };
    let (is_match, fuel) = used(json!({"$expr": "event.data.id == 7 and event.topic == 'order.paid'"}));
    assert!(is_match && (1..20_000).contains(&fuel), "{fuel}");
    let (is_match, fuel) = used(json!({"$expr": "event.data.text != ''"}));
    assert!(is_match && fuel > 450_000, "{fuel}");
    let (is_match, fuel) = used(json!({"id": 7}));
    assert!(is_match && (1..1_000).contains(&fuel), "{fuel}");
    let (is_match, fuel) = used(json!({"list": (0..1_000).rev().chain([5_000]).collect::<Vec<_>>()}));
    assert!(!is_match && fuel > 5_000_000, "half a million comparisons use {fuel}");
}

#[test]
fn a_subscription_receives_later_events_of_its_topics() {
    let paid = event("order.paid", json!({}));
    assert!(subscription("order.*").receives(&paid));
    assert!(!subscription("user.*").receives(&paid));
    let later = Subscription { created_at: AT.plus(std::time::Duration::from_secs(1)), ..subscription("order.*") };
    assert!(!later.receives(&paid));
    assert!(!Subscription { paused_at: Some(AT), ..subscription("order.*") }.receives(&paid));
    let replay = |to: SubscriptionId| TopicEvent { replay_of: Some((paid.id, to)), ..paid.clone() };
    assert!(later.receives(&replay(later.id)));
    assert!(!later.receives(&replay(SubscriptionId::new(AT, 9))));
}

#[test]
fn the_input_of_a_run_is_the_data_or_a_template() {
    let evaluate = Expressions::default();
    let paid = event("order.paid", json!({"id": 7}));
    assert_eq!(subscription("#").resolve_input(&paid, &evaluate, &Meter::new()).unwrap().json(), r#"{"id":7}"#);
    let template = json!({"order": "{{payload.id}}", "by": "{{event.source}} {{event.topic}}"});
    assert!(Subscription::check_template(&template, &evaluate).is_empty());
    let mapped = Subscription { input: Some(Payload::from(template)), ..subscription("#") };
    let input = mapped.resolve_input(&paid, &evaluate, &Meter::new()).unwrap();
    assert_eq!(*input.value(), json!({"order": 7, "by": "shop order.paid"}));
    let faults = Subscription::check_template(&json!({"a": "{{ctx.x}}", "b": "{{payload.}}"}), &evaluate);
    assert_eq!(faults.iter().map(|fault| fault.pointer.as_str()).collect::<Vec<_>>(), ["/b", "/a"]);
    assert_eq!(mapped.start_key(paid.id), ("event".to_owned(), format!("{}:{}", mapped.id, paid.id)));
}

fn graph(more: &Value) -> Value {
    let mut definition = json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "end"}],
    });
    for (name, value) in more.as_object().unwrap() {
        definition[name] = value.clone();
    }
    definition
}

#[test]
fn definitions_declare_triggers() {
    let (kinds, evaluate) = (TestKinds::new(), Expressions::default());
    let machine = json!({"states": [{"name": "open", "initial": true, "terminal": true}]});
    let one = json!({"type": "event", "eventName": "user.signup", "match": {"plan": "pro"},
        "payloadMapping": {"user": "{{payload.id}}"}});
    for base in [graph(&json!({})), machine] {
        let mut definition = base;
        definition["trigger"] = one.clone();
        let style = compile(&definition, &kinds, &evaluate).unwrap();
        let stored = Payload::from(style.definition().unwrap().clone());
        let triggers = DeclaredTrigger::of_definition(&stored);
        assert_eq!(triggers.len(), 1);
        assert_eq!(triggers[0].pattern.as_str(), "user.signup");
        assert_eq!(triggers[0].filter.as_ref().unwrap().written().json(), r#"{"plan":"pro"}"#);
        assert_eq!(triggers[0].input.as_ref().unwrap().json(), r#"{"user":"{{payload.id}}"}"#);
        // The stored form is canonical: it reads as itself.
        let again = load(stored.value(), &kinds, &evaluate).unwrap();
        assert_eq!(again.definition(), style.definition());
    }
    let several = graph(&json!({"triggers": [{"type": "manual"}, {"type": "event", "topic": "order.#"}]}));
    let style = compile(&several, &kinds, &evaluate).unwrap();
    let stored = Payload::from(style.definition().unwrap().clone());
    assert_eq!(DeclaredTrigger::of_definition(&stored).len(), 1);
    let registered = DeclaredTrigger::from_registration(&json!({"event": "user.signup"}), &evaluate).unwrap();
    assert_eq!(registered.to_json(), json!({"type": "event", "topic": "user.signup"}));
    assert!(DeclaredTrigger::from_registration(&json!({"event": "a..b"}), &evaluate).is_err());
    assert!(DeclaredTrigger::from_registration(&json!({"event": "a", "extra": 1}), &evaluate).is_err());
    assert!(DeclaredTrigger::from_registration(&json!({"match": {}}), &evaluate).is_err());
}

#[test]
fn wrong_triggers_are_problems() {
    let (kinds, evaluate) = (TestKinds::new(), Expressions::default());
    let event = |more: Value| {
        let mut trigger = json!({"type": "event", "topic": "a"});
        for (name, value) in more.as_object().unwrap() {
            trigger[name] = value.clone();
        }
        trigger
    };
    for (trigger, path) in [
        (json!(5), "/triggers/0"),
        (json!({"topic": "a"}), "/triggers/0/type"),
        (json!({"type": "event"}), "/triggers/0/topic"),
        (json!({"type": "schedule"}), "/triggers/0/type"),
        (json!({"type": "recurring"}), "/triggers/0/type"),
        (json!({"type": "webhook"}), "/triggers/0/type"),
        (json!({"type": "manual", "topic": "a"}), "/triggers/0/topic"),
        (event(json!({"topic": "a b"})), "/triggers/0/topic"),
        (event(json!({"match": 5})), "/triggers/0/match"),
        (event(json!({"match": {"$expr": "payload."}})), "/triggers/0/match/$expr"),
        (event(json!({"input": {"x": "{{ctx.y}}"}})), "/triggers/0/input/x"),
        (event(json!({"unknown": 1})), "/triggers/0/unknown"),
    ] {
        let problems = compile(&graph(&json!({"triggers": [trigger]})), &kinds, &evaluate).unwrap_err();
        assert_eq!(problems.iter().map(|problem| problem.path.as_str()).collect::<Vec<_>>(), [path], "{problems:?}");
    }
    let many = vec![json!({"type": "event", "topic": "a"}); 21];
    assert!(compile(&graph(&json!({"triggers": many})), &kinds, &evaluate).is_err());
    let both = graph(&json!({"trigger": {"type": "manual"}, "triggers": []}));
    assert!(compile(&both, &kinds, &evaluate).is_err());
}

#[test]
fn a_run_publishes_with_its_item() {
    let definition = definition(
        "start -> shout -> end\nshout: publish {\"config\": {\"topic\": \"order.paid\", \"data\": {\"n\": 1}}}",
    );
    let mut game = Game::new(compile_graph(&definition).unwrap());
    let (entries, _) = game.input(Input::Start { input: Payload::from(json!({})), cause: None });
    let published = published_after(&game.state, WorkspaceId::DEFAULT, &entries);
    assert_eq!(published.len(), 1);
    let event = &published[0];
    assert_eq!((event.topic.as_str(), event.event_id.as_str(), event.depth), ("order.paid", "shout", 0));
    assert_eq!((event.source.clone(), event.data.json()), (format!("run:{}", game.state.run), r#"{"n":1}"#));
    let output = entries.iter().find_map(|entry| match &entry.event {
        Event::StepCompleted { step, outcome, .. } if step.as_str() == "shout" => Some(outcome.output.clone()),
        _ => None,
    });
    assert_eq!(*output.unwrap().value(), json!({"id": event.id.to_string(), "topic": "order.paid", "created": true}));
    assert!(published_after(&game.state, WorkspaceId::DEFAULT, &entries[..1]).is_empty());
}
