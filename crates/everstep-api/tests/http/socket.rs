//! Runs as Socket.IO events, packet by packet. `everstep/tests/live` does the same with the stock client.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use axum::http::Method;
use everstep_api::Streams;
use everstep_api::auth::Permission;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};
use tracing_subscriber::filter::LevelFilter;

use crate::people::keep_log;
use crate::support::{Server, add_key, revoke, wait_for_go};
use crate::workers::{Worker, start};

const PACKET_TIMEOUT: Duration = Duration::from_secs(20);
const PLACE: &str = "/socket.io/?EIO=4&transport=websocket";

struct Client {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    events: VecDeque<(String, Value)>,
    asked: u64,
}

impl Client {
    /// A connection that has not sent its credentials yet.
    async fn open(server: &Server, headers: &[(&'static str, &str)]) -> Self {
        let mut request = format!("ws://{}{PLACE}", server.address()).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let (socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        let mut client = Self { socket, events: VecDeque::new(), asked: 0 };
        let open = client.packet().await.unwrap();
        let body: Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
        assert!(body["pingInterval"].is_u64() && body["sid"].is_string(), "{body}");
        client
    }

    async fn connect(server: &Server, key: &str) -> Self {
        let mut client = Self::open(server, &[]).await;
        assert!(client.introduce(&json!({"key": key})).await.is_ok());
        client
    }

    /// Sends its credentials; an error is `error.data` of the stock client.
    async fn introduce(&mut self, auth: &Value) -> Result<(), Value> {
        let auth = if auth.is_null() { String::new() } else { auth.to_string() };
        self.send(&format!("40{auth}")).await;
        let answer = self.packet().await.unwrap();
        match answer.strip_prefix("44") {
            Some(refused) => Err(serde_json::from_str::<Value>(refused).unwrap()["data"].take()),
            None => {
                assert!(answer.starts_with("40{\"sid\":"), "{answer}");
                Ok(())
            }
        }
    }

    /// Sends a request and returns the response; earlier events are kept.
    async fn ask(&mut self, name: &str, argument: &Value) -> Value {
        self.asked += 1;
        self.send(&format!("42{}{}", self.asked, json!([name, argument]))).await;
        let answer = format!("43{}", self.asked);
        loop {
            let packet = self.packet().await.expect("an answer comes");
            if let Some(answer) = packet.strip_prefix(&answer) {
                return serde_json::from_str::<Value>(answer).unwrap()[0].take();
            }
            self.keep(&packet);
        }
    }

    async fn join(&mut self, run: &str) -> Value {
        self.ask("workflow_run_join", &json!({"runId": id(run)})).await
    }

    /// Events up to the one that matches.
    async fn until(&mut self, is_meant: impl Fn(&str, &Value) -> bool) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        loop {
            while let Some((name, data)) = self.events.pop_front() {
                let is_last = is_meant(&name, &data);
                events.push((name, data));
                if is_last {
                    return events;
                }
            }
            let packet = self.packet().await.expect("the connection goes on");
            self.keep(&packet);
        }
    }

    async fn until_status(&mut self, status: &str) -> Vec<(String, Value)> {
        self.until(|name, data| name == "workflow_status_update" && data["status"] == status).await
    }

    fn keep(&mut self, packet: &str) {
        let mut event: Value = serde_json::from_str(packet.strip_prefix("42").unwrap()).unwrap();
        self.events.push_back((event[0].as_str().unwrap().to_owned(), event[1].take()));
    }

    async fn send(&mut self, text: &str) {
        self.socket.send(Message::from(text)).await.unwrap();
    }

    /// The next packet; `None` when the connection is closed.
    async fn packet(&mut self) -> Option<String> {
        loop {
            let message =
                tokio::time::timeout(PACKET_TIMEOUT, self.socket.next()).await.expect("a packet comes in time");
            match message {
                Some(Ok(Message::Text(text))) => return Some(text.as_str().to_owned()),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }
}

fn id(run: &str) -> &str {
    run.trim_start_matches("/v1/runs/")
}

/// The expected events of a run's journal: seq, step and status of every step entry.
async fn expected(server: &Server, run: &str) -> Vec<(u64, String, String)> {
    let page = server.get(&format!("{run}/journal?limit=1000")).await.is(200);
    assert!(page["nextAfter"].is_null());
    let entries = page["entries"].as_array().unwrap().clone();
    let received = entries.iter().filter_map(|entry| {
        let is_slow = ["delay", "wait", "child"].iter().any(|kind| entry["data"]["kind"] == *kind);
        let status = match entry["event"].as_str().unwrap() {
            "StepDispatched" if is_slow => "waiting",
            "StepDispatched" => "running",
            "StepCompleted" => "success",
            "StepFailed" => "error",
            "StepSkipped" => "skipped",
            _ => return None,
        };
        let step = entry["step"].as_str().unwrap().to_owned();
        Some((entry["seq"].as_u64().unwrap(), step, status.to_owned()))
    });
    received.collect()
}

fn steps(events: &[(String, Value)]) -> Vec<(u64, String, String)> {
    let updates = events.iter().filter(|(name, _)| name == "workflow_node_update");
    let text = |data: &Value| data.as_str().unwrap().to_owned();
    updates.map(|(_, data)| (data["seq"].as_u64().unwrap(), text(&data["stepKey"]), text(&data["status"]))).collect()
}

fn statuses(events: &[(String, Value)]) -> Vec<&str> {
    let updates = events.iter().filter(|(name, _)| name == "workflow_status_update");
    updates.map(|(_, data)| data["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_run_has_the_same_messages_whenever_it_is_joined() {
    let server = Server::start().await;
    let js = json!({"id": "js", "type": "javascript", "config": {"code": "return {n: 1}"}});
    let run = server.start_chain("received", &[wait_for_go(), js]).await;
    server.wait_for(&run, "waiting").await;
    let mut during = Client::connect(&server, server.key()).await;
    let answer = during.join(&run).await;
    assert_eq!((&answer["ok"], &answer["status"]), (&json!(true), &json!("WAITING")));
    let mut received = during.until_status("WAITING").await;
    assert_eq!(received.last().unwrap().1["seq"], answer["seq"]);
    assert_eq!(received.last().unwrap().1["contextData"]["input"], json!({}));
    assert_eq!(during.join(&run).await, json!({"ok": true, "repeated": true}));
    server.post(&format!("{run}/signals/go"), &json!({"from": "me"})).await.is(200);
    received.extend(during.until_status("COMPLETED").await);
    let expected = expected(&server, &run).await;
    assert_eq!(steps(&received), expected);
    assert_eq!(statuses(&received), ["WAITING", "RUNNING", "COMPLETED"]);
    let last = &received.last().unwrap().1;
    assert_eq!(last["instanceID"], id(&run));
    assert_eq!(last["contextData"]["jsResult"], json!({"n": 1}));
    assert!(last["contextData"].as_object().unwrap().keys().all(|name| !name.starts_with("__")));
    let done = received.iter().find(|(_, data)| data["nodeID"] == "js" && data["status"] == "success").unwrap();
    assert_eq!((&done.1["output"], &done.1["error"]), (&json!({"n": 1}), &Value::Null));
    assert_eq!((&done.1["instanceID"], &done.1["attempt"]), (&json!(id(&run)), &json!(1)));

    // Afterwards the same is sent, also on the same connection: it has left with the end.
    let mut after = Client::connect(&server, server.key()).await;
    for client in [&mut after, &mut during] {
        assert_eq!(client.join(&run).await["status"], "COMPLETED");
        let received = client.until_status("COMPLETED").await;
        assert_eq!(steps(&received), expected);
        assert_eq!(statuses(&received), ["COMPLETED"]);
    }
    // A client that knows a part receives the rest.
    let middle = expected[2].0;
    let answer = after.ask("workflow_run_join", &json!({"runId": id(&run), "after": middle})).await;
    assert_eq!(answer["ok"], true);
    assert_eq!(steps(&after.until_status("COMPLETED").await), expected[3..]);
}

#[tokio::test]
async fn a_node_in_a_loop_keeps_its_id_in_every_iteration() {
    let server = Server::start().await;
    let graph = json!({
        "nodes": [{"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": {"sourceVariable": "{{ctx.input.items}}"}},
            {"id": "body", "type": "javascript", "config": {"code": "if (ctx.index == 1) throw new Error('no'); return ctx.item"},
                "retry": {"maxAttempts": 1}},
            {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "each"}, {"source": "each", "target": "body", "sourceHandle": "loop"},
            {"source": "each", "target": "end", "sourceHandle": "done"}],
    });
    server.put("/v1/workflows/loops", &graph).await.is(201);
    let started = server.post("/v1/workflows/loops/runs", &json!({"input": {"items": [7, 8]}})).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let mut client = Client::connect(&server, server.key()).await;
    assert_eq!(client.join(&run).await["ok"], true);
    let received = client.until_status("FAILED").await;
    assert_eq!(steps(&received), expected(&server, &run).await);
    let bodies: Vec<_> = received.iter().filter(|(_, data)| data["nodeID"] == "body").map(|(_, data)| data).collect();
    let seen: Vec<_> = bodies.iter().map(|data| (&data["stepKey"], &data["status"])).collect();
    assert_eq!(seen[1], (&json!("each[0].body"), &json!("success")));
    assert_eq!(seen[3], (&json!("each[1].body"), &json!("error")));
    assert!(bodies[3]["error"].as_str().unwrap().contains("no"), "{}", bodies[3]);
    let last = &received.last().unwrap().1;
    assert!(last["error"].is_string() && last["errorCode"].is_string(), "{last}");
}

#[tokio::test]
async fn followers_receive_the_sleeps_of_a_code_workflow() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("flow", 1)]).await;
    let run = start(&server, "flow", &Value::Null).await;
    let turn = worker.turn().await;
    let mut client = Client::connect(&server, server.key()).await;
    assert_eq!(client.join(&run).await["ok"], true);
    let failed = json!({"kind": "failed", "step": "pay", "attempt": 1, "error": {"message": "no"},
        "retry": {"attempts": 2, "backoff": {"kind": "fixed", "baseMs": 10}}, "tookMs": 1});
    worker.send(&turn, &[failed, json!({"kind": "sleep", "step": "nap", "forMs": 200})]).await;
    let received = client.until(|_, data| data["stepKey"] == "nap" && data["status"] == "success").await;
    let received: Vec<_> = steps(&received).into_iter().map(|(_, step, status)| (step, status)).collect();
    let expected = [("pay", "error"), ("nap", "waiting"), ("nap", "success")];
    // A retry timer is not a sleep: followers receive the next result of the step instead.
    assert_eq!(received, expected.map(|(step, status)| (step.to_owned(), status.to_owned())));
    let shown = server.get(&format!("{run}/steps")).await.is(200);
    let nap = shown["steps"].as_array().unwrap().iter().find(|step| step["key"] == "nap").unwrap().clone();
    assert_eq!((&nap["status"], &nap["type"]), (&json!("completed"), &json!("sleep")));
    let mut late = Client::connect(&server, server.key()).await;
    assert_eq!(late.join(&run).await["ok"], true);
    let received = late.until(|_, data| data["stepKey"] == "nap" && data["status"] == "success").await;
    assert_eq!(received.last().unwrap().1["output"], nap["output"], "streams and /steps show the same output");
}

#[tokio::test]
async fn a_client_authenticates_or_is_rejected_with_a_code() {
    let server = Server::start().await;
    let unknown = format!("es_{}", "a".repeat(43));
    let wrong = [
        Value::Null,
        json!({}),
        json!({"key": unknown}),
        json!({"key": "hello"}),
        json!({"key": null}),
        json!({"token": server.key()}),
        json!([server.key()]),
    ];
    for auth in wrong {
        let mut client = Client::open(&server, &[]).await;
        let problem = client.introduce(&auth).await.unwrap_err();
        assert_eq!((&problem["code"], &problem["status"]), (&json!("AUTH_ERROR"), &json!(401)), "{auth}");
        assert!(client.packet().await.is_none(), "the connection is closed");
    }
    for header in [("x-api-key", server.key().to_owned()), ("authorization", format!("Bearer {}", server.key()))] {
        let mut client = Client::open(&server, &[(header.0, &header.1)]).await;
        assert!(client.introduce(&Value::Null).await.is_ok());
    }
    let mut client = Client::open(&server, &[("x-api-key", &unknown)]).await;
    assert_eq!(client.introduce(&Value::Null).await.unwrap_err()["code"], "AUTH_ERROR");
    let mut client = Client::open(&server, &[("x-api-key", server.key())]).await;
    assert_eq!(client.introduce(&json!({"key": unknown})).await.unwrap_err()["code"], "AUTH_ERROR");
    // A request before the credentials is not answered.
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let mut client = Client::open(&server, &[]).await;
    client.send(&format!("421[\"workflow_run_join\",{{\"runId\":\"{}\"}}]", id(&run))).await;
    assert!(client.packet().await.is_none());
}

#[tokio::test]
async fn a_key_in_the_address_is_refused() {
    let server = Server::start().await;
    for query in [format!("key={}", server.key()), format!("x={}", server.key()), "token=x".to_owned()] {
        let refused = server.ask(Method::GET, &format!("{PLACE}&{query}"), &[], "").await;
        refused.refuses(401, "AUTH_ERROR");
        let request = format!("ws://{}{PLACE}&{query}", server.address()).into_client_request().unwrap();
        let error = tokio_tungstenite::connect_async(request).await.unwrap_err().to_string();
        assert!(error.contains("401"), "{error}");
    }
}

#[tokio::test]
async fn other_transports_are_refused_with_a_hint() {
    let server = Server::start().await;
    let other = server.ask(Method::GET, "/socket.io/?EIO=4&transport=webtransport", &[], "").await;
    let problem = other.refuses(400, "TRANSPORT_REFUSED");
    assert!(problem["hint"].as_str().unwrap().contains("websocket"), "{problem}");
    let wrong =
        [PLACE, "/socket.io/?EIO=3&transport=websocket", "/socket.io/", "/socket.io/?EIO=4&transport=polling&x=1"];
    for wrong in wrong.into_iter().chain(["/socket.io/?EIO=4&transport=polling&sid=1"]) {
        server.ask(Method::GET, wrong, &[], "").await.refuses(400, "VALIDATION_ERROR");
    }
    for wrong in ["/socket.io/?EIO=4&transport=polling&sid=1", "/socket.io/?EIO=4&transport=polling", PLACE] {
        server.ask(Method::POST, wrong, &[], "40").await.refuses(400, "VALIDATION_ERROR");
    }
    let key = format!("/socket.io/?EIO=4&transport=polling&key={}", server.key());
    server.ask(Method::GET, &key, &[], "").await.refuses(401, "AUTH_ERROR");
    let mut client = Client::open(&server, &[]).await;
    client.send("40/admin,{}").await;
    assert!(client.packet().await.unwrap().starts_with("44/admin,"));
}

#[tokio::test]
async fn unknown_fields_beside_the_key_are_ignored_with_a_log_line() {
    let (log, _logged) = keep_log(LevelFilter::INFO);
    let server = Server::start().await;
    let mut client = Client::open(&server, &[]).await;
    assert!(client.introduce(&json!({"key": server.key(), "tenant": "blue", "more": {"a": [1]}})).await.is_ok());
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("unknown fields in auth") && logged.contains("fields=more, tenant"), "{logged}");
    assert!(!logged.contains("blue"), "values are not logged: {logged}");
    let mut client = Client::open(&server, &[]).await;
    let problem = client.introduce(&json!({"token": server.key()})).await.unwrap_err();
    assert_eq!(problem["code"], "AUTH_ERROR", "an unknown field is no key");
}

#[tokio::test]
async fn a_caller_without_permission_cannot_join_a_run() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let weak = server.key_with(&[Permission::Read, Permission::Manage, Permission::Publish]).await;
    let other = add_key(&*server.access, WorkspaceId::new(Timestamp::from_millis(1), 1), &[Permission::Admin]).await;
    for (key, status, code) in [(weak, 403, "PERMISSION_DENIED"), (other, 404, "NOT_FOUND")] {
        let mut client = Client::connect(&server, &key).await;
        let answer = client.join(&run).await;
        assert_eq!((&answer["error"]["code"], &answer["error"]["status"]), (&json!(code), &json!(status)));
        // Nothing is sent, even if the run continues.
        server.post(&format!("{run}/pause"), &Value::Null).await.is(200);
        server.post(&format!("{run}/resume"), &Value::Null).await.is(200);
        assert_eq!(client.ask("workflow_run_leave", &json!({"runId": id(&run)})).await, json!({"ok": true}));
        assert!(client.events.is_empty(), "{:?}", client.events);
    }
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let mut client = Client::connect(&server, server.key()).await;
    let wrong = [
        ("workflow_run_join", json!({}), "VALIDATION_ERROR"),
        ("workflow_run_join", json!({"runId": id(&run), "x": 1}), "VALIDATION_ERROR"),
        ("workflow_run_join", json!({"runId": id(&run), "after": 1000}), "VALIDATION_ERROR"),
        ("workflow_run_join", json!("x"), "VALIDATION_ERROR"),
        ("workflow_run_join", json!({"runId": "x"}), "NOT_FOUND"),
        ("workflow_run_join", json!({"runId": "019a0000-0000-7000-8000-000000000000"}), "NOT_FOUND"),
        ("workflow_run_leave", json!({"run": 1}), "VALIDATION_ERROR"),
        ("workflow_run_joyn", json!({"runId": id(&run)}), "VALIDATION_ERROR"),
    ];
    for (name, argument, code) in wrong {
        let answer = client.ask(name, &argument).await;
        assert_eq!(answer["error"]["code"], code, "{name} {argument}: {answer}");
    }
    // A request without an acknowledgement is answered by an event.
    client.send("42[\"workflow_run_join\",{\"runId\":\"x\"}]").await;
    let received = client.until(|name, _| name == "workflow_error").await;
    assert_eq!(received[0].1["error"]["code"], "NOT_FOUND");
    client.send("5").await;
    assert!(client.packet().await.is_none(), "a packet that no client sends ends the connection");
}

#[tokio::test]
async fn a_client_that_has_left_receives_nothing_more() {
    let server = Server::start().await;
    let (one, two) =
        (server.start_chain("one", &[wait_for_go()]).await, server.start_chain("two", &[wait_for_go()]).await);
    server.wait_for(&one, "waiting").await;
    server.wait_for(&two, "waiting").await;
    let mut client = Client::connect(&server, server.key()).await;
    client.join(&one).await;
    client.until_status("WAITING").await;
    client.join(&two).await;
    client.until_status("WAITING").await;
    assert_eq!(client.ask("workflow_run_leave", &json!({"runId": id(&one)})).await, json!({"ok": true}));
    for run in [&one, &two] {
        server.post(&format!("{run}/signals/go"), &json!({})).await.is(200);
        server.wait_for(run, "completed").await;
    }
    let received = client.until_status("COMPLETED").await;
    assert!(received.iter().all(|(_, data)| data["instanceID"] == id(&two)), "{received:?}");
}

#[tokio::test]
async fn connections_and_joins_are_limited() {
    let server = Server::start_with(Streams { per_node: 4, per_key: 2, ..Streams::default() }).await;
    let (one, two) =
        (server.start_chain("one", &[wait_for_go()]).await, server.start_chain("two", &[wait_for_go()]).await);
    let mut client = Client::connect(&server, server.key()).await;
    assert_eq!(client.join(&one).await["ok"], true);
    assert_eq!(client.join(&two).await["error"]["code"], "TOO_MANY_STREAMS");
    let mut second = Client::open(&server, &[]).await;
    assert_eq!(second.introduce(&json!({"key": server.key()})).await.unwrap_err()["code"], "TOO_MANY_STREAMS");
    // A left room frees its slot.
    client.ask("workflow_run_leave", &json!({"runId": id(&one)})).await;
    assert_eq!(client.join(&two).await["ok"], true);
}

#[tokio::test]
async fn a_server_that_stops_closes_its_connections_at_once() {
    let mut server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let mut client = Client::connect(&server, server.key()).await;
    client.join(&run).await;
    let began = Instant::now();
    drop(server.running.take());
    while client.packet().await.is_some() {}
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_ticket_opens_a_connection() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let made = server.post("/v1/tickets", &Value::Null).await;
    let ticket = made.body["ticket"].as_str().unwrap().to_owned();
    let mut client = Client::open(&server, &[]).await;
    assert!(client.introduce(&json!({"ticket": ticket})).await.is_ok());
    assert_eq!(client.join(&run).await["ok"], true);
    for wrong in [json!({"ticket": "est_0"}), json!({"ticket": ticket, "key": server.key()})] {
        let mut client = Client::open(&server, &[]).await;
        assert_eq!(client.introduce(&wrong).await.unwrap_err()["code"], "AUTH_ERROR");
    }
}

#[tokio::test]
async fn a_key_that_is_revoked_ends_its_connections_within_seconds() {
    let server = Server::start().await;
    let run = server.start_chain("waits", &[wait_for_go()]).await;
    let key = server.key_with(&[Permission::View]).await;
    let mut client = Client::connect(&server, &key).await;
    client.join(&run).await;
    let began = Instant::now();
    revoke(&server, &key).await;
    let mut last = String::new();
    while let Some(packet) = client.packet().await {
        last = packet;
    }
    assert_eq!(last, "41", "a client that receives this does not reconnect");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[tokio::test]
async fn what_a_connection_asks_counts_against_the_limit_of_its_key() {
    let server = Server::start().await;
    let made = server.post("/v1/keys", &json!({"name": "slow", "role": "viewer", "rateLimit": 1})).await.is(201);
    let mut client = Client::connect(&server, made["secret"].as_str().unwrap()).await;
    let leave = json!({"runId": "00000000-0000-0000-0000-000000000001"});
    for _ in 0..10 {
        let answer = client.ask("workflow_run_leave", &leave).await;
        if answer["error"]["code"] == "RATE_LIMITED" {
            return;
        }
        assert_eq!(answer, json!({"ok": true}));
    }
    panic!("ten requests at once are more than one per second");
}
