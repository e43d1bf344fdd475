//! The dataQuery kind, as a run performs it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::{StepKey, WorkspaceId};
use everstep_core::kinds::Kinds;
use everstep_core::payload::Payload;
use everstep_handlers::sources::{Query, Source};
use everstep_handlers::{Ports, Registry, Sources, Task};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{drivers, query, source};

/// One source with one query.
struct One(Source, Query);

#[async_trait]
impl Sources for One {
    async fn query(&self, _: WorkspaceId, id: &str) -> Result<Query, Failure> {
        let missing = || Failure::fatal("SOURCE_NOT_FOUND", format!("the query {id:?} does not exist"));
        (id == "orders-of").then(|| self.1.clone()).ok_or_else(missing)
    }

    async fn source(&self, _: WorkspaceId, _: &str) -> Result<Source, Failure> {
        Ok(self.0.clone())
    }
}

fn registry(folder: &TempDir) -> Registry {
    let file = Connection::open(folder.path().join("shop.db")).unwrap();
    file.execute_batch("create table orders (customer text, total int); insert into orders values ('ann', 5)").unwrap();
    let saved = query(&json!({"source": "shop", "sql": "select total from orders where customer = :customer",
        "arguments": [{"name": "customer", "type": "string"}]}));
    let sources = Arc::new(One(source(&json!({"type": "sqlite", "file": "shop.db"})), saved));
    let drivers = drivers(&[], Some(folder.path().to_owned()));
    Registry::standard(Ports { sources, drivers, ..Ports::none() })
}

async fn perform(registry: &Registry, config: Value) -> Result<Value, Failure> {
    let task = Task {
        workspace: WorkspaceId::DEFAULT,
        run: "01890000-0000-7000-8000-000000000002".parse().unwrap(),
        step: StepKey::from("step"),
        attempt: 1,
        kind: "dataQuery".to_owned(),
        config,
        secrets: Vec::new(),
        written: Value::Null,
        context: Payload::null(),
        timeout: Duration::from_secs(5),
        actor: Arc::default(),
    };
    let report = registry.find_handler("dataQuery").unwrap().perform(task).await;
    report.result.map(|outcome| outcome.output.value().clone())
}

#[tokio::test]
async fn a_step_gives_the_rows_of_a_saved_query() {
    let folder = tempfile::tempdir().unwrap();
    let registry = registry(&folder);
    let answer = perform(&registry, json!({"dataQueryID": "orders-of", "args": {"customer": "ann"}})).await.unwrap();
    let expected = json!({"rows": [{"total": 5}], "rowCount": 1, "fields": [{"name": "total", "type": "int"}],
        "truncated": false});
    assert_eq!(answer, expected);
    assert_eq!(registry.find("dataQuery").unwrap().output_variable.as_deref(), Some("queryResult"));
    for (config, code) in [
        (json!({"dataQueryID": "nothing"}), "SOURCE_NOT_FOUND"),
        (json!({"dataQueryID": "orders-of"}), code::INVALID_CONFIG),
        (json!({"dataQueryID": "orders-of", "args": {"customer": 5}}), code::INVALID_CONFIG),
        (json!({"dataQueryID": ""}), code::INVALID_CONFIG),
        (json!({}), code::INVALID_CONFIG),
    ] {
        let failure = perform(&registry, config.clone()).await.unwrap_err();
        assert_eq!((failure.code.as_str(), failure.retryable), (code, false), "{config}: {failure}");
    }
}

#[test]
fn a_step_without_its_query_is_refused_at_save() {
    let registry = Registry::standard(Ports::none());
    let faults = |config: Value| -> Vec<String> {
        let found = registry.check("dataQuery", &config);
        found.into_iter().map(|fault| format!("{}: {}", fault.pointer, fault.message)).collect()
    };
    assert_eq!(faults(json!({"dataQueryID": "a", "args": {"x": "{{ctx.input.x}}"}})), [""; 0]);
    assert_eq!(faults(json!({"dataQueryID": "{{ctx.input.query}}", "args": {"$expr": "ctx.input"}})), [""; 0]);
    assert_eq!(faults(json!({})), ["/dataQueryID: `dataQueryID` is missing"]);
    assert_eq!(faults(json!({"dataQueryID": " "})), ["/dataQueryID: it must not be empty"]);
    assert_eq!(
        faults(json!({"dataQueryID": "a", "arguments": {}})),
        ["/arguments: the field `arguments` does not exist; the fields are dataQueryID, args, timeoutSeconds"]
    );
    assert_eq!(faults(json!({"dataQueryID": "a", "args": [1]})).len(), 1);
}
