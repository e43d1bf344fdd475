//! Schemas: of the inputs of runs, and of workflow files; with the other checks of a definition that is saved.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::support::{Server, chain};
use crate::workers::Worker;

fn input_schema() -> Value {
    json!({
        "type": "object",
        "properties": {"amount": {"type": "number", "minimum": 1}, "note": {"type": "string"}},
        "required": ["amount"],
    })
}

fn with_schema() -> Value {
    let mut definition = chain(&[]);
    definition["inputSchema"] = input_schema();
    definition
}

fn misfit() -> Value {
    json!({"amount": 0, "note": 5})
}

/// The problems of an input that does not fit.
fn problems() -> Value {
    json!([
        {"path": "/amount", "message": "0 is out of range: it must be at least 1"},
        {"path": "/note", "message": "expected a string, found a number"},
    ])
}

#[tokio::test]
async fn a_start_whose_input_does_not_fit_is_refused_with_one_problem_per_path() {
    let server = Server::start().await;
    let saved = server.put("/v1/workflows/order", &with_schema()).await.is(201);
    assert_eq!(saved["inputSchema"], input_schema());
    assert_eq!(server.get("/v1/workflows/order").await.is(200)["inputSchema"], input_schema());

    let refused = server.post("/v1/workflows/order/runs", &json!({"input": misfit()})).await;
    let refused = refused.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"], problems());
    assert!(refused["detail"].as_str().unwrap().contains("inputSchema of workflow \"order\" version 1"), "{refused}");
    // Without an input the run would get {}.
    let missing = server.post("/v1/workflows/order/runs", &json!({})).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(missing["problems"], json!([{"path": "/amount", "message": "`amount` is missing"}]));
    let by_definition = json!({"definitionId": "order", "input": misfit()});
    let refused = server.post("/v1/workflow-runs", &by_definition).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"], problems());
    assert_eq!(server.get("/v1/runs").await.is(200)["runs"], json!([]));

    // In a batch each start is checked by itself.
    let batch = json!({"runs": [{"input": {"amount": 2}}, {"input": misfit()}, {"input": {"amount": 3}}]});
    let started = server.post("/v1/workflows/order/runs/batch", &batch).await.is(207);
    assert_eq!(started["runs"][1]["error"]["code"], "VALIDATION_ERROR");
    assert_eq!(started["runs"][1]["error"]["problems"], problems());
    assert!(started["runs"][0]["id"].is_string() && started["runs"][2]["id"].is_string(), "{started}");
    assert_eq!(server.get("/v1/runs").await.is(200)["runs"].as_array().unwrap().len(), 2);

    let test = json!({"definition": with_schema(), "input": misfit()});
    let refused = server.post("/v1/test-runs", &test).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"], problems());
    let test = json!({"definition": with_schema(), "input": {"amount": 1}});
    server.post("/v1/test-runs", &test).await.is(201);

    // The schema of a workflow without one is null.
    server.put("/v1/workflows/free", &chain(&[])).await.is(201);
    assert_eq!(server.get("/v1/workflows/free").await.is(200)["inputSchema"], Value::Null);
}

