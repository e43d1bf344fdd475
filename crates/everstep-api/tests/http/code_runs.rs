//! Runs of code workflows in the API.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::support::{Server, chain, until, wait_for_go};
use crate::workers::{Worker, completed, start};

#[tokio::test]
async fn a_run_of_a_name_that_no_worker_has_registered_waits_for_one_if_that_is_allowed() {
    let server = Server::start().await;
    let unserved = json!({"allowUnserved": true});
    let asked = json!({"input": 7, "version": 2, "allowUnserved": true});
    let started = server.post("/v1/workflows/onboard-user/runs", &asked).await.is(201);
    assert_eq!(started["warning"], "no worker serves onboard-user version 2; the run waits for one");
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let shown = server.get(&run).await.is(200);
    assert_eq!(shown["waitingFor"], "waits for a worker that serves onboard-user version 2: none is connected");
    // Without a version: the newest that a worker has registered, else the first, whatever was requested before.
    let newest = server.post("/v1/workflows/onboard-user/runs", &unserved).await.is(201);
    assert_eq!(newest["run"]["workflowVersion"], 1, "{newest}");
    let first = server.post("/v1/workflows/another/runs", &unserved).await.is(201);
    assert_eq!(first["run"]["workflowVersion"], 1, "{first}");
    let long = "n".repeat(129);
    for name in ["No", "-a", "a.b", &*long] {
        let problem = server.post(&format!("/v1/workflows/{name}/runs"), &Value::Null).await;
        problem.refuses(400, "VALIDATION_ERROR");
    }
    // When a worker serves it, the run continues.
    let mut worker = Worker::open(&server, &[("onboard-user", 1), ("onboard-user", 2)]).await;
    let served = server.post("/v1/workflows/onboard-user/runs", &json!({"version": 2})).await.is(201);
    assert_eq!(served["warning"], Value::Null);
    let mut turns = Vec::new();
    while turns.len() < 3 {
        turns.push(worker.turn().await);
        let turn = turns.last().unwrap().clone();
        let at = server.get(&format!("/v1/runs/{}", turn["run"].as_str().unwrap())).await.is(200);
        assert_eq!((&at["waitingFor"], &at["worker"]), (&json!("runs at worker host:1"), &json!("host:1")), "{at}");
        worker.send(&turn, &[json!({"kind": "returned"})]).await;
    }
    let ended = server.wait_for(&run, "completed").await;
    assert_eq!((&ended["waitingFor"], &ended["worker"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_start_of_an_unknown_name_is_refused_with_a_similar_one() {
    let server = Server::start().await;
    server.publish("invoice", &chain(&[])).await;
    Worker::open(&server, &[("order", 2)]).await.close().await;
    let refused = async |path: &str, body: &Value| {
        let problem = server.post(path, body).await.refuses(404, "WORKFLOW_NOT_FOUND");
        problem["hint"].as_str().unwrap().to_owned()
    };
    for (name, nearest) in [("ordr", "order"), ("invoce", "invoice")] {
        let question = format!("did you mean {nearest:?}? ");
        let path = format!("/v1/workflows/{name}/runs");
        for body in [Value::Null, json!({"version": 1}), json!({"version": 3}), json!({"allowUnserved": false})] {
            let hint = refused(&path, &body).await;
            assert!(hint.starts_with(&question) && hint.contains("allowUnserved"), "{hint}");
        }
        let hint = refused("/v1/workflow-runs", &json!({"definitionId": name})).await;
        assert!(hint.starts_with(&question) && hint.contains("allowUnserved"), "{hint}");
        let batch =
            server.post(&format!("{path}/batch"), &json!({"runs": [{}, {"allowUnserved": true}]})).await.is(207);
        assert_eq!(batch["runs"][0]["error"]["code"], "WORKFLOW_NOT_FOUND", "{batch}");
        assert!(batch["runs"][1]["created"] == true && batch["warning"].is_string(), "{batch}");
        // That start has created the name, but the workflow is still unknown.
        assert!(refused(&path, &Value::Null).await.starts_with(&question));
    }
    assert!(!refused("/v1/workflows/nothing-like-it/runs", &Value::Null).await.contains("did you mean"));
    // The start of a definition takes the advice of its hint, too.
    let unserved = |name: &str| json!({"definitionId": name, "allowUnserved": true});
    let started = server.post("/v1/workflow-runs", &unserved("later")).await.is(201);
    assert_eq!((&started["run"]["workflow"], &started["created"]), (&json!("later"), &json!(true)));
    server.post("/v1/workflow-runs", &unserved("No Name")).await.refuses(400, "VALIDATION_ERROR");
    server.post("/v1/workflows/order/runs", &json!({"allowUnserved": 1})).await.refuses(400, "VALIDATION_ERROR");
    // A worker has registered it, and has gone: every version may be started.
    for body in [Value::Null, json!({"version": 2}), json!({"version": 7})] {
        let started = server.post("/v1/workflows/order/runs", &body).await.is(201);
        assert!(started["warning"].as_str().unwrap().starts_with("no worker serves order version"), "{started}");
    }
    // Of a graph, only the versions that were saved exist.
    let hint = refused("/v1/workflows/invoice/runs", &json!({"version": 9, "allowUnserved": true})).await;
    assert_eq!(hint, "its newest version is 1");
}

#[tokio::test]
async fn a_graph_replaces_a_name_that_only_a_start_has_created() {
    let server = Server::start().await;
    let waits = start(&server, "order", &json!({"allowUnserved": true})).await;
    let new = json!({"name": "order", "definition": chain(&[])});
    let created = server.post("/v1/workflows", &new).await.is(201);
    assert_eq!((&created["style"], &created["version"]), (&json!("graph"), &json!(2)), "{created}");
    let run = start(&server, "order", &Value::Null).await;
    assert_eq!(server.wait_for(&run, "completed").await["workflowVersion"], 2);
    let versions = server.get("/v1/workflows/order/versions").await.is(200);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 1, "{versions}");
    let first = json!({"version": 1, "allowUnserved": true});
    server.post("/v1/workflows/order/runs", &first).await.refuses(404, "WORKFLOW_NOT_FOUND");
    // The run that waits for a worker can be cancelled.
    server.post(&format!("{waits}/cancel"), &Value::Null).await.is(200);
    server.wait_for(&waits, "cancelled").await;
    // Once a worker has registered a name, no graph replaces it.
    start(&server, "flow", &json!({"allowUnserved": true})).await;
    Worker::open(&server, &[("flow", 1)]).await;
    server.put("/v1/workflows/flow", &chain(&[])).await.refuses(409, "WORKFLOW_STYLE_CONFLICT");
}

#[tokio::test]
async fn the_end_of_a_function_is_shown_with_unawaited_steps_and_its_stack() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("flow", 1)]).await;
    let hello = server.post("/v1/worker/sessions", &crate::workers::hello(&[("other", 1)])).await.is(201);
    assert_eq!(hello["features"], json!(["unawaited", "topics"]), "{hello}");
    let returned = start(&server, "flow", &Value::Null).await;
    let turn = worker.turn().await;
    worker.send(&turn, &[json!({"kind": "returned", "output": 5, "unawaited": ["one", "two"]})]).await;
    let shown = server.get(&format!("{returned}?waitSeconds=10")).await.is(200);
    assert_eq!((&shown["output"], &shown["unawaited"]), (&json!(5), &json!(["one", "two"])), "{shown}");
    let last = async |run: &str| {
        let journal = server.get(&format!("{run}/journal")).await.is(200);
        journal["entries"].as_array().unwrap().last().unwrap()["data"].clone()
    };
    assert_eq!(last(&returned).await, json!({"output": 5, "unawaited": ["one", "two"]}));

    let threw = start(&server, "flow", &Value::Null).await;
    let turn = worker.turn().await;
    let stack = format!("TypeError: no\n    at run (order.js:3:9)\n{}", "x".repeat(20_000));
    let error = json!({"code": "TYPE", "message": "no", "stack": stack});
    worker.send(&turn, &[json!({"kind": "threw", "error": error, "unawaited": ["one"]})]).await;
    let shown = server.wait_for(&threw, "failed").await;
    let kept = shown["error"]["stack"].as_str().unwrap();
    assert!(kept.starts_with("TypeError: no\n    at run (order.js:3:9)\n") && kept.ends_with('…'), "{kept}");
    assert!(kept.len() <= 16 * 1024, "{}", kept.len());
    assert_eq!(shown["unawaited"], json!(["one"]));
    let entry = last(&threw).await;
    let error = json!({"code": "TYPE", "message": "no", "retryable": false, "stack": kept});
    assert_eq!(entry, json!({"error": error, "unawaited": ["one"]}));
    // Lists leave the stack out; a function that awaits everything names nothing.
    let listed = server.get("/v1/runs?status=failed").await.is(200);
    assert_eq!(listed["runs"][0]["error"], json!({"code": "TYPE", "message": "no"}));
    let plain = start(&server, "flow", &Value::Null).await;
    let turn = worker.turn().await;
    worker.send(&turn, &[json!({"kind": "returned"})]).await;
    assert_eq!(server.wait_for(&plain, "completed").await["unawaited"], json!([]));
    assert_eq!(last(&plain).await, json!({"output": null}));
    let turn = json!({"run": turn["run"], "turn": 1});
    let many = json!({"kind": "returned", "unawaited": vec!["x"; 21]});
    let refused = worker.send(&turn, &[many]).await;
    assert_eq!(refused[0]["refused"][0]["code"], "VALIDATION_ERROR", "{refused:?}");
}

