//! Many runs, and the workspace, over one WebSocket.

use std::time::Duration;

use everstep_api::Streams;
use everstep_api::auth::Permission;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::{Server, revoke, wait_for_go};

const FRAME_TIMEOUT: Duration = Duration::from_secs(20);

struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn connect(server: &Server, key: &str, origin: Option<&str>) -> Result<Self, Error> {
        let mut request = format!("ws://{}/v1/socket", server.address()).into_client_request().unwrap();
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        tokio_tungstenite::connect_async(request).await.map(|(socket, _)| Self(socket))
    }

    async fn open(server: &Server) -> Self {
        Self::connect(server, server.key(), None).await.unwrap()
    }

    async fn say(&mut self, message: &Value) {
        self.0.send(Message::from(message.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Message {
        loop {
            let message = tokio::time::timeout(FRAME_TIMEOUT, self.0.next()).await.expect("a frame comes in time");
            match message.expect("the socket is open").unwrap() {
                Message::Ping(_) | Message::Pong(_) => {}
                message => return message,
            }
        }
    }

    async fn message(&mut self) -> Value {
        match self.next().await {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?} is no text"),
        }
    }

    /// The next message that meets a condition.
    async fn until(&mut self, is_met: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.message().await;
            if is_met(&message) {
                return message;
            }
        }
    }

    /// The code and the reason with which the server closes it.
    async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.next().await {
                Message::Close(Some(frame)) => return (frame.code.into(), frame.reason.to_string()),
                Message::Text(_) => {}
                other => panic!("{other:?} is no end"),
            }
        }
    }
}

/// A run that waits for `go`, by its id.
async fn waiting_run(server: &Server, name: &str) -> String {
    let run = server.start_chain(name, &[wait_for_go()]).await;
    server.wait_for(&run, "waiting").await;
    run.trim_start_matches("/v1/runs/").to_owned()
}

#[tokio::test]
async fn a_followed_run_is_received_entry_by_entry_to_its_end() {
    let server = Server::start().await;
    let (one, two) = (waiting_run(&server, "one").await, waiting_run(&server, "two").await);
    let mut socket = Socket::open(&server).await;
    socket.say(&json!({"follow": "run", "id": one})).await;
    let snapshot = socket.message().await;
    assert_eq!((&snapshot["run"], &snapshot["event"]), (&json!(one), &json!("snapshot")), "{snapshot}");
    assert_eq!(snapshot["data"]["run"]["status"], "waiting");
    socket.say(&json!({"follow": "run", "id": two, "after": 0, "view": "heads"})).await;
    let last = snapshot["seq"].as_u64().unwrap();
    for seq in 1..=last {
        let message = socket.message().await;
        assert_eq!((&message["run"], &message["seq"]), (&json!(two), &json!(seq)), "{message}");
        assert!(message["data"]["updates"].is_array() && message["data"]["data"].is_null(), "{message}");
    }
    server.post(&format!("/v1/runs/{one}/signals/go"), &json!({"note": 1})).await.is(200);
    let mut seqs = Vec::new();
    let end = loop {
        let message = socket.until(|message| message["run"] == json!(one)).await;
        match message["event"].as_str().unwrap() {
            "entry" => seqs.push(message["seq"].as_u64().unwrap()),
            "end" => break message,
            _ => {}
        }
    };
    assert_eq!(end["data"]["status"], "completed");
    let count = u64::try_from(seqs.len()).unwrap();
    assert_eq!(seqs, (last + 1..=last + count).collect::<Vec<_>>());
    // The other run is not left.
    server.post(&format!("/v1/runs/{two}/cancel"), &json!({})).await.is(200);
    socket.until(|message| message["run"] == json!(two) && message["event"] == "end").await;
}

#[tokio::test]
async fn a_refusal_names_the_run_and_the_socket_stays_open() {
    let server = Server::start().await;
    let run = waiting_run(&server, "one").await;
    let mut socket = Socket::open(&server).await;
    let missing = "00000000-0000-7000-8000-000000000000";
    socket.say(&json!({"follow": "run", "id": missing})).await;
    let refusal = socket.message().await;
    assert_eq!((&refusal["run"], &refusal["error"]["code"]), (&json!(missing), &json!("NOT_FOUND")), "{refusal}");
    for wrong in [json!({}), json!({"follow": "everything"}), json!({"follow": "run", "id": run, "after": 999})] {
        socket.say(&wrong).await;
        let refusal = socket.message().await;
        assert_eq!(refusal["error"]["code"], "VALIDATION_ERROR", "{refusal}");
    }
    socket.say(&json!({"follow": "run", "id": run})).await;
    assert_eq!(socket.message().await["event"], "snapshot");
    socket.say(&json!({"leave": "run", "id": run})).await;
    socket.say(&json!({"follow": "run", "id": missing})).await;
    // The run was left before: the next message is not about it.
    server.post(&format!("/v1/runs/{run}/signals/go"), &Value::Null).await.is(200);
    assert_eq!(socket.message().await["run"], json!(missing));
}

#[tokio::test]
async fn a_run_of_another_workspace_is_not_followed() {
    let server = Server::start().await;
    let run = waiting_run(&server, "one").await;
    let made = server.post("/v1/workspaces", &json!({"name": "shop"})).await.is(201);
    let theirs = made["secret"].as_str().unwrap();
    let mut socket = Socket::connect(&server, theirs, None).await.unwrap();
    for follow in
        [json!({"follow": "run", "id": run}), json!({"follow": "run", "id": run, "after": 0, "view": "heads"})]
    {
        socket.say(&follow).await;
        let refusal = socket.message().await;
        assert_eq!((&refusal["run"], &refusal["error"]["code"]), (&json!(run), &json!("NOT_FOUND")), "{refusal}");
    }
    // Nothing of the other workspace is in the feed either.
    socket.say(&json!({"follow": "workspace"})).await;
    let counts = socket.until(|message| message["workspace"] == "counts").await;
    assert_eq!(counts["data"]["waiting"], 0, "{counts}");
    server.post(&format!("/v1/runs/{run}/signals/go"), &Value::Null).await.is(200);
    server.wait_for(&format!("/v1/runs/{run}"), "completed").await;
    socket.say(&json!({"follow": "run", "id": run})).await;
    let next = socket.until(|message| message["workspace"] != "counts").await;
    assert_eq!(next["error"]["code"], "NOT_FOUND", "{next}");
}

