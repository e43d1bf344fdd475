//! Runs as server-sent events: a snapshot, then every update, once, up to the end.

use std::time::{Duration, Instant};

use axum::http::Method;
use everstep_api::Streams;
use everstep_api::auth::Permission;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use serde_json::{Value, json};

use crate::stream::{Stream, entries, statuses};
use crate::support::{Server, add_key, chain, revoke, wait_for_go};

async fn journal(server: &Server, run: &str) -> Vec<Value> {
    let page = server.get(&format!("{run}/journal?limit=1000")).await.is(200);
    assert!(page["nextAfter"].is_null());
    page["entries"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_run_is_followed_from_its_snapshot_to_its_end() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let shown = server.wait_for(&run, "waiting").await;
    assert!(shown["owner"].is_null(), "it sleeps in the database");
    let mut stream = Stream::open(&server, &format!("{run}/events"), &[]).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert_eq!(stream.headers["cache-control"], "no-store");
    assert_eq!(stream.headers["x-accel-buffering"], "no");
    assert_eq!(stream.block().await.unwrap(), "retry: 1000");
    let snapshot = stream.next().await.unwrap();
    assert_eq!((&*snapshot.name, snapshot.id), ("snapshot", shown["version"].as_u64()));
    assert_eq!(snapshot.data["run"], shown);
    assert_eq!(snapshot.data["context"]["input"], json!({}));
    let context = snapshot.data["context"].as_object().unwrap();
    assert!(context.keys().all(|name| !name.starts_with("__")), "{context:?}");

    server.post(&format!("{run}/signals/go"), &json!({"n": 7})).await.is(200);
    let events = stream.rest().await;
    let known = usize::try_from(snapshot.id.unwrap()).unwrap();
    assert_eq!(entries(&events), journal(&server, &run).await[known..]);
    assert_eq!(statuses(&events), ["completed"]);
    let last = events.last().unwrap();
    assert_eq!((&*last.name, &last.data), ("end", &json!({"status": "completed"})));
}

#[tokio::test]
async fn a_client_that_reconnects_misses_nothing_and_gets_nothing_twice() {
    let server = Server::start().await;
    let noop = |id: &str| json!({"id": id, "type": "noop"});
    let run = server.start_chain("steps", &[noop("a"), wait_for_go(), noop("b")]).await;
    server.wait_for(&run, "waiting").await;
    let path = format!("{run}/events");
    // Read a little, disconnect, reconnect with the last id: before and after the run has continued.
    let mut first = Stream::open(&server, &format!("{path}?after=0"), &[]).await;
    let mut received = vec![first.next().await.unwrap(), first.next().await.unwrap()];
    drop(first);
    let id = received[1].id.unwrap().to_string();
    // The header takes precedence: a browser sends it with its original address.
    let mut second = Stream::open(&server, &format!("{path}?after=0"), &[("last-event-id", &id)]).await;
    received.extend(second.until(|event| event.name == "status").await);
    server.post(&format!("{run}/signals/go"), &json!({})).await.is(200);
    server.wait_for(&run, "completed").await;
    drop(second);
    let id = received.iter().filter_map(|event| event.id).next_back().unwrap().to_string();
    received.extend(Stream::open(&server, &path, &[("last-event-id", &id)]).await.rest().await);
    let journal = journal(&server, &run).await;
    assert_eq!(entries(&received), journal);
    assert_eq!(statuses(&received), ["waiting", "completed"]);
    // From every entry.
    for after in 0..journal.len() {
        let events = Stream::open(&server, &format!("{path}?after={after}"), &[]).await.rest().await;
        assert_eq!(entries(&events), journal[after..], "after {after}");
        assert_eq!(statuses(&events), ["completed"]);
        assert_eq!(events.last().unwrap().name, "end");
    }
    // Nothing will ever follow: a browser must not reconnect.
    let last = journal.len().to_string();
    let headers = [("x-api-key", server.key()), ("last-event-id", &last)];
    assert_eq!(server.ask(Method::GET, &path, &headers, "").await.status, 204);
    // A client that begins with an ended run receives the run, and its end.
    let events = Stream::open(&server, &path, &[]).await.rest().await;
    assert_eq!(events.iter().map(|event| &*event.name).collect::<Vec<_>>(), ["snapshot", "end"]);
    assert_eq!(events[0].data["run"]["status"], "completed");
}

#[tokio::test]
async fn pauses_failures_and_retries_are_sent() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    let mut stream = Stream::open(&server, &format!("{run}/events"), &[]).await;
    let mut received = Vec::new();
    for (control, status) in [("pause", "paused"), ("resume", "waiting"), ("cancel", "cancelled")] {
        server.post(&format!("{run}/{control}"), &Value::Null).await.is(200);
        received.extend(stream.until(|event| event.name == "status").await);
        assert_eq!(received.last().unwrap().data["status"], status);
    }
    assert_eq!(stream.next().await.unwrap().data, json!({"status": "cancelled"}));
    assert!(stream.next().await.is_none());
    assert_eq!(entries(&received).len(), 3);

    let fails = json!({"id": "js", "type": "javascript", "retry": {"maxAttempts": 1},
        "config": {"code": "if (ctx.fixed) return 1; throw new Error('no')"}});
    let run = server.start_chain("fails", &[wait_for_go(), fails]).await;
    server.wait_for(&run, "waiting").await;
    let mut stream = Stream::open(&server, &format!("{run}/events?after=0"), &[]).await;
    server.post(&format!("{run}/signals/go"), &json!({})).await.is(200);
    let mut received = stream.rest().await;
    assert_eq!(received.last().unwrap().data, json!({"status": "failed"}));
    // A failed run may be retried: a client that connects then receives its continuation.
    let id = received.iter().filter_map(|event| event.id).next_back().unwrap();
    server.post(&format!("{run}/retry"), &Value::Null).await.is(200);
    received.extend(Stream::open(&server, &format!("{run}/events?after={id}"), &[]).await.rest().await);
    assert_eq!(entries(&received), journal(&server, &run).await);
}

