//! The limits of size and time.

use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get as on_get;
use everstep_net::{Error, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::server::{client, get, serve};

/// Answers every connection with these bytes, then keeps it open.
async fn raw(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let url = format!("http://{}/", listener.local_addr().expect("a port is free"));
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(&answer).await;
                // Until the client disconnects.
                let _ = stream.read(&mut [0; 1]).await;
            });
        }
    });
    url
}

#[tokio::test]
async fn an_answer_over_its_limit_is_an_error() {
    let body = || async { "x".repeat(1_000) };
    let url = format!("http://{}/", serve("127.0.0.1", Router::new().route("/", on_get(body))).await);
    let at_most = |max_bytes| Request { max_bytes, ..get(&url) };
    assert_eq!(client("all").send(at_most(1_000)).await.unwrap().body.len(), 1_000);
    assert_eq!(client("all").send(at_most(999)).await.unwrap_err(), Error::TooLarge(999));
    // A caller that does not read responses with this status receives the status.
    let unread = client("all").send(Request { read: vec![201..=299], ..at_most(999) }).await.unwrap();
    assert_eq!((unread.status.as_u16(), unread.body.len()), (200, 0));
    // A response without a length is counted while it arrives, and it need not end.
    let chunk = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n".as_slice(), &[b'y'; 2_000]].concat();
    let endless = Request { max_bytes: 999, ..get(raw(chunk).await) };
    assert_eq!(client("all").send(endless).await.unwrap_err(), Error::TooLarge(999));
}

#[tokio::test]
async fn a_small_answer_that_unfolds_is_counted_unfolded() {
    // A million zeros, about a thousand bytes.
    const BOMB: &[u8] = include_bytes!("zeros.gz");
    let answer = || async { ([("content-encoding", "gzip")], BOMB) };
    let url = format!("http://{}/", serve("127.0.0.1", Router::new().route("/", on_get(answer))).await);
    let at_most = |max_bytes| Request { max_bytes, ..get(&url) };
    assert_eq!(client("all").send(at_most(100_000)).await.unwrap_err(), Error::TooLarge(100_000));
    assert_eq!(client("all").send(at_most(1_000_000)).await.unwrap().body, vec![0; 1_000_000]);
}

#[tokio::test]
async fn a_server_that_does_not_respond_times_out() {
    let timeout = Duration::from_millis(200);
    for begun in ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let begin = Instant::now();
        let slow = Request { timeout, ..get(raw(begun.as_bytes().to_vec()).await) };
        let error = client("all").send(slow).await.unwrap_err();
        assert_eq!(error, Error::Timeout(timeout));
        assert!(error.is_transient() && begin.elapsed() >= timeout);
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn an_answer_with_endless_headers_is_refused() {
    let mut answer = b"HTTP/1.1 200 OK\r\n".to_vec();
    for number in 0..200 {
        answer.extend_from_slice(format!("x-{number}: y\r\n").as_bytes());
    }
    answer.extend_from_slice(b"content-length: 0\r\n\r\n");
    let error = client("all").send(get(raw(answer).await)).await.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }), "{error}");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf").await;
    });
    let error = client("all").send(get(url)).await.unwrap_err();
    assert!(matches!(error, Error::Broken { .. }) && error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_rejected() {
    let url = raw(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()).await.replace("http:", "https:");
    let error = client("all").send(get(url)).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}
