//! Data sources and saved queries, and a run that uses them.

use axum::http::Method;
use everstep_api::auth::Permission;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Answer, Server, chain};

/// A server with a SQLite file of orders beside its own.
async fn shop() -> Server {
    let server = Server::start().await;
    let file = Connection::open(server.folder.path().join("shop.db")).unwrap();
    file.execute_batch(
        "create table orders (id integer primary key, customer text, total real);
         insert into orders (customer, total) values ('ann', 12.5), ('ann', 3), ('bob', 7);",
    )
    .unwrap();
    server.put("/v1/data-sources/shop", &json!({"type": "sqlite", "file": "shop.db"})).await.is(201);
    server.put("/v1/queries/orders-of", &orders()).await.is(201);
    server
}

fn orders() -> Value {
    json!({"source": "shop", "sql": "select id, total from orders where customer = :customer order by id",
        "arguments": [{"name": "customer", "type": "string"}]})
}

async fn delete(server: &Server, path: &str) -> Answer {
    let key = server.key_with(&[Permission::Publish]).await;
    server.ask(Method::DELETE, path, &[("x-api-key", &key)], "").await
}

#[tokio::test]
async fn a_run_asks_a_source_with_a_saved_query() {
    let server = shop().await;
    let ask = json!({"id": "ask", "type": "dataQuery",
        "config": {"dataQueryID": "orders-of", "args": {"customer": "{{ctx.input.who}}"}}});
    let end = json!({"id": "end", "type": "end", "config": {"outputParameters": [
        {"name": "rows", "sourceVariable": "{{ctx.queryResult.rows}}"},
        {"name": "count", "sourceVariable": "{{ctx.queryResult.rowCount}}"}]}});
    let mut definition = chain(&[ask]);
    let nodes = definition["nodes"].as_array_mut().unwrap();
    nodes.pop();
    nodes.push(end);
    server.put("/v1/workflows/shopping", &definition).await.is(201);
    let started = server.post("/v1/workflows/shopping/runs", &json!({"input": {"who": "ann"}})).await.is(201);
    let path = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let run = server.wait_for(&path, "completed").await;
    let rows = json!([{"id": 1, "total": 12.5}, {"id": 2, "total": 3.0}]);
    assert_eq!(run["output"], json!({"rows": rows, "count": 2}));

    let attack = json!({"input": {"who": "ann' or '1'='1"}});
    let started = server.post("/v1/workflows/shopping/runs", &attack).await.is(201);
    let path = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let run = server.wait_for(&path, "completed").await;
    assert_eq!(run["output"], json!({"rows": [], "count": 0}));
    let without = chain(&[json!({"id": "ask", "type": "dataQuery", "config": {"args": {}}})]);
    let problems = server.put("/v1/workflows/wrong", &without).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(problems["problems"][0]["message"], "`dataQueryID` is missing");
}

