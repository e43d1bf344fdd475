//! The paths of the reference system.

use axum::http::Method;
use serde_json::{Value, json};

use super::{ACT, expense, start_as, start_server};
use crate::people as tokens;
use crate::support::{Answer, Server};

const KEY: (&str, &str) = ("idempotency-key", "once");

/// Sends a request under a key of its own.
async fn ask(server: &Server, method: Method, path: &str, body: &Value) -> Answer {
    ask_under(server, &uuid::Uuid::new_v4().to_string(), method, path, body).await
}

async fn ask_under(server: &Server, key: &str, method: Method, path: &str, body: &Value) -> Answer {
    server.ask_as_admin(method, &format!("/workflow-engine/{path}"), &[("idempotency-key", key)], body).await
}

#[tokio::test]
async fn an_instance_is_moved_and_shown_under_the_other_names() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    let instance = run.replace("/v1/runs", "/workflow-engine/instances");
    let bearer = format!("Bearer {}", tokens::token(&server, "mia", ACT));
    let request = json!({"action": "APPROVE", "version_no": 1, "data": {"account": "4711"}}).to_string();
    let send = async |headers: &[(&str, &str)]| {
        let headers: Vec<_> = headers.iter().copied().chain([("authorization", &*bearer)]).collect();
        server.ask(Method::POST, &format!("{instance}/transition"), &headers, &request).await
    };
    // The key is required.
    let problem = send(&[]).await.refuses(400, "VALIDATION_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("Idempotency-Key"), "{problem}");
    let shown = tokens::get(&server, bearer.trim_start_matches("Bearer "), &instance).await.is(200);
    assert_eq!(
        (&shown["status"], &shown["state"], &shown["versionNo"]),
        (&json!("ACTIVE"), &json!("review"), &json!(1))
    );
    assert_eq!((&shown["workflowCode"], &shown["workflowVersion"]), (&json!("expense"), &json!(1)));
    assert_eq!((&shown["availableActions"], &shown["context"]["amount"]), (&json!(["APPROVE", "REJECT"]), &json!(20)));
    assert_eq!(shown["startedBy"], json!({"kind": "person", "id": "ann"}));
    let moved = send(&[KEY]).await.is(200);
    assert_eq!(
        (&moved["success"], &moved["nextState"], &moved["versionNo"]),
        (&json!(true), &json!("approved"), &json!(2))
    );
    assert_eq!(send(&[KEY]).await.is(200), moved);
    let shown = server.get(&instance).await.is(200);
    assert_eq!((&shown["status"], &shown["availableActions"]), (&json!("COMPLETED"), &json!([])));
    let history = server.get(&format!("{instance}/history")).await.is(200);
    assert_eq!(history, server.get(&format!("{run}/history")).await.is(200));
    assert_eq!(server.get(&format!("{instance}/actions")).await.is(200)["state"], "approved");
    // The other statuses.
    for (path, body, status) in [
        ("cancel", json!({}), "CANCELLED"),
        ("transitions", json!({"action": "REJECT", "comment": "no"}), "TERMINATED"),
    ] {
        let run = start_as(&server, "ann", 20).await;
        let token = tokens::token(&server, "mia", &["workflow:manage"]);
        tokens::ask(&server, &token, Method::POST, &format!("{run}/{path}"), &body).await.is(200);
        let instance = run.replace("/v1/runs", "/workflow-engine/instances");
        assert_eq!(server.get(&instance).await.is(200)["status"], status);
    }
}

