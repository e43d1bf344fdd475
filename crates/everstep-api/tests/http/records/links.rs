//! Links: upserts, lookups, lists and deletions.

use serde_json::{Value, json};

use super::delete_with;
use crate::support::Server;

fn edge(from: &str, to: &str, relation: &str) -> Value {
    let side = |text: &str| {
        let (kind, id) = text.split_once(' ').unwrap();
        json!({"type": kind, "id": id})
    };
    json!({"from": side(from), "to": side(to), "relation": relation})
}

/// The far sides of a lookup.
async fn found(server: &Server, query: &str) -> Vec<String> {
    let page = server.get(&format!("/v1/links/board/lookup?{query}")).await.is(200);
    let shown = |found: &Value| format!("{} {}", found["type"].as_str().unwrap(), found["id"].as_str().unwrap());
    page["matches"].as_array().unwrap().iter().map(shown).collect()
}

#[tokio::test]
async fn a_link_is_made_once_and_replaced_after_that() {
    let server = Server::start().await;
    let me = server.get("/v1/me").await.is(200);
    let mut link = edge("task 1", "issue 7", "mirrors");
    link["attributes"] = json!({"a": 1});
    let made = server.post("/v1/links/my%20board", &link).await;
    let place = made.headers["location"].to_str().unwrap().to_owned();
    let made = made.is(201);
    assert_eq!((&made["created"], &made["change"]), (&json!(true), &json!(1)));
    let shown = server.get(&place).await.is(200);
    assert_eq!((&shown["linkId"], &shown["attributes"]), (&made["linkId"], &json!({"a": 1})));
    assert_eq!((&shown["from"], &shown["to"], &shown["relation"]), (&link["from"], &link["to"], &link["relation"]));
    assert_eq!(shown["writtenBy"]["actor"], format!("key:{}", me["key"]["id"].as_str().unwrap()));
    link["attributes"] = json!({"b": 2});
    let replaced = server.post("/v1/links/my%20board", &link).await.is(200);
    assert_eq!((&replaced["linkId"], &replaced["created"]), (&made["linkId"], &json!(false)));
    let again = server.get(&place).await.is(200);
    assert_eq!((&again["attributes"], &again["createdAt"]), (&json!({"b": 2}), &shown["createdAt"]));
    // The relation has a default, and belongs to the key.
    link.as_object_mut().unwrap().remove("relation");
    let related = server.post("/v1/links/my%20board", &link).await.is(201);
    assert_ne!(related["linkId"], made["linkId"]);
    assert_eq!(server.delete(&place).await.status, 204);
    server.get(&place).await.refuses(404, "NOT_FOUND");
    server.delete(&place).await.refuses(404, "NOT_FOUND");
    // Another namespace does not contain it.
    let id = related["linkId"].as_str().unwrap();
    server.post("/v1/links/other", &link).await.is(201);
    server.get(&format!("/v1/links/other/{id}")).await.refuses(404, "NOT_FOUND");
    server.delete(&format!("/v1/links/other/{id}")).await.refuses(404, "NOT_FOUND");
    server.get(&format!("/v1/links/my%20board/{id}")).await.is(200);
}

