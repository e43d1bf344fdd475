//! The channel between nodes: only requests that a node of the cluster signed, for this node, recently and once, are
//! accepted.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::Request;
use everstep_api::cluster::{Channel, ClusterKey, serve};
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_engine::{Engine, Error, Hello, Hint, NoPeers, Peer, Peers, Question, RunInput, ServedWorkflow, Start};
use hmac::{Hmac, KeyInit, Mac};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::support::{chain, engine, until_carriers, wait_for_go};

const KEY: &str = "a key that all nodes of a test have";

/// A node that listens, with a run that waits for `go`.
struct Listener {
    engine: Engine,
    peer: Peer,
    run: RunId,
    _folder: TempDir,
}

impl Listener {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = engine(&folder, Arc::new(NoPeers)).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(serve(listener, engine.clone(), ClusterKey::new(KEY).unwrap(), std::future::pending()));
        let published = engine.library().publish(WorkspaceId::DEFAULT, "wait", &chain(&[wait_for_go()])).await;
        published.unwrap();
        let run = engine.start_run(Start::new("wait", json!({}))).await.unwrap().run;
        let peer = Peer { id: engine.node(), address };
        Self { engine, peer, run, _folder: folder }
    }

    fn input(&self) -> RunInput {
        let input = Input::Signal { event: "go".to_owned(), payload: Payload::null() };
        RunInput::new(WorkspaceId::DEFAULT, self.run, input)
    }

    async fn status(&self) -> Status {
        let store = &self.engine.world().runs;
        store.get_run(WorkspaceId::DEFAULT, self.run).await.unwrap().unwrap().status
    }

    /// A request as another node would send it.
    fn request(&self) -> Signed {
        Signed {
            key: KEY.to_owned(),
            address: self.peer.address.clone(),
            method: "POST".to_owned(),
            path: "/cluster/v1/inputs".to_owned(),
            caller: WorkspaceId::DEFAULT.to_string(),
            time: self.engine.world().clock.now().micros(),
            sender: node(1).to_string(),
            target: self.peer.id.to_string(),
            nonce: uuid::Uuid::from_u128(u128::from(rand())).to_string(),
            body: serde_json::to_string(&self.input()).unwrap(),
        }
    }
}

fn node(n: u128) -> NodeId {
    NodeId::new(everstep_core::time::Timestamp::from_millis(1), n)
}

fn rand() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_ne_bytes(bytes)
}

/// All signed parts. The signature is computed here again, from its description.
#[derive(Clone)]
struct Signed {
    key: String,
    address: String,
    method: String,
    path: String,
    caller: String,
    time: i64,
    sender: String,
    target: String,
    nonce: String,
    body: String,
}

impl Signed {
    fn signature(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let lines = [
            "everstep-cluster-1",
            &self.method,
            &self.path,
            &hex(&Sha256::digest(&self.body)),
            &self.caller,
            &self.time.to_string(),
            &self.sender,
            &self.target,
            &self.nonce,
        ];
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()).unwrap();
        mac.update(lines.join("\n").as_bytes());
        hex(&mac.finalize().into_bytes())
    }

    /// Sends this request with the signature of a request that may be different.
    async fn send_as(&self, signature: &str) -> (u16, Value) {
        let request = Request::builder()
            .method(&*self.method)
            .uri(format!("{}{}", self.address, self.path))
            .header("x-everstep-caller", &self.caller)
            .header("x-everstep-time", self.time)
            .header("x-everstep-sender", &self.sender)
            .header("x-everstep-target", &self.target)
            .header("x-everstep-nonce", &self.nonce)
            .header("x-everstep-signature", signature)
            .body(Full::from(Bytes::from(self.body.clone())))
            .unwrap();
        let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let response = client.request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn send(&self) -> (u16, Value) {
        self.send_as(&self.signature()).await
    }
}

async fn channel(key: &str) -> (Channel, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let channel = Channel::new(ClusterKey::new(key).unwrap());
    let engine = engine(&folder, Arc::new(channel.clone())).await;
    channel.introduce(&engine);
    (channel, folder)
}

