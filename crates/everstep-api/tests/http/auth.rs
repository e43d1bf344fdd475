//! No request is accepted without an API key, or beyond its permissions.

use axum::http::Method;
use everstep_api::auth::Permission;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;

use crate::support::{Server, add_key, wait_for_go};

#[tokio::test]
async fn a_key_is_taken_from_either_header_once() {
    let server = Server::start().await;
    let (key, other) = (server.key_with(&[Permission::View]).await, server.key_with(&[Permission::View]).await);
    let (bearer, lower) = (format!("Bearer {key}"), format!("bearer {key}"));
    let ask = async |headers: &[(&str, &str)]| server.ask(Method::GET, "/v1/runs", headers, "").await;
    ask(&[("x-api-key", &key)]).await.is(200);
    ask(&[("authorization", &bearer)]).await.is(200);
    ask(&[("authorization", &lower), ("x-api-key", &key)]).await.is(200);
    ask(&[("authorization", &bearer), ("x-api-key", &other)]).await.refuses(401, "AUTH_ERROR");
    ask(&[("x-api-key", &key), ("x-api-key", &key)]).await.refuses(401, "AUTH_ERROR");
}

#[tokio::test]
async fn a_run_of_another_workspace_does_not_exist() {
    let server = Server::start().await;
    let run = server.start_chain("secret", &[wait_for_go()]).await;
    let workspace = WorkspaceId::new(Timestamp::from_millis(1), 1);
    let key = add_key(&*server.access, workspace, &[Permission::Admin]).await;
    let ask = async |method, path: &str| server.ask(method, path, &[("x-api-key", &key)], "").await;
    for path in
        [run.clone(), format!("{run}?waitSeconds=1"), format!("{run}/journal"), "/v1/workflows/secret".to_owned()]
    {
        ask(Method::GET, &path).await.refuses(404, "NOT_FOUND");
    }
    for control in ["signals/go", "cancel", "pause", "resume", "retry"] {
        ask(Method::POST, &format!("{run}/{control}")).await.refuses(404, "NOT_FOUND");
    }
    assert_eq!(ask(Method::GET, "/v1/runs").await.is(200)["runs"], serde_json::json!([]));
    // The name is unknown there, and is not suggested. A start that allows this creates a run of their own.
    let unknown = ask(Method::POST, "/v1/workflows/secre/runs").await.refuses(404, "WORKFLOW_NOT_FOUND");
    assert!(!unknown.to_string().contains("did you mean"), "{unknown}");
    let body = r#"{"allowUnserved": true}"#;
    let theirs = server.ask(Method::POST, "/v1/workflows/secret/runs", &[("x-api-key", &key)], body).await.is(201);
    assert!(theirs["warning"].as_str().is_some(), "{theirs}");
    let id = theirs["run"]["id"].as_str().unwrap();
    server.get(&format!("/v1/runs/{id}")).await.refuses(404, "NOT_FOUND");
    assert_eq!(server.wait_for(&run, "waiting").await["version"], 4);
}
