//! Namespaces and their changes.

use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test]
async fn namespaces_are_counted_and_listed() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/namespaces").await.is(200), json!({"namespaces": [], "nextCursor": null}));
    for name in ["b", "a", "c"] {
        server.put(&format!("/v1/store/{name}/k"), &json!({"value": "four"})).await.is(201);
    }
    let link = json!({"from": {"type": "t", "id": "1"}, "to": {"type": "t", "id": "2"}});
    server.post("/v1/links/a", &link).await.is(201);
    let first = server.get("/v1/namespaces?limit=2").await.is(200);
    let names = |page: &Value| -> Vec<String> {
        page["namespaces"].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((names(&first), &first["nextCursor"]), (vec!["a".to_owned(), "b".to_owned()], &json!("after:b")));
    assert_eq!(names(&server.get("/v1/namespaces?cursor=after:b").await.is(200)), ["c"]);
    let one = server.get("/v1/namespaces/a").await.is(200);
    assert_eq!(one, first["namespaces"][0]);
    let counts = ["keys", "links", "bytes", "changes"].map(|name| one[name].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 8, 2]);
    assert!(one["updatedAt"].is_string());
    // An emptied namespace is not listed, and exists.
    server.delete("/v1/store/b/k").await;
    assert_eq!(names(&server.get("/v1/namespaces").await.is(200)), ["a", "c"]);
    assert_eq!(server.get("/v1/namespaces/b").await.is(200)["changes"], 2);
    for wrong in ["limit=201", "cursor=b", "cursor="] {
        server.get(&format!("/v1/namespaces?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn changes_are_listed_with_their_authors() {
    let server = Server::start().await;
    let me = format!("key:{}", server.get("/v1/me").await.is(200)["key"]["id"].as_str().unwrap());
    server.put("/v1/store/books/a", &json!({"value": [1,  2], "ttlSeconds": 60})).await.is(201);
    server.post("/v1/store/books/count/increment", &Value::Null).await.is(200);
    let link = json!({"from": {"type": "t", "id": "1"}, "to": {"type": "t", "id": "2"}, "attributes": {"x": 1}});
    let link_id = server.post("/v1/links/books", &link).await.is(201)["linkId"].clone();
    let other = server.key_with(&[Permission::Manage]).await;
    let delete = server.ask(axum::http::Method::DELETE, "/v1/store/books/a", &[("x-api-key", &other)], "").await;
    assert_eq!(delete.status, 204);
    server.put("/v1/store/books/long", &json!({"value": "x".repeat(20_000)})).await.is(201);
    server.delete("/v1/links/books?fromType=t&fromId=1").await.is(200);

    let page = server.get("/v1/namespaces/books/changes").await.is(200);
    assert_eq!(page["nextAfter"], Value::Null);
    let changes = page["changes"].as_array().unwrap();
    let shown: Vec<_> =
        changes.iter().map(|change| (change["change"].as_u64().unwrap(), change["action"].as_str().unwrap())).collect();
    let expected = [
        (1, "store.set"),
        (2, "store.increment"),
        (3, "links.upsert"),
        (4, "store.delete"),
        (5, "store.set"),
        (6, "links.delete"),
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        (&changes[0]["key"], &changes[0]["value"], &changes[0]["actor"]),
        (&json!("a"), &json!([1, 2]), &json!(me))
    );
    assert_eq!((&changes[0]["revision"], &changes[0]["valueType"]), (&json!(1), &json!("json")));
    assert!(changes[0]["expiresAt"].is_string() && changes[0]["at"].is_string());
    assert_eq!(
        (&changes[0]["run"], &changes[0]["step"], &changes[0]["linkId"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!((&changes[2]["linkId"], &changes[2]["key"]), (&link_id, &Value::Null));
    assert_eq!(changes[2]["value"]["attributes"], json!({"x": 1}));
    assert!(changes[3].get("value").is_none() && changes[3]["actor"] != json!(me), "{}", changes[3]);
    assert_eq!(changes[4]["omitted"]["bytes"], 20_002);
    assert_eq!(changes[4]["omitted"]["sha256"].as_str().unwrap().len(), 64);

    let numbers = async |query: &str| -> Vec<u64> {
        let page = server.get(&format!("/v1/namespaces/books/changes?{query}")).await.is(200);
        page["changes"].as_array().unwrap().iter().map(|change| change["change"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers("after=4").await, [5, 6]);
    assert_eq!(numbers("action=store.set").await, [1, 5]);
    assert_eq!(numbers(&format!("actor={}", changes[3]["actor"].as_str().unwrap())).await, [4]);
    assert!(numbers("run=019a0000-0000-7000-8000-000000000000").await.is_empty());
    assert!(numbers("after=99").await.is_empty());
    let first = server.get("/v1/namespaces/books/changes?limit=2").await.is(200);
    assert_eq!((first["changes"].as_array().unwrap().len(), &first["nextAfter"]), (2, &json!(2)));
    for wrong in ["after=-1", "action=set", "run=x", "limit=0", "since=1"] {
        server.get(&format!("/v1/namespaces/books/changes?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
    server.get("/v1/namespaces/nothing/changes").await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_namespace_is_emptied_in_batches() {
    let server = Server::start().await;
    // More than one batch.
    for page in 0..11 {
        let set = |number: usize| json!({"set": {"key": format!("{page}/{number}"), "value": number}});
        let writes: Vec<_> = (0..64).map(set).collect();
        server.post("/v1/namespaces/full/transact", &json!({"writes": writes})).await.is(200);
    }
    for page in 0..5 {
        let side = |kind: &str, id: usize| json!({"type": kind, "id": id.to_string()});
        let upsert = |number| json!({"upsert": {"from": side("a", page), "to": side("b", number)}});
        let writes: Vec<_> = (0..64).map(upsert).collect();
        server.post("/v1/namespaces/full/transact", &json!({"writes": writes})).await.is(200);
    }
    server.put("/v1/store/other/a", &json!({"value": 1})).await.is(201);
    let emptied = server.delete("/v1/namespaces/full").await.is(200);
    assert_eq!(emptied, json!({"deleted": 16 * 64, "more": false}));
    let namespace = server.get("/v1/namespaces/full").await.is(200);
    let counts = ["keys", "links", "bytes", "changes"].map(|name| namespace[name].as_u64().unwrap());
    assert_eq!(counts, [0, 0, 0, 2 * 16 * 64]);
    assert_eq!(server.delete("/v1/namespaces/full").await.is(200), json!({"deleted": 0, "more": false}));
    server.get("/v1/store/other/a").await.is(200);
    server.delete("/v1/namespaces/nothing").await.refuses(404, "NOT_FOUND");
}