#[tokio::test]
async fn an_input_is_passed_on_and_answered() {
    let listener = Listener::start().await;
    let (channel, _folder) = channel(KEY).await;
    assert_eq!(channel.send(&listener.peer, listener.input()).await, Ok(Reply::Accepted));
    assert_eq!(listener.engine.wait(WorkspaceId::DEFAULT, listener.run).await.unwrap().status, Status::Completed);
    let refused = channel.send(&listener.peer, listener.input()).await.unwrap();
    assert!(matches!(refused, Reply::Refused { code, .. } if code == "RUN_ENDED"));
    let foreign = RunInput { workspace: WorkspaceId::from_uuid(uuid::Uuid::from_u128(9)), ..listener.input() };
    assert_eq!(channel.send(&listener.peer, foreign).await, Err(Error::RunNotFound(listener.run)));
}

#[tokio::test]
async fn what_was_signed_is_taken_once() {
    let listener = Listener::start().await;
    let request = listener.request();
    assert_eq!(request.send().await, (200, json!({"Ok": "accepted"})));
    let (status, problem) = request.send().await;
    assert_eq!((status, &problem["code"]), (401, &json!("AUTH_ERROR")));
    assert!(problem["detail"].as_str().unwrap().contains("sent before"), "{problem}");
}

#[tokio::test]
async fn what_was_changed_on_its_way_is_refused() {
    let listener = Listener::start().await;
    let signed = listener.request();
    let signature = signed.signature();
    let cancel = RunInput { input: Input::Cancel { reason: None }, ..listener.input() };
    let tampered = [
        Signed { method: "PUT".to_owned(), ..signed.clone() },
        Signed { path: "/cluster/v1/hints".to_owned(), ..signed.clone() },
        Signed { path: "/cluster/v1/inputs?x=1".to_owned(), ..signed.clone() },
        Signed { caller: "-".to_owned(), ..signed.clone() },
        Signed { caller: node(7).to_string(), ..signed.clone() },
        Signed { time: signed.time + 1, ..signed.clone() },
        Signed { sender: node(2).to_string(), ..signed.clone() },
        Signed { target: node(3).to_string(), ..signed.clone() },
        Signed { nonce: node(4).to_string(), ..signed.clone() },
        Signed { body: serde_json::to_string(&cancel).unwrap(), ..signed.clone() },
    ];
    for request in tampered {
        let (status, problem) = request.send_as(&signature).await;
        assert_eq!((status, &problem["code"]), (401, &json!("AUTH_ERROR")), "{} {}", request.method, request.path);
    }
    for wrong in ["", "00", "zz", &signature[..62], &format!("{signature}00")] {
        assert_eq!(signed.send_as(wrong).await.0, 401, "{wrong}");
    }
    assert_eq!(listener.status().await, Status::Waiting);
    // None of them consumed the nonce.
    assert_eq!(signed.send().await.0, 200);
}

#[tokio::test]
async fn what_is_stale_early_or_signed_with_another_key_is_refused() {
    let listener = Listener::start().await;
    let good = listener.request();
    let second = 1_000_000;
    let refused = [
        Signed { time: good.time - 32 * second, ..good.clone() },
        Signed { time: good.time + 32 * second, ..good.clone() },
        Signed { key: "another key that has enough characters".to_owned(), ..good.clone() },
    ];
    for request in refused {
        assert_eq!(request.send().await.0, 401);
    }
    assert_eq!(listener.status().await, Status::Waiting);
    assert_eq!(Signed { time: good.time - 25 * second, ..good }.send().await.0, 200);
    let (channel, _folder) = channel("another key that has enough characters").await;
    assert_eq!(channel.send(&listener.peer, listener.input()).await, Err(Error::Unreachable(listener.peer.id)));
}

#[tokio::test]
async fn a_request_for_another_node_is_not_taken() {
    let listener = Listener::start().await;
    let (status, problem) = Signed { target: node(5).to_string(), ..listener.request() }.send().await;
    assert_eq!((status, &problem["code"]), (421, &json!("UNAVAILABLE")));
    let (channel, _folder) = channel(KEY).await;
    let before = Peer { id: node(5), ..listener.peer.clone() };
    assert_eq!(channel.send(&before, listener.input()).await, Err(Error::Unreachable(node(5))));
    // A request for one workspace cannot be applied in another.
    let (status, _) = Signed { caller: node(6).to_string(), ..listener.request() }.send().await;
    assert_eq!(status, 400);
    assert_eq!(listener.status().await, Status::Waiting);
    assert_eq!(Signed { path: "/cluster/v1/nothing".to_owned(), ..listener.request() }.send().await.0, 404);
}

#[tokio::test]
async fn a_node_that_is_not_there_took_nothing() {
    let listener = Listener::start().await;
    let (channel, _folder) = channel(KEY).await;
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for address in [format!("http://127.0.0.1:{port}"), "nonsense".to_owned(), String::new()] {
        let peer = Peer { id: node(1), address };
        assert_eq!(channel.send(&peer, listener.input()).await, Err(Error::Unreachable(node(1))), "{peer:?}");
    }
}

