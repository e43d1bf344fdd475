//! The kinds of the data store: which op a step performs, and with whose permissions.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use everstep_core::actor::Actor;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::publisher::Publisher;
use everstep_core::records::{
    LinkPage, LinkQuery, NamespaceCountPage, NamespaceCounts, NamespaceFilter, NamespacesRequest, NewOp, OpFailure,
    OpKey, Record, RecordPage, RecordQuery,
};
use everstep_handlers::{Ports, Records, Registry, Task};
use serde_json::{Value, json};

use crate::{faults, registry, task};

/// Records ops and answers each with the same output.
#[derive(Default)]
struct Notes {
    ops: Mutex<Vec<NewOp>>,
    queries: Mutex<Vec<String>>,
    failure: Option<Failure>,
}

#[async_trait]
impl Records for Notes {
    async fn apply(&self, op: NewOp) -> Result<Payload, Failure> {
        self.ops.lock().expect("no test panics with the lock").push(op);
        self.failure.clone().map_or_else(|| Ok(json!({"done": true}).into()), Err)
    }

    async fn get(&self, _: WorkspaceId, namespace: &str, key: &str) -> Result<Option<Record>, Failure> {
        self.queries.lock().expect("no test panics with the lock").push(format!("{namespace}/{key}"));
        Ok(None)
    }

    async fn list(&self, _: WorkspaceId, query: &RecordQuery) -> Result<RecordPage, Failure> {
        self.queries.lock().expect("no test panics with the lock").push(format!("{query:?}"));
        Ok(RecordPage { records: Vec::new(), next: Some("k9".to_owned()) })
    }

    async fn links(&self, _: WorkspaceId, query: &LinkQuery) -> Result<LinkPage, Failure> {
        self.queries.lock().expect("no test panics with the lock").push(format!("{query:?}"));
        Ok(LinkPage { matches: Vec::new(), next: None })
    }

    async fn namespaces(
        &self,
        _: WorkspaceId,
        _: NamespaceFilter,
        request: &NamespacesRequest,
    ) -> Result<NamespaceCountPage, Failure> {
        self.queries.lock().expect("no test panics with the lock").push(format!("{request:?}"));
        let counts = NamespaceCounts { keys: 2, links: 3, ..NamespaceCounts::default() };
        Ok(NamespaceCountPage { namespaces: vec![("n".to_owned(), counts)], next: None })
    }
}

fn with(notes: &Arc<Notes>) -> Registry {
    Registry::standard(Ports { records: Arc::<Notes>::clone(notes), ..Ports::none() })
}

async fn perform(notes: &Arc<Notes>, task: Task) -> Result<Value, Failure> {
    let handler = with(notes).find_handler(&task.kind).expect("it is standard").clone();
    handler.perform(task).await.result.map(|outcome| outcome.output.value().clone())
}

/// Every kind, with a config that is valid without templates.
fn steps() -> Vec<(&'static str, Value)> {
    let (from, to) = (json!({"type": "task", "id": "1"}), json!({"type": "task", "id": "2"}));
    vec![
        ("store.get", json!({"namespace": "n", "key": "k"})),
        ("store.set", json!({"namespace": "n", "key": "k", "value": {"a": [1, null]}})),
        ("store.delete", json!({"namespace": "n", "key": "k", "if_revision": 2})),
        ("store.increment", json!({"namespace": "n", "key": "k", "by": -2.5, "initial": 7})),
        ("store.list", json!({"namespace": "n", "prefix": "a", "match": {"b": 1}, "limit": 5, "values": false})),
        ("store.list_namespaces", json!({"limit": 5})),
        ("store.transact", json!({"namespace": "n", "writes": [{"set": {"key": "k", "value": 1}}]})),
        ("links.upsert", json!({"namespace": "n", "from": from, "to": to})),
        ("links.lookup", json!({"namespace": "n", "from": from, "direction": "either"})),
        ("links.delete", json!({"namespace": "n", "from": from})),
        ("links.list", json!({"namespace": "n", "left_type": "task"})),
        ("links.list_namespaces", json!({})),
    ]
}

fn is_write(kind: &str) -> bool {
    ["set", "delete", "increment", "transact", "upsert"].iter().any(|verb| kind.ends_with(verb))
}

