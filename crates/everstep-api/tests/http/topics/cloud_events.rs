//! CloudEvents 1.0 over HTTP.

use axum::http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Server};

const STRUCTURED: &str = "application/cloudevents+json; charset=UTF-8";
const BATCHED: &str = "application/cloudevents-batch+json";

async fn send(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers: Vec<_> = headers.iter().copied().chain([("x-api-key", server.key())]).collect();
    server.ask(Method::POST, path, &headers, body).await
}

fn event(id: &str) -> Value {
    json!({"specversion": "1.0", "id": id, "source": "/shop", "type": "order.paid", "subject": "17",
        "time": "2026-11-17T12:00:00Z", "traceparent": "00-ab", "data": {"order": 17}})
}

#[tokio::test]
async fn an_event_is_the_same_in_every_mode() {
    let server = Server::start().await;
    let body = event("1").to_string();
    let structured = send(&server, "/v1/topics/order.paid", &[("content-type", STRUCTURED)], &body).await.is(202);
    let again = send(&server, "/v1/events", &[("content-type", STRUCTURED)], &body).await.is(200);
    let binary = [
        ("ce-specversion", "1.0"),
        ("ce-id", "1"),
        ("ce-source", "/shop"),
        ("ce-type", "order.paid"),
        ("ce-subject", "17"),
        ("ce-time", "2026-11-17T12:00:00Z"),
        ("ce-traceparent", "00-ab"),
        ("content-type", "application/json"),
    ];
    let third = send(&server, "/v1/topics/order.paid", &binary, r#"{"order":17}"#).await.is(200);
    let fourth = send(&server, "/v1/events", &binary, r#"{"order":17}"#).await.is(200);
    let batch = json!([event("1"), event("2")]).to_string();
    let fifth = send(&server, "/v1/events?waitSeconds=30", &[("content-type", BATCHED)], &batch).await.is(200);
    let ids = [&again, &third, &fourth, &fifth["events"][0]].map(|answer| answer["id"].clone());
    assert!(ids.iter().all(|id| *id == structured["id"]), "{ids:?}");
    assert_eq!(fifth["events"][1]["created"], true);
    let shown = server.get(&format!("/v1/events/{}", structured["id"].as_str().unwrap())).await.is(200);
    assert_eq!((&shown["source"], &shown["eventId"], &shown["subject"]), (&json!("/shop"), &json!("1"), &json!("17")));
    assert_eq!(shown["extensions"], json!({"time": "2026-11-17T12:00:00Z", "traceparent": "00-ab"}));
    assert_eq!(shown["data"], json!({"order": 17}));
}

#[tokio::test]
async fn what_is_not_a_cloud_event_is_refused() {
    let server = Server::start().await;
    let structured = [("content-type", STRUCTURED)];
    let mut other = event("1");
    other["type"] = json!("order.sent");
    let problem = send(&server, "/v1/topics/order.paid", &structured, &other.to_string()).await;
    assert_eq!(problem.refuses(400, "VALIDATION_ERROR")["path"], "type");
    for (name, value, status, code) in [
        ("id", Value::Null, 400, "VALIDATION_ERROR"),
        ("source", json!(""), 400, "VALIDATION_ERROR"),
        ("source", json!("run:1"), 400, "VALIDATION_ERROR"),
        ("specversion", json!("0.3"), 400, "VALIDATION_ERROR"),
        ("datacontenttype", json!("text/xml"), 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("data_base64", json!("YQ=="), 415, "UNSUPPORTED_MEDIA_TYPE"),
    ] {
        let mut event = event("1");
        event[name] = value;
        send(&server, "/v1/events", &structured, &event.to_string()).await.refuses(status, code);
    }
    let avro = [("content-type", "application/cloudevents+avro")];
    send(&server, "/v1/events", &avro, "x").await.refuses(415, "UNSUPPORTED_MEDIA_TYPE");
    let batch = json!([event("1")]).to_string();
    let problem = send(&server, "/v1/topics/order.paid", &[("content-type", BATCHED)], &batch).await;
    assert!(problem.refuses(415, "UNSUPPORTED_MEDIA_TYPE")["hint"].as_str().unwrap().contains("/v1/events"));
    send(&server, "/v1/topics/order.paid", &[("ce-id", "1")], "1").await.refuses(400, "VALIDATION_ERROR");
    // Each event of a batch is refused by itself.
    let mut wrong = event("3");
    wrong["datacontenttype"] = json!("text/plain");
    let batch = json!([event("2"), wrong]).to_string();
    let answer = send(&server, "/v1/events", &[("content-type", BATCHED)], &batch).await.is(207);
    let codes: Vec<_> = answer["events"].as_array().unwrap().iter().map(|one| one["error"]["code"].clone()).collect();
    assert_eq!(codes, [Value::Null, json!("UNSUPPORTED_MEDIA_TYPE")]);
    send(&server, "/v1/events", &[("content-type", BATCHED)], "[]").await.refuses(400, "VALIDATION_ERROR");
}
