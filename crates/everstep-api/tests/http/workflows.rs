//! Definitions: saved, shown, and refused with everything that is wrong.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::json;

use crate::support::{Server, chain};

#[tokio::test]
async fn a_definition_is_saved_as_a_version_and_shown() {
    let server = Server::start().await;
    let first = server.put("/v1/workflows/order", &chain(&[])).await.is(200);
    assert_eq!((&first["name"], &first["version"], &first["style"]), (&json!("order"), &json!(1), &json!("graph")));
    assert_eq!(first["retentionDays"], 30);
    assert_eq!(first["definition"]["nodes"].as_array().unwrap().len(), 2);
    let again = server.put("/v1/workflows/order", &chain(&[])).await.is(200);
    assert_eq!(again, first);
    let second = chain(&[json!({"id": "a", "type": "noop"})]);
    assert_eq!(server.put("/v1/workflows/order", &second).await.is(200)["version"], 2);
    assert_eq!(server.get("/v1/workflows/order").await.is(200)["version"], 2);
    assert_eq!(server.get("/v1/workflows/order?version=1").await.is(200), first);
    server.get("/v1/workflows/order?version=3").await.refuses(404, "NOT_FOUND");
    server.get("/v1/workflows/order?version=0").await.refuses(400, "VALIDATION_ERROR");
    server.get("/v1/workflows/missing").await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_wrong_definition_is_refused_with_every_problem() {
    let server = Server::start().await;
    let wrong = json!({
        "nodes": [{"id": "start", "type": "start"}, {"id": "a", "type": "nooop"}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "a"}, {"source": "a", "target": "nowhere"}],
    });
    let problem = server.put("/v1/workflows/wrong", &wrong).await.refuses(422, "VALIDATION_ERROR");
    let problems = problem["problems"].as_array().unwrap();
    assert!(problems.len() >= 2, "{problem}");
    let kind = problems.iter().find(|problem| problem["node"] == "a").unwrap();
    assert_eq!(kind["path"], "/nodes/1/type");
    assert!(kind["message"].is_string() && kind["hint"].as_str().unwrap().contains("noop"), "{kind}");
    server.put("/v1/workflows/Not-A-Name", &chain(&[])).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn what_is_not_json_is_told_where() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Publish]).await;
    let put = async |body: &str| server.ask(Method::PUT, "/v1/workflows/any", &[("x-api-key", &key)], body).await;
    let problem = put("{\n  \"nodes\": [}").await.refuses(400, "VALIDATION_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("line 2 column 13"), "{problem}");
    let problem = put(r#"{"nodes": [], "nodes": []}"#).await.refuses(400, "VALIDATION_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("twice"), "{problem}");
    put("").await.refuses(400, "VALIDATION_ERROR");
    let long = format!("[{}1]", "1,".repeat(9 * 1024 * 1024));
    put(&long).await.refuses(413, "PAYLOAD_TOO_LARGE");
}
