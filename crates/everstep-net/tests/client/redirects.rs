//! Redirects: each target is checked like the first address.

use axum::Router;
use axum::extract::{Path, RawQuery};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::IntoResponse;
use axum::routing::any;
use everstep_net::header::HeaderValue;
use everstep_net::{Error, Request, Url};

use crate::server::{client, get, serve};

/// `/go/302?target` redirects; `/count/3` redirects three times; `/` returns the request that it received.
fn router() -> Router {
    let go = |Path(status): Path<u16>, RawQuery(target): RawQuery| async move {
        (StatusCode::from_u16(status).expect("a status"), [("location", target.expect("a target"))])
    };
    let count = |Path(left): Path<u32>| async move {
        let target = if left == 0 { "/".to_owned() } else { format!("/count/{}", left - 1) };
        (StatusCode::FOUND, [("location", target)])
    };
    let echoed = |method: Method, headers: HeaderMap, body: String| async move {
        let has = |name: &str| headers.get(name).map_or("-", |value| value.to_str().expect("text")).to_owned();
        format!("{method} {} {} {} {body}", has("authorization"), has("x-key"), has("x-plain")).into_response()
    };
    Router::new().route("/go/{status}", any(go)).route("/count/{left}", any(count)).route("/", any(echoed))
}

fn post(url: String) -> Request {
    let mut request = Request { method: Method::POST, body: b"data".to_vec(), ..get(url) };
    let mut key = HeaderValue::from_static("key");
    key.set_sensitive(true);
    request.headers.insert("authorization", HeaderValue::from_static("Bearer token"));
    request.headers.insert("x-key", key);
    request.headers.insert("x-plain", HeaderValue::from_static("plain"));
    request
}

#[tokio::test]
async fn a_redirect_to_a_refused_address_is_not_followed() {
    let here = serve("127.0.0.1", router()).await;
    let there = serve("127.0.0.2", router()).await.port();
    let six = serve("::1", router()).await.port();
    let client = client("127.0.0.1");
    for target in [
        format!("http://127.0.0.2:{there}/"),
        format!("//127.0.0.2:{there}/"),
        format!("http://2130706434:{there}/"),
        format!("http://0x7f.0.0.2:{there}/"),
        format!("http://0177.0.0.2:{there}/"),
        format!("http://[::ffff:127.0.0.2]:{there}/"),
        format!("http://[::1]:{six}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ] {
        let error = client.send(get(format!("http://{here}/go/302?{target}"))).await.expect_err(&target);
        assert!(matches!(error, Error::Refused { .. }), "{target}: {error}");
    }
    let same = client.send(get(format!("http://{here}/go/302?http://{here}/"))).await.expect("it is allowed");
    assert_eq!(same.url, Url::parse(&format!("http://{here}/")).unwrap());
    for target in ["file:///etc/passwd", "ftp://example.com/", "http://", "http://me:pass@example.com/"] {
        let error = client.send(get(format!("http://{here}/go/302?{target}"))).await.expect_err(target);
        assert!(matches!(error, Error::Invalid(_) | Error::Redirect(_)), "{target}: {error}");
    }
}

#[tokio::test]
async fn credentials_stay_with_whom_they_were_meant_for() {
    let here = serve("127.0.0.1", router()).await;
    let there = serve("127.0.0.1", router()).await;
    let client = client("127.0.0.1");
    let echoed = async |url: String| {
        String::from_utf8(client.send(post(url)).await.expect("it is allowed").body).expect("it is text")
    };
    let same = echoed(format!("http://{here}/go/307?/")).await;
    assert_eq!(same, "POST Bearer token key plain data");
    let other = echoed(format!("http://{here}/go/307?http://{there}/")).await;
    assert_eq!(other, "POST - - plain data");
    let secret = Request { has_secret_body: true, ..post(format!("http://{here}/go/308?http://{there}/")) };
    let error = client.send(secret).await.expect_err("the body contains a secret");
    assert!(matches!(error, Error::Redirect(_)) && !error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_redirect_after_a_post_is_asked_for_without_the_body() {
    let here = serve("127.0.0.1", router()).await;
    let client = client("127.0.0.1");
    for status in [301, 302, 303] {
        let answer = client.send(post(format!("http://{here}/go/{status}?/"))).await.expect("it is allowed");
        assert_eq!(String::from_utf8_lossy(&answer.body), "GET Bearer token key plain ", "{status}");
    }
    let put = Request { method: Method::PUT, ..post(format!("http://{here}/go/302?/")) };
    assert_eq!(client.send(put).await.unwrap().body, b"PUT Bearer token key plain data");
}

#[tokio::test]
async fn ten_redirects_are_followed_and_no_more() {
    let here = serve("127.0.0.1", router()).await;
    let client = client("127.0.0.1");
    assert_eq!(client.send(get(format!("http://{here}/count/9"))).await.unwrap().status, StatusCode::OK);
    let error = client.send(get(format!("http://{here}/count/10"))).await.expect_err("there are eleven");
    assert_eq!(error, Error::Redirect("more than 10 redirects".to_owned()));
    let unfollowed = Request { redirects: 0, ..get(format!("http://{here}/count/3")) };
    let answer = client.send(unfollowed).await.expect("it is handed back");
    assert_eq!((answer.status, answer.headers["location"].to_str().unwrap()), (StatusCode::FOUND, "/count/2"));
}
