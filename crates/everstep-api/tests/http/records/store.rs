//! Setting, reading, incrementing, deleting and listing records.

use axum::http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{delete_with, put_with, tag};
use crate::people;
use crate::support::Server;

#[tokio::test]
async fn a_record_is_read_as_it_was_written() {
    let server = Server::start().await;
    let text = r#"{"value": { "b":1,  "a": [1.0e2, "\u00e9"] }}"#;
    let path = "/v1/store/books/one";
    let created = server.ask(Method::PUT, path, &[("x-api-key", server.key())], text).await;
    assert_eq!(tag(&created), "\"1\"");
    assert_eq!(created.is(201), json!({"revision": 1, "change": 1, "created": true}));
    let shown = server.send(Method::GET, path, &[("x-api-key", server.key())], "").await;
    assert_eq!((shown.status().as_u16(), &shown.headers()["etag"]), (200, &"\"1\"".parse().unwrap()));
    let shown = shown.into_body().collect().await.unwrap().to_bytes();
    let shown = std::str::from_utf8(&shown).unwrap();
    assert!(shown.contains(r#""value":{ "b":1,  "a": [1.0e2, "\u00e9"] },"#), "{shown}");
    let shown: Value = serde_json::from_str(shown).unwrap();
    assert_eq!(
        (&shown["key"], &shown["valueType"], &shown["expiresAt"]),
        (&json!("one"), &json!("json"), &Value::Null)
    );
    assert_eq!((&shown["revision"], &shown["change"]), (&json!(1), &json!(1)));
    assert_eq!(shown["createdAt"], shown["updatedAt"]);

    let replaced = server.put(path, &json!({"value": null, "valueType": "json"})).await;
    assert_eq!(tag(&replaced), "\"2\"");
    assert_eq!(replaced.is(200), json!({"revision": 2, "change": 2, "created": false}));
    let shown = server.get(path).await.is(200);
    assert_eq!((shown.get("value"), &shown["revision"]), (Some(&Value::Null), &json!(2)));
}

#[tokio::test]
async fn a_record_names_its_author() {
    let server = people::start().await;
    let me = server.get("/v1/me").await.is(200);
    server.put("/v1/store/books/one", &json!({"value": 1})).await.is(201);
    let expected = json!({"run": null, "step": null, "actor": format!("key:{}", me["key"]["id"].as_str().unwrap())});
    assert_eq!(server.get("/v1/store/books/one").await.is(200)["writtenBy"], expected);
    let bearer = format!("Bearer {}", people::token(&server, "ann", &["workflow:manage"]));
    let headers = [("authorization", &*bearer)];
    let incremented = server.ask(Method::POST, "/v1/store/books/one/increment", &headers, "").await;
    assert_eq!(incremented.is(200), json!({"value": 2, "revision": 2, "change": 2}));
    let shown = server.get("/v1/store/books/one").await.is(200);
    let actor = shown["writtenBy"]["actor"].as_str().unwrap();
    assert!(actor.starts_with("person:") && actor.ends_with("/ann"), "{actor}");
}

#[tokio::test]
async fn names_are_percent_encoded_in_paths() {
    let server = Server::start().await;
    let path = "/v1/store/a%2Fb%20c/%2F%C3%A9%3F%25%2Fincrement%20";
    server.put(path, &json!({"value": 1})).await.is(201);
    assert_eq!(server.get(path).await.is(200)["key"], "/é?%/increment");
    assert_eq!(server.get("/v1/namespaces").await.is(200)["namespaces"][0]["name"], "a/b c");
    let incremented = server.post(&format!("{path}/increment"), &Value::Null).await.is(200);
    assert_eq!(incremented["value"], 2);
    let listed = server.get("/v1/store/a%2Fb%20c?prefix=/%C3%A9").await.is(200);
    assert_eq!(listed["records"].as_array().unwrap().len(), 1);
    assert_eq!(server.delete(path).await.status, 204);
    for wrong in ["%2E", "%2e%2E", "%00", "%20", "%FF", &"x".repeat(257)] {
        server.get(&format!("/v1/store/books/{wrong}")).await.refuses(400, "VALIDATION_ERROR");
        server.get(&format!("/v1/store/{wrong}")).await.refuses(400, "VALIDATION_ERROR");
        server.put(&format!("/v1/store/books/{wrong}"), &json!({"value": 1})).await.refuses(400, "VALIDATION_ERROR");
    }
    server.put(&format!("/v1/store/books/{}", "%C3%A9".repeat(256)), &json!({"value": 1})).await.is(201);
}

#[tokio::test]
async fn a_record_expires_at_its_time() {
    let (server, clock) = people::start_on_clock().await;
    let path = "/v1/store/windows/a";
    server.put(path, &json!({"value": 1, "ttlSeconds": 60})).await.is(201);
    assert!(server.get(path).await.is(200)["expiresAt"].is_string());
    clock.advance(59);
    // An increment does not move the window.
    server.post(&format!("{path}/increment"), &json!({"ttlSeconds": 60})).await.is(200);
    clock.advance(1);
    server.get(path).await.refuses(404, "NOT_FOUND");
    assert_eq!(server.get("/v1/store/windows").await.is(200)["records"], json!([]));
    server.delete(path).await.refuses(404, "NOT_FOUND");
    let again = server.post(&format!("{path}/increment"), &json!({"by": 5, "initial": 10})).await.is(200);
    assert_eq!((&again["value"], &again["revision"]), (&json!(15), &json!(1)));
    assert_eq!(server.get(path).await.is(200)["expiresAt"], Value::Null);
    // A set without a time to live removes the expiry.
    server.put(path, &json!({"value": 1, "ttlSeconds": 60})).await.is(200);
    server.put(path, &json!({"value": 1})).await.is(200);
    clock.advance(100);
    server.get(path).await.is(200);
}

#[tokio::test]
async fn an_emptied_namespace_has_no_expired_records() {
    let (server, clock) = people::start_on_clock().await;
    server.put("/v1/store/windows/brief", &json!({"value": 1, "ttlSeconds": 1})).await.is(201);
    server.put("/v1/store/windows/kept", &json!({"value": 1})).await.is(201);
    clock.advance(2);
    // The sweeper has not deleted the expired record yet.
    assert_eq!(server.get("/v1/namespaces/windows").await.is(200)["keys"], 2);
    let emptied = server.delete("/v1/namespaces/windows").await.is(200);
    assert_eq!(emptied, json!({"deleted": 2, "more": false}));
    assert_eq!(server.get("/v1/namespaces").await.is(200)["namespaces"], json!([]));
}

#[tokio::test]
async fn increments_are_exact() {
    let server = Server::start().await;
    let path = "/v1/store/books/count";
    let increment = async |body: Value| server.post(&format!("{path}/increment"), &body).await;
    assert_eq!(
        increment(json!({"initial": 9_007_199_254_740_993_i64})).await.is(200)["value"],
        9_007_199_254_740_994_i64
    );
    assert_eq!(increment(json!({"by": -2.5})).await.is(200)["revision"], 2);
    server.put(path, &json!({"value": i64::MAX})).await.is(200);
    let refused = increment(json!({})).await.refuses(422, "VALIDATION_ERROR");
    assert!(refused["detail"].as_str().unwrap().contains("64 bits"), "{refused}");
    assert_eq!(server.get(path).await.is(200)["value"], i64::MAX);
    server.put(path, &json!({"value": "7"})).await.is(200);
    increment(json!({})).await.refuses(422, "VALIDATION_ERROR");
    increment(json!({"by": "1"})).await.refuses(400, "VALIDATION_ERROR");
    increment(json!({"step": 1})).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn an_absent_key_is_not_found() {
    let server = Server::start().await;
    server.get("/v1/store/books").await.refuses(404, "NOT_FOUND");
    server.get("/v1/store/books/one").await.refuses(404, "NOT_FOUND");
    server.delete("/v1/store/books/one").await.refuses(404, "NOT_FOUND");
    server.get("/v1/namespaces/books").await.refuses(404, "NOT_FOUND");
    server.put("/v1/store/books/one", &json!({"value": 1})).await.is(201);
    server.get("/v1/store/books/two").await.refuses(404, "NOT_FOUND");
    assert_eq!(server.delete("/v1/store/books/one").await.status, 204);
    server.get("/v1/store/books/one").await.refuses(404, "NOT_FOUND");
    server.delete("/v1/store/books/one").await.refuses(404, "NOT_FOUND");
    // The namespace remains: its numbers continue.
    assert_eq!(server.get("/v1/store/books").await.is(200), json!({"records": [], "nextCursor": null}));
    let created = server.put("/v1/store/books/one", &json!({"value": 1})).await.is(201);
    assert_eq!(created, json!({"revision": 1, "change": 3, "created": true}));
}

#[tokio::test]
async fn a_list_is_read_page_by_page() {
    let server = Server::start().await;
    for number in 0..7 {
        let value = json!({"number": number, "kind": if number % 2 == 0 { "even" } else { "odd" }});
        server.put(&format!("/v1/store/books/a{number}"), &json!({"value": value})).await.is(201);
    }
    server.put("/v1/store/books/b", &json!({"value": "x"})).await.is(201);
    let mut keys = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/store/books?limit=3&prefix=a&values=false{cursor}")).await.is(200);
        for record in page["records"].as_array().unwrap() {
            assert!(record.get("value").is_none() && record.get("writtenBy").is_none(), "{record}");
            keys.push(record["key"].as_str().unwrap().to_owned());
        }
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(keys, ["a0", "a1", "a2", "a3", "a4", "a5", "a6"]);
    let odd = server.get("/v1/store/books?match=%7B%22kind%22:%22odd%22%7D").await.is(200);
    let numbers: Vec<_> =
        odd["records"].as_array().unwrap().iter().map(|record| record["value"]["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 3, 5]);
    for wrong in ["limit=0", "limit=201", "match=x", "values=1", "match=%22%5Cud800%22", "sort=key"] {
        server.get(&format!("/v1/store/books?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
    for cursor in ["", "zork", "a2", "after:", "after:a%00"] {
        let problem = server.get(&format!("/v1/store/books?cursor={cursor}")).await.refuses(400, "VALIDATION_ERROR");
        assert_eq!(problem["detail"], "the query parameter \"cursor\" is not valid", "{cursor}");
        assert!(problem["hint"].as_str().unwrap().contains("nextCursor"), "{problem}");
    }
}

#[tokio::test]
async fn a_large_value_ends_its_page() {
    let server = Server::start().await;
    let value = "x".repeat(200 * 1024);
    for key in ["a", "b", "c", "d"] {
        server.put(&format!("/v1/store/books/{key}"), &json!({"value": value})).await.is(201);
    }
    let page = server.get("/v1/store/books").await.is(200);
    assert_eq!((page["records"].as_array().unwrap().len(), &page["nextCursor"]), (2, &json!("after:b")));
    let over = json!({"value": "x".repeat(262_143)});
    let refused = server.put("/v1/store/books/e", &over).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["detail"], "value has 262145 bytes; at most 262144 are allowed");
    let over = json!({"value": "x".repeat(900 * 1024)});
    server.put("/v1/store/books/e", &over).await.refuses(413, "PAYLOAD_TOO_LARGE");
    server.get("/v1/store/books/e").await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn bad_input_is_refused_and_nothing_is_written() {
    let server = Server::start().await;
    for (status, body) in [
        (400, json!({})),
        (400, json!([1])),
        (400, json!({"value": 1, "ttl": 5})),
        (400, json!({"value": 1, "ttlSeconds": 1.5})),
        (400, json!({"value": 1, "valueType": "text"})),
        (422, json!({"value": 1, "ttlSeconds": 0})),
        (422, json!({"value": 1, "ttlSeconds": 31_536_001})),
        (422, json!({"value": 1, "valueType": "string"})),
    ] {
        server.put("/v1/store/books/a", &body).await.refuses(status, "VALIDATION_ERROR");
    }
    let deep = format!("{{\"value\": {}{}}}", "[".repeat(200), "]".repeat(200));
    let headers = [("x-api-key", server.key())];
    let refused = server.ask(Method::PUT, "/v1/store/books/a", &headers, &deep).await;
    assert!([400, 422].contains(&refused.status), "{}", refused.body);
    server.get("/v1/namespaces/books").await.refuses(404, "NOT_FOUND");
    server.put("/v1/store/books/a", &json!({"value": 1, "ttlSeconds": 5.0, "ifRevision": 0.0})).await.is(201);
}

#[tokio::test]
async fn a_repeated_request_gets_its_first_answer() {
    let server = Server::start().await;
    let (path, once) = ("/v1/store/books/one", [("idempotency-key", "k1")]);
    let first = put_with(&server, path, &once, &json!({"value": 1})).await;
    assert_eq!(first.status, 201);
    server.put(path, &json!({"value": 2})).await.is(200);
    let repeated = put_with(&server, path, &once, &json!({"value": 1})).await;
    assert_eq!((repeated.status, &repeated.body, tag(&repeated)), (201, &first.body, "\"1\""));
    assert_eq!(server.get(path).await.is(200)["value"], 2);
    let reused = put_with(&server, path, &once, &json!({"value": 3})).await;
    assert!(reused.refuses(409, "IDEMPOTENCY_KEY_REUSED")["hint"].as_str().is_some());
    put_with(&server, "/v1/store/books/two", &once, &json!({"value": 1})).await.refuses(409, "IDEMPOTENCY_KEY_REUSED");
    // Another caller has keys of its own.
    let other = server.key_with(&[everstep_api::auth::Permission::Manage]).await;
    let headers = [("x-api-key", &*other), ("idempotency-key", "k1")];
    server.ask(Method::PUT, "/v1/store/books/two", &headers, r#"{"value": 1}"#).await.is(201);

    let increment = format!("{path}/increment");
    for _ in 0..3 {
        let answer = server.post_with(&increment, &[("idempotency-key", "k2")], &Value::Null).await;
        assert_eq!(answer.is(200)["value"], 3);
    }
    for _ in 0..2 {
        assert_eq!(delete_with(&server, path, &[("idempotency-key", "k3")]).await.status, 204);
    }
    delete_with(&server, path, &[("idempotency-key", "k4")]).await.refuses(404, "NOT_FOUND");
    // A refused request has not used its key.
    let again = [("idempotency-key", "k5")];
    put_with(&server, path, &again, &json!({"value": 1, "ifRevision": 9})).await.refuses(409, "CONFLICT");
    put_with(&server, path, &again, &json!({"value": 1})).await.is(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_and_nothing_is_written() {
    let server = Server::start().await;
    let path = "/v1/store/books/one";
    server.put(path, &json!({"value": 0})).await.is(201);
    server.database.set_max_pages(server.database.pages().await.unwrap()).await.unwrap();
    // Noise, which compression does not shorten.
    let noise: String = (0..12_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let refused = server.put(path, &json!({"value": noise})).await;
    assert!(refused.headers.contains_key("retry-after"));
    refused.refuses(507, "STORE_FULL");
    assert_eq!(server.get(path).await.is(200)["value"], 0);
    server.database.set_max_pages(1_000_000).await.unwrap();
    server.put(path, &json!({"value": noise})).await.is(200);
}