#[tokio::test]
async fn every_kind_passes_its_config_on() {
    let notes = Arc::new(Notes::default());
    for (kind, config) in steps() {
        assert_eq!(faults(kind, &config), [""; 0], "{kind}");
        let output = perform(&notes, task(kind, config, json!({}))).await.unwrap();
        assert_eq!(output == json!({"done": true}), is_write(kind), "{kind}: {output}");
    }
    let ops = notes.ops.lock().unwrap();
    assert_eq!(ops.len() + notes.queries.lock().unwrap().len(), steps().len());
    assert!(ops.iter().all(|op| op.namespace == "n" && op.workspace == WorkspaceId::DEFAULT));
}

#[tokio::test]
async fn reads_have_their_outputs() {
    let notes = Arc::new(Notes::default());
    let read = async |kind: &str| {
        let (_, config) = steps().into_iter().find(|(name, _)| *name == kind).unwrap();
        perform(&notes, task(kind, config, json!({}))).await.unwrap()
    };
    let absent = json!({"found": false, "value": null, "value_type": null, "revision": null, "change": null,
        "expires_at": null});
    assert_eq!(read("store.get").await, absent);
    assert_eq!(read("store.list").await, json!({"items": [], "next_cursor": "after:k9"}));
    assert_eq!(read("links.lookup").await, json!({"matches": [], "next_cursor": null}));
    assert_eq!(read("links.list").await, json!({"items": [], "next_cursor": null}));
    let namespaces = |count: Value| json!({"namespaces": [count], "next_cursor": null});
    assert_eq!(read("store.list_namespaces").await, namespaces(json!({"namespace": "n", "key_count": 2})));
    assert_eq!(read("links.list_namespaces").await, namespaces(json!({"namespace": "n", "link_count": 3})));
}

#[tokio::test]
async fn all_attempts_of_a_step_are_one_op() {
    let notes = Arc::new(Notes::default());
    let config = json!({"namespace": "n", "key": "k", "value": 1});
    for (step, attempt) in [("s", 1), ("s", 2), ("loop/3/s", 1)] {
        let task = Task { attempt, step: step.into(), ..task("store.set", config.clone(), json!({})) };
        perform(&notes, task).await.unwrap();
    }
    let keys: Vec<_> = notes.ops.lock().unwrap().iter().map(|op| op.key.clone().unwrap()).collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
    assert_eq!(keys[2].as_str(), "r:01890000-0000-7000-8000-000000000002:loop/3/s");
}

#[tokio::test]
async fn the_author_s_key_replaces_that_of_the_step() {
    let notes = Arc::new(Notes::default());
    let config = json!({"namespace": "n", "key": "k", "idempotency_key": " mail-7 "});
    perform(&notes, task("store.increment", config, json!({}))).await.unwrap();
    let op = notes.ops.lock().unwrap()[0].clone();
    assert_eq!(op.key, Some(OpKey::of_author("store.increment", "mail-7")));
    assert!(op.key.unwrap().is_chosen());
}

#[tokio::test]
async fn an_op_names_its_run_its_step_and_the_publisher() {
    let notes = Arc::new(Notes::default());
    let config = json!({"namespace": "n", "key": "k"});
    let publisher = Publisher::new(Actor::person("ann"), None, ["workflow:manage"]);
    for actor in [Arc::new(publisher), Arc::default()] {
        perform(&notes, Task { actor, ..task("store.delete", config.clone(), json!({})) }).await.unwrap();
    }
    let ops = notes.ops.lock().unwrap();
    let authors: Vec<_> = ops.iter().map(|op| op.author.actor.as_str()).collect();
    assert_eq!(authors, ["person:ann", "run:01890000-0000-7000-8000-000000000002"]);
    assert_eq!(ops[0].author.step.as_ref().unwrap().as_str(), "step");
    assert!(ops[0].author.run.is_some());
}

#[tokio::test]
async fn a_step_acts_with_the_permissions_of_its_publisher() {
    let notes = Arc::new(Notes::default());
    let publisher = |permissions: &[&str]| Arc::new(Publisher::new(Actor::key("1"), None, permissions.iter().copied()));
    for (kind, config) in steps() {
        let needed = if is_write(kind) { "workflow:manage" } else { "workflow:read" };
        assert_eq!(registry().find_handler(kind).unwrap().describe().info.permission, Some(needed), "{kind}");
        let by = |permissions: &[&str]| Task { actor: publisher(permissions), ..task(kind, config.clone(), json!({})) };
        assert!(perform(&notes, by(&[needed])).await.is_ok(), "{kind}");
        let other = if is_write(kind) { "workflow:read" } else { "workflow:manage" };
        let denied = perform(&notes, by(&[other, "workflow:publish"])).await.unwrap_err();
        assert_eq!((denied.code.as_str(), denied.retryable), ("PERMISSION_DENIED", false), "{kind}");
        assert!(denied.message.contains(needed) && denied.message.contains(kind), "{denied}");
    }
    assert_eq!(notes.ops.lock().unwrap().len(), 6);
}

