//! Transitions and votes with files.

use axum::http::Method;
use futures_util::future;
use serde_json::{Value, json};

use super::{bearer, download, upload_as};
use crate::people as tokens;
use crate::support::{Answer, Server};

/// A contract that two of three persons approve, with a file of the person who offers it.
fn contract() -> Value {
    json!({"states": [
        {"name": "draft", "initial": true, "on": {
            "OFFER": {"to": "review", "needs": {"files": 1}},
            "NOTE": {"to": "draft"},
        }},
        {"name": "review", "assign": ["ann", "bob", "cid"], "on": {
            "APPROVE": {
                "to": "signed", "require": {"assigned": true}, "quorum": {"of": ["ann", "bob", "cid"], "need": 2},
            },
            "REJECT": {"to": "draft", "require": {"assigned": true}},
        }},
        {"name": "signed", "terminal": true},
    ]})
}

async fn start_server() -> Server {
    let server = tokens::start().await;
    server.publish("contract", &contract()).await;
    server
}

/// Starts a contract, and returns the path of the run.
async fn start(server: &Server) -> String {
    let started = server.post("/v1/workflows/contract/runs", &Value::Null).await.is(201);
    format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap())
}

async fn act(server: &Server, person: &str, run: &str, request: &Value) -> Answer {
    let bearer = bearer(server, person);
    let path = format!("{run}/transitions");
    server.ask(Method::POST, &path, &[("authorization", &bearer)], &request.to_string()).await
}

async fn last_entry(server: &Server, run: &str) -> Value {
    server.get(&format!("{run}/history?limit=500")).await.is(200)["entries"].as_array().unwrap().last().unwrap().clone()
}

#[tokio::test]
async fn a_file_is_bound_to_the_entry_that_names_it() {
    let server = start_server().await;
    let run = start(&server).await;
    let file = upload_as(&server, "ann", "application/pdf", b"%PDF-1.7 hello").await;
    let problem = act(&server, "ann", &run, &json!({"action": "OFFER"})).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(problem["errors"], json!([{"field": "files", "message": "this action needs a file"}]));
    let actions = server.get(&format!("{run}/actions")).await.is(200);
    assert_eq!(actions["actions"][0]["needs"]["files"], 1, "{actions}");
    act(&server, "ann", &run, &json!({"action": "OFFER", "files": [file]})).await.is(200);
    let entry = last_entry(&server, &run).await;
    let shown = json!([{
        "id": file, "name": "report.bin", "size": 14, "mediaType": "application/pdf", "isDeleted": false,
    }]);
    assert_eq!((&entry["action"], &entry["files"]), (&json!("OFFER"), &shown));
    // Every caller who may read the run may read its files.
    let path = format!("/v1/files/{file}");
    assert_eq!(download(&server, &path, &[("x-api-key", server.key())]).await.2, "%PDF-1.7 hello");
    assert_eq!(download(&server, &path, &[("authorization", &bearer(&server, "bob"))]).await.0, 200);
    assert_eq!(download(&server, &path, &[("authorization", &bearer(&server, "eve"))]).await.0, 404);
    let made = server.post("/v1/workspaces", &json!({"name": "theirs"})).await.is(201);
    let stranger = [("x-api-key", made["secret"].as_str().unwrap())];
    for path in [&path, &format!("/api/files/{file}")] {
        server.ask(Method::GET, path, &stranger, "").await.refuses(404, "NOT_FOUND");
    }
    // It belongs to this entry alone.
    act(&server, "ann", &run, &json!({"action": "REJECT", "files": [file]})).await.refuses(422, "FILE_TAKEN");
    let other = start(&server).await;
    act(&server, "ann", &other, &json!({"action": "OFFER", "files": [file]})).await.refuses(422, "FILE_TAKEN");
}

