//! Socket.IO clients that poll, packet by packet.

use std::time::{Duration, Instant};

use axum::http::Method;
use everstep_api::Streams;
use serde_json::{Value, json};

use crate::support::Server;

const PACKET_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_client_may_poll_where_there_is_one_node() {
    let server = Server::start().await;
    let place = "/socket.io/?EIO=4&transport=polling";
    let text = async |method: Method, path: &str, body: &str| {
        let response = server.send(method, path, &[], body).await;
        assert_eq!(response.status(), 200);
        String::from_utf8(axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
    };
    let open = text(Method::GET, place, "").await;
    let open: Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
    let place = format!("{place}&sid={}", open["sid"].as_str().unwrap());
    // Without an API key the client receives the reason, and the connection ends.
    assert_eq!(text(Method::POST, &place, "40").await, "ok");
    let refused = text(Method::GET, &place, "").await;
    assert!(refused.starts_with("44{") && refused.contains("AUTH_ERROR"), "{refused}");
    assert_eq!(text(Method::GET, &place, "").await, "1");
    let long = "x".repeat(100_000);
    server.ask(Method::POST, &place, &[], &long).await.refuses(413, "PAYLOAD_TOO_LARGE");
}

/// A client that polls.
struct PollingClient<'a> {
    server: &'a Server,
    place: String,
}

impl<'a> PollingClient<'a> {
    async fn open(server: &'a Server) -> Self {
        let place = "/socket.io/?EIO=4&transport=polling";
        let (status, open) = Self { server, place: place.to_owned() }.get().await;
        assert_eq!(status, 200, "{open}");
        let open: Value = serde_json::from_str(open.strip_prefix('0').unwrap()).unwrap();
        Self { server, place: format!("{place}&sid={}", open["sid"].as_str().unwrap()) }
    }

    async fn send(&self, method: Method, body: &str) -> (u16, String) {
        let response = self.server.send(method, &self.place, &[], body).await;
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self) -> (u16, String) {
        self.send(Method::GET, "").await
    }

    /// Sends an API key, and reads the response.
    async fn connect(&self) {
        let auth = json!({"key": self.server.key()});
        assert_eq!(self.send(Method::POST, &format!("40{auth}")).await.0, 200);
        let (status, connected) = self.get().await;
        assert!(status == 200 && connected.starts_with("40{"), "{status} {connected}");
    }
}

#[tokio::test]
async fn two_polls_at_once_close_the_connection() {
    let server = Server::start().await;
    let client = PollingClient::open(&server).await;
    client.connect().await;
    let (one, two) = tokio::join!(client.get(), client.get());
    let (first, second) = if one.0 == 200 { (one, two) } else { (two, one) };
    assert_eq!(first, (200, "1".to_owned()), "the poll that came first is received of the end");
    assert!(second.0 == 400 && second.1.contains("polled twice"), "{second:?}");
    for (status, answer) in [client.get().await, client.send(Method::POST, "3").await] {
        assert!(status == 400 && answer.contains("this connection does not exist"), "{status} {answer}");
    }
}

#[tokio::test]
async fn a_packet_that_cannot_be_read_is_answered_400_and_closes_the_connection() {
    let server = Server::start().await;
    for wrong in ["abc", "", "3\u{1e}9", "42[]"] {
        let client = PollingClient::open(&server).await;
        client.connect().await;
        let (status, answer) = client.send(Method::POST, wrong).await;
        assert!(status == 400 && answer.contains("VALIDATION_ERROR"), "{wrong:?}: {status} {answer}");
        let (status, answer) = client.get().await;
        assert!(status == 400 && answer.contains("this connection does not exist"), "{wrong:?}: {status} {answer}");
    }
}

#[tokio::test]
async fn a_poll_after_a_ping_timed_out_is_answered_400() {
    let short = Duration::from_millis(50);
    let server = Server::start_with(Streams { ping_interval: short, pong_timeout: short, ..Streams::default() }).await;
    let client = PollingClient::open(&server).await;
    client.connect().await;
    // The client reads pings and answers none.
    let began = Instant::now();
    let (status, answer) = loop {
        let (status, answer) = client.get().await;
        assert!(began.elapsed() < PACKET_TIMEOUT, "the connection goes on");
        if status != 200 {
            break (status, answer);
        }
        assert!(answer.split('\u{1e}').all(|packet| packet == "2") || answer == "1", "{answer}");
    };
    assert!(status == 400 && answer.contains("this connection does not exist"), "{status} {answer}");
}