#[tokio::test]
async fn a_node_that_dies_after_it_was_asked_leaves_the_outcome_unknown() {
    let listener = Listener::start().await;
    let (channel, _folder) = channel(KEY).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = Peer { id: node(1), address: format!("http://{}", silent.local_addr().unwrap()) };
    let dying = async {
        let (mut stream, _) = silent.accept().await.unwrap();
        let read = stream.read(&mut [0; 64 * 1024]).await.unwrap();
        assert!(read > 0);
    };
    let (answer, ()) = tokio::join!(channel.send(&peer, listener.input()), dying);
    assert_eq!(answer, Err(Error::OutcomeUnknown(node(1))));
}

#[tokio::test]
async fn hints_are_gathered_while_one_request_is_on_its_way() {
    let (channel, _folder) = channel(KEY).await;
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let peer = Peer { id: node(1), address: format!("http://{}", slow.local_addr().unwrap()) };
    let (seen, mut bodies) = mpsc::unbounded_channel();
    let (go, mut gate) = mpsc::unbounded_channel::<()>();
    tokio::spawn(async move {
        let (mut stream, _) = slow.accept().await.unwrap();
        let mut bytes = Vec::new();
        loop {
            let mut part = [0; 64 * 1024];
            let read = stream.read(&mut part).await.unwrap();
            bytes.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&bytes);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() < length.parse().unwrap() {
                continue;
            }
            seen.send(serde_json::from_str::<Vec<Hint>>(body).unwrap()).unwrap();
            bytes.clear();
            gate.recv().await.unwrap();
            stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        }
    });
    let run = RunId::new(everstep_core::time::Timestamp::from_millis(1), 1);
    channel.hint(&peer, Hint::Inbox);
    let next = async |bodies: &mut mpsc::UnboundedReceiver<Vec<Hint>>| {
        tokio::time::timeout(Duration::from_secs(5), bodies.recv()).await.unwrap().unwrap()
    };
    assert_eq!(next(&mut bodies).await, [Hint::Inbox]);
    for seq in 1..=100 {
        channel.hint(&peer, Hint::Written { run, seq });
        channel.hint(&peer, Hint::Work);
    }
    go.send(()).unwrap();
    assert_eq!(next(&mut bodies).await, [Hint::Work, Hint::Written { run, seq: 100 }]);
    go.send(()).unwrap();
    channel.hint(&peer, Hint::Inbox);
    assert_eq!(next(&mut bodies).await, [Hint::Inbox]);
    // No hint is queued after the last request is answered.
    let flushed = channel.flush();
    go.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(5), flushed).await.unwrap();
}

#[tokio::test]
async fn hints_are_taken() {
    let listener = Listener::start().await;
    let hints = vec![Hint::Inbox, Hint::Work, Hint::Written { run: listener.run, seq: 3 }];
    let body = serde_json::to_string(&hints).unwrap();
    let path = "/cluster/v1/hints".to_owned();
    let request = Signed { path, caller: "-".to_owned(), body, ..listener.request() };
    assert_eq!(request.send().await.0, 202);
    assert_eq!(Signed { body: "[1]".to_owned(), nonce: node(8).to_string(), ..request }.send().await.0, 400);
}

/// A session at a node, opened there.
async fn session(listener: &Listener) -> String {
    let served = ServedWorkflow {
        name: "greet".to_owned(),
        version: 1,
        retention_days: None,
        input_schema: None,
        triggers: Vec::new(),
        index: Vec::new(),
    };
    let hello = Hello {
        workspace: WorkspaceId::DEFAULT,
        worker: "host:1".to_owned(),
        sdk: None,
        workflows: vec![served],
        capacity: 5,
        holds: Vec::new(),
    };
    listener.engine.open_session(hello).await.unwrap().id.to_string()
}