#[tokio::test]
async fn the_steps_of_a_run_of_code_are_shown_with_their_times() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("flow", 1)]).await;
    let run = start(&server, "flow", &json!({"input": {"user": 1}})).await;
    let turn = worker.turn().await;
    let failed = json!({"kind": "failed", "step": "mail.send", "attempt": 1, "error": {"message": "no", "code": "SMTP"},
        "retry": {"attempts": 1}, "logs": ["trying"], "tookMs": 2});
    let sleep = json!({"kind": "sleep", "step": "nap", "forMs": 3_600_000});
    let wait = json!({"kind": "wait", "step": "verified", "match": {"ok": true}, "timeoutMs": 3_600_000});
    worker.send(&turn, &[completed("create", &json!({"id": 17})), failed, sleep, wait]).await;
    let signal = format!("{run}/signals/verified");
    let ignored = server.post(&signal, &json!({"ok": false})).await.is(200);
    let reason = r#"a wait for this signal exists, but its match differs: step "verified" expects {"ok":true}"#;
    assert_eq!(ignored, json!({"outcome": "ignored", "reason": reason}));
    assert_eq!(server.post(&signal, &json!({"ok": true, "by": "x"})).await.is(200), json!({"outcome": "accepted"}));
    let steps = server.get(&format!("{run}/steps")).await.is(200);
    let rows: Vec<_> = steps["steps"].as_array().unwrap().clone();
    let received: Vec<_> =
        rows.iter().map(|row| (row["key"].clone(), row["type"].clone(), row["status"].clone())).collect();
    let row = |key: &str, kind: &str, status: &str| (json!(key), json!(kind), json!(status));
    let expected = [
        row("create", "run", "completed"),
        row("mail.send", "run", "failed"),
        row("nap", "sleep", "waiting"),
        row("verified", "wait", "completed"),
    ];
    assert_eq!(received, expected, "{steps}");
    assert_eq!((&rows[0]["output"], &rows[0]["durationMs"]), (&json!({"id": 17}), &json!(0.25)));
    assert_eq!((&rows[1]["error"]["code"], &rows[1]["attempts"][0]["logs"]), (&json!("SMTP"), &json!(["trying"])));
    assert_eq!(rows[3]["output"], json!({"ok": true, "by": "x"}));
    let of_workflow = run.replace("/v1/runs", "/v1/workflows/flow/runs");
    assert_eq!(server.get(&format!("{of_workflow}/steps")).await.is(200), steps);
    let first = server.get(&format!("{run}/steps?limit=1")).await.is(200);
    let next = format!("{run}/steps?limit=2&cursor={}", first["nextCursor"].as_str().unwrap());
    let keys: Vec<_> =
        server.get(&next).await.is(200)["steps"].as_array().unwrap().iter().map(|row| row["key"].clone()).collect();
    assert_eq!(keys, ["mail.send", "nap"]);
    let context = server.get(&format!("{run}/context")).await.is(200);
    let given = json!({"create": {"id": 17}, "verified": {"ok": true, "by": "x"}});
    assert_eq!(context["context"], json!({"input": {"user": 1}, "steps": given}));
    let before = server.get(&format!("{run}/context?at=3")).await.is(200);
    assert_eq!(before["context"], json!({"input": {"user": 1}, "steps": {"create": {"id": 17}}}));
    let logs = server.get(&format!("{run}/logs")).await.is(200);
    assert_eq!((&logs["logs"][0]["step"], &logs["logs"][0]["line"]), (&json!("mail.send"), &json!("trying")));
    let journal = server.get(&format!("{run}/journal")).await.is(200);
    let find = |event: &str| {
        let entries = journal["entries"].as_array().unwrap();
        entries.iter().find(|entry| entry["event"] == event).unwrap_or_else(|| panic!("{event}: {journal}")).clone()
    };
    assert_eq!(find("TurnStarted")["data"], json!({"turn": 1, "worker": "host:1"}));
    assert!(find("StepCompleted")["data"]["startedAt"].is_string());
    let opened = find("WaitOpened");
    assert_eq!((&opened["step"], &opened["data"]["match"]), (&json!("verified"), &json!({"ok": true})));
    let resolved = find("WaitResolved");
    assert_eq!((&resolved["data"]["by"], &resolved["data"]["event"]), (&json!("signal"), &json!("verified")));
}

