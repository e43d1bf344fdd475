//! Every attempt is counted and logged.

use axum::http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing_subscriber::filter::LevelFilter;

use super::{ACT, act, approval, start_as, start_server};
use crate::people as tokens;
use crate::support::{Server, until};

/// The number of attempts with a label.
async fn counted(server: &Server, labels: &str) -> u64 {
    let page = server.get("/metrics").await.is(200);
    let name = format!("workflow_transitions_total{{{labels}}} ");
    let lines = page.as_str().unwrap().lines().filter_map(|line| line.strip_prefix(&*name));
    lines.map(|count| count.parse::<u64>().unwrap()).sum()
}

fn labels(workflow: &str, action: &str, outcome: &str) -> String {
    format!("workflow_code=\"{workflow}\",action=\"{action}\",outcome=\"{outcome}\"")
}

#[tokio::test]
async fn every_attempt_is_counted_and_logged_with_its_outcome() {
    let (log, _logged) = tokens::keep_log(LevelFilter::INFO);
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    let id = run.trim_start_matches("/v1/runs/");
    act(&server, "mia", &run, &json!({"action": "APPROVE", "version": 9})).await.refuses(409, "CONCURRENCY_ERROR");
    act(&server, "eve", &run, &approval()).await.refuses(403, "PERMISSION_DENIED");
    act(&server, "mia", &run, &json!({"action": "APPROVE"})).await.refuses(422, "VALIDATION_ERROR");
    act(&server, "mia", &run, &json!({"action": "SHIP"})).await.refuses(422, "UNKNOWN_ACTION");
    act(&server, "mia", &run, &json!({"action": "SHIP", "version": 9})).await.refuses(409, "CONCURRENCY_ERROR");
    act(&server, "mia", &run, &json!({"act": "APPROVE"})).await.refuses(400, "VALIDATION_ERROR");
    act(&server, "mia", &run, &approval()).await.is(200);
    let missing = "/v1/runs/019a0000-0000-7000-8000-000000000000";
    act(&server, "mia", missing, &approval()).await.refuses(404, "NOT_FOUND");
    // A caller without the permission to act has tried, too.
    let viewer = tokens::token(&server, "vic", &["workflow:view"]);
    let answer = tokens::ask(&server, &viewer, Method::POST, &format!("{run}/transitions"), &approval()).await;
    answer.refuses(403, "PERMISSION_DENIED");
    for (action, outcome, count) in [
        ("APPROVE", "success", 1),
        ("APPROVE", "conflict", 1),
        ("APPROVE", "forbidden", 1),
        ("APPROVE", "validation_error", 1),
        ("unknown", "validation_error", 1),
        ("unknown", "conflict", 1),
    ] {
        assert_eq!(counted(&server, &labels("expense", action, outcome)).await, count, "{action} {outcome}");
    }
    // No workflow is known: a body that is not understood, a run that does not exist, and a caller without permission.
    assert_eq!(counted(&server, &labels("unknown", "unknown", "validation_error")).await, 2);
    assert_eq!(counted(&server, &labels("unknown", "unknown", "forbidden")).await, 1);
    let page = server.get("/metrics").await.is(200);
    let page = page.as_str().unwrap();
    for line in [
        "workflow_transition_duration_ms_count{workflow_code=\"expense\"} 6",
        "workflow_transition_duration_ms_bucket{workflow_code=\"expense\",le=\"+Inf\"} 6",
        "workflow_redlock_acquire_failures_total 0",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
    }
    assert!(page.contains("workflow_redlock_acquire_duration_ms_count "), "{page}");

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let attempts: Vec<_> =
        log.lines().filter(|line| line.contains(" transition ") && line.contains("outcome=")).collect();
    assert_eq!(attempts.len(), 9, "{log}");
    let approved = attempts.iter().find(|line| line.contains("outcome=\"success\"")).unwrap();
    for field in [
        format!("instanceId={id}"),
        "action=\"APPROVE\"".to_owned(),
        "fromState=\"review\"".to_owned(),
        "toState=\"approved\"".to_owned(),
        "userUuid=mia".to_owned(),
        "durationMs=".to_owned(),
    ] {
        assert!(approved.contains(&field), "{field}: {approved}");
    }
    let conflict = attempts.iter().find(|line| line.contains("outcome=\"conflict\"")).unwrap();
    assert!(conflict.contains("fromState=\"review\"") && !conflict.contains("toState"), "{conflict}");
}

#[tokio::test]
async fn an_attempt_of_a_client_that_has_disconnected_is_counted() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    let token = tokens::token(&server, "mia", ACT);
    let body = approval().to_string();
    let head = format!(
        "POST {run}/transitions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nexpect: 100-continue\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body when the attempt has begun.
    let mut line = [0; "HTTP/1.1 100 Continue".len()];
    stream.read_exact(&mut line).await.unwrap();
    assert_eq!(line, *b"HTTP/1.1 100 Continue");
    stream.write_all(body.as_bytes()).await.unwrap();
    drop(stream);
    until("the attempt", async || {
        (counted(&server, &labels("expense", "APPROVE", "success")).await == 1).then_some(())
    })
    .await;
    let shown = server.get(&run).await.is(200);
    assert_eq!((&shown["status"], &shown["error"]), (&json!("completed"), &Value::Null));
}
