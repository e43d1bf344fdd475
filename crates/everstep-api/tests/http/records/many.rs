//! Many clients at once.

use axum::http::Method;
use futures_util::future;
use serde_json::{Value, json};

use super::put_with;
use crate::support::{Server, Setup};

async fn start() -> Server {
    Server::launch(Setup { rate_limit: 0, ..Setup::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_creations_one_wins() {
    let server = start().await;
    let creations = (0..50).map(|number| {
        let server = &server;
        async move {
            let body = json!({"value": number});
            put_with(server, "/v1/store/races/one", &[("if-none-match", "*")], &body).await
        }
    });
    let answers = future::join_all(creations).await;
    let winners: Vec<_> = (0..50).filter(|number| answers[*number].status == 201).collect();
    assert_eq!(winners.len(), 1);
    for answer in answers.into_iter().filter(|answer| answer.status != 201) {
        answer.refuses(409, "CONCURRENCY_ERROR");
    }
    assert_eq!(server.get("/v1/store/races/one").await.is(200)["value"], winners[0]);
    assert_eq!(server.get("/v1/namespaces/races").await.is(200)["changes"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_increments_are_all_counted() {
    let server = start().await;
    let clients = (0..64).map(|_| async {
        for _ in 0..100 {
            let answer = server.post("/v1/store/races/count/increment", &Value::Null).await;
            assert_eq!(answer.status, 200, "{}", answer.body);
        }
    });
    future::join_all(clients).await;
    let record = server.get("/v1/store/races/count").await.is(200);
    assert_eq!((&record["value"], &record["revision"]), (&json!(6_400), &json!(6_400)));
    assert_eq!(server.get("/v1/namespaces/races").await.is(200)["changes"], 6_400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_sent_often_adds_once() {
    let server = start().await;
    let headers = [("x-api-key", server.key()), ("idempotency-key", "once")];
    let sent = (0..20).map(|_| server.ask(Method::POST, "/v1/store/races/count/increment", &headers, ""));
    for answer in future::join_all(sent).await {
        assert_eq!(answer.is(200), json!({"value": 1, "revision": 1, "change": 1}));
    }
}
