//! The kinds of nodes, for editors.

use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test]
async fn every_kind_that_a_graph_may_hold_is_in_the_catalogue() {
    let server = Server::start().await;
    let listed = server.get("/v1/catalog").await.is(200);
    let kinds = listed["kinds"].as_array().unwrap();
    let names: Vec<_> = kinds.iter().map(|kind| kind["name"].as_str().unwrap()).collect();
    for name in ["start", "end", "javascript", "dataQuery", "condition", "delay", "loop", "http", "wait", "workflow"] {
        assert!(names.contains(&name), "{name} is missing in {names:?}");
    }
    // An unknown kind is rejected with the names of all kinds in the catalogue.
    let wrong = json!({"nodes": [{"id": "a", "type": "?"}]});
    let received = server.post("/v1/workflows/validate", &wrong).await.is(200);
    let hint =
        received["problems"].as_array().unwrap().iter().find(|problem| problem["path"] == "/nodes/0/type").unwrap();
    let hint = hint["hint"].as_str().unwrap();
    assert!(names.iter().filter(|name| **name != "noop").all(|name| hint.contains(name)), "{hint} and {names:?}");
    for kind in kinds {
        assert!(["title", "group", "icon", "summary"].iter().all(|field| kind[field].is_string()), "{kind}");
        assert!(kind["schema"].is_object() && kind["examples"].is_array() && kind["handles"].is_array(), "{kind}");
        let name = kind["name"].as_str().unwrap();
        assert_eq!(&server.get(&format!("/v1/catalog/{name}")).await.is(200), kind);
    }
    let problem = server.get("/v1/catalog/nothing").await.refuses(404, "NOT_FOUND");
    assert!(problem["hint"].as_str().unwrap().contains("javascript"), "{problem}");
    assert_ne!(server.get("/v1/catalog/http").await.is(200)["schema"]["properties"], Value::Null);
}
