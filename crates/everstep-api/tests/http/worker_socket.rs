//! Workers over a WebSocket, frame by frame.

use std::time::Duration;

use axum::http::Method;
use everstep_api::auth::Permission;
use everstep_core::ids::WorkspaceId;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::support::{Server, add_key, revoke, until};
use crate::workers::{completed, hello, start};

const FRAME_TIMEOUT: Duration = Duration::from_secs(20);

struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    async fn connect(server: &Server, key: &str) -> Result<Self, Error> {
        let mut request = format!("ws://{}/v1/worker/socket", server.address()).into_client_request().unwrap();
        request.headers_mut().insert("x-api-key", key.parse().unwrap());
        tokio_tungstenite::connect_async(request).await.map(|(socket, _)| Self(socket))
    }

    /// A socket with a separate session.
    async fn open(server: &Server, key: &str, workflows: &[(&str, u32)]) -> (Self, String) {
        let mut socket = Self::connect(server, key).await.unwrap();
        socket.say(&json!({"hello": hello(workflows)})).await;
        let welcome = socket.frame().await;
        let session = welcome["welcome"]["session"].as_str().unwrap_or_else(|| panic!("{welcome}")).to_owned();
        assert_eq!(welcome["welcome"]["maxReports"], 512);
        (socket, session)
    }

    async fn resume(server: &Server, key: &str, session: &str, seen: u64) -> Self {
        let mut socket = Self::connect(server, key).await.unwrap();
        socket.say(&json!({"resume": {"session": session, "seen": seen, "capacity": 10}})).await;
        socket
    }

    async fn say(&mut self, frame: &Value) {
        self.0.send(Message::from(frame.to_string())).await.unwrap();
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

    async fn frame(&mut self) -> Value {
        match self.next().await {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?} is no text"),
        }
    }

    /// The next message with such a list.
    async fn message(&mut self, list: &str) -> Value {
        loop {
            let frame = self.frame().await;
            if !frame[list].is_null() {
                return frame;
            }
        }
    }

    /// The code with which the server closes it.
    async fn closed(&mut self) -> u16 {
        match self.next().await {
            Message::Close(Some(frame)) => frame.code.into(),
            other => panic!("{other:?} is no end"),
        }
    }
}

fn about(turn: &Value, n: u64, mut report: Value) -> Value {
    (report["n"], report["run"], report["turn"]) = (json!(n), turn["run"].clone(), turn["turn"].clone());
    report
}

#[tokio::test]
async fn a_worker_runs_a_workflow_over_a_socket() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let (mut socket, _) = Socket::open(&server, &key, &[("greet", 1)]).await;
    let run = start(&server, "greet", &json!({"input": [1, 2]})).await;
    let message = socket.message("turns").await;
    let turn = &message["turns"][0];
    assert_eq!((&message["m"], &turn["input"]), (&json!(1), &json!([1, 2])));
    socket.say(&json!({"seen": 1, "reports": [about(turn, 1, completed("a", &json!("x")))]})).await;
    let message = socket.message("acks").await;
    assert_eq!((&message["m"], &message["acks"][0][0]), (&json!(2), &json!(1)), "{message}");
    socket.say(&json!({"ping": true})).await;
    assert_eq!(socket.frame().await, json!({"pong": true}));
    let reports = json!([
        about(turn, 2, completed("", &json!(1))),
        about(turn, 3, json!({"kind": "returned", "output": "over"})),
    ]);
    socket.say(&json!({"seen": 2, "reports": reports})).await;
    let (mut acked, mut refused) = (Vec::new(), Vec::new());
    while acked.is_empty() || refused.is_empty() {
        let message = socket.frame().await;
        acked.extend(message["acks"].as_array().cloned().unwrap_or_default());
        refused.extend(message["refused"].as_array().cloned().unwrap_or_default());
    }
    assert_eq!((&acked[0][0], &refused[0]["n"]), (&json!(3), &json!(2)), "{acked:?} {refused:?}");
    let ended = server.get(&format!("{run}?waitSeconds=10")).await.is(200);
    assert_eq!((&ended["status"], &ended["output"]), (&json!("completed"), &json!("over")), "{ended}");
}

#[tokio::test]
async fn a_lost_socket_is_resumed_and_what_was_not_seen_comes_again() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let (mut socket, session) = Socket::open(&server, &key, &[("greet", 1)]).await;
    start(&server, "greet", &json!({})).await;
    let first = socket.message("turns").await;
    drop(socket);
    let mut socket = Socket::resume(&server, &key, &session, 0).await;
    assert_eq!(socket.frame().await["welcome"]["session"], session);
    assert_eq!(socket.message("turns").await, first);
    socket.say(&json!({"seen": first["m"]})).await;
    let turn = &first["turns"][0];
    socket.say(&json!({"seen": first["m"], "reports": [about(turn, 1, completed("a", &json!(1)))]})).await;
    assert_eq!(socket.message("acks").await["acks"][0][0], 1);
    // Another one takes the session over while this one is open.
    let mut other = Socket::resume(&server, &key, &session, first["m"].as_u64().unwrap()).await;
    assert_eq!(other.frame().await["welcome"]["session"], session);
    assert_eq!(other.message("acks").await["acks"][0][0], 1);
    assert_eq!(socket.closed().await, 4409);
    other.say(&json!({"seen": 2, "reports": [about(turn, 2, json!({"kind": "returned"}))]})).await;
    assert_eq!(other.message("acks").await["acks"][0][0], 2);
}