#[tokio::test]
async fn votes_bind_their_files() {
    let server = start_server().await;
    let run = start(&server).await;
    let offer = upload_as(&server, "ann", "text/plain", b"offer").await;
    act(&server, "ann", &run, &json!({"action": "OFFER", "attachments": [offer]})).await.is(200);
    let opinions =
        [upload_as(&server, "ann", "text/plain", b"1").await, upload_as(&server, "bob", "text/plain", b"2").await];
    act(&server, "ann", &run, &json!({"action": "APPROVE", "attachment_ids": [opinions[0]]})).await.is(200);
    let vote = last_entry(&server, &run).await;
    assert_eq!((&vote["kind"], &vote["files"][0]["id"]), (&json!("vote"), &json!(opinions[0])));
    let withdrawal = json!({"action": "APPROVE", "withdraw": true, "files": [opinions[1]]});
    act(&server, "ann", &run, &withdrawal).await.refuses(422, "VALIDATION_ERROR");
    act(&server, "bob", &run, &json!({"action": "APPROVE", "files": [opinions[1]]})).await.is(200);
    assert_eq!(server.get(&run).await.is(200)["status"], "completed");
    for file in opinions {
        assert_eq!(download(&server, &format!("/v1/files/{file}"), &[("x-api-key", server.key())]).await.0, 200);
    }
}

#[tokio::test]
async fn only_the_person_who_uploaded_a_file_names_it() {
    let server = start_server().await;
    let run = start(&server).await;
    let file = upload_as(&server, "ann", "text/plain", b"hello").await;
    let offer = |files: Value| json!({"action": "OFFER", "files": files});
    let problem = act(&server, "bob", &run, &offer(json!([file]))).await.refuses(422, "FILE_NOT_FOUND");
    assert_eq!(problem["file"], json!(file));
    act(&server, "ann", &run, &offer(json!(["none"]))).await.refuses(422, "FILE_NOT_FOUND");
    act(&server, "ann", &run, &offer(json!([file, file]))).await.refuses(422, "VALIDATION_ERROR");
    let many: Vec<_> = (0..21).map(|_| uuid::Uuid::new_v4().to_string()).collect();
    act(&server, "ann", &run, &offer(json!(many))).await.refuses(422, "VALIDATION_ERROR");
    let missing = format!("/v1/runs/{}", uuid::Uuid::new_v4());
    act(&server, "ann", &missing, &offer(json!([file]))).await.refuses(404, "NOT_FOUND");
    let dry = json!({"action": "OFFER", "files": [file]});
    let shown = server.post(&format!("{run}/evaluate"), &dry).await.is(200);
    assert_eq!(shown["reasons"], json!([]), "{shown}");
    act(&server, "ann", &run, &offer(json!([file]))).await.is(200);
}

#[tokio::test]
async fn a_refused_transition_leaves_its_files_with_the_run() {
    let server = start_server().await;
    let (run, other) = (start(&server).await, start(&server).await);
    let file = upload_as(&server, "ann", "text/plain", b"hello").await;
    let stale = json!({"action": "OFFER", "version": 7, "files": [file]});
    act(&server, "ann", &run, &stale).await.refuses(409, "CONCURRENCY_ERROR");
    let offer = json!({"action": "OFFER", "files": [file]});
    act(&server, "ann", &other, &offer).await.refuses(422, "FILE_TAKEN");
    act(&server, "ann", &run, &offer).await.is(200);
}

