//! Definitions of state machines: saved, versioned, validated, exported and run as those of graphs.

use serde_json::{Value, json};

use crate::support::{Server, chain};

fn machine() -> Value {
    json!({
        "workflow": "Expense",
        "version": 1,
        "description": "its purpose",
        "context_schema": {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]},
        "options": {"retentionDays": 9},
        "states": [
            {"name": "open", "initial": true, "on": {
                "APPROVE": {"to": "approved", "require": {"user": "ann"}},
                "REJECT": {"to": "rejected"},
            }},
            {"name": "approved", "terminal": true},
            {"name": "rejected", "terminal": true, "error": true},
        ],
    })
}

#[tokio::test]
async fn a_machine_is_saved_versioned_and_shown() {
    let server = Server::start().await;
    let saved = server.put("/v1/workflows/expense", &machine()).await.is(201);
    let shown = [&saved["style"], &saved["version"], &saved["description"], &saved["retentionDays"]];
    assert_eq!(shown, [&json!("machine"), &json!(1), &json!("its purpose"), &json!(9)]);
    // In canonical form.
    assert_eq!(saved["definition"]["contextSchema"], machine()["context_schema"]);
    assert_eq!(saved["definition"]["version"], "1");
    assert_eq!(saved["definition"]["states"][0]["on"]["APPROVE"]["require"], json!({"user": ["ann"]}));
    // The same definition is the same version, in either form.
    assert_eq!(server.put("/v1/workflows/expense", &machine()).await.is(200), saved);
    assert_eq!(server.put("/v1/workflows/expense", &saved["definition"]).await.is(200), saved);

    let mut other = machine();
    other["states"][1]["output"] = json!({"by": "{{meta.user.id}}"});
    let second = server.put("/v1/workflows/expense?activate=false", &other).await.is(200);
    assert_eq!((&second["version"], &second["activeVersion"]), (&json!(2), &json!(1)));
    server.post("/v1/workflows/expense/activate", &json!({"version": 2})).await.is(200);
    let listed = server.get("/v1/workflows").await.is(200);
    assert_eq!((&listed[0]["style"], &listed[0]["activeVersion"]), (&json!("machine"), &json!(2)));
}

#[tokio::test]
async fn a_name_belongs_to_one_style() {
    let server = Server::start().await;
    server.put("/v1/workflows/expense", &machine()).await.is(201);
    let problem = server.put("/v1/workflows/expense", &chain(&[])).await.refuses(409, "WORKFLOW_STYLE_CONFLICT");
    assert!(problem["detail"].as_str().unwrap().contains("machine"), "{problem}");
    server.put("/v1/workflows/graph", &chain(&[])).await.is(201);
    server.put("/v1/workflows/graph", &machine()).await.refuses(409, "WORKFLOW_STYLE_CONFLICT");
}

#[tokio::test]
async fn a_machine_is_exported_imported_and_cloned() {
    let server = Server::start().await;
    server.put("/v1/workflows/expense", &machine()).await.is(201);
    let document = server.get("/v1/workflows/expense/export").await.is(200);
    assert_eq!(document["style"], "machine");
    let imported = server.post("/v1/workflows/import?name=copy", &document).await.is(201);
    assert_eq!((&imported["style"], &imported["digest"]), (&json!("machine"), &document["digest"]));
    let cloned = server.post("/v1/workflows/expense/clone", &json!({"name": "twin"})).await.is(201);
    assert_eq!((&cloned["style"], &cloned["digest"]), (&json!("machine"), &document["digest"]));
}

#[tokio::test]
async fn the_problems_of_a_machine_are_reported_with_their_codes() {
    let server = Server::start().await;
    assert_eq!(server.post("/v1/workflows/validate", &machine()).await.is(200)["valid"], true);
    let mut wrong = machine();
    wrong["states"][0]["on"]["APPROVE"]["to"] = json!("aproved");
    wrong["states"][0]["on"]["REJECT"]["condition"] = json!("amount > 5");
    let checked = server.post("/v1/workflows/validate", &wrong).await.is(200);
    let problems = checked["problems"].as_array().unwrap();
    let expected = json!({
        "code": "MACHINE_UNKNOWN_TARGET",
        "path": "/states/0/on/APPROVE/to",
        "message": "there is no state \"aproved\"",
        "hint": "did you mean \"approved\"?",
    });
    assert_eq!((&problems[0], &problems[1]["code"]), (&expected, &json!("CONDITION_NOT_JSON_LOGIC")), "{checked}");
    let refused = server.put("/v1/workflows/expense", &wrong).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"], checked["problems"]);
    let mut both = machine();
    both["nodes"] = json!([]);
    for unclear in [both, json!({})] {
        let refused = server.put("/v1/workflows/expense", &unclear).await.refuses(422, "VALIDATION_ERROR");
        assert!(refused["problems"][0]["hint"].as_str().unwrap().contains("`states`"), "{refused}");
    }
    assert_eq!(server.get("/v1/workflows").await.is(200), json!([]));
}

#[tokio::test]
async fn the_input_of_a_machine_fits_the_given_part_of_its_context_schema() {
    let server = Server::start().await;
    server.put("/v1/workflows/expense", &machine()).await.is(201);
    let start = async |input: Value| server.post("/v1/workflows/expense/runs", &json!({"input": input})).await;
    let refused = start(json!({"amount": "5"})).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"][0]["path"], "/amount");
    start(json!([5])).await.refuses(422, "VALIDATION_ERROR");
    // A required field may be added by a later transition.
    for input in [json!({}), json!({"amount": 5})] {
        let run = start(input).await.is(201);
        let run = format!("/v1/runs/{}", run["run"]["id"].as_str().unwrap());
        server.wait_for(&run, "waiting").await;
    }
}

#[tokio::test]
async fn a_machine_that_is_not_saved_is_run_as_a_test() {
    let server = Server::start().await;
    let test = json!({"definition": machine(), "input": {"amount": 5}});
    let run = server.post("/v1/test-runs", &test).await.is(201);
    let run = format!("/v1/runs/{}", run["run"]["id"].as_str().unwrap());
    server.wait_for(&run, "waiting").await;
    assert_eq!(server.get("/v1/workflows").await.is(200), json!([]));
}