#[tokio::test]
async fn links_are_looked_up_from_both_sides() {
    let server = Server::start().await;
    for (from, to, relation) in [
        ("task 1", "issue 7", "mirrors"),
        ("task 1", "issue 8", "mirrors"),
        ("task 1", "person ann", "owner"),
        ("task 2", "issue 7", "mirrors"),
        ("task 1", "task 1", "self"),
    ] {
        server.post("/v1/links/board", &edge(from, to, relation)).await.is(201);
    }
    assert_eq!(found(&server, "type=task&id=1").await, ["issue 7", "issue 8", "person ann", "task 1"]);
    assert_eq!(found(&server, "type=task&id=1&toType=issue").await, ["issue 7", "issue 8"]);
    assert_eq!(found(&server, "type=task&id=1&relation=owner").await, ["person ann"]);
    assert_eq!(found(&server, "type=issue&id=7&direction=reverse").await, ["task 1", "task 2"]);
    let either = ["issue 7", "issue 8", "person ann", "task 1", "task 1"];
    assert_eq!(found(&server, "type=task&id=1&direction=either").await, either);
    assert!(found(&server, "type=task&id=9").await.is_empty());
    // The same, two at a time.
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/links/board/lookup?type=task&id=1&direction=either&limit=2{cursor}");
        let page = server.get(&path).await.is(200);
        paged.extend(page["matches"].as_array().unwrap().iter().map(|found| found["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={}", form_urlencoded::byte_serialize(next.as_bytes()).collect::<String>());
    }
    assert_eq!(paged, ["7", "8", "ann", "1", "1"]);
    for wrong in ["", "type=task", "type=task&id=", "type=task&id=1&direction=up", "type=task&id=1&cursor=%5B%5D"] {
        server.get(&format!("/v1/links/board/lookup?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
    server.get("/v1/links/nothing/lookup?type=task&id=1").await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn links_are_listed_and_deleted_by_their_sides() {
    let server = Server::start().await;
    for number in 0..5 {
        server.post("/v1/links/board", &edge("task 1", &format!("issue {number}"), "mirrors")).await.is(201);
        server.post("/v1/links/board", &edge(&format!("task {number}"), "person ann", "owner")).await.is(201);
    }
    let list = async |query: &str| {
        let page = server.get(&format!("/v1/links/board?{query}")).await.is(200);
        page["links"].as_array().unwrap().len()
    };
    assert_eq!(list("").await, 10);
    assert_eq!(list("rightType=person").await, 5);
    assert_eq!(list("leftType=task&relation=mirrors").await, 5);
    assert_eq!(list("leftType=issue").await, 0);
    let first = server.get("/v1/links/board?limit=4").await.is(200);
    assert_eq!(first["links"].as_array().unwrap().len(), 4);
    assert!(first["links"][0].get("writtenBy").is_none());
    let cursor: String = form_urlencoded::byte_serialize(first["nextCursor"].as_str().unwrap().as_bytes()).collect();
    assert_eq!(list(&format!("cursor={cursor}")).await, 6);

    let once = [("idempotency-key", "k1")];
    for _ in 0..2 {
        let deleted = delete_with(&server, "/v1/links/board?fromType=task&fromId=1&relation=mirrors", &once).await;
        assert_eq!(deleted.is(200), json!({"deletedCount": 5}));
    }
    assert_eq!(server.delete("/v1/links/board?toType=person&toId=ann").await.is(200)["deletedCount"], 5);
    assert_eq!(server.delete("/v1/links/board?toType=person&toId=ann").await.is(200)["deletedCount"], 0);
    assert_eq!(list("").await, 0);
    for wrong in ["", "relation=owner", "fromType=task", "fromId=1&toType=person&toId=ann", "fromType=&fromId=1"] {
        server.delete(&format!("/v1/links/board?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
    server.delete("/v1/links/nothing?fromType=task&fromId=1").await.refuses(404, "NOT_FOUND");
    server.get("/v1/links/nothing").await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_link_that_is_not_valid_is_refused() {
    let server = Server::start().await;
    let changed = |change: fn(&mut Value)| {
        let mut link = edge("task 1", "issue 7", "mirrors");
        change(&mut link);
        link
    };
    for (status, link) in [
        (400, changed(|link| _ = link.as_object_mut().unwrap().remove("to"))),
        (400, changed(|link| link["from"]["name"] = json!("x"))),
        (400, changed(|link| link["weight"] = json!(1))),
        (422, changed(|link| link["from"]["id"] = json!(" "))),
        (422, changed(|link| link["relation"] = json!("x".repeat(257)))),
        (422, changed(|link| link["attributes"] = json!([1]))),
        (422, changed(|link| link["attributes"] = json!({"a": "x".repeat(65_536)}))),
    ] {
        server.post("/v1/links/board", &link).await.refuses(status, "VALIDATION_ERROR");
    }
    server.get("/v1/namespaces/board").await.refuses(404, "NOT_FOUND");
}