#[tokio::test]
async fn a_repeated_request_with_files_has_the_first_answer() {
    let server = start_server().await;
    let run = start(&server).await;
    let file = upload_as(&server, "ann", "text/plain", b"hello").await;
    let ann = bearer(&server, "ann");
    let headers = [("authorization", &*ann), ("idempotency-key", "once")];
    let send =
        async |body: &Value| server.ask(Method::POST, &format!("{run}/transitions"), &headers, &body.to_string()).await;
    let offer = json!({"action": "OFFER", "files": [file]});
    let first = send(&offer).await.is(200);
    assert_eq!(send(&offer).await.is(200), first);
    send(&json!({"action": "OFFER"})).await.refuses(409, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn fifty_transitions_of_fifty_runs_bind_one_file_once() {
    let server = start_server().await;
    let file = upload_as(&server, "ann", "text/plain", b"hello").await;
    let mut runs = Vec::new();
    for _ in 0..50 {
        runs.push(start(&server).await);
    }
    let offer = json!({"action": "OFFER", "files": [file]});
    let answers = future::join_all(runs.iter().map(|run| act(&server, "ann", run, &offer))).await;
    let (bound, refused): (Vec<_>, Vec<_>) = runs.iter().zip(answers).partition(|(_, answer)| answer.status == 200);
    assert_eq!((bound.len(), refused.len()), (1, 49));
    for (run, answer) in refused {
        answer.refuses(422, "FILE_TAKEN");
        assert_eq!(last_entry(&server, run).await["action"], "@start");
    }
    assert_eq!(last_entry(&server, bound[0].0).await["files"][0]["id"], json!(file));
}

#[tokio::test]
async fn two_transitions_of_one_run_bind_one_file_once() {
    let server = start_server().await;
    let run = start(&server).await;
    let file = upload_as(&server, "ann", "text/plain", b"hello").await;
    let note = json!({"action": "NOTE", "files": [file]});
    let answers = future::join_all((0..10).map(|_| act(&server, "ann", &run, &note))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    for answer in answers.into_iter().filter(|answer| answer.status != 200) {
        assert!([409, 422].contains(&answer.status), "{}", answer.body);
    }
    assert_eq!(server.get(&run).await.is(200)["status"], "waiting");
    act(&server, "ann", &run, &note).await.refuses(422, "FILE_TAKEN");
}

#[tokio::test]
async fn a_file_expires_after_a_day() {
    let (server, machine) = tokens::start_on_clock().await;
    server.publish("contract", &contract()).await;
    let run = start(&server).await;
    let (used, unused) =
        (upload_as(&server, "ann", "text/plain", b"1").await, upload_as(&server, "ann", "text/plain", b"2").await);
    act(&server, "ann", &run, &json!({"action": "OFFER", "files": [used]})).await.is(200);
    machine.advance(24 * 3_600 + 60);
    let reject = json!({"action": "REJECT", "files": [unused]});
    act(&server, "ann", &run, &reject).await.refuses(422, "FILE_EXPIRED");
    let status = async |file: &str| {
        let ann = bearer(&server, "ann");
        download(&server, &format!("/v1/files/{file}"), &[("authorization", &ann)]).await.0
    };
    assert_eq!((status(&used).await, status(&unused).await), (200, 404));
    machine.advance(3_600);
    let world = server.engine.world();
    while world.files.sweep_files(world.clock.now(), 10).await.unwrap() > 0 {}
    assert_eq!(super::count_rows(&server), (1, 1));
    assert_eq!(status(&used).await, 200);
}

#[tokio::test]
async fn the_history_of_a_fork_names_the_files_of_its_original() {
    let server = start_server().await;
    let run = start(&server).await;
    let file = upload_as(&server, "ann", "text/plain", b"hello").await;
    act(&server, "ann", &run, &json!({"action": "OFFER", "files": [file]})).await.is(200);
    let at = server.get(&run).await.is(200)["version"].clone();
    let forked = server.post(&format!("{run}/fork"), &json!({ "at": at })).await.is(201);
    let fork = format!("/v1/runs/{}", forked["run"]["id"].as_str().unwrap());
    server.wait_for(&fork, "waiting").await;
    let entry = last_entry(&server, &fork).await;
    assert_eq!((&entry["files"][0]["id"], &entry["files"][0]["isDeleted"]), (&json!(file), &json!(false)));
    act(&server, "ann", &fork, &json!({"action": "REJECT", "files": [file]})).await.refuses(422, "FILE_TAKEN");
    // The original is deleted with its files.
    server.post(&format!("{run}/cancel"), &json!({})).await.is(200);
    server.wait_for(&run, "cancelled").await;
    let world = server.engine.world();
    let much_later = world.clock.now().plus(std::time::Duration::from_secs(4_000 * 86_400));
    assert_eq!(world.runs.sweep(much_later, 10).await.unwrap(), 1);
    let entry = last_entry(&server, &fork).await;
    let deleted = json!([{"id": file, "name": null, "size": null, "mediaType": null, "isDeleted": true}]);
    assert_eq!(entry["files"], deleted);
    server.get(&format!("/v1/files/{file}")).await.refuses(404, "NOT_FOUND");
    while world.files.sweep_files(much_later, 10).await.unwrap() > 0 {}
    assert_eq!(super::count_rows(&server), (0, 0));
    assert_eq!(last_entry(&server, &fork).await["files"], deleted);
}