#[tokio::test]
async fn a_signal_may_be_kept_until_something_waits_for_it() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("flow", 1)]).await;
    let run = start(&server, "flow", &Value::Null).await;
    let turn = worker.turn().await;
    let signal = format!("{run}/signals/paid");
    assert_eq!(server.post(&signal, &json!(1)).await.is(200)["outcome"], "ignored");
    let keep = format!("{signal}?buffer=true");
    let key = [("idempotency-key", "once")];
    assert_eq!(server.post_with(&keep, &key, &json!({"n": 2})).await.is(200), json!({"outcome": "buffered"}));
    assert_eq!(server.post_with(&keep, &key, &json!({"n": 2})).await.is(200), json!({"outcome": "repeated"}));
    server.post(&format!("{signal}?buffer=maybe"), &json!(1)).await.refuses(400, "VALIDATION_ERROR");
    let answers = worker.send(&turn, &[json!({"kind": "wait", "step": "paid"})]).await;
    let wakes: Vec<_> =
        answers.iter().flat_map(|message| message["wakes"].as_array().cloned().unwrap_or_default()).collect();
    let wake = match wakes.first() {
        Some(wake) => wake.clone(),
        None => worker.poll().await[0]["wakes"][0].clone(),
    };
    assert_eq!((&wake["status"], &wake["payload"]), (&json!("resolved"), &json!({"n": 2})), "{wake}");
    let journal = server.get(&format!("{run}/journal")).await.is(200);
    let kept = journal["entries"].as_array().unwrap().iter().find(|entry| entry["event"] == "SignalBuffered");
    let kept = kept.unwrap_or_else(|| panic!("{journal}"));
    assert_eq!((&kept["data"]["event"], kept["data"]["until"].is_string()), (&json!("paid"), true));
    // A graph buffers nothing.
    let graph = server.start_chain("graph", &[crate::support::wait_for_go()]).await;
    server.post(&format!("{graph}/signals/go?buffer=true"), &json!(1)).await.refuses(422, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_workflow_of_code_has_no_definition() {
    let server = Server::start().await;
    Worker::open(&server, &[("flow", 1), ("flow", 3)]).await;
    let shown = server.get("/v1/workflows/flow").await.is(200);
    assert_eq!((&shown["style"], &shown["version"], &shown["definition"]), (&json!("code"), &json!(3), &Value::Null));
    let listed = server.get("/v1/workflows").await.is(200);
    assert_eq!((&listed[0]["style"], &listed[0]["activeVersion"]), (&json!("code"), &json!(3)), "{listed}");
    let versions = server.get("/v1/workflows/flow/versions").await.is(200);
    assert_eq!(versions["versions"].as_array().unwrap().len(), 2, "{versions}");
    server.get("/v1/workflows/flow/export").await.refuses(409, "WORKFLOW_STYLE_CONFLICT");
    let clone = server.post("/v1/workflows/flow/clone", &json!({"name": "copy"})).await;
    clone.refuses(409, "WORKFLOW_STYLE_CONFLICT");
    let problem = server.put("/v1/workflows/flow", &chain(&[])).await.refuses(409, "WORKFLOW_STYLE_CONFLICT");
    assert!(problem["hint"].as_str().is_some(), "{problem}");
    let new = json!({"name": "flow", "definition": chain(&[])});
    let status = server.post("/v1/workflows", &new).await.status;
    assert_eq!(status, 409);
    // The version for new runs may be selected, and the whole workflow may be deleted.
    server.post("/v1/workflows/flow/activate", &json!({"version": 1})).await.is(200);
    let started = server.post("/v1/workflows/flow/runs", &Value::Null).await.is(201);
    assert_eq!(started["run"]["workflowVersion"], 1);
    server.delete("/v1/workflows/flow").await.refuses(409, "WORKFLOW_IN_USE");
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    server.post(&format!("{run}/cancel"), &Value::Null).await.is(200);
    server.wait_for(&run, "cancelled").await;
    server.delete("/v1/workflows/flow").await.is(204);
}

#[tokio::test]
async fn the_version_that_starts_take_is_chosen_by_workers_and_operators() {
    let server = Server::start().await;
    let version = async || {
        let started = server.post("/v1/workflows/flow/runs", &Value::Null).await.is(201);
        started["run"]["workflowVersion"].clone()
    };
    // A start may name a version before its workers exist.
    server.post("/v1/workflows/flow/runs", &json!({"version": 7, "allowUnserved": true})).await.is(201);
    Worker::open(&server, &[("flow", 1)]).await;
    assert_eq!(version().await, 1);
    Worker::open(&server, &[("flow", 3)]).await;
    assert_eq!(version().await, 3);
    server.post("/v1/workflows/flow/activate", &json!({"version": 1})).await.is(200);
    Worker::open(&server, &[("flow", 3)]).await;
    assert_eq!(version().await, 1);
    Worker::open(&server, &[("flow", 7)]).await;
    assert_eq!(version().await, 7);
}

#[tokio::test]
async fn a_worker_is_notified_that_a_run_was_cancelled() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("flow", 1)]).await;
    let run = start(&server, "flow", &Value::Null).await;
    let turn = worker.turn().await;
    server.post(&format!("{run}/cancel"), &json!({"reason": "enough"})).await.is(200);
    let received = worker.poll().await;
    let cancelled = json!({"run": turn["run"], "turn": 1, "reason": "cancelled", "detail": "enough"});
    assert_eq!(received[0]["cancels"], json!([cancelled]), "{received:?}");
    let answers = worker.send(&turn, &[completed("late", &json!(1))]).await;
    assert_eq!(answers[0]["refused"][0]["code"], "RUN_ENDED", "{answers:?}");
}