#[tokio::test]
async fn sources_and_queries_are_saved_shown_listed_and_deleted() {
    let server = shop().await;
    let shown = server.get("/v1/data-sources/shop").await.is(200);
    assert_eq!((&shown["name"], &shown["source"]["type"]), (&json!("shop"), &json!("sqlite")));
    assert_eq!(shown["source"]["readOnly"], true);
    server.put("/v1/data-sources/shop", &shown["source"]).await.is(200);
    let shown = server.get("/v1/queries/orders-of").await.is(200);
    assert_eq!((&shown["id"], &shown["query"]["source"]), (&json!("orders-of"), &json!("shop")));
    server.put("/v1/queries/orders-of", &shown["query"]).await.is(200);
    for name in ["a", "b", "c"] {
        server.put(&format!("/v1/queries/{name}"), &orders()).await.is(201);
    }
    let ids = |page: &Value| -> Vec<Value> {
        page["queries"].as_array().unwrap().iter().map(|query| query["id"].clone()).collect()
    };
    let page = server.get("/v1/queries?limit=3").await.is(200);
    assert_eq!(ids(&page), ["a", "b", "c"]);
    let page =
        server.get(&format!("/v1/queries?limit=3&cursor={}", page["nextCursor"].as_str().unwrap())).await.is(200);
    assert_eq!((ids(&page), &page["nextCursor"]), (vec![json!("orders-of")], &Value::Null));
    assert_eq!(server.get("/v1/data-sources").await.is(200)["dataSources"][0]["name"], "shop");

    let used = delete(&server, "/v1/data-sources/shop").await.refuses(409, "SOURCE_IN_USE");
    assert_eq!(used["queries"], json!(["a", "b", "c", "orders-of"]));
    for name in ["a", "b", "c", "orders-of"] {
        assert_eq!(delete(&server, &format!("/v1/queries/{name}")).await.status, 204);
    }
    assert_eq!(delete(&server, "/v1/data-sources/shop").await.status, 204);
    for path in ["/v1/data-sources/shop", "/v1/queries/a"] {
        server.get(path).await.refuses(404, "NOT_FOUND");
        delete(&server, path).await.refuses(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn errors_are_reported_with_their_place_and_nothing_is_saved() {
    let server = shop().await;
    let secret = json!({"type": "postgres", "host": "db", "database": "shop", "user": "me", "password": "hunter2"});
    let answer = server.put("/v1/data-sources/wrong", &secret).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(answer["problems"][0]["path"], "/password");
    assert!(answer["problems"][0]["hint"].as_str().unwrap().contains("$secret"));
    assert!(!answer.to_string().contains("hunter2"));
    server.get("/v1/data-sources/wrong").await.refuses(404, "NOT_FOUND");
    let escape = json!({"type": "sqlite", "file": "../x.db"});
    server.put("/v1/data-sources/wrong", &escape).await.refuses(422, "VALIDATION_ERROR");
    let write = json!({"source": "shop", "sql": "delete from orders", "readOnly": false});
    let answer = server.put("/v1/queries/wrong", &write).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(answer["problems"][0]["path"], "/readOnly");
    let twice = r#"{"type": "sqlite", "type": "http", "file": "a.db"}"#;
    let key = server.key_with(&[Permission::Publish]).await;
    let answer = server.ask(Method::PUT, "/v1/data-sources/wrong", &[("x-api-key", &key)], twice).await;
    answer.refuses(400, "VALIDATION_ERROR");
    server
        .put("/v1/data-sources/-wrong", &json!({"type": "sqlite", "file": "a.db"}))
        .await
        .refuses(422, "VALIDATION_ERROR");
    server
        .put("/v1/data-sources/test", &json!({"type": "sqlite", "file": "a.db"}))
        .await
        .refuses(405, "METHOD_NOT_ALLOWED");
    assert_eq!(server.get("/v1/data-sources").await.is(200)["dataSources"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_data_source_with_an_unknown_field_names_that_field() {
    let server = shop().await;
    let source = json!({"type": "sqlite", "path": "shop.db"});
    let answer = server.put("/v1/data-sources/wrong", &source).await.refuses(422, "VALIDATION_ERROR");
    let detail = answer["detail"].as_str().unwrap();
    assert!(detail.contains("the field `path` does not exist; the fields are file, readOnly"), "{detail}");
    assert!(detail.contains("`file` is missing"), "{detail}");
}

#[tokio::test]
async fn a_query_is_tried_as_a_step_would_ask() {
    let server = shop().await;
    let answer = server.post("/v1/queries/orders-of/run", &json!({"args": {"customer": "ann"}})).await.is(200);
    assert_eq!(answer["rows"], json!([{"id": 1, "total": 12.5}, {"id": 2, "total": 3.0}]));
    assert_eq!((&answer["rowCount"], &answer["truncated"]), (&json!(2), &json!(false)));
    let few = json!({"args": {"customer": "ann"}, "limit": 1});
    let answer = server.post("/v1/queries/orders-of/run", &few).await.is(200);
    assert_eq!((&answer["rowCount"], &answer["truncated"]), (&json!(1), &json!(true)));
    server.post("/v1/queries/orders-of/run", &Value::Null).await.refuses(422, "VALIDATION_ERROR");
    server.post("/v1/queries/orders-of/run", &json!({"args": {"customer": 5}})).await.refuses(422, "VALIDATION_ERROR");
    server.post("/v1/queries/orders-of/run", &json!({"limit": 0})).await.refuses(400, "VALIDATION_ERROR");
    server.post("/v1/queries/orders-of/run", &json!({"arg": {}})).await.refuses(400, "VALIDATION_ERROR");
    server.post("/v1/queries/nothing/run", &json!({})).await.refuses(404, "NOT_FOUND");
    server.put("/v1/queries/broken", &json!({"source": "shop", "sql": "select nope from orders"})).await.is(201);
    let answer = server.post("/v1/queries/broken/run", &json!({})).await.refuses(422, "QUERY_ERROR");
    assert!(answer["detail"].as_str().unwrap().contains("nope"));
    let away = json!({"type": "http", "baseUrl": "http://127.0.0.1:9"});
    server.put("/v1/data-sources/away", &away).await.is(201);
    server.put("/v1/queries/away", &json!({"source": "away", "http": {"path": "/x"}})).await.is(201);
    server.post("/v1/queries/away/run", &json!({})).await.refuses(424, "QUERY_ERROR");
}

#[tokio::test]
async fn a_source_is_tested_saved_or_not_and_no_secret_is_shown() {
    let server = shop().await;
    let answer = server.post("/v1/data-sources/shop/test", &Value::Null).await.is(200);
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(answer["serverVersion"].as_str().unwrap().starts_with("SQLite 3"));
    assert!(answer["latencyMs"].is_u64());
    let answer = server.post("/v1/data-sources/test", &json!({"type": "sqlite", "file": "nothing.db"})).await.is(200);
    assert_eq!(answer["ok"], false);
    server.put("/v1/secrets/shop-password", &json!({"value": "hunter2"})).await.is(201);
    let database = json!({"type": "postgres", "host": "127.0.0.1", "port": 9, "database": "shop", "user": "me",
        "password": {"$secret": "shop-password"}});
    let answer = server.post("/v1/data-sources/test", &database).await.is(200);
    assert_eq!(answer["ok"], false);
    assert!(answer["message"].as_str().unwrap().contains("127.0.0.1:9"), "{answer}");
    assert!(!answer.to_string().contains("hunter2"));
    server.post("/v1/data-sources/test", &json!({"type": "sqlite"})).await.refuses(422, "VALIDATION_ERROR");
    server.post("/v1/data-sources/nothing/test", &Value::Null).await.refuses(404, "NOT_FOUND");
}

#[tokio::test]
async fn an_operator_cannot_send_a_secret_to_a_host() {
    let server = shop().await;
    let manager = server.key_with(&[Permission::Manage, Permission::Read]).await;
    let ask =
        async |method: Method, path: &str, body: &str| server.ask(method, path, &[("x-api-key", &manager)], body).await;
    let thief =
        r#"{"type": "http", "baseUrl": "http://127.0.0.1:9", "auth": {"type": "bearer", "token": {"$secret": "a"}}}"#;
    ask(Method::POST, "/v1/data-sources/test", thief).await.refuses(403, "PERMISSION_DENIED");
    ask(Method::PUT, "/v1/data-sources/thief", thief).await.refuses(403, "PERMISSION_DENIED");
    ask(Method::POST, "/v1/data-sources/shop/test", "").await.is(200);
    ask(Method::POST, "/v1/queries/orders-of/run", r#"{"args": {"customer": "bob"}}"#).await.is(200);
    let reader = server.key_with(&[Permission::Read]).await;
    let answer = server.ask(Method::POST, "/v1/queries/orders-of/run", &[("x-api-key", &reader)], "{}").await;
    answer.refuses(403, "PERMISSION_DENIED");
}
