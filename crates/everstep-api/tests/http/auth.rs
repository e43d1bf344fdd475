//! Nobody is let in without a key, and nobody further than their key goes.

use axum::http::Method;
use everstep_api::auth::{Needs, Permission, Secret};
use everstep_api::{Route, routes};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use serde_json::Value;

use crate::support::{Server, add_key, wait_for_go};

/// A route's path with something in each of its places.
fn path(route: &Route) -> String {
    let run = RunId::new(Timestamp::from_millis(1), 1).to_string();
    route.path.replace("{name}", "any").replace("{id}", &run).replace("{event}", "go")
}

#[tokio::test]
async fn every_route_but_health_checks_and_documents_needs_a_key() {
    let server = Server::start().await;
    let stranger = Secret::generate();
    let mut open = Vec::new();
    for route in routes() {
        if route.needs == Needs::Nothing {
            open.push(route.path);
            server.ask(route.method.clone(), &path(&route), &[], "").await.is(200);
            continue;
        }
        let wrong: &[&[(&str, &str)]] = &[
            &[],
            &[("x-api-key", stranger.reveal())],
            &[("authorization", &format!("Bearer {}", stranger.reveal()))],
            &[("x-api-key", "es_short")],
            &[("x-api-key", "")],
            &[("authorization", &server.key_with(&[Permission::Admin]).await)],
            &[("authorization", "Basic ZXNfOng=")],
        ];
        for headers in wrong {
            let answer = server.ask(route.method.clone(), &path(&route), headers, "").await;
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            let problem = answer.refuses(401, "AUTH_ERROR");
            assert!(problem["hint"].as_str().unwrap().contains("everstep keys create"), "{problem}");
        }
    }
    assert_eq!(open, ["/livez", "/readyz", "/v1/openapi.json", "/docs", "/"]);
    // What is not there is not told to strangers.
    server.ask(Method::GET, "/v1/nothing", &[], "").await.refuses(401, "AUTH_ERROR");
    server.get("/v1/nothing").await.refuses(404, "NOT_FOUND");
    server.ask(Method::DELETE, "/v1/runs", &[], "").await.refuses(401, "AUTH_ERROR");
    let answer = server.put("/v1/runs", &Value::Null).await;
    assert_eq!(answer.headers["allow"], "GET,HEAD");
    answer.refuses(405, "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn every_route_asks_for_its_permission() {
    let server = Server::start().await;
    for route in routes() {
        let Some(needed) = route.needs.permission() else { continue };
        for permission in Permission::ALL {
            let key = server.key_with(&[*permission]).await;
            let answer = server.ask(route.method.clone(), &path(&route), &[("x-api-key", &key)], "").await;
            if *permission == needed || *permission == Permission::Admin {
                assert!(![401, 403].contains(&answer.status), "{} {permission}: {}", route.path, answer.body);
            } else {
                let problem = answer.refuses(403, "PERMISSION_DENIED");
                assert!(problem["detail"].as_str().unwrap().contains(needed.as_str()), "{problem}");
            }
        }
    }
}

#[tokio::test]
async fn a_key_in_a_query_string_is_refused() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Admin]).await;
    for query in [format!("x={key}"), "api_key=1".to_owned(), format!("x-api-key={key}")] {
        // A good key in the header does not mend it.
        let answer = server.ask(Method::GET, &format!("/v1/runs?{query}"), &[("x-api-key", &key)], "").await;
        let problem = answer.refuses(401, "AUTH_ERROR");
        assert!(problem["detail"].as_str().unwrap().contains("query string"), "{problem}");
    }
}

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
    let key = add_key(&*server.store, workspace, &[Permission::Admin]).await;
    let ask = async |method, path: &str| server.ask(method, path, &[("x-api-key", &key)], "").await;
    for path in
        [run.clone(), format!("{run}?waitSeconds=1"), format!("{run}/journal"), "/v1/workflows/secret".to_owned()]
    {
        ask(Method::GET, &path).await.refuses(404, "NOT_FOUND");
    }
    for control in ["signals/go", "cancel", "pause", "resume", "retry"] {
        ask(Method::POST, &format!("{run}/{control}")).await.refuses(404, "NOT_FOUND");
    }
    ask(Method::POST, "/v1/workflows/secret/runs").await.refuses(404, "NOT_FOUND");
    assert_eq!(ask(Method::GET, "/v1/runs").await.is(200)["runs"], serde_json::json!([]));
    assert_eq!(server.wait_for(&run, "waiting").await["version"], 4);
}