#[tokio::test]
async fn many_runs_are_started_at_once() {
    let server = Server::start().await;
    server.publish("plain", &chain(&[])).await;
    let runs: Vec<_> = (0..200).map(|n| json!({"input": {"n": n}, "tags": {"batch": "b"}})).collect();
    let started = server.post("/v1/workflows/plain/runs/batch", &json!({"runs": runs})).await.is(200);
    let started = started["runs"].as_array().unwrap().clone();
    assert!(started.len() == 200 && started.iter().all(|one| one["created"] == true), "{started:?}");
    for n in [0, 99, 199] {
        let run = server.get(&format!("/v1/runs/{}", started[n]["id"].as_str().unwrap())).await.is(200);
        assert_eq!(run["input"], json!({"n": n}));
    }
    // Each separately: the error of one is in its position.
    let mixed = json!({"runs": [
        {"idempotencyKey": "k"},
        {"idempotencyKey": "k"},
        {"version": 9},
        {"tags": {"": "x"}},
        {"input": {"text": "a\u{0}b"}},
        {},
    ]});
    let answer = server.post("/v1/workflows/plain/runs/batch", &mixed).await.is(207);
    let codes: Vec<_> = answer["runs"].as_array().unwrap().iter().map(|one| one["error"]["code"].clone()).collect();
    let wrong = json!("VALIDATION_ERROR");
    let expected = [Value::Null, Value::Null, json!("WORKFLOW_NOT_FOUND"), wrong.clone(), wrong, Value::Null];
    assert_eq!(codes, expected, "{answer}");
    let [first, second] = [&answer["runs"][0], &answer["runs"][1]];
    assert_eq!(first["id"], second["id"]);
    assert!(first["created"] != second["created"], "{answer}");
    let unserved = json!({"runs": [{"allowUnserved": true}, {"version": 4, "allowUnserved": true}]});
    let code = server.post("/v1/workflows/unknown/runs/batch", &unserved).await.is(200);
    assert!(code["warning"].as_str().unwrap().contains("no worker serves unknown version"), "{code}");
    let path = "/v1/workflows/plain/runs/batch";
    let many = json!({"runs": vec![json!({}); 1_001]});
    for body in [json!({}), json!({"runs": []}), json!({"runs": [{"x": 1}]}), many] {
        server.post(path, &body).await.refuses(400, "VALIDATION_ERROR");
    }
    server.post("/v1/workflows/No/runs/batch", &json!({"runs": [{}]})).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_start_of_a_batch_returns_the_status_of_a_run_that_exists() {
    let server = Server::start().await;
    server.publish("plain", &chain(&[])).await;
    server.publish("open", &chain(&[wait_for_go()])).await;
    // The permission to view runs is not needed, as for a single start.
    let key = server.key_with(&[Permission::Manage]).await;
    for (name, status) in [("plain", "completed"), ("open", "waiting")] {
        let path = format!("/v1/workflows/{name}/runs/batch");
        let batch = json!({"runs": [{"idempotencyKey": "k"}]}).to_string();
        let start = async || server.ask(Method::POST, &path, &[("x-api-key", &key)], &batch).await.is(200);
        let first = start().await;
        server.wait_for(&format!("/v1/runs/{}", first["runs"][0]["id"].as_str().unwrap()), status).await;
        let again = start().await;
        assert_eq!((&again["runs"][0]["created"], &again["runs"][0]["status"]), (&json!(false), &json!(status)));
    }
}

#[tokio::test]
async fn a_key_of_a_batch_is_a_run_s_own() {
    let server = Server::start().await;
    server.publish("plain", &chain(&[])).await;
    let path = "/v1/workflows/plain/runs/batch";
    let long = "k".repeat(256);
    let keys = json!({"runs": [{}, {"idempotencyKey": ""}, {"idempotencyKey": long}, {"idempotencyKey": "k"}]});
    let answer = server.post(path, &keys).await.is(207);
    let is_started: Vec<_> = answer["runs"].as_array().unwrap().iter().map(|one| one["id"].is_string()).collect();
    assert_eq!(is_started, [true, false, false, true], "{answer}");
    assert_eq!(answer["runs"][1]["error"]["code"], "VALIDATION_ERROR");
    // A header would apply to all of them.
    let headed = server.post_with(path, &[("idempotency-key", "once")], &json!({"runs": [{}]})).await;
    let problem = headed.refuses(400, "VALIDATION_ERROR");
    assert!(problem["hint"].as_str().unwrap().contains("idempotencyKey"), "{problem}");
    assert_eq!(server.get("/v1/runs").await.is(200)["runs"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_start_names_a_version_that_a_worker_could_serve() {
    let server = Server::start().await;
    Worker::open(&server, &[("flow", 1)]).await;
    for name in ["flow", "unknown"] {
        for version in [0_u32, 2_147_483_648, u32::MAX] {
            let path = format!("/v1/workflows/{name}/runs");
            let asked = json!({"version": version});
            let problem = server.post(&path, &asked).await.refuses(400, "VALIDATION_ERROR");
            assert!(problem["path"] == "version" && problem["hint"].is_string(), "{problem}");
            let answer = server.post(&format!("{path}/batch"), &json!({"runs": [{"version": 1}, asked]})).await.is(207);
            assert_eq!(answer["runs"][1]["error"]["path"], "version", "{answer}");
        }
    }
    let last = server.post("/v1/workflows/flow/runs", &json!({"version": 2_147_483_647})).await.is(201);
    assert_eq!(last["run"]["workflowVersion"], 2_147_483_647);
}

#[tokio::test]
async fn an_unreadable_payload_is_rejected_where_it_enters() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("flow", 1)]).await;
    let half = r#"{"order": 7, "note": "\ud83d"}"#;
    let key = [("x-api-key", server.key())];
    for input in [half, "1e400"] {
        let body = format!(r#"{{"input": {input}}}"#);
        let answer = server.ask(Method::POST, "/v1/workflows/flow/runs", &key, &body).await;
        answer.refuses(400, "VALIDATION_ERROR");
    }
    let run = start(&server, "flow", &Value::Null).await;
    let turn = worker.turn().await;
    worker.send(&turn, &[json!({"kind": "wait", "step": "paid", "match": {"order": 7}})]).await;
    let signal = format!("{run}/signals/paid");
    server.ask(Method::POST, &signal, &key, half).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(server.post(&signal, &json!({"order": 7})).await.is(200), json!({"outcome": "accepted"}));
}

#[tokio::test]
async fn a_run_without_a_worker_reports_it_whatever_is_open() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("flow", 1)]).await;
    let unserved = "waits for a worker that serves flow version 1: none is connected";
    let (naps, waits) = (start(&server, "flow", &Value::Null).await, start(&server, "flow", &Value::Null).await);
    for _ in 0..2 {
        let turn = worker.turn().await;
        let is_nap = naps.ends_with(turn["run"].as_str().unwrap());
        let nap = json!({"kind": "sleep", "step": "nap", "forMs": 200});
        let wait = json!({"kind": "wait", "step": "paid"});
        worker.send(&turn, &[if is_nap { nap } else { wait }]).await;
    }
    // One sleeps, and is due after its worker has disconnected; the other has a step in progress beside its wait.
    worker.close().await;
    let says = async |run: &str| server.get(run).await.is(200)["waitingFor"].clone();
    for run in [&naps, &waits] {
        until(unserved, async || (says(run).await == unserved).then_some(())).await;
    }
    // A run that is not due waits for its open steps, whichever workers are connected; a paused one is paused.
    server.post(&format!("{waits}/pause"), &Value::Null).await.is(200);
    assert!(says(&waits).await.as_str().unwrap().starts_with("is paused"));
}

#[tokio::test]
async fn a_fork_lists_the_steps_that_workers_perform_again() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("flow", 1)]).await;
    let run = start(&server, "flow", &Value::Null).await;
    let turn = worker.turn().await;
    for step in ["reserve", "charge"] {
        worker.send(&turn, &[completed(step, &Value::Null)]).await;
    }
    // Entries 1 to 3: the run and its turn began, and something was reserved.
    let forked = server.post(&format!("{run}/fork"), &json!({"at": 3})).await.is(201);
    assert_eq!(forked["notUndone"]["steps"], json!(["charge"]), "{forked}");
}