#[tokio::test]
async fn a_client_beyond_the_limits_is_disconnected_with_the_reason() {
    let server = Server::start().await;
    // The first one is read to its end, the second one is not.
    for kib in [65, 200] {
        let mut socket = Socket::open(&server).await;
        socket.say(&json!({"follow": "x".repeat(kib * 1024)})).await;
        let (code, reason) = socket.closed().await;
        assert!(code == 1008 && reason.contains("64 KiB"), "{kib} KiB: {code} {reason}");
    }
    let mut runs = Vec::new();
    for number in 0..65 {
        runs.push(waiting_run(&server, &format!("w{number}")).await);
    }
    let mut socket = Socket::open(&server).await;
    for run in &runs {
        socket.say(&json!({"follow": "run", "id": run, "after": 0})).await;
    }
    let (code, reason) = socket.closed().await;
    assert!(code == 1008 && reason.contains("64 runs"), "{code} {reason}");
}

#[tokio::test]
async fn each_followed_run_is_a_stream() {
    let server = Server::start_with(Streams { per_key: 2, ..Streams::default() }).await;
    let (one, two) = (waiting_run(&server, "one").await, waiting_run(&server, "two").await);
    let mut socket = Socket::open(&server).await;
    socket.say(&json!({"follow": "run", "id": one})).await;
    assert_eq!(socket.message().await["event"], "snapshot");
    socket.say(&json!({"follow": "run", "id": two})).await;
    let refusal = socket.message().await;
    assert_eq!((&refusal["run"], &refusal["error"]["code"]), (&json!(two), &json!("TOO_MANY_STREAMS")), "{refusal}");
}

#[tokio::test]
async fn a_revoked_key_closes_its_socket() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::View]).await;
    let mut socket = Socket::connect(&server, &key, None).await.unwrap();
    socket.say(&json!({"follow": "workspace"})).await;
    revoke(&server, &key).await;
    assert_eq!(socket.closed().await.0, 1008);
}

#[tokio::test]
async fn a_page_of_another_origin_opens_no_socket() {
    let server = Server::start().await;
    let own = format!("http://{}", server.address());
    assert!(Socket::connect(&server, server.key(), Some(&own)).await.is_ok());
    match Socket::connect(&server, server.key(), Some("https://evil.example")).await {
        Err(Error::Http(response)) => assert_eq!(response.status(), 403),
        other => panic!("{:?}", other.map(|_| ())),
    }
}

#[tokio::test]
async fn a_stopping_server_closes_its_sockets() {
    let mut server = Server::start().await;
    let mut socket = Socket::open(&server).await;
    socket.say(&json!({"follow": "workspace"})).await;
    socket.until(|message| message["workspace"] == "counts").await;
    drop(server.running.take());
    assert_eq!(socket.closed().await.0, 1001);
}

#[tokio::test]
async fn the_workspace_reports_runs_and_counts() {
    let server = Server::start().await;
    let mut socket = Socket::open(&server).await;
    socket.say(&json!({"follow": "workspace"})).await;
    let counts = socket.until(|message| message["workspace"] == "counts").await;
    assert_eq!((&counts["data"]["waiting"], &counts["data"]["completed"]), (&json!(0), &json!(0)), "{counts}");
    let run = waiting_run(&server, "one").await;
    let news = |message: &Value, status: &str| {
        let runs = message["data"].as_array().cloned().unwrap_or_default();
        message["workspace"] == "runs" && runs.iter().any(|seen| seen["id"] == json!(run) && seen["status"] == status)
    };
    let seen = socket.until(|message| news(message, "waiting")).await;
    let listed = seen["data"].as_array().unwrap().iter().find(|seen| seen["id"] == json!(run)).unwrap();
    assert_eq!((&listed["workflow"], &listed["endedAt"]), (&json!("one"), &Value::Null));
    socket.until(|message| message["workspace"] == "counts" && message["data"]["waiting"] == 1).await;
    server.post(&format!("/v1/runs/{run}/signals/go"), &Value::Null).await.is(200);
    let ended = socket.until(|message| news(message, "completed")).await;
    assert!(ended["data"][0]["endedAt"].is_string(), "{ended}");
    socket.until(|message| message["workspace"] == "counts" && message["data"]["completed"] == 1).await;
    // Another follower begins with the counts.
    let mut other = Socket::open(&server).await;
    other.say(&json!({"follow": "workspace"})).await;
    assert_eq!(other.message().await["data"]["completed"], 1);
}

#[tokio::test]
async fn more_runs_than_a_message_lists_are_many() {
    let server = Server::start().await;
    server.publish("end", &crate::support::chain(&[])).await;
    let mut socket = Socket::open(&server).await;
    socket.say(&json!({"follow": "workspace"})).await;
    socket.until(|message| message["workspace"] == "counts").await;
    let runs: Vec<_> = (0..600).map(|_| json!({})).collect();
    server.post("/v1/workflows/end/runs/batch", &json!({"runs": runs})).await.is(200);
    socket.until(|message| message["workspace"] == "many").await;
}
