//! The addresses that the client does not connect to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get as on_get;
use everstep_net::{ALLOW_ADDRESSES_VARIABLE, Error};

use crate::server::{client, get, serve};

/// A server that counts its connections.
async fn counting(address: &str) -> (u16, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let answer = move || {
        counter.fetch_add(1, Ordering::SeqCst);
        async { "here" }
    };
    (serve(address, Router::new().route("/", on_get(answer))).await.port(), count)
}

#[tokio::test]
async fn an_address_inside_is_refused_in_every_notation() {
    let (port, count) = counting("127.0.0.1").await;
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "127.0.0.1.",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "0.0.0.0",
        "[::]",
        "①②⑦.0.0.1",
    ] {
        let error = client("").send(get(format!("http://{host}:{port}/"))).await.expect_err(host);
        assert!(matches!(error, Error::Refused { .. }), "{host}: {error}");
        assert!(error.to_string().contains(ALLOW_ADDRESSES_VARIABLE) && !error.is_transient(), "{error}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0, "the client did not connect");
    let answer = client("127.0.0.0/8").send(get(format!("http://127.0.0.1:{port}/"))).await.expect("it is allowed");
    assert_eq!((answer.status.as_u16(), answer.body.as_slice()), (200, b"here".as_slice()));
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused() {
    let (port, count) = counting("127.0.0.1").await;
    for host in ["localhost", "LOCALHOST"] {
        let error = client("10.0.0.0/8").send(get(format!("http://{host}:{port}/"))).await.expect_err(host);
        assert_eq!(error, Error::Refused { host: host.to_lowercase() });
    }
    assert_eq!(count.load(Ordering::SeqCst), 0, "the client did not connect");
    let allowed = client("127.0.0.1,::1").send(get(format!("http://localhost:{port}/"))).await;
    assert_eq!(allowed.expect("it is allowed").body, b"here");
}

#[tokio::test]
async fn addresses_of_ipv6_are_refused_likewise() {
    let (port, count) = counting("::1").await;
    let url = format!("http://[::1]:{port}/");
    let error = client("127.0.0.0/8").send(get(&url)).await.expect_err("it resolves to a private address");
    assert_eq!(error, Error::Refused { host: "[::1]".to_owned() });
    assert_eq!(count.load(Ordering::SeqCst), 0);
    assert_eq!(client("::1").send(get(&url)).await.expect("it is allowed").body, b"here");
}

#[tokio::test]
async fn only_http_is_supported_and_credentials_are_not_in_an_address() {
    for url in ["ftp://example.com/", "file:///etc/passwd", "gopher://127.0.0.1/", "http://me:pass@example.com/"] {
        let error = client("all").send(get(url)).await.expect_err(url);
        assert!(matches!(error, Error::Invalid(_)), "{url}: {error}");
        assert!(!error.to_string().contains("pass@"), "{error}");
    }
}

#[tokio::test]
async fn a_host_in_another_script_is_resolved_by_its_ascii_name() {
    for (host, name) in [
        ("Bücher.invalid", "xn--bcher-kva.invalid"),
        ("faß.invalid", "xn--fa-hia.invalid"),
        ("例え。invalid", "xn--r8jz45g.invalid"),
        ("مثال.invalid", "xn--mgbh0fb.invalid"),
    ] {
        let unknown = client("all").send(get(format!("http://{host}/"))).await.expect_err("no such name");
        assert_eq!(unknown, Error::Unresolved(name.to_owned()));
    }
}

#[tokio::test]
async fn a_missing_host_is_distinguished_from_a_blocked_one() {
    let unknown = client("all").send(get("http://there-is-no-such-host.invalid/")).await.expect_err("no such name");
    assert_eq!(unknown, Error::Unresolved("there-is-no-such-host.invalid".to_owned()));
    // A port that was free a moment ago.
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = client("all").send(get(format!("http://{closed}/?token=abc"))).await.expect_err("no server listens");
    assert!(matches!(error, Error::Unreachable { .. }) && error.is_transient(), "{error}");
    assert!(!error.to_string().contains("abc"), "{error}");
}