#[tokio::test]
async fn a_worker_that_leaves_ends_its_session() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let (mut socket, session) = Socket::open(&server, &key, &[("greet", 1)]).await;
    start(&server, "greet", &json!({})).await;
    socket.message("turns").await;
    socket.say(&json!({"bye": true})).await;
    assert_eq!(socket.closed().await, 1000);
    let mut socket = Socket::resume(&server, &key, &session, 0).await;
    assert_eq!(socket.frame().await["gone"]["code"], "SESSION_GONE");
    assert_eq!(socket.closed().await, 4410);
    // Its turn goes to the next one.
    let (mut socket, _) = Socket::open(&server, &key, &[("greet", 1)]).await;
    let message = socket.message("turns").await;
    assert_eq!(message["turns"][0]["turn"], 2, "{message}");
    let audit = until("the rows of the sockets", async || {
        let audit = server.get("/v1/audit").await.is(200);
        (audit["entries"].as_array().unwrap().len() >= 4).then_some(audit)
    });
    let audit = audit.await;
    let count = |what: &str| audit["entries"].as_array().unwrap().iter().filter(|row| row["action"] == what).count();
    assert_eq!((count("worker socket open"), count("worker socket close")), (2, 1), "{audit}");
    assert!(!audit.to_string().contains(session.split_once('.').unwrap().1));
}

#[tokio::test]
async fn a_frame_that_makes_no_sense_ends_the_socket() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let mut no_name = hello(&[("greet", 1)]);
    no_name["workflows"][0]["name"] = json!("No");
    let wrong = [
        json!({}),
        json!([]),
        json!({"hi": 1}),
        json!({"hello": {}}),
        json!({"hello": no_name}),
        json!({"hello": hello(&[("greet", 1)]), "resume": {"session": "x", "seen": 0}}),
    ];
    for frame in wrong {
        let mut socket = Socket::connect(&server, &key).await.unwrap();
        socket.say(&frame).await;
        assert_eq!(socket.frame().await["problem"]["code"], "VALIDATION_ERROR", "{frame}");
        assert_eq!(socket.closed().await, 4400, "{frame}");
    }
    for frame in [json!({"seen": -1}), json!({"reports": [1]}), json!({"colour": 1}), json!(["x"])] {
        let (mut socket, _) = Socket::open(&server, &key, &[("greet", 1)]).await;
        socket.say(&frame).await;
        assert_eq!(socket.frame().await["problem"]["code"], "VALIDATION_ERROR", "{frame}");
        assert_eq!(socket.closed().await, 4400, "{frame}");
    }
    let (mut socket, _) = Socket::open(&server, &key, &[("greet", 1)]).await;
    socket.0.send(Message::Binary(vec![1, 2].into())).await.unwrap();
    assert_eq!(socket.frame().await["problem"]["code"], "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_socket_asks_for_a_key_that_may_serve_and_ends_with_it() {
    let server = Server::start().await;
    let weak = server.key_with(&[Permission::Manage]).await;
    for (key, status) in [(&*weak, 403), ("es_wrong", 401)] {
        match Socket::connect(&server, key).await {
            Err(Error::Http(response)) => assert_eq!(response.status().as_u16(), status),
            _ => panic!("{key} was let in"),
        }
    }
    let key = server.key_with(&[Permission::Serve]).await;
    let answer = server.ask_as(&key, Method::GET, "/v1/worker/socket", &Value::Null).await;
    answer.refuses(426, "UPGRADE_REQUIRED");
    let (mut socket, session) = Socket::open(&server, &key, &[("greet", 1)]).await;
    // A session of one workspace does not exist for another.
    let other = add_key(&*server.access, WorkspaceId::from_uuid(uuid::Uuid::from_u128(7)), &[Permission::Serve]).await;
    let mut stranger = Socket::resume(&server, &other, &session, 0).await;
    assert_eq!(stranger.frame().await["gone"]["code"], "SESSION_GONE");
    revoke(&server, &key).await;
    assert_eq!(socket.frame().await["problem"]["code"], "AUTH_ERROR");
    assert_eq!(socket.closed().await, 4401);
}

#[tokio::test]
async fn the_sockets_of_a_server_that_stops_are_closed() {
    let mut server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let (mut socket, _) = Socket::open(&server, &key, &[("greet", 1)]).await;
    server.running = None;
    assert_eq!(socket.closed().await, 1001);
}
