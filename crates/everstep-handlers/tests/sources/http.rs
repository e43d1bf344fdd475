//! Services that answer with JSON.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, get};
use everstep_core::failure::{Failure, code};
use everstep_net::Guard;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::{Asker, drivers, drivers_with, query, source};

/// A text that no mask covers.
fn backwards(text: &str) -> String {
    text.chars().rev().collect()
}

/// Returns the request that it received.
async fn echo(method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let echoed = json!({"method": method.as_str(), "uri": uri.to_string(), "authorization": header("authorization"),
        "key": header("x-api-key"), "team": header("x-team"), "body": body,
        "backwards": header("authorization").map(|text| backwards(&text))});
    ([(header::CONTENT_TYPE, "application/json")], echoed.to_string())
}

async fn serve() -> SocketAddr {
    let router = Router::new()
        .route("/list", get(async || r#"{"data": {"items": [{"id": 1}, {"id": 2, "name": "b"}]}}"#))
        .route("/array", get(async || r#"[1, "two", null]"#))
        .route("/empty", get(async || ""))
        .route("/text", get(async || "hello"))
        .route("/missing", get(async || (StatusCode::NOT_FOUND, "{}")))
        .route("/broken", get(async || (StatusCode::BAD_GATEWAY, "{}")))
        .route("/denied", get(async || (StatusCode::UNAUTHORIZED, "{}")))
        .route("/slow", get(async || tokio::time::sleep(Duration::from_secs(60)).await))
        .route("/large", get(async || format!("[{}\"x\"]", "\"0123456789\",".repeat(1_000_000))))
        .route("/away", get(async || Redirect::temporary("http://169.254.169.254/latest/meta-data")))
        .fallback(any(echo));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn service(address: SocketAddr, more: &Value) -> Asker {
    let mut body = json!({"type": "http", "baseUrl": format!("http://{address}/base/")});
    for (name, value) in more.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    Asker { drivers: drivers(&[("token", "s3cret")], None), source: source(&body) }
}

async fn fetch(asker: &Asker, path: &str) -> Result<Value, Failure> {
    asker.ask(&query(&json!({"source": "it", "http": {"path": path}})), &json!({})).await
}

#[tokio::test]
async fn arguments_are_part_of_paths_parameters_and_bodies() {
    let asker = service(
        serve().await,
        &json!({"readOnly": false, "headers": {"x-team": "blue",
        "x-api-key": {"$secret": "token"}}, "auth": {"type": "bearer", "token": {"$secret": "token"}}}),
    );
    let saved = query(&json!({"source": "it", "readOnly": false, "arguments": [{"name": "id"}, {"name": "note"},
            {"name": "page", "required": false}],
        "http": {"method": "POST", "path": "/customers/{id}/notes", "query": {"page": {"$arg": "page"}, "q": {"$arg": "note"},
            "size": 10}, "body": {"notes": [{"$arg": "note"}], "id": {"$arg": "id"}}}}));
    let args = json!({"id": "a/b?c=d#e é", "note": "x&y=z", "page": null});
    let answer = asker.ask(&saved, &args).await.unwrap();
    let echoed = &answer["rows"][0];
    assert_eq!(echoed["method"], "POST");
    assert_eq!(echoed["uri"], "/base/customers/a%2Fb%3Fc%3Dd%23e%20%C3%A9/notes?q=x%26y%3Dz&size=10");
    assert_eq!(echoed["body"], json!({"notes": ["x&y=z"], "id": "a/b?c=d#e é"}));
    assert_eq!(echoed["backwards"], backwards("Bearer s3cret"));
    // Callers do not receive credentials that the service repeats.
    assert_eq!((&echoed["authorization"], &echoed["key"]), (&json!("Bearer [secret]"), &json!("[secret]")));
    assert_eq!(echoed["team"], "blue");
    for id in ["..", ".", "", "%2e%2e"] {
        let result = asker.ask(&saved, &json!({"id": id, "note": "", "page": 1})).await;
        match result {
            Ok(answer) => assert_eq!(answer["rows"][0]["uri"], "/base/customers/%252e%252e/notes?page=1&q=&size=10"),
            Err(failure) => assert_eq!(failure.code, code::INVALID_CONFIG, "{id}: {failure}"),
        }
    }
}

#[tokio::test]
async fn basic_credentials_are_sent_as_such() {
    let auth = json!({"auth": {"type": "basic", "username": "me", "password": {"$secret": "token"}}});
    let answer = fetch(&service(serve().await, &auth), "/x").await.unwrap();
    assert_eq!(answer["rows"][0]["backwards"], backwards("Basic bWU6czNjcmV0"));
    assert_eq!(answer["rows"][0]["authorization"], "Basic [secret]");
}

#[tokio::test]
async fn rows_are_found_in_the_answer() {
    let address = serve().await;
    let asker = Asker {
        drivers: drivers(&[], None),
        source: source(&json!({"type": "http", "baseUrl": format!("http://{address}")})),
    };
    let saved = query(&json!({"source": "it", "http": {"path": "/list", "rows": "/data/items"}}));
    let expected = json!({"rows": [{"id": 1}, {"id": 2, "name": "b"}], "rowCount": 2, "truncated": false,
        "fields": [{"name": "id", "type": "number"}, {"name": "name", "type": "string"}]});
    assert_eq!(asker.ask(&saved, &json!({})).await.unwrap(), expected);
    assert_eq!(fetch(&asker, "/array").await.unwrap()["rows"], json!([1, "two", null]));
    assert_eq!(fetch(&asker, "/empty").await.unwrap()["rows"], json!([]));
    let elsewhere = query(&json!({"source": "it", "http": {"path": "/list", "rows": "/items"}}));
    assert!(asker.ask(&elsewhere, &json!({})).await.unwrap_err().message.contains("no value at \"/items\""));
    let cut = query(&json!({"source": "it", "http": {"path": "/array"}, "limits": {"rows": 1, "onLimit": "cut"}}));
    let answer = asker.ask(&cut, &json!({})).await.unwrap();
    assert_eq!((&answer["rowCount"], &answer["truncated"]), (&json!(1), &json!(true)));
    assert!(asker.test().await.ok);

    for (path, code, retryable) in [
        ("/text", "QUERY_ERROR", false),
        ("/missing", "QUERY_ERROR", false),
        ("/broken", "QUERY_ERROR", true),
        ("/denied", "QUERY_ERROR", false),
        ("/large", code::PAYLOAD_TOO_LARGE, false),
    ] {
        let failure = fetch(&asker, path).await.unwrap_err();
        assert_eq!((failure.code.as_str(), failure.retryable), (code, retryable), "{path}: {failure}");
    }
    let slow = query(&json!({"source": "it", "http": {"path": "/slow"}}));
    let failure = asker.ask_for(&slow, &json!({}), Duration::from_millis(200)).await.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), (code::STEP_TIMEOUT, true));
}

#[tokio::test]
async fn addresses_inside_are_refused_also_behind_a_redirect() {
    let address = serve().await;
    let source = source(&json!({"type": "http", "baseUrl": format!("http://{address}")}));
    let guarded = Asker { drivers: drivers_with(Guard::default(), &[], None), source: source.clone() };
    let failure = fetch(&guarded, "/array").await.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), ("ADDRESS_REFUSED", false));
    assert!(failure.message.contains("EVERSTEP_ALLOW_ADDRESSES"));
    let tested = guarded.test().await;
    assert!(!tested.ok && tested.message.contains("ADDRESS_REFUSED"), "{tested:?}");
    let allowed = Asker { drivers: drivers_with("127.0.0.1".parse().unwrap(), &[], None), source };
    assert!(fetch(&allowed, "/array").await.is_ok());
    assert_eq!(fetch(&allowed, "/away").await.unwrap_err().code, "ADDRESS_REFUSED");
}

#[tokio::test]
async fn a_test_reports_rejected_credentials_and_a_missing_server() {
    let address = serve().await;
    let denied = Asker {
        drivers: drivers(&[], None),
        source: source(&json!({"type": "http", "baseUrl": format!("http://{address}/denied")})),
    };
    let tested = denied.test().await;
    assert!(!tested.ok && tested.message.contains("401"), "{tested:?}");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    let failure = fetch(&service(free, &json!({})), "/x").await.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), ("QUERY_ERROR", true), "{failure}");
}
