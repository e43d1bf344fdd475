//! The OpenAPI document as generators of clients read it, and the requests that its schemas allow.

use std::collections::BTreeSet;

use everstep_api::openapi;
use serde_json::{Value, json};

use crate::support::{Server, wait_for_go};

/// Calls `see` with each object of a document, and with its place.
fn walk(value: &Value, place: &str, see: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) => {
            see(place, value);
            fields.iter().for_each(|(name, field)| walk(field, &format!("{place}/{name}"), see));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| walk(item, &format!("{place}/{at}"), see));
        }
        _ => {}
    }
}

#[test]
fn no_schema_is_a_boolean() {
    let mut seen = 0;
    walk(&openapi(), "", &mut |place, value| {
        for keyword in ["schema", "items"] {
            assert!(!value[keyword].is_boolean(), "{place}/{keyword}");
        }
        assert_ne!(value["additionalProperties"], true, "{place}");
        let is_schema = value["type"] == "object" || value["type"] == json!(["object", "null"]);
        for (name, property) in value["properties"].as_object().into_iter().flatten().filter(|_| is_schema) {
            assert!(property.is_object(), "{place}/properties/{name}");
            seen += 1;
        }
        for list in ["oneOf", "anyOf", "allOf"] {
            assert!(value[list].as_array().into_iter().flatten().all(Value::is_object), "{place}/{list}");
        }
    });
    assert!(seen > 300, "{seen} properties were found");
}

/// Generators name types by their components, and write each to a file of its own.
#[test]
fn every_object_of_a_choice_has_a_name_of_its_own() {
    let document = openapi();
    let components = document["components"]["schemas"].as_object().unwrap();
    let names: BTreeSet<String> = components.keys().map(|name| name.to_lowercase()).collect();
    assert_eq!(names.len(), components.len(), "names differ by more than their case");
    // The constructor of a type `Key` is called `NewKey` in Go.
    assert!(names.iter().all(|name| !names.contains(&format!("new{name}"))), "{names:?}");
    assert!(names.contains("stepcompleteddata") && names.contains("sourcepostgres"), "{names:?}");
    walk(&document, "", &mut |place, value| {
        for part in ["oneOf", "anyOf"].iter().flat_map(|list| value[list].as_array().into_iter().flatten()) {
            assert!(part["properties"].is_null(), "{place} has an object without a name");
        }
    });
}

#[test]
fn versions_of_workflows_begin_with_one() {
    let document = openapi();
    let schemas = &document["components"]["schemas"];
    for (name, field) in [
        ("OfWorkflow", "version"),
        ("Activate", "version"),
        ("Clone", "version"),
        ("Filter", "version"),
        ("Portable", "version"),
        ("ServedWorkflow", "version"),
        ("WorkerReport", "version"),
        ("Workflow", "version"),
        ("Workflow", "activeVersion"),
        ("WorkflowSummary", "latestVersion"),
    ] {
        assert_eq!(schemas[name]["properties"][field]["minimum"], 1, "{name}.{field}");
    }
    assert_eq!(schemas["OfWorkflow"]["properties"]["version"]["maximum"], i32::MAX);
}

#[test]
fn the_stream_of_a_run_is_described_event_by_event() {
    let document = openapi();
    let stream = &document["paths"]["/v1/runs/{id}/events"]["get"]["responses"]["200"]["content"]["text/event-stream"];
    let about = stream["schema"]["description"].as_str().unwrap();
    for (event, schema) in
        [("snapshot", "SnapshotEvent"), ("entry", "EntryView"), ("status", "StatusEvent"), ("end", "EndEvent")]
    {
        assert!(about.contains(&format!("`{event}`")), "{about}");
        assert_eq!(stream["x-events"][event]["$ref"], format!("#/components/schemas/{schema}"));
    }
}

#[tokio::test]
async fn an_api_key_has_a_role_or_permissions() {
    let document = openapi();
    let schemas = &document["components"]["schemas"];
    let forms: Vec<_> = ["KeyWithRole", "KeyWithPermissions"]
        .map(|name| json!({"$ref": format!("#/components/schemas/{name}")}))
        .into();
    assert_eq!(schemas["CreateKeyRequest"]["oneOf"], json!(forms));
    assert_eq!(schemas["KeyWithRole"]["required"], json!(["name", "role"]));
    assert_eq!(schemas["KeyWithPermissions"]["required"], json!(["name", "permissions"]));
    let server = Server::start().await;
    for good in [json!({"role": "viewer"}), json!({"permissions": ["workflow:view"], "rateLimit": null})] {
        server.post("/v1/keys", &named(&good)).await.is(201);
    }
    for wrong in [
        json!({}),
        json!({"role": "viewer", "permissions": ["workflow:view"]}),
        json!({"role": "viewer", "permissions": null}),
        json!({"role": null, "permissions": ["workflow:view"]}),
        json!({"permissions": []}),
    ] {
        server.post("/v1/keys", &named(&wrong)).await.refuses(400, "VALIDATION_ERROR");
    }
}

fn named(key: &Value) -> Value {
    let mut key = key.clone();
    key["name"] = json!("a key");
    key
}

/// JSON Schema calls `3.0` an integer, and clients of some languages write integers so.
#[tokio::test]
async fn an_integer_may_be_written_as_a_float() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    let body = json!({"version": 1.0, "retentionDays": 3.0, "input": {"amount": 3.0}});
    let started = server.post("/v1/workflows/waits/runs", &body).await.is(201);
    assert_eq!((&started["run"]["workflowVersion"], &started["run"]["retentionDays"]), (&json!(1), &json!(3)));
    assert_eq!(started["run"]["input"].to_string(), r#"{"amount":3.0}"#, "the input of a run stays as it was sent");
    server.post("/v1/workflows/waits/activate", &json!({"version": 1.0})).await.is(200);
    server.post("/v1/keys", &json!({"name": "slow", "role": "viewer", "rateLimit": 5.0})).await.is(201);
    let bulk = json!({"action": "pause", "filter": {"workflow": "waits", "version": 1.0}, "limit": 10.0});
    assert_eq!(server.post("/v1/runs/bulk", &bulk).await.is(200)["accepted"], 2);
    let version = server.get(&run).await.is(200)["version"].as_f64().unwrap();
    server.post(&format!("{run}/resume"), &json!({"expectedVersion": version})).await.is(200);
    server.post(&format!("{run}/fork"), &json!({"at": 1.0})).await.is(201);
    let source =
        json!({"type": "postgres", "host": "db.example.com", "database": "shop", "user": "reader", "port": 5432.0});
    server.put("/v1/data-sources/shop", &source).await.is(201);
    for wrong in [json!(1.5), json!(-1.0), json!("1"), json!(1e300)] {
        let refused = server.post("/v1/workflows/waits/runs", &json!({"version": wrong})).await;
        let problem = refused.refuses(400, "VALIDATION_ERROR");
        assert!(problem["detail"].as_str().unwrap().contains("a whole number from 0 to 4294967295"), "{problem}");
    }
}