#[tokio::test]
async fn definitions_are_created_changed_activated_and_deactivated() {
    let server = start_server().await;
    // A definition with a name of its own, as the reference system has it.
    let mut dsl = expense();
    dsl["workflow"] = json!("travel");
    let new = json!({"dsl": dsl});
    let problem = server.post("/workflow-engine/definitions", &new).await.refuses(400, "VALIDATION_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("Idempotency-Key"), "{problem}");
    let made = ask(&server, Method::POST, "definitions", &new).await;
    assert_eq!(made.headers["location"], "/workflow-engine/definitions/travel@1");
    let made = made.is(201);
    assert_eq!(
        (&made["id"], &made["isActive"], &made["activeVersion"]),
        (&json!("travel@1"), &json!(false), &Value::Null)
    );
    assert_eq!(ask(&server, Method::POST, "definitions", &new).await.is(200)["version"], 1);
    // No version is active: a start must name one.
    server.post("/v1/workflows/travel/runs", &json!({})).await.refuses(404, "WORKFLOW_NOT_FOUND");
    let active = ask(&server, Method::PATCH, "definitions/travel@1", &json!({"is_active": true})).await.is(200);
    assert_eq!((&active["isActive"], &active["activeVersion"]), (&json!(true), &json!(1)));
    let input = json!({"input": {"amount": 1, "manager": "mia"}});
    let started = server.post("/v1/workflows/travel/runs", &input).await.is(201);
    // A changed definition is a new version; the active one stays until it is asked for.
    dsl["description"] = json!("Another text.");
    let changed = ask(&server, Method::PATCH, "definitions/travel", &json!({"dsl": dsl})).await.is(200);
    assert_eq!(
        (&changed["id"], &changed["isActive"], &changed["activeVersion"]),
        (&json!("travel@2"), &json!(false), &json!(1))
    );
    dsl["description"] = json!("A third text.");
    let changed =
        ask(&server, Method::PATCH, "definitions/travel", &json!({"dsl": dsl, "isActive": true})).await.is(200);
    assert_eq!((&changed["id"], &changed["activeVersion"]), (&json!("travel@3"), &json!(3)));
    // A version that is not active is not deactivated.
    let kept = ask(&server, Method::PATCH, "definitions/travel@2", &json!({"isActive": false})).await.is(200);
    assert_eq!((&kept["id"], &kept["activeVersion"]), (&json!("travel@2"), &json!(3)));
    let none = ask(&server, Method::PATCH, "definitions/travel", &json!({"isActive": false})).await.is(200);
    assert_eq!((&none["id"], &none["activeVersion"]), (&json!("travel@3"), &Value::Null));
    server.post("/v1/workflows/travel/runs", &input).await.refuses(404, "WORKFLOW_NOT_FOUND");
    // A run stays on its version.
    let run = server.get(&format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap())).await.is(200);
    assert_eq!((&run["workflowVersion"], &run["status"]), (&json!(1), &json!("waiting")));

    let shown = server.get("/workflow-engine/definitions/travel@1").await.is(200);
    assert_eq!((&shown["version"], &shown["dsl"]["states"][0]["name"]), (&json!(1), &json!("review")));
    // Without an active version, the newest one is shown.
    assert_eq!(server.get("/workflow-engine/definitions/travel").await.is(200)["version"], 3);
    server.publish("graph", &crate::support::chain(&[])).await;
    let listed = server.get("/workflow-engine/definitions").await.is(200);
    let ids: Vec<_> = listed["definitions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["expense@1", "travel@3"]);
    for id in ["graph", "nothing", "travel@9", "travel@0", "travel@x"] {
        server.get(&format!("/workflow-engine/definitions/{id}")).await.refuses(404, "NOT_FOUND");
    }
    for (body, status) in [
        (json!({}), 400),
        (json!({"active": true}), 400),
        (json!({"dsl": {"states": []}}), 422),
        (json!({"dsl": crate::support::chain(&[])}), 422),
    ] {
        let answer = ask(&server, Method::PATCH, "definitions/travel", &body).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let graph = json!({"workflowCode": "graph", "dsl": expense()});
    ask(&server, Method::POST, "definitions", &graph).await.refuses(409, "WORKFLOW_STYLE_CONFLICT");
    ask(&server, Method::POST, "definitions", &json!({"dsl": expense()})).await.refuses(400, "VALIDATION_ERROR");
    // Only those who may publish change definitions.
    let viewer = tokens::token(&server, "vic", &["workflow:read", "workflow:manage"]);
    let bearer = format!("Bearer {viewer}");
    let headers = [("authorization", &*bearer), KEY];
    for (method, path) in [(Method::POST, "definitions"), (Method::PATCH, "definitions/travel")] {
        let answer = server.ask(method, &format!("/workflow-engine/{path}"), &headers, "{\"isActive\": true}").await;
        answer.refuses(403, "PERMISSION_DENIED");
    }
    let superadmin = tokens::token_with(&server, "sue", &json!({"permissions": ["system.manage_all"]}));
    let bearer = format!("Bearer {superadmin}");
    let headers = [("authorization", &*bearer), KEY];
    server.ask(Method::PATCH, "/workflow-engine/definitions/travel", &headers, "{\"isActive\": true}").await.is(200);
}

#[tokio::test]
async fn a_repeated_request_does_not_revert_a_newer_definition() {
    let server = start_server().await;
    let new = |text: &str| {
        let mut dsl = expense();
        dsl["description"] = json!(text);
        json!({"workflowCode": "travel", "dsl": dsl, "isActive": true})
    };
    let post = async |key: &str, text: &str| ask_under(&server, key, Method::POST, "definitions", &new(text)).await;
    let active = async || server.get("/workflow-engine/definitions/travel").await.is(200)["version"].clone();
    assert_eq!(post("one", "first").await.is(201)["version"], 1);
    assert_eq!(post("two", "second").await.is(201)["version"], 2);
    // The client has not received the first response.
    let again = post("one", "first").await;
    assert_eq!(again.headers["location"], "/workflow-engine/definitions/travel@1");
    assert_eq!((&again.is(200)["version"], active().await), (&json!(1), json!(2)));
    assert_eq!(server.get("/v1/workflows/travel/versions").await.is(200)["versions"].as_array().unwrap().len(), 2);
    // Another request cannot have the same key; under another one the older definition is saved again.
    post("one", "third").await.refuses(409, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(post("three", "first").await.is(201)["version"], 3);

    let patch = async |key: &str, id: &str, body: Value| {
        ask_under(&server, key, Method::PATCH, &format!("definitions/{id}"), &body).await
    };
    let activate = json!({"isActive": true});
    assert_eq!(patch("four", "travel@1", activate.clone()).await.is(200)["activeVersion"], 1);
    let changed = json!({"dsl": new("fourth")["dsl"], "isActive": true});
    assert_eq!(patch("five", "travel", changed.clone()).await.is(200)["activeVersion"], 4);
    assert_eq!(patch("four", "travel@1", activate).await.is(200)["activeVersion"], 4);
    let none = json!({"dsl": new("fifth")["dsl"], "isActive": false});
    assert_eq!(patch("six", "travel", none.clone()).await.is(200)["id"], "travel@5");
    for (key, body, id) in [("five", changed, "travel@4"), ("six", none, "travel@5")] {
        let again = patch(key, "travel", body).await.is(200);
        assert_eq!((&again["id"], &again["activeVersion"]), (&json!(id), &Value::Null));
    }
    patch("six", "travel", json!({"isActive": true})).await.refuses(409, "IDEMPOTENCY_KEY_REUSED");
    // The version that is named is not active: there is nothing to deactivate.
    assert_eq!(patch("seven", "travel@1", json!({"isActive": true})).await.is(200)["activeVersion"], 1);
    let inactive = json!({"dsl": new("sixth")["dsl"], "isActive": false});
    assert_eq!(patch("eight", "travel@2", inactive.clone()).await.is(200)["id"], "travel@6");
    assert_eq!(patch("nine", "travel", json!({"dsl": new("seventh")["dsl"]})).await.is(200)["id"], "travel@7");
    let again = patch("eight", "travel@2", inactive).await.is(200);
    assert_eq!((&again["id"], &again["activeVersion"]), (&json!("travel@6"), &json!(1)));
    assert_eq!(server.get("/v1/workflows/travel/versions").await.is(200)["versions"].as_array().unwrap().len(), 7);
    // Another workflow has keys of its own.
    let other = json!({"workflowCode": "other", "dsl": expense()});
    assert_eq!(ask_under(&server, "one", Method::POST, "definitions", &other).await.is(201)["id"], "other@1");
}

#[tokio::test]
async fn a_definition_is_validated_with_all_its_errors() {
    let server = start_server().await;
    let validate = async |body: &Value| server.post("/workflow-engine/definitions/validate", body).await.is(200);
    assert_eq!(validate(&expense()).await, json!({"valid": true, "errors": []}));
    assert_eq!(validate(&json!({"dsl": expense()})).await["valid"], true);
    // No field is ignored, whether it is beside the DSL or the DSL is a field of a definition.
    let mut beside = expense();
    beside["dsl"] = expense();
    for (body, path) in [(json!({"dsl": expense(), "a/b": 1}), "/a~1b"), (beside, "/states")] {
        let found = validate(&body).await;
        assert_eq!(found["valid"], false, "{found}");
        assert!(found["errors"].as_array().unwrap().iter().any(|error| error["path"] == path), "{found}");
    }
    let wrong = json!({"states": [
        {"name": "a", "initial": true, "on": {"GO": {"to": "c", "condition": "amount > 5"}}},
        {"name": "b", "initial": true, "terminal": true},
    ]});
    let found = validate(&wrong).await;
    assert_eq!(found["valid"], false);
    let codes: Vec<_> =
        found["errors"].as_array().unwrap().iter().map(|error| error["code"].as_str().unwrap_or("")).collect();
    for code in ["MACHINE_UNKNOWN_TARGET", "CONDITION_NOT_JSON_LOGIC", "MACHINE_SEVERAL_INITIAL"] {
        assert!(codes.contains(&code), "{code}: {found}");
    }
    assert!(
        found["errors"]
            .as_array()
            .unwrap()
            .iter()
            .all(|error| error["path"].is_string() && error["message"].is_string())
    );
    assert_eq!(validate(&crate::support::chain(&[])).await["valid"], false);
    let dry = json!({"workflow_code": "expense", "current_state": "review", "context": {"amount": 5, "manager": "x"}});
    assert_eq!(server.post("/workflow-engine/evaluate", &dry).await.is(200)["state"], "review");
}