#[tokio::test]
async fn failures_of_ops_and_inputs_are_final() {
    let conflict: Failure = OpFailure { code: "CONFLICT", message: "revision 3".to_owned(), revision: Some(3) }.into();
    let notes = Arc::new(Notes { failure: Some(conflict.clone()), ..Notes::default() });
    let config = json!({"namespace": "n", "key": "k", "value": 1, "if_revision": 0});
    assert_eq!(perform(&notes, task("store.set", config, json!({}))).await, Err(conflict.clone()));
    assert!(!conflict.retryable);
    for (kind, config, reason) in [
        ("store.set", json!({"namespace": "n", "key": "k"}), "missing field `value`"),
        ("store.set", json!({"namespace": 7, "key": "k", "value": 1}), "invalid type: integer `7`"),
        ("store.get", json!({"namespace": "n"}), "missing field `key`"),
        ("store.get", json!({"namespace": "n", "key": "  "}), "key is empty"),
        ("store.list", json!({"namespace": "n", "limit": 201}), "limit is 201"),
        ("store.list", json!({"namespace": "n", "depth": 1}), "unknown field `depth`"),
        (
            "links.lookup",
            json!({"namespace": "n", "from": {"type": "t", "id": "1"}, "cursor": "x"}),
            "cursor is not valid",
        ),
        ("store.list", json!({"namespace": "n", "cursor": "k9"}), "cursor is not valid"),
        ("store.list_namespaces", json!({"cursor": "n"}), "cursor is not valid"),
        ("links.list_namespaces", json!({"limit": 0}), "limit is 0"),
    ] {
        let failure = perform(&notes, task(kind, config, json!({}))).await.unwrap_err();
        assert_eq!((failure.code.as_str(), failure.retryable), ("VALIDATION_ERROR", false), "{kind}: {failure}");
        assert!(failure.message.contains(reason), "{kind}: {failure}");
    }
}

#[test]
fn configs_are_checked_when_they_are_saved() {
    for (kind, config, place) in [
        ("store.set", json!({"namespace": "n", "key": "k"}), "/value"),
        ("store.set", json!({"namespace": "n", "key": "k", "value": 1, "ttl": 5}), "/ttl"),
        ("store.set", json!({"namespace": "n", "key": "k", "value": 1, "ttl_seconds": 0}), "/ttl_seconds"),
        ("store.get", json!({"namespace": "", "key": "k"}), "/namespace"),
        ("store.get", json!({"namespace": "n", "key": "k", "idempotency_key": "x"}), "/idempotency_key"),
        ("store.list", json!({"namespace": "n", "limit": 201}), "/limit"),
        ("store.transact", json!({"namespace": "n", "writes": [{"put": {"key": "k"}}]}), "/writes/0/put"),
        ("links.upsert", json!({"namespace": "n", "from": {"type": "t"}, "to": {"type": "t", "id": "1"}}), "/from/id"),
        ("links.delete", json!({"namespace": "n"}), ""),
    ] {
        let found = faults(kind, &config);
        assert!(found.iter().any(|fault| fault.starts_with(&format!("{place}: "))), "{kind} {config}: {found:?}");
    }
    // A template may replace any value.
    let templates = json!({"namespace": "{{ctx.input.n}}", "key": "{{ctx.input.k}}", "value": "{{ctx.input}}",
        "ttl_seconds": "{{ctx.input.ttl}}", "if_revision": {"$expr": "ctx.input.revision"}});
    assert_eq!(faults("store.set", &templates), [""; 0]);
}

#[tokio::test]
async fn without_a_data_store_a_step_fails() {
    let handler = registry().find_handler("store.get").unwrap().clone();
    let failure = handler.perform(task("store.get", json!({"namespace": "n", "key": "k"}), json!({}))).await;
    assert_eq!(failure.result.unwrap_err().code, "NO_DATA_STORE");
}
