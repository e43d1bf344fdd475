//! Dry runs.

use axum::http::Method;
use serde_json::{Value, json};

use super::{ACT, approval, expense, history, start_as, start_server};
use crate::people as tokens;

#[tokio::test]
async fn a_dry_run_shows_the_result_and_writes_nothing() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    let audited = async || server.get("/v1/audit?limit=500").await.is(200)["entries"].as_array().unwrap().len();
    let version = server.get(&run).await.is(200)["version"].clone();
    let rows = audited().await;
    let evaluate = async |person: &str, request: &Value| {
        let token = tokens::token(&server, person, ACT);
        tokens::ask(&server, &token, Method::POST, &format!("{run}/evaluate"), request).await
    };
    let would = evaluate("mia", &approval()).await.is(200);
    assert_eq!((&would["success"], &would["applied"], &would["reasons"]), (&json!(true), &json!(true), &json!([])));
    assert_eq!((&would["state"], &would["nextState"]), (&json!("review"), &json!("approved")));
    assert_eq!((&would["set"], &would["output"]), (&json!({"booked": 20}), &json!({"booked": 20})));
    // Every reason is named, not only the first.
    let would = evaluate("ann", &json!({"action": "APPROVE", "version": 7, "data": {"amount": 5000}})).await.is(200);
    let codes: Vec<_> = would["reasons"].as_array().unwrap().iter().map(|reason| reason["code"].clone()).collect();
    assert_eq!(codes, ["CONCURRENCY_ERROR", "PERMISSION_DENIED", "VALIDATION_ERROR", "CONDITION_FAILED"]);
    assert_eq!(would["success"], false);
    evaluate("eve", &approval()).await.refuses(404, "NOT_FOUND");
    // Only admins ask for another person.
    let mut other = approval();
    other["as"] = json!({"user": "bob", "roles": ["Boss"]});
    evaluate("mia", &other).await.refuses(403, "PERMISSION_DENIED");
    assert_eq!(server.post(&format!("{run}/evaluate"), &other).await.is(200)["success"], true);
    other["as"] = json!({"user": "bob", "roles": ["Chief"]});
    assert_eq!(server.post(&format!("{run}/evaluate"), &other).await.is(200)["success"], false);
    other["as"] = json!({"user": "bob", "role": ["Boss"]});
    server.post(&format!("{run}/evaluate"), &other).await.refuses(400, "VALIDATION_ERROR");

    assert_eq!(server.get(&run).await.is(200)["version"], version);
    assert_eq!(history(&server, &run).await.len(), 1);
    assert_eq!(audited().await, rows);
    let page = server.get("/metrics").await.is(200);
    assert!(!page.as_str().unwrap().contains("workflow_transitions_total{"), "{page}");
}

#[tokio::test]
async fn a_dry_run_shows_that_the_run_would_be_paused() {
    let server = start_server().await;
    let definition = json!({"states": [
        {"name": "draft", "initial": true, "on": {"SUBMIT": {"to": "route"}}},
        {"name": "route", "entry": [{"type": "auto_action", "target": "ROUTE"}], "on": {
            "ROUTE": {"to": "done", "set": {"total": "{{ctx.price * 2}}"}},
        }},
        {"name": "done", "terminal": true},
    ]});
    let evaluate = async |context: Value| {
        let request = json!({"definition": definition, "state": "draft", "context": context, "action": "SUBMIT"});
        server.post("/v1/workflows/evaluate", &request).await.is(200)["result"].clone()
    };
    let would = evaluate(json!({"price": 4})).await;
    assert_eq!((&would["nextState"], &would["pause"]), (&json!("done"), &Value::Null), "{would}");
    let would = evaluate(json!({})).await;
    assert_eq!((&would["success"], &would["nextState"]), (&json!(true), &json!("route")), "{would}");
    assert_eq!(would["pause"]["code"], "EXPRESSION_ERROR", "{would}");
    assert!(would["pause"]["message"].as_str().unwrap().contains("ctx.price"), "{would}");
}

#[tokio::test]
async fn a_definition_is_evaluated_before_it_is_saved() {
    let server = start_server().await;
    let reader = tokens::token(&server, "rex", &["workflow:read"]);
    let ask =
        async |request: &Value| tokens::ask(&server, &reader, Method::POST, "/v1/workflows/evaluate", request).await;
    let context = json!({"amount": 20, "manager": "rex"});
    let request = json!({"definition": expense(), "state": "review", "context": context});
    let shown = ask(&request).await.is(200);
    assert_eq!(
        (&shown["state"], &shown["assigned"], &shown["result"]),
        (&json!("review"), &json!(["rex"]), &Value::Null)
    );
    assert_eq!(shown["actions"][1]["open"], true);
    assert!(shown["due"].is_string(), "{shown}");
    let request = json!({"workflow": "expense", "version": 1, "state": "review", "context": context, "action": "REJECT", "comment": "no"});
    let shown = ask(&request).await.is(200);
    assert_eq!(
        (&shown["result"]["success"], &shown["result"]["nextState"]),
        (&json!(true), &json!("rejected")),
        "{shown}"
    );
    for (request, status) in [
        (json!({"state": "review"}), 400),
        (json!({"workflow": "expense", "definition": expense(), "state": "review"}), 400),
        (json!({"workflow": "expense", "state": "nowhere"}), 422),
        (json!({"workflow": "expense", "version": 7, "state": "review"}), 404),
        (json!({"workflow": "nothing", "state": "review"}), 404),
        (json!({"definition": {"states": []}, "state": "review"}), 422),
        (json!({"definition": crate::support::chain(&[]), "state": "review"}), 422),
        (json!({"workflow": "expense", "state": "review", "as": {"user": "x"}}), 403),
    ] {
        let answer = ask(&request).await;
        assert_eq!(answer.status, status, "{request}: {}", answer.body);
    }
    assert_eq!(server.get("/v1/runs").await.is(200)["runs"], json!([]));
    // The names of these routes are not names of workflows.
    for name in ["evaluate", "rename"] {
        let new = json!({"name": name, "definition": expense()});
        server.post("/v1/workflows", &new).await.refuses(400, "VALIDATION_ERROR");
    }
}