#[tokio::test]
async fn a_repeated_start_finds_its_run_although_its_input_does_not_fit_a_later_version() {
    let server = Server::start().await;
    server.put("/v1/workflows/order", &chain(&[])).await.is(201);
    server.put("/v1/workflows/other", &with_schema()).await.is(201);
    let of_workflow = json!({"input": misfit(), "idempotencyKey": "k"});
    let of_definition = json!({"definitionId": "order", "input": misfit(), "idempotencyKey": "k"});
    let batch = json!({"runs": [{"input": misfit(), "idempotencyKey": "b"}]});
    let start = async |path: &str, body: &Value, status: u16| server.post(path, body).await.is(status);
    let path = "/v1/workflows/order/runs";
    let first = start(path, &of_workflow, 201).await["run"]["id"].clone();
    let second = start("/v1/workflow-runs", &of_definition, 201).await["run"]["id"].clone();
    let third = start(&format!("{path}/batch"), &batch, 200).await["runs"][0]["id"].clone();

    server.put("/v1/workflows/order", &with_schema()).await.is(200);
    for path in [path.to_owned(), format!("{path}?waitSeconds=5")] {
        let again = start(&path, &of_workflow, 200).await;
        assert_eq!((&again["run"]["id"], &again["created"]), (&first, &json!(false)));
    }
    let again = start("/v1/workflow-runs", &of_definition, 200).await;
    assert_eq!((&again["run"]["id"], &again["created"]), (&second, &json!(false)));
    let again = start(&format!("{path}/batch"), &batch, 200).await;
    assert_eq!((&again["runs"][0]["id"], &again["runs"][0]["created"]), (&third, &json!(false)));
    // Another key is another start, and so is the same key for another workflow.
    let other = json!({"input": misfit(), "idempotencyKey": "l"});
    server.post(path, &other).await.refuses(422, "VALIDATION_ERROR");
    server.post("/v1/workflows/other/runs", &of_workflow).await.refuses(422, "VALIDATION_ERROR");
    let other = json!({"definitionId": "order", "input": misfit(), "idempotencyKey": "b"});
    server.post("/v1/workflow-runs", &other).await.refuses(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn an_input_schema_that_is_not_checked_is_refused_at_save_with_its_path() {
    let server = Server::start().await;
    let mut definition = chain(&[]);
    definition["inputSchema"] = json!({"properties": {"a": {"unevaluatedProperties": false, "type": "text"}}});
    let refused = server.put("/v1/workflows/order", &definition).await.refuses(422, "VALIDATION_ERROR");
    let found = refused["problems"].as_array().unwrap();
    let paths: Vec<_> = found.iter().map(|problem| problem["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/inputSchema/properties/a/type", "/inputSchema/properties/a/unevaluatedProperties"]);
    assert!(found[1]["message"].as_str().unwrap().contains("`unevaluatedProperties`"), "{refused}");
}

#[tokio::test]
async fn a_worker_registers_the_schema_of_an_input() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let hello = |schema: Value| {
        let workflows = json!([{"name": "order", "version": 1, "inputSchema": schema}]);
        json!({"protocol": 1, "worker": "host:1", "capacity": 1, "workflows": workflows})
    };
    let open = async |schema: Value| server.ask_as(&key, Method::POST, "/v1/worker/sessions", &hello(schema)).await;
    let refused = open(json!({"properties": {"a": {"nullable": true}}})).await.refuses(400, "VALIDATION_ERROR");
    assert_eq!(refused["path"], "workflows[0].inputSchema/properties/a/nullable");
    open(json!("object")).await.refuses(400, "VALIDATION_ERROR");
    server.get("/v1/workflows/order").await.refuses(404, "NOT_FOUND");

    open(input_schema()).await.is(201);
    let shown = server.get("/v1/workflows/order").await.is(200);
    assert_eq!((&shown["style"], &shown["inputSchema"]), (&json!("code"), &input_schema()));
    assert_eq!(shown["definition"], Value::Null);
    let refused = server.post("/v1/workflows/order/runs", &json!({"input": misfit()})).await;
    assert_eq!(refused.refuses(422, "VALIDATION_ERROR")["problems"], problems());
    server.post("/v1/workflows/order/runs", &json!({"input": {"amount": 1}})).await.is(201);
    // A worker of the same version without a schema removes it.
    Worker::open(&server, &[("order", 1)]).await;
    server.post("/v1/workflows/order/runs", &json!({"input": misfit()})).await.is(201);
    assert_eq!(server.get("/v1/workflows/order").await.is(200)["inputSchema"], Value::Null);
}

#[tokio::test]
async fn the_schema_of_a_graph_file_is_there_for_every_key() {
    let server = Server::start().await;
    let schema = server.get("/v1/schemas/graph").await.is(200);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/graph.schema.json");
    let documented: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(schema, documented);
    let serving = server.key_with(&[Permission::Serve]).await;
    server.ask_as(&serving, Method::GET, "/v1/schemas/graph", &Value::Null).await.is(200);
    for unknown in ["code", "Graph", "graph.json"] {
        let problem = server.get(&format!("/v1/schemas/{unknown}")).await.refuses(404, "NOT_FOUND");
        assert_eq!(problem["hint"], "the known names are: graph, machine");
    }
    // A definition that names the schema is saved with it.
    let mut definition = chain(&[]);
    definition["$schema"] = json!("http://127.0.0.1:7373/v1/schemas/graph");
    let saved = server.put("/v1/workflows/order", &definition).await.is(201);
    assert_eq!(saved["definition"]["$schema"], definition["$schema"]);
}

#[tokio::test]
async fn the_schema_of_a_machine_file_is_there_for_every_key() {
    let server = Server::start().await;
    let serving = server.key_with(&[Permission::Serve]).await;
    let schema = server.ask_as(&serving, Method::GET, "/v1/schemas/machine", &Value::Null).await.is(200);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/machine.schema.json");
    let documented: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(schema, documented);
}

#[tokio::test]
async fn a_definition_that_names_an_unknown_secret_is_saved_with_a_warning() {
    let server = Server::start().await;
    let headers = json!({"Authorization": {"$secret": "shop-token"}, "X-Other": {"$secret": "known"}});
    let config = json!({"url": "https://shop.example/", "headers": headers});
    let definition = chain(&[json!({"id": "ask", "type": "http", "config": config})]);
    server.put("/v1/secrets/known", &json!({"value": "x"})).await.is(201);
    let expected = json!([{
        "code": "UNKNOWN_SECRET",
        "node": "ask",
        "path": "/nodes/1/config/headers/Authorization",
        "message": "the workspace has no secret \"shop-token\"",
        "hint": "create it before a run reaches this node: everstep secrets set, or PUT /v1/secrets/{name}",
    }]);
    let received = server.post("/v1/workflows/validate", &definition).await.is(200);
    assert_eq!(
        (&received["valid"], &received["problems"], &received["warnings"]),
        (&json!(true), &json!([]), &expected)
    );
    let saved = server.put("/v1/workflows/shop", &definition).await.is(201);
    assert_eq!(saved["warnings"], expected);
    let created = server.post("/v1/workflows", &json!({"name": "shop-2", "definition": definition})).await.is(201);
    assert_eq!(created["warnings"], expected);
    server.put("/v1/secrets/shop-token", &json!({"value": "y"})).await.is(201);
    assert_eq!(server.post("/v1/workflows/validate", &definition).await.is(200)["warnings"], json!([]));
    assert_eq!(server.put("/v1/workflows/shop", &definition).await.is(200)["warnings"], Value::Null);
}

#[tokio::test]
async fn one_round_reports_every_problem() {
    let server = Server::start().await;
    let definition = chain(&[
        json!({"id": "odd", "type": "javascrip", "config": {"code": "return 1"}}),
        json!({"id": "script", "type": "javascript", "config": {"code": "const a = 1;\nreturn a +* 2;"}}),
        json!({"id": "sum", "type": "transform", "config": {"value": "{{ctx.totl}}"}}),
    ]);
    let received = server.post("/v1/workflows/validate", &definition).await.is(200);
    let found = received["problems"].as_array().unwrap();
    let places: Vec<_> = found.iter().map(|problem| (&problem["path"], &problem["code"])).collect();
    assert_eq!(
        places,
        [
            (&json!("/nodes/1/type"), &Value::Null),
            (&json!("/nodes/2/config/code"), &json!("SYNTAX_ERROR")),
            (&json!("/nodes/3/config/value"), &json!("UNKNOWN_VARIABLE")),
        ]
    );
    let message = found[1]["message"].as_str().unwrap();
    assert!(message.starts_with("SyntaxError: ") && message.ends_with(" at line 2, column 11"), "{message}");
    let refused = server.put("/v1/workflows/odd", &definition).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(refused["problems"], received["problems"]);
}
