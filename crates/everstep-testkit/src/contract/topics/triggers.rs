//! Triggers: the subscriptions that the active version of a workflow declares.

use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::topics::{Origin, Subscription};
use everstep_store::{Error, NewWorkflow, Precondition, RegistrationOutcome, Stores, SubscriptionQuery};
use serde_json::{Value, json};

use crate::contract::fixtures::*;

fn with_triggers(text: &str, triggers: &[(&str, Value)]) -> NewWorkflow {
    let declared: Vec<_> =
        triggers.iter().map(|(topic, filter)| json!({"type": "event", "topic": topic, "match": filter})).collect();
    let definition = json!({"text": text, "triggers": declared});
    NewWorkflow { definition: Payload::from(definition), ..workflow("orders", text) }
}

async fn declared(stores: &Stores) -> Vec<Subscription> {
    let all = SubscriptionQuery { limit: 100, ..SubscriptionQuery::default() };
    let mut found = stores.topics.list_subscriptions(HERE, &all).await.unwrap();
    assert!(found.iter().all(|subscription| subscription.origin == Origin::Workflow("orders".to_owned())));
    found.sort_by(|one, other| one.pattern.cmp(&other.pattern));
    found
}

async fn patterns(stores: &Stores) -> Vec<String> {
    declared(stores).await.iter().map(|subscription| subscription.pattern.to_string()).collect()
}

pub async fn triggers_change_with_the_active_version_in_one_transaction(stores: Stores) {
    let workflows = &*stores.workflows;
    let (first, _) =
        put_workflow(workflows, with_triggers("one", &[("user.signup", json!({})), ("a.#", json!({}))]), true)
            .await
            .unwrap();
    assert_eq!(patterns(&stores).await, ["a.#", "user.signup"]);
    let before = declared(&stores).await;
    // A version that is not active changes nothing.
    let second = with_triggers("two", &[("user.signup", json!({})), ("b", json!({"x": 1}))]);
    let (second, _) = put_workflow(workflows, second, false).await.unwrap();
    assert_eq!(declared(&stores).await, before);
    let paused = stores.topics.pause_subscription(HERE, before[1].id, Some(at(5))).await.unwrap().unwrap();
    assert!(activate_workflow(workflows, HERE, "orders", second).await.unwrap());
    let after = declared(&stores).await;
    assert_eq!(after.iter().map(|one| one.pattern.as_str()).collect::<Vec<_>>(), ["b", "user.signup"]);
    assert_eq!(after[1], paused, "a trigger that the version keeps stays paused");
    assert!(after[0].filter.is_some() && after[0].id != before[0].id);
    // A trigger belongs to its workflow.
    assert!(!stores.topics.delete_subscription(HERE, after[0].id).await.unwrap());
    assert!(!stores.topics.change_subscription(&after[0]).await.unwrap());
    // The same version again, and back.
    assert!(activate_workflow(workflows, HERE, "orders", second).await.unwrap());
    assert_eq!(declared(&stores).await, after);
    assert!(activate_workflow(workflows, HERE, "orders", first).await.unwrap());
    assert_eq!(patterns(&stores).await, ["a.#", "user.signup"]);
    workflows.choose_version(HERE, "orders", None, Precondition::Anything, None).await.unwrap();
    assert_eq!(patterns(&stores).await, Vec::<String>::new());
    assert!(activate_workflow(workflows, HERE, "orders", first).await.unwrap());
    workflows.delete_workflow(HERE, "orders").await.unwrap();
    assert_eq!(patterns(&stores).await, Vec::<String>::new());
}

pub async fn triggers_have_the_quota_of_the_workspace(stores: Stores) {
    let workflows = &*stores.workflows;
    let topics: Vec<_> = (1..limits::SUBSCRIPTIONS).map(|n| format!("topic.{n}")).collect();
    let many: Vec<_> = topics.iter().map(|topic| (topic.as_str(), json!({}))).collect();
    put_workflow(workflows, with_triggers("many", &many), true).await.unwrap();
    let two = NewWorkflow { name: "other".to_owned(), ..with_triggers("two", &[("a", json!({})), ("b", json!({}))]) };
    let used = limits::SUBSCRIPTIONS as u64 - 1;
    let refused = put_workflow(workflows, two.clone(), true).await;
    assert!(matches!(refused, Err(Error::QuotaReached(count)) if count == used), "{refused:?}");
    assert!(workflows.workflow(HERE, "other", None).await.unwrap().is_none(), "nothing was written");
    // A version that is not active declares nothing.
    let (version, _) = put_workflow(workflows, two, false).await.unwrap();
    let refused = activate_workflow(workflows, HERE, "other", version).await;
    assert!(matches!(refused, Err(Error::QuotaReached(count)) if count == used), "{refused:?}");
    // Triggers that replace others need no room.
    put_workflow(workflows, with_triggers("less", &many[1..]), true).await.unwrap();
    assert!(activate_workflow(workflows, HERE, "other", version).await.unwrap());
    let all = SubscriptionQuery { limit: 2 * limits::SUBSCRIPTIONS, ..SubscriptionQuery::default() };
    assert_eq!(stores.topics.list_subscriptions(HERE, &all).await.unwrap().len(), limits::SUBSCRIPTIONS);
}

pub async fn a_registration_of_code_declares_triggers(stores: Stores) {
    let workflows = &*stores.workflows;
    let code = |text: &str, topic: &str| NewWorkflow {
        style: "code".to_owned(),
        ..with_triggers(text, &[(topic, json!({}))])
    };
    let register = |workflow: NewWorkflow, version| async move {
        let outcomes = workflows.register_workflows(vec![(workflow, version)]).await.unwrap();
        assert_eq!(outcomes, [RegistrationOutcome::Registered]);
    };
    register(code("one", "a"), 1).await;
    assert_eq!(patterns(&stores).await, ["a"]);
    register(code("two", "b"), 2).await;
    assert_eq!(patterns(&stores).await, ["b"]);
    let before = declared(&stores).await;
    // The earlier version registers again, and the active one with another definition.
    register(code("one", "a"), 1).await;
    register(code("two", "b"), 2).await;
    assert_eq!(declared(&stores).await, before);
    register(code("three", "c"), 2).await;
    assert_eq!(patterns(&stores).await, ["c"]);
}