#[tokio::test]
async fn a_stream_shows_that_it_lives() {
    let server = Server::start_with(Streams { heartbeat: Duration::from_millis(20), ..Streams::default() }).await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let mut stream = Stream::open(&server, &format!("{run}/events"), &[]).await;
    stream.until(|event| event.name == "snapshot").await;
    while stream.block().await.unwrap() != ":" {}
    assert_eq!(stream.block().await.unwrap(), ":");
}

#[tokio::test]
async fn a_caller_without_permission_cannot_follow_a_run() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let path = format!("{run}/events");
    let ask = async |key: &str, path: &str| server.ask(Method::GET, path, &[("x-api-key", key)], "").await;
    server.ask(Method::GET, &path, &[], "").await.refuses(401, "AUTH_ERROR");
    ask(&format!("es_{}", "a".repeat(43)), &path).await.refuses(401, "AUTH_ERROR");
    let weak = server.key_with(&[Permission::Read, Permission::Manage]).await;
    ask(&weak, &path).await.refuses(403, "PERMISSION_DENIED");
    let other = add_key(&*server.access, WorkspaceId::new(Timestamp::from_millis(1), 1), &[Permission::Admin]).await;
    ask(&other, &path).await.refuses(404, "NOT_FOUND");
    server.get(&format!("{path}?api_key={}", server.key())).await.refuses(401, "AUTH_ERROR");
    server.get("/v1/runs/019a0000-0000-7000-8000-000000000000/events").await.refuses(404, "NOT_FOUND");
    server.get("/v1/runs/x/events").await.refuses(404, "NOT_FOUND");
    for wrong in ["after=1000", "after=-1", "after=x", "afterr=1"] {
        server.get(&format!("{path}?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
    let headers = [("x-api-key", server.key()), ("last-event-id", "x")];
    server.ask(Method::GET, &path, &headers, "").await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn streams_are_limited_per_key_and_per_node() {
    let server = Server::start_with(Streams { per_node: 3, per_key: 2, ..Streams::default() }).await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let path = format!("{run}/events");
    let (one, two) = (server.key_with(&[Permission::View]).await, server.key_with(&[Permission::View]).await);
    let (one, two) = ([("x-api-key", &*one)], [("x-api-key", &*two)]);
    let held = [Stream::open_with(&server, &path, &one).await, Stream::open_with(&server, &path, &one).await];
    let answer = server.ask(Method::GET, &path, &one, "").await;
    assert!(answer.headers.contains_key("retry-after"));
    answer.refuses(429, "TOO_MANY_STREAMS");
    let _third = Stream::open_with(&server, &path, &two).await;
    server.ask(Method::GET, &path, &two, "").await.refuses(503, "UNAVAILABLE");
    drop(held);
    for _ in 0..500 {
        let response = server.send(Method::GET, &path, &two, "").await;
        if response.status() == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a stream that was closed still counts");
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_at_once() {
    let mut server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let mut stream = Stream::open(&server, &format!("{run}/events"), &[]).await;
    stream.until(|event| event.name == "snapshot").await;
    let began = Instant::now();
    drop(server.running.take());
    assert!(stream.next().await.is_none());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_reader_that_does_not_read_delays_no_other() {
    let server = Server::start().await;
    let code = "return 'x'.repeat(200000)";
    let big = (0..60).map(|n| json!({"id": format!("big{n}"), "type": "javascript", "config": {"code": code}}));
    let steps: Vec<_> = std::iter::once(wait_for_go()).chain(big).collect();
    let run = server.start_chain("big", &steps).await;
    server.wait_for(&run, "waiting").await;
    // Twelve megabytes are written while this reader does not read.
    let mut slow = Stream::open(&server, &format!("{run}/events?after=0"), &[]).await;
    server.post(&format!("{run}/signals/go"), &json!({})).await.is(200);
    assert_eq!(server.get(&format!("{run}?waitSeconds=30")).await.is(200)["status"], "completed");
    let events = slow.rest().await;
    let received: Vec<_> = entries(&events).iter().map(|entry| entry["seq"].as_u64().unwrap()).collect();
    let version = server.get(&run).await.is(200)["version"].as_u64().unwrap();
    assert_eq!(received, (1..=version).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_ticket_opens_a_stream_that_outlives_it() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let weak = server.key_with(&[Permission::Manage]).await;
    let ticket = async |key: &str| {
        let made = server.ask(Method::POST, "/v1/tickets", &[("x-api-key", key)], "").await;
        assert_eq!(made.status / 100, 2, "{}", made.body);
        made.body["ticket"].as_str().unwrap().to_owned()
    };
    let path = format!("{run}/events?ticket={}", ticket(server.key()).await);
    let mut stream = Stream::open_with(&server, &path, &[]).await;
    assert_eq!(stream.next().await.unwrap().name, "snapshot");
    // A browser reconnects with the same address and the id that it received last.
    let mut again = Stream::open_with(&server, &path, &[("last-event-id", "1")]).await;
    assert_eq!(again.next().await.unwrap().id, Some(2));
    let path = format!("{run}/events?ticket={}", ticket(&weak).await);
    server.ask(Method::GET, &path, &[], "").await.refuses(403, "PERMISSION_DENIED");
    let path = format!("{run}/events?ticket=est_{}", "0".repeat(144));
    server.ask(Method::GET, &path, &[], "").await.refuses(401, "AUTH_ERROR");
}

#[tokio::test]
async fn a_key_that_is_revoked_ends_its_streams_within_seconds() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let key = server.key_with(&[Permission::View]).await;
    let mut stream = Stream::open_with(&server, &format!("{run}/events"), &[("x-api-key", &key)]).await;
    stream.until(|event| event.name == "snapshot").await;
    let began = Instant::now();
    revoke(&server, &key).await;
    assert!(stream.next().await.is_none());
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_test_run_is_followed_until_it_is_deleted() {
    let server = Server::start().await;
    let body = json!({"definition": chain(&[wait_for_go()]), "input": {"n": 1}});
    let started = server.post("/v1/test-runs", &body).await.is(201);
    let id = started["run"]["id"].as_str().unwrap();
    server.wait_for(&format!("/v1/runs/{id}"), "waiting").await;
    let mut stream = Stream::open(&server, &format!("/v1/runs/{id}/events"), &[]).await;
    let snapshot = stream.next().await.unwrap();
    assert_eq!(snapshot.data["context"]["input"], json!({"n": 1}));
    let key = [("x-api-key", server.key())];
    assert_eq!(server.ask(Method::DELETE, &format!("/v1/test-runs/{id}"), &key, "").await.status, 204);
    // Its last entry may be deleted before it was sent.
    let last = stream.rest().await.pop().unwrap();
    assert_eq!(last.name, "end");
    assert!([json!("cancelled"), Value::Null].contains(&last.data["status"]), "{}", last.data);
}
