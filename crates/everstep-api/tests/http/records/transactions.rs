//! `POST /v1/namespaces/{namespace}/transact`.

use serde_json::{Value, json};

use crate::support::Server;

const PATH: &str = "/v1/namespaces/shop/transact";

#[tokio::test]
async fn a_transaction_is_applied_whole() {
    let server = Server::start().await;
    let transaction = json!({
        "checks": [{"key": "order/7", "exists": false}, {"key": "orders", "revision": 0}],
        "writes": [
            {"set": {"key": "order/7", "value": {"status": "open"}, "valueType": "json", "ttlSeconds": 60, "ifRevision": 0}},
            {"increment": {"key": "orders", "by": 2}},
            {"increment": {"key": "orders"}},
            {"upsert": {"from": {"type": "order", "id": "7"}, "to": {"type": "customer", "id": "42"}}},
            {"unlink": {"from": {"type": "order", "id": "7"}, "relation": "related"}},
            {"delete": {"key": "draft/7"}},
        ],
    });
    let applied = server.post_with(PATH, &[("idempotency-key", "k")], &transaction).await.is(200);
    assert_eq!(applied["changes"], json!([1, 5]));
    let results = applied["results"].as_array().unwrap();
    assert_eq!(results[0], json!({"revision": 1, "change": 1, "created": true}));
    assert_eq!(results[2], json!({"value": 3, "revision": 2, "change": 3}));
    assert_eq!((&results[3]["created"], results[3]["linkId"].is_string()), (&json!(true), true));
    assert_eq!(results[4..], [json!({"deletedCount": 1}), json!({"deleted": false})]);
    assert_eq!(server.post_with(PATH, &[("idempotency-key", "k")], &transaction).await.is(200), applied);
    let namespace = server.get("/v1/namespaces/shop").await.is(200);
    assert_eq!((&namespace["keys"], &namespace["links"], &namespace["changes"]), (&json!(2), &json!(0), &json!(5)));
    // Without a write that has an effect, no change is made.
    let nothing = json!({"checks": [{"key": "orders", "equals": 3}], "writes": [{"delete": {"key": "x"}}]});
    let applied = server.post(PATH, &nothing).await.is(200);
    assert_eq!(applied, json!({"changes": null, "results": [{"deleted": false}]}));
    // Neither does a transaction that only checks.
    let checked = json!({"checks": [{"key": "orders", "equals": 3}], "writes": []});
    assert_eq!(server.post(PATH, &checked).await.is(200), json!({"changes": null, "results": []}));
}

#[tokio::test]
async fn the_first_failure_leaves_nothing_written() {
    let server = Server::start().await;
    server.put("/v1/store/shop/stock", &json!({"value": {"left": 3}})).await.is(201);
    let write = json!({"set": {"key": "other", "value": 1}});
    for check in [
        json!({"key": "stock", "exists": false}),
        json!({"key": "stock", "revision": 2}),
        json!({"key": "stock", "change": 2}),
        json!({"key": "stock", "equals": {"left": 4}}),
        json!({"key": "stock", "equals": null}),
        json!({"key": "missing", "exists": true}),
    ] {
        let refused = server.post(PATH, &json!({"checks": [check], "writes": [write]})).await;
        let refused = refused.refuses(409, "CONFLICT");
        assert!(refused["detail"].as_str().unwrap().starts_with("check 0: "), "{refused}");
        assert_eq!(refused["revision"], u64::from(check["key"] == "stock"), "{refused}");
    }
    let second = json!({"increment": {"key": "stock"}});
    let refused = server.post(PATH, &json!({"writes": [write, second]})).await.refuses(422, "VALIDATION_ERROR");
    assert!(refused["detail"].as_str().unwrap().starts_with("write 1: "), "{refused}");
    let late = json!({"delete": {"key": "stock", "ifRevision": 7}});
    let refused = server.post(PATH, &json!({"writes": [write, late]})).await.refuses(409, "CONFLICT");
    assert_eq!(refused["revision"], 1);
    assert_eq!(server.get("/v1/namespaces/shop").await.is(200)["changes"], 1);
}

#[tokio::test]
async fn a_transaction_that_is_not_valid_is_refused() {
    let server = Server::start().await;
    let set = |key: &str| json!({"set": {"key": key, "value": 1}});
    let many: Vec<_> = (0..65).map(|number| set(&number.to_string())).collect();
    let large = json!({"set": {"key": "a", "value": "x".repeat(260_000)}});
    for (status, transaction) in [
        (400, Value::Null),
        (400, json!({"writes": [{"get": {"key": "a"}}]})),
        (400, json!({"writes": [{"set": {"key": "a"}}]})),
        (400, json!({"writes": [{"set": {"namespace": "b", "key": "a", "value": 1}}]})),
        (400, json!({"reads": []})),
        (422, json!({})),
        (422, json!({"writes": []})),
        (422, json!({"writes": many})),
        (422, json!({"writes": [large, large, large, large, large]})),
        (422, json!({"checks": [{"key": "a"}]})),
        (422, json!({"checks": [{"key": "a", "exists": true, "revision": 1}]})),
        (422, json!({"writes": [set(" ")]})),
        (422, json!({"writes": [{"set": {"key": "a", "value": 1, "ttlSeconds": 0}}]})),
        (422, json!({"writes": [{"set": {"key": "a", "value": 1, "valueType": "boolean"}}]})),
        (422, json!({"writes": [{"unlink": {"relation": "related"}}]})),
    ] {
        server.post(PATH, &transaction).await.refuses(status, "VALIDATION_ERROR");
    }
    server.get("/v1/namespaces/shop").await.refuses(404, "NOT_FOUND");
}