/// Sends a question about workers to a node, as another node would.
async fn ask(channel: &Channel, peer: &Peer, path: &'static str, body: &Value) -> (u16, Value) {
    let question = Question {
        path,
        workspace: WorkspaceId::DEFAULT,
        body: body.to_string().into_bytes(),
        patience: Duration::from_secs(15),
    };
    let (status, body) = channel.ask(peer, question).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn what_is_said_to_a_worker_of_another_node_is_passed_on() {
    const POLL: &str = "/cluster/v1/worker/poll";
    const REPORTS: &str = "/cluster/v1/worker/reports";
    const CLOSE: &str = "/cluster/v1/worker/close";
    let listener = Listener::start().await;
    let (channel, _folder) = channel(KEY).await;
    let session = session(&listener).await;
    let start = Start { allow_unserved: true, ..Start::new("greet", json!({})) };
    let run = listener.engine.start_run(start).await.unwrap().run;
    let (status, received) = ask(&channel, &listener.peer, POLL, &json!({"session": session, "seen": 0})).await;
    assert_eq!((status, &received["messages"][0]["turns"][0]["run"]), (200, &json!(run)), "{received}");
    let report = json!({"n": 1, "run": run, "turn": 1, "kind": "returned", "output": "x".repeat(1024 * 1024 - 2)});
    let sent = json!({"session": session, "seen": 1, "reports": [report]});
    let (status, received) = ask(&channel, &listener.peer, REPORTS, &sent).await;
    assert_eq!((status, &received["messages"][0]["acks"][0][0]), (200, &json!(1)), "{received}");
    assert_eq!(listener.engine.wait(WorkspaceId::DEFAULT, run).await.unwrap().status, Status::Completed);
    let (status, listed) = ask(&channel, &listener.peer, "/cluster/v1/workers", &json!({})).await;
    assert_eq!((status, &listed[0]["worker"], &listed[0]["running"]), (200, &json!("host:1"), &json!(0)), "{listed}");
    assert!(!listed.to_string().contains(session.split_once('.').unwrap().1));
    assert_eq!(ask(&channel, &listener.peer, CLOSE, &json!({"session": session})).await.0, 200);
    for (path, body) in [
        (POLL, json!({"session": session, "seen": 0})),
        (REPORTS, json!({"session": session, "seen": 0, "reports": []})),
        (CLOSE, json!({"session": session})),
    ] {
        assert_eq!(ask(&channel, &listener.peer, path, &body).await.0, 410, "{path}");
    }
    assert_eq!(ask(&channel, &listener.peer, POLL, &json!({"session": session})).await.0, 400);
}

#[tokio::test]
async fn a_held_poll_of_another_node_is_answered_when_there_is_something() {
    let listener = Listener::start().await;
    let (channel, _folder) = channel(KEY).await;
    let session = session(&listener).await;
    let body = json!({"session": session, "seen": 0});
    let polled = ask(&channel, &listener.peer, "/cluster/v1/worker/poll", &body);
    let started = async {
        until_carriers(&listener.engine, &session, 1).await;
        let start = Start { allow_unserved: true, ..Start::new("greet", json!({})) };
        listener.engine.start_run(start).await.unwrap()
    };
    let ((status, received), started) = tokio::join!(polled, started);
    assert_eq!((status, &received["messages"][0]["turns"][0]["run"]), (200, &json!(started.run)), "{received}");
    // The question is for one workspace, and other workspaces get nothing.
    let foreign = Signed {
        path: "/cluster/v1/worker/poll".to_owned(),
        caller: node(6).to_string(),
        body: body.to_string(),
        ..listener.request()
    };
    assert_eq!(foreign.send().await.0, 410);
    assert_eq!(Signed { caller: "-".to_owned(), nonce: node(9).to_string(), ..foreign }.send().await.0, 400);
}

#[tokio::test]
async fn a_node_reports_the_runs_that_have_changed_on_it() {
    const FEED: &str = "/cluster/v1/feed";
    let listener = Listener::start().await;
    let (channel, _folder) = channel(KEY).await;
    let (status, first) = ask(&channel, &listener.peer, FEED, &json!({"after": null})).await;
    assert_eq!((status, &first["updates"], &first["hasGap"]), (200, &json!([]), &json!(false)), "{first}");
    channel.send(&listener.peer, listener.input()).await.unwrap();
    let (_, page) = ask(&channel, &listener.peer, FEED, &json!({"after": first["cursor"]})).await;
    let last = page["updates"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["run"], &last["workflow"]), (&json!(listener.run), &json!("wait")), "{page}");
    // A cursor of another process is not continued silently.
    let other = json!({"epoch": 1, "number": 1});
    let (_, page) = ask(&channel, &listener.peer, FEED, &json!({"after": other})).await;
    assert_eq!(page["hasGap"], json!(true), "{page}");
    let (status, _) = ask(&channel, &listener.peer, FEED, &json!({"after": 1})).await;
    assert_eq!(status, 400);
}
