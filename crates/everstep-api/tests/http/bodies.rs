//! Bodies of requests that are rejected before a handler receives them.

use axum::http::Method;
use everstep_api::{openapi, routes};
use serde_json::json;

use crate::support::{Server, chain};

#[tokio::test]
async fn every_route_refuses_a_compressed_body() {
    let server = Server::start().await;
    let (document, headers) = (openapi(), [("x-api-key", server.key()), ("content-encoding", "gzip")]);
    let (mut count, mut wrong) = (0, Vec::new());
    for route in routes() {
        let operation = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
        if operation["requestBody"].is_null() {
            continue;
        }
        count += 1;
        let path = route.path.replace(['{', '}'], "");
        let answer = server.ask(route.method.clone(), &path, &headers, "{}").await;
        if (answer.status, answer.body["code"].as_str()) != (415, Some("UNSUPPORTED_MEDIA_TYPE")) {
            wrong.push(format!("{} {}: {} {}", route.method, route.path, answer.status, answer.body));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "{count} routes have a body");
}

#[tokio::test]
async fn a_body_without_a_content_coding_is_accepted() {
    let server = Server::start().await;
    server.publish("tea", &chain(&[])).await;
    let path = "/v1/workflows/tea/runs";
    server.post_with(path, &[("content-encoding", "identity")], &json!({})).await.is(201);
    let gzip = [("content-encoding", "gzip")];
    let problem = server.post_with(path, &gzip, &json!({})).await.refuses(415, "UNSUPPORTED_MEDIA_TYPE");
    assert!(problem["hint"].as_str().unwrap().contains("uncompressed"), "{problem}");
    assert_eq!(server.get("/v1/runs").await.is(200)["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_body_of_another_form_is_described_without_rust_types() {
    let server = Server::start().await;
    server.publish("tea", &chain(&[])).await;
    let key = [("x-api-key", server.key())];
    let refuse = async |method: Method, path: &str, body: &str| {
        let problem = server.ask(method, path, &key, body).await.refuses(400, "VALIDATION_ERROR");
        problem["detail"].as_str().unwrap().to_owned()
    };
    let (start, transact) = ("/v1/workflows/tea/runs", "/v1/namespaces/shop/transact");
    for (body, found) in
        [("null", "null"), (" 7", "a number"), ("\"tea\"", "a string"), ("true", "a boolean"), ("[]", "an array")]
    {
        let expected = format!("the body must be an object, not {found}");
        assert_eq!(refuse(Method::POST, start, body).await, expected);
        assert_eq!(refuse(Method::PUT, "/v1/workflows/tea", body).await, expected);
    }
    assert!(refuse(Method::POST, start, "nul").await.starts_with("the body is not JSON: "));
    for (path, body) in [
        ("/v1/workflows/tea/runs/batch", r#"{"runs": [null]}"#),
        (transact, r#"{"checks": [7]}"#),
        (transact, r#"{"writes": [{"set": null}]}"#),
        ("/v1/runs/bulk", r#"{"action": "cancel", "filter": "tea"}"#),
    ] {
        let detail = refuse(Method::POST, path, body).await;
        assert!(detail.contains(", expected an object"), "{body}: {detail}");
    }
    assert_eq!(server.get("/v1/runs").await.is(200)["runs"], json!([]));
}
