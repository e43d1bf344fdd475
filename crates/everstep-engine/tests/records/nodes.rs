//! Graphs whose steps read and write records and links.

use everstep_core::actor::Actor;
use everstep_core::publisher::Publisher;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_engine::{Engine, SaveError, SaveOptions, Start};
use everstep_store::{ChangeQuery, Precondition};
use serde_json::{Value, json};

use super::{applied, increment, set, value};
use crate::support::{WORKSPACE, chain, engine, finish, publish, start};

fn node(id: &'static str, kind: &'static str, config: Value) -> (&'static str, &'static str, Value) {
    (id, kind, Value::from_iter([("config".to_owned(), config), ("outputVariable".to_owned(), id.into())]))
}

/// A chain whose end returns variables.
fn returning(nodes: &[(&'static str, &'static str, Value)], variables: &[&str]) -> Value {
    let mut definition = chain(nodes);
    let outputs: Vec<_> =
        variables.iter().map(|name| json!({"name": name, "sourceVariable": format!("{{{{ctx.{name}}}}}")})).collect();
    let end = definition["nodes"].as_array_mut().unwrap().last_mut().unwrap();
    end["config"] = json!({"outputParameters": outputs});
    definition
}

async fn output(engine: &Engine, workflow: &str, input: Value) -> Value {
    let run = start(engine, workflow, input).await;
    let row = finish(engine, run).await;
    assert_eq!(row.status, Status::Completed, "{:?}", row.error);
    row.output.unwrap().value().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_run_reads_what_an_earlier_one_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let at = json!({"namespace": "n", "key": "cursor"});
    let with = |field: &str, value: Value| {
        let mut config = at.clone();
        config[field] = value;
        config
    };
    let write =
        [node("before", "store.get", at.clone()), node("set", "store.set", with("value", json!("{{ctx.input}}")))];
    publish(&engine, "write", &returning(&write, &["before", "set"])).await;
    let read = [node("read", "store.get", at.clone()), node("gone", "store.delete", at.clone())];
    publish(&engine, "read", &returning(&read, &["read", "gone"])).await;
    let written = output(&engine, "write", json!({"seen": [1, 2.50]})).await;
    assert_eq!(written["before"]["found"], false);
    assert_eq!(written["set"], json!({"revision": 1, "change": 1, "created": true}));
    let read = output(&engine, "read", json!({})).await;
    assert_eq!(read["read"]["value"], json!({"seen": [1, 2.50]}));
    assert_eq!((&read["read"]["value_type"], &read["gone"]["deleted"]), (&json!("json"), &json!(true)));
    assert_eq!(output(&engine, "read", json!({})).await["gone"]["deleted"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_iteration_of_a_loop_is_an_op_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let config = json!({"namespace": "n", "key": "{{ctx.item}}"});
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": {
                "sourceVariable": "{{ctx.input.keys}}", "itemVariable": "item", "concurrency": 4,
            }},
            {"id": "count", "type": "store.increment", "config": config},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "each"},
            {"source": "each", "target": "count", "sourceHandle": "loop"},
            {"source": "each", "target": "end", "sourceHandle": "done"},
        ],
    });
    publish(&engine, "count", &definition).await;
    for _ in 0..2 {
        output(&engine, "count", json!({"keys": ["a", "b", "a", "a"]})).await;
    }
    assert_eq!((value(&engine, "a").await, value(&engine, "b").await), (Some(json!(6)), Some(json!(2))));
    let query = ChangeQuery { namespace: "n".to_owned(), limit: 100, ..ChangeQuery::default() };
    let changes = engine.records().changes(WORKSPACE, &query).await.unwrap().changes;
    assert_eq!(changes.len(), 8);
    let steps: std::collections::BTreeSet<_> =
        changes.iter().map(|change| (change.author.run, change.author.step.clone())).collect();
    assert_eq!(steps.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_written_looked_up_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let task = |id: &str| json!({"type": "task", "id": id});
    let both = json!({"namespace": "n", "from": task("1"), "to": task("2"), "relation": "mirrors"});
    let nodes = [
        node("up", "links.upsert", both.clone()),
        node("found", "links.lookup", json!({"namespace": "n", "from": task("2"), "direction": "reverse"})),
        node("all", "links.list", json!({"namespace": "n"})),
        node("names", "links.list_namespaces", json!({})),
        node("gone", "links.delete", json!({"namespace": "n", "to": task("2")})),
    ];
    publish(&engine, "links", &returning(&nodes, &["up", "found", "all", "names", "gone"])).await;
    let shown = output(&engine, "links", json!({})).await;
    let id = &shown["up"]["link_id"];
    let found = json!({"link_id": id, "type": "task", "id": "1", "relation": "mirrors", "attributes": {}});
    assert_eq!(shown["found"]["matches"], json!([found]));
    assert_eq!((&shown["all"]["items"][0]["to"], &shown["all"]["items"][0]["link_id"]), (&task("2"), id));
    assert_eq!(shown["names"]["namespaces"], json!([{"namespace": "n", "link_count": 1}]));
    assert_eq!(shown["gone"], json!({"deleted_count": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_and_lists_are_steps() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let transact = json!({
        "namespace": "n",
        "checks": [{"key": "a", "exists": false}],
        "writes": [{"set": {"key": "a", "value": 1}}, {"increment": {"key": "a", "by": "{{ctx.input.by}}"}}],
    });
    let nodes = [
        node("both", "store.transact", transact),
        node("keys", "store.list", json!({"namespace": "n", "values": false})),
        node("names", "store.list_namespaces", json!({"limit": 1})),
    ];
    publish(&engine, "transact", &returning(&nodes, &["both", "keys", "names"])).await;
    let shown = output(&engine, "transact", json!({"by": 5})).await;
    assert_eq!(shown["both"]["changes"], json!([1, 2]));
    assert_eq!(shown["both"]["results"][1]["value"], 6);
    assert_eq!((&shown["keys"]["items"][0]["key"], &shown["keys"]["items"][0]["revision"]), (&json!("a"), &json!(2)));
    assert_eq!(shown["names"]["namespaces"][0]["key_count"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_final_and_a_retried_run_evaluates_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let config = json!({"namespace": "n", "key": "k", "value": "mine", "if_revision": 0});
    let once = ("once", "store.set", json!({"config": config, "retry": {"maxAttempts": 5, "baseMs": 100}}));
    publish(&engine, "once", &chain(&[once])).await;
    applied(&engine, set("k", "theirs")).await.unwrap();
    let run = start(&engine, "once", json!({})).await;
    let failed = finish(&engine, run).await;
    assert_eq!(failed.status, Status::Failed);
    let error = failed.error.unwrap();
    assert!(error.code == "CONFLICT" && error.message.contains("revision"), "{error:?}");
    let attempts = engine.world().runs.journal(run, 0, 100).await.unwrap();
    let failures = attempts.iter().filter(|entry| entry.row.kind == everstep_core::journal::Kind::StepFailed).count();
    assert_eq!(failures, 1);
    let delete = super::new_op(everstep_core::records::Verb::Delete, &json!({"namespace": "n", "key": "k"}));
    applied(&engine, delete).await.unwrap();
    assert_eq!(engine.send(run, Input::Retry).await, Ok(Reply::Accepted));
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    assert_eq!(value(&engine, "k").await, Some(json!("mine")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_author_counts_once_over_all_runs() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let config = json!({"namespace": "n", "key": "{{ctx.input.key}}", "idempotency_key": "mail-7"});
    publish(&engine, "once", &returning(&[node("sum", "store.increment", config)], &["sum"])).await;
    let first = output(&engine, "once", json!({"key": "a"})).await;
    assert_eq!(output(&engine, "once", json!({"key": "a"})).await, first);
    let run = start(&engine, "once", json!({"key": "b"})).await;
    assert_eq!(finish(&engine, run).await.error.unwrap().code, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!((value(&engine, "a").await, value(&engine, "b").await), (Some(json!(1)), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_acts_with_the_permissions_of_its_publisher() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let definition = chain(&[node("count", "store.increment", json!({"namespace": "n", "key": "k"}))]);
    let reader = || Publisher::new(Actor::key("7"), None, ["workflow:read", "workflow:publish"]);
    let options = SaveOptions { activate: true, precondition: Precondition::Anything };
    let saved = engine.library().save(WORKSPACE, "count", &definition, Some(reader()), options).await;
    let Err(SaveError::Invalid(problems)) = saved else { panic!("it was saved: {saved:?}") };
    let problem = &problems[0];
    assert_eq!((problem.code, problem.node.as_deref()), (Some("PERMISSION_DENIED"), Some("count")));
    assert_eq!((problem.path.as_str(), problems.len()), ("/nodes/1", 1));
    // A row that was saved in another way is checked when the step is performed.
    publish(&engine, "count", &definition).await;
    let row = engine.world().workflows.workflow(WORKSPACE, "count", None).await.unwrap().unwrap();
    let stored = everstep_store::NewWorkflow {
        workspace: WORKSPACE,
        name: row.name,
        style: row.style,
        definition: row.definition,
        digest: row.digest,
        retention_days: row.retention_days,
        created_at: row.created_at,
        publisher: Some(reader()),
        key: None,
    };
    engine.world().workflows.save_workflow(stored, true, Precondition::Anything).await.unwrap();
    let run = engine.start_run(Start::new("count", json!({}))).await.unwrap().run;
    let row = finish(&engine, run).await;
    assert_eq!((row.version, row.error.unwrap().code.as_str()), (2, "PERMISSION_DENIED"));
    assert_eq!(value(&engine, "k").await, None);
    // The same definition of a publisher who may write is a version of its own.
    let manager = Publisher::new(Actor::key("8"), None, ["workflow:manage", "workflow:publish", "workflow:read"]);
    engine.library().save(WORKSPACE, "count", &definition, Some(manager), options).await.unwrap();
    let run = engine.start_run(Start::new("count", json!({}))).await.unwrap().run;
    let row = finish(&engine, run).await;
    assert_eq!((row.version, row.status), (3, Status::Completed));
    let query = ChangeQuery { namespace: "n".to_owned(), limit: 10, ..ChangeQuery::default() };
    let changes = engine.records().changes(WORKSPACE, &query).await.unwrap().changes;
    assert_eq!((changes[0].author.actor.as_str(), changes[0].author.run), ("key:8", Some(run)));
    applied(&engine, increment("k")).await.unwrap();
    assert_eq!(value(&engine, "k").await, Some(json!(2)));
}
