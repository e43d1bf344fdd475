//! Open approvals, and the filters of runs that people use.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::support::{Server, chain, wait_for_go};

fn approval() -> Value {
    json!({"id": "ask", "type": "wait", "name": "Approve the order", "timeoutSeconds": 3600, "config": {
        "approval": "order.approval", "match": {"order": "{{ctx.input.order}}"},
    }})
}

async fn start(server: &Server, workflow: &str, body: Value) -> String {
    let started = server.post(&format!("/v1/workflows/{workflow}/runs"), &body).await.is(201);
    let run = started["run"]["id"].as_str().unwrap().to_owned();
    server.wait_for(&format!("/v1/runs/{run}"), "waiting").await;
    run
}

#[tokio::test]
async fn approvals_are_listed_until_they_are_answered() {
    let server = Server::start().await;
    server.publish("order", &chain(&[approval()])).await;
    server.publish("other", &chain(&[wait_for_go()])).await;
    let mut runs = Vec::new();
    for order in 1..=3 {
        runs.push(start(&server, "order", json!({"input": {"order": order}})).await);
    }
    start(&server, "other", json!({})).await;
    let inbox = server.get("/v1/inbox").await.is(200);
    let items = inbox["inbox"].as_array().unwrap();
    assert_eq!(items.len(), 3, "{inbox}");
    let first = &items[0];
    assert_eq!((&first["kind"], &first["run"]), (&json!("wait"), &json!(runs[0])));
    assert_eq!((&first["workflow"], &first["step"]), (&json!("order"), &json!("ask")));
    assert_eq!((&first["signal"], &first["title"]), (&json!("order.approval"), &json!("Approve the order")));
    assert_eq!(first["match"], json!({"order": 1}));
    assert_eq!(first["about"], json!({"approval": "order.approval", "match": {"order": 1}}));
    assert!(first["since"].is_string() && first["due"].is_string(), "{first}");

    let page = server.get("/v1/inbox?limit=2").await.is(200);
    let cursor = page["nextCursor"].as_str().unwrap();
    let rest = server.get(&format!("/v1/inbox?limit=2&cursor={cursor}")).await.is(200);
    assert_eq!((&rest["inbox"][0]["run"], &rest["nextCursor"]), (&json!(runs[2]), &Value::Null));
    assert_eq!(server.get("/v1/inbox?workflow=other").await.is(200)["inbox"], json!([]));
    server.get("/v1/inbox?cursor=x").await.refuses(400, "VALIDATION_ERROR");

    let answer = json!({"approved": true, "order": 1});
    server.post(&format!("/v1/runs/{}/signals/order.approval", runs[0]), &answer).await.is(200);
    server.wait_for(&format!("/v1/runs/{}", runs[0]), "completed").await;
    assert_eq!(server.get("/v1/inbox").await.is(200)["inbox"].as_array().unwrap().len(), 2);
    // A caller who may not send signals has nothing to decide.
    let key = server.key_with(&[Permission::Act, Permission::View]).await;
    assert_eq!(server.ask_as(&key, Method::GET, "/v1/inbox", &Value::Null).await.is(200)["inbox"], json!([]));
}

#[tokio::test]
async fn an_open_approval_says_that_it_is_one() {
    let server = Server::start().await;
    server.publish("order", &chain(&[approval()])).await;
    server.publish("other", &chain(&[wait_for_go()])).await;
    let run = start(&server, "order", json!({"input": {"order": 7}})).await;
    let shown = server.get(&format!("/v1/runs/{run}")).await.is(200);
    let open = &shown["open"][0];
    assert_eq!((&open["approval"], &open["match"]), (&json!(true), &json!({"order": 7})), "{shown}");
    assert_eq!(open["about"], json!({"approval": "order.approval", "match": {"order": 7}}));
    assert!(shown["waitingFor"].as_str().unwrap().starts_with("waits for the approval \"order.approval\""), "{shown}");
    let other = start(&server, "other", json!({})).await;
    let shown = server.get(&format!("/v1/runs/{other}")).await.is(200);
    assert_eq!((&shown["open"][0]["approval"], &shown["open"][0]["about"]["event"]), (&json!(false), &json!("go")));
}

#[tokio::test]
async fn runs_are_found_by_key_origin_error_and_text() {
    let server = Server::start().await;
    let fails =
        json!({"id": "fails", "type": "javascript", "retry": {"maxAttempts": 1}, "config": {"code": "throw 1"}});
    server.publish("waits", &chain(&[wait_for_go()])).await;
    server.publish("fails", &chain(&[fails])).await;
    let keyed = start(&server, "waits", json!({"idempotencyKey": "order-17"})).await;
    let started = server.post("/v1/workflows/fails/runs", &json!({})).await.is(201);
    let failed = started["run"]["id"].as_str().unwrap().to_owned();
    let shown = server.wait_for(&format!("/v1/runs/{failed}"), "failed").await;
    let forked = server.post(&format!("/v1/runs/{keyed}/fork"), &json!({})).await.is(201);
    let fork = forked["run"]["id"].as_str().unwrap().to_owned();
    let find = async |query: &str| -> Vec<String> {
        let page = server.get(&format!("/v1/runs?{query}")).await.is(200);
        page["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(find("key=order-17").await, [keyed.as_str()]);
    assert_eq!(find("key=order-18").await, Vec::<String>::new());
    assert_eq!(find(&format!("origin={keyed}")).await, [fork]);
    let code = shown["error"]["code"].as_str().unwrap();
    assert_eq!(find(&format!("errorCode={code}")).await, [failed.as_str()]);
    assert_eq!(find(&format!("text={keyed}")).await, [keyed.as_str()]);
    assert!(find(&format!("text={}", &keyed[..8])).await.contains(&keyed));
    assert_eq!(find("text=fails").await, [failed.as_str()]);
    assert_eq!(find("text=fails&workflow=waits").await, Vec::<String>::new());
    assert_eq!(find("text=nothing").await, Vec::<String>::new());
    let bulk = json!({"action": "cancel", "filter": {"key": "order-17"}, "dryRun": true});
    assert_eq!(server.post("/v1/runs/bulk", &bulk).await.is(200)["matched"], 1);
    let bulk = json!({"action": "retry", "filter": {"errorCode": code, "text": failed}, "dryRun": true});
    assert_eq!(server.post("/v1/runs/bulk", &bulk).await.is(200)["matched"], 1);
    // The name announces a filter on this route alone, and a credential is refused even there.
    server.get("/v1/workflows?key=x").await.refuses(401, "AUTH_ERROR");
    server.get(&format!("/v1/runs?key={}", server.key())).await.refuses(401, "AUTH_ERROR");
}
