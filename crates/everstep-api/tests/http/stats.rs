//! Figures of runs over time.

use serde_json::{Value, json};

use crate::support::{Server, chain, until, wait_for_go};

#[tokio::test]
async fn figures_count_starts_and_ends() {
    let server = Server::start().await;
    let fails =
        json!({"id": "fails", "type": "javascript", "retry": {"maxAttempts": 1}, "config": {"code": "throw 1"}});
    server.publish("ends", &chain(&[])).await;
    server.publish("fails", &chain(&[fails])).await;
    let waits = server.start_chain("waits", &[wait_for_go()]).await;
    for workflow in ["ends", "ends", "fails"] {
        server.post(&format!("/v1/workflows/{workflow}/runs?waitSeconds=10"), &json!({})).await.is(201);
    }
    server.post(&format!("{waits}/cancel"), &json!({})).await.is(200);
    let test = json!({"definition": chain(&[])});
    server.post("/v1/test-runs", &test).await.is(201);
    let sum = |stats: &Value, name: &str| -> i64 {
        stats["buckets"].as_array().unwrap().iter().map(|bucket| bucket[name].as_i64().unwrap()).sum()
    };
    let stats = until("the figures", async || {
        let stats = server.get("/v1/stats").await.is(200);
        (sum(&stats, "started") == 4 && sum(&stats, "cancelled") == 1).then_some(stats)
    })
    .await;
    assert_eq!((sum(&stats, "completed"), sum(&stats, "failed")), (2, 1), "{stats}");
    let ended = stats["buckets"].as_array().unwrap().iter().find(|bucket| bucket["completed"] != 0).unwrap();
    assert!(ended["p50Ms"].as_f64().unwrap() <= ended["p95Ms"].as_f64().unwrap(), "{ended}");
    let empty = stats["buckets"].as_array().unwrap().iter().find(|bucket| bucket["started"] == 0).unwrap();
    assert_eq!(empty["p50Ms"], Value::Null);
    let of_one = server.get("/v1/stats?workflow=fails").await.is(200);
    assert_eq!((sum(&of_one, "started"), sum(&of_one, "failed"), sum(&of_one, "completed")), (1, 1, 0));
}

#[tokio::test]
async fn a_request_with_too_many_periods_says_which_length_fits() {
    let server = Server::start().await;
    let day = "/v1/stats?since=2026-05-01T00:00:00Z&until=2026-05-31T00:00:00Z";
    let problem = server.get(&format!("{day}&every=1m")).await.refuses(400, "VALIDATION_ERROR");
    assert!(problem["hint"].as_str().unwrap().contains("every=1h"), "{problem}");
    let stats = server.get(&format!("{day}&every=1h")).await.is(200);
    assert_eq!(stats["buckets"].as_array().unwrap().len(), 720);
    assert_eq!(stats["buckets"][0]["at"], "2026-05-01T00:00:00.000000Z");
    for wrong in ["every=2m", "since=2026-05-02&until=2026-05-01", "until=x", "since=0001-01-01"] {
        server.get(&format!("/v1/stats?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
}
