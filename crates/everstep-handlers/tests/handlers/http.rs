//! The http kind, against a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use everstep_core::failure::{Failure, code};
use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_core::kinds::Kinds;
use everstep_handlers::{Ports, Registry, Secrets, Task};
use everstep_net::{ALLOW_ADDRESSES_VARIABLE, Client, Guard};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use zeroize::Zeroizing;

use crate::{faults, task};

/// Has one secret, and counts requests for it.
#[derive(Default)]
struct Safe(AtomicUsize);

#[async_trait]
impl Secrets for Safe {
    async fn reveal(&self, workspace: WorkspaceId, name: &str) -> Result<Zeroizing<String>, Failure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        assert_eq!(workspace, WorkspaceId::DEFAULT);
        match name {
            "token" => Ok(Zeroizing::new("s3cret-\"token\"".to_owned())),
            "password" => Ok(Zeroizing::new("pass-word".to_owned())),
            _ => Err(Failure::fatal("SECRET_NOT_FOUND", format!("the secret {name:?} does not exist"))),
        }
    }
}

/// A server that returns the request that it received, and other responses.
async fn server() -> String {
    let echo = |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let headers: Map<String, Value> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()))
            .collect();
        let body = String::from_utf8_lossy(&body).into_owned();
        axum::Json(json!({"method": method.as_str(), "uri": uri.to_string(), "headers": headers, "body": body}))
    };
    let status = |Path(status): Path<u16>, headers: HeaderMap| async move {
        let token = headers.get("authorization").map_or("", |value| value.to_str().unwrap_or("")).to_owned();
        (StatusCode::from_u16(status).expect("it is a status"), [("retry-after", "7")], format!("no: {token}"))
    };
    let typed = |Path(kind): Path<String>| async move {
        let answer = |content_type: &'static str, bytes: &'static [u8]| -> Response {
            ([("content-type", content_type)], bytes).into_response()
        };
        match kind.as_str() {
            "problem" => answer("application/problem+json; charset=utf-8", br#"{"a": [1, 2.5]}"#),
            "broken" => answer("application/json", b"{\"a\": "),
            "html" => answer("text/html", "<p>é</p>".as_bytes()),
            "latin" => answer("text/plain; charset=ISO-8859-1", b"caf\xe9"),
            "image" => answer("image/png", &[0x89, 0x50, 0xff]),
            "large" => answer("text/plain", &[b'x'; 2_000]),
            _ => StatusCode::NO_CONTENT.into_response(),
        }
    };
    let moved = || async { (StatusCode::FOUND, [("location", "/echo/moved")]) };
    let inside = || async { (StatusCode::FOUND, [("location", "http://127.0.0.9/")]) };
    let slow = || async { tokio::time::sleep(Duration::from_secs(60)).await };
    let router = Router::new()
        .route("/echo/{*rest}", any(echo))
        .route("/status/{status}", any(status))
        .route("/typed/{kind}", any(typed))
        .route("/moved", any(moved))
        .route("/inside", any(inside))
        .route("/slow", any(slow));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn registry(networks: &str) -> (Registry, Arc<Safe>) {
    let safe = Arc::new(Safe::default());
    let client = Client::new(networks.parse::<Guard>().expect("these are networks"));
    (Registry::standard(Ports { client, secrets: safe.clone(), ..Ports::none() }), safe)
}

async fn perform(task: Task) -> Result<Value, Failure> {
    let (registry, _) = registry("127.0.0.1");
    let report = registry.find_handler("http").expect("it is standard").perform(task).await;
    assert_eq!(report.logs, [""; 0]);
    report.result.map(|outcome| outcome.output.value().clone())
}

async fn ask(config: Value) -> Result<Value, Failure> {
    perform(task("http", config, json!({}))).await
}

/// Performs a task with the secrets that the config names, as the engine does.
async fn ask_with_secrets(config: Value, secrets: &[&str]) -> Result<Value, Failure> {
    let secrets = secrets.iter().map(|pointer| (*pointer).to_owned()).collect();
    perform(Task { secrets, written: config.clone(), ..task("http", config, json!({})) }).await
}

#[tokio::test]
async fn a_request_is_sent_as_it_is_written() {
    let url = server().await;
    let answer = ask(json!({
        "url": format!("{url}/echo/a?x=1"),
        "query": {"q": "a b&c", "n": 5, "tag": ["one", true], "left": null},
        "headers": {"X-Text": "text", "x-number": 7, "X-Left": null},
    }));
    let answer = answer.await.expect("it answers");
    assert_eq!((&answer["status"], &answer["headers"]["content-type"]), (&json!(200), &json!("application/json")));
    let echoed = &answer["body"];
    assert_eq!(echoed["method"], "GET");
    assert_eq!(echoed["uri"], "/echo/a?x=1&n=5&q=a+b%26c&tag=one&tag=true");
    assert_eq!((&echoed["headers"]["x-text"], &echoed["headers"]["x-number"]), (&json!("text"), &json!("7")));
    assert!(
        echoed["headers"].get("x-left").is_none() && echoed["headers"].get("idempotency-key").is_none(),
        "{echoed}"
    );
    assert!(echoed["headers"]["user-agent"].as_str().is_some_and(|agent| agent.starts_with("everstep/")), "{echoed}");
}

#[tokio::test]
async fn bodies_are_written_as_their_type_says() {
    let url = format!("{}/echo/a", server().await);
    let cases = [
        (json!({"body": {"a": [1, null]}}), "application/json", "{\"a\":[1,null]}"),
        (json!({"body": "text é"}), "text/plain; charset=utf-8", "text é"),
        (json!({"body": "text", "bodyType": "json"}), "application/json", "\"text\""),
        (json!({"body": 5, "bodyType": "text"}), "text/plain; charset=utf-8", "5"),
        (
            json!({"body": {"a": "1 2", "b": [3, "é"], "c": null}, "bodyType": "form"}),
            "application/x-www-form-urlencoded",
            "a=1+2&b=3&b=%C3%A9",
        ),
        (json!({"body": "<a/>", "contentType": "application/xml"}), "application/xml", "<a/>"),
    ];
    for (mut config, content_type, body) in cases {
        config["url"] = url.clone().into();
        config["method"] = "POST".into();
        let echoed = ask(config).await.expect("it answers")["body"].clone();
        assert_eq!(
            (echoed["headers"]["content-type"].as_str(), echoed["body"].as_str()),
            (Some(content_type), Some(body))
        );
    }
    let empty = ask(json!({"url": url, "method": "POST"})).await.expect("it answers")["body"].clone();
    assert!(empty["headers"].get("content-type").is_none() && empty["body"] == "", "{empty}");
    let form = ask(json!({"url": url, "method": "POST", "body": [1], "bodyType": "form"})).await.unwrap_err();
    assert_eq!(form, Failure::fatal(code::INVALID_CONFIG, "`body`: a form must be an object"));
}

#[tokio::test]
async fn a_repetition_has_the_same_idempotency_key() {
    let url = format!("{}/echo/a", server().await);
    let key = "01890000-0000-7000-8000-000000000002:step";
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let echoed = ask(json!({"url": url, "method": method})).await.expect("it answers");
        assert_eq!(echoed["body"]["headers"]["idempotency-key"], key, "{method}");
    }
    let renamed = json!({"url": url, "sendIdempotencyKey": true, "idempotencyHeader": "X-Once"});
    assert_eq!(ask(renamed).await.expect("it answers")["body"]["headers"]["x-once"], key);
    let off = json!({"url": url, "method": "POST", "sendIdempotencyKey": false});
    assert!(ask(off).await.expect("it answers")["body"]["headers"].get("idempotency-key").is_none());
    let own = json!({"url": url, "method": "POST", "headers": {"idempotency-key": "mine"}});
    assert_eq!(ask(own).await.expect("it answers")["body"]["headers"]["idempotency-key"], "mine");
}

#[tokio::test]
async fn answers_are_read_by_their_type() {
    let url = server().await;
    let body = async |kind: &str, response_type: &str| {
        let config = json!({"url": format!("{url}/typed/{kind}"), "responseType": response_type});
        ask(config).await.map(|answer| answer["body"].clone())
    };
    assert_eq!(body("problem", "auto").await, Ok(json!({"a": [1, 2.5]})));
    assert_eq!(body("problem", "text").await, Ok(json!("{\"a\": [1, 2.5]}")));
    assert_eq!(body("html", "auto").await, Ok(json!("<p>é</p>")));
    assert_eq!(body("latin", "auto").await, Ok(json!("café")));
    assert_eq!(body("image", "auto").await, Ok(json!("iVD/")));
    assert_eq!(body("html", "base64").await, Ok(json!("PHA+w6k8L3A+")));
    assert_eq!(body("none", "json").await, Ok(Value::Null));
    let broken = body("broken", "auto").await.unwrap_err();
    assert_eq!((broken.code.as_str(), broken.retryable), ("HTTP_ERROR", false));
    assert!(broken.message.starts_with("the response is not JSON"), "{broken}");
    let large = ask(json!({"url": format!("{url}/typed/large"), "maxResponseBytes": 1_999})).await.unwrap_err();
    assert_eq!(large, Failure::fatal(code::PAYLOAD_TOO_LARGE, "the response has more than 1999 bytes"));
}

#[tokio::test]
async fn statuses_succeed_fail_or_are_tried_again() {
    let url = server().await;
    let status = async |status: u16, more: Value| {
        let mut config = json!({"url": format!("{url}/status/{status}")});
        config.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
        ask(config).await
    };
    assert_eq!(status(201, json!({})).await.expect("it is fine")["status"], 201);
    for passing in [408, 425, 429, 500, 502, 503, 504] {
        let failure = status(passing, json!({})).await.unwrap_err();
        assert_eq!((failure.code.as_str(), failure.retryable), ("HTTP_STATUS", true), "{passing}");
    }
    for lasting in [400, 401, 404, 422, 501] {
        let failure = status(lasting, json!({})).await.unwrap_err();
        assert_eq!((failure.code.as_str(), failure.retryable), ("HTTP_STATUS", false), "{lasting}");
    }
    let echoed = status(404, json!({})).await.unwrap_err().message;
    assert_eq!(echoed, "127.0.0.1 responded with status 404 Not Found (it allows a retry after 7 s): no:");
    assert_eq!(status(503, json!({})).await.unwrap_err().retry_after_ms, Some(7_000));
    assert_eq!(status(404, json!({"acceptStatuses": ["2xx", 404]})).await.expect("it is accepted")["status"], 404);
    assert!(status(200, json!({"acceptStatuses": [201]})).await.is_err());
    assert!(!status(503, json!({"retryOn": [404]})).await.unwrap_err().retryable);
    assert!(status(404, json!({"retryOn": [404]})).await.unwrap_err().retryable);
    // A long error page changes nothing.
    let long = status(503, json!({"maxResponseBytes": 1})).await.unwrap_err();
    assert_eq!((long.code.as_str(), long.retryable, long.retry_after_ms), ("HTTP_STATUS", true, Some(7_000)));
    assert!(long.message.ends_with("(it allows a retry after 7 s)"), "{long}");
    let wanted = status(404, json!({"maxResponseBytes": 1, "acceptStatuses": [404]})).await.unwrap_err();
    assert_eq!(wanted.code, code::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn redirects_are_followed_or_handed_back() {
    let url = server().await;
    let followed = ask(json!({"url": format!("{url}/moved")})).await.expect("it is followed");
    assert_eq!(followed["body"]["uri"], "/echo/moved");
    let back = json!({"url": format!("{url}/moved"), "followRedirects": false, "acceptStatuses": ["3xx"]});
    assert_eq!(ask(back).await.expect("it is accepted")["headers"]["location"], "/echo/moved");
    let inside = ask(json!({"url": format!("{url}/inside")})).await.unwrap_err();
    assert_eq!((inside.code.as_str(), inside.retryable), ("ADDRESS_REFUSED", false));
}

#[tokio::test]
async fn an_unreachable_host_has_its_own_code() {
    let refused = ask(json!({"url": "http://10.0.0.1/"})).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.retryable), ("ADDRESS_REFUSED", false));
    assert!(refused.message.contains(ALLOW_ADDRESSES_VARIABLE), "{refused}");
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gone = ask(json!({"url": format!("http://{closed}/")})).await.unwrap_err();
    assert_eq!((gone.code.as_str(), gone.retryable), ("HTTP_ERROR", true));
    let slow = task("http", json!({"url": format!("{}/slow", server().await)}), json!({}));
    let slow = perform(Task { timeout: Duration::from_millis(100), ..slow }).await.unwrap_err();
    assert_eq!((slow.code.as_str(), slow.retryable), (code::STEP_TIMEOUT, true));
}

#[test]
fn a_secret_goes_to_a_host_that_is_written_out() {
    let (registry, _) = registry("127.0.0.1");
    let faults = |url: Value| {
        let config = json!({"url": url, "auth": {"type": "bearer", "token": {"$secret": "token"}}});
        registry.check("http", &config).into_iter().map(|fault| fault.pointer).collect::<Vec<_>>()
    };
    for good in ["https://a.example/{{ctx.input.id}}", "https://a.example?q={{ctx.input.q}}", "https://a.example"] {
        assert_eq!(faults(json!(good)), [""; 0], "{good}");
    }
    assert_eq!(faults(json!({"$secret": "place"})), [""; 0]);
    let computed = [
        json!("https://a.example{{ctx.input.path}}"),
        json!("http:///{{ctx.input.host}}/"),
        json!("http://user@{{ctx.input.host}}/"),
        json!("http:\\\\{{ctx.input.host}}/"),
        json!("http://\t{{ctx.input.host}}/"),
        json!("https://a.example:{{ctx.input.port}}/"),
        json!("https://{{ctx.input.host}}/orders"),
        json!("{{ctx.input.url}}"),
        json!({"$expr": "ctx.input.url"}),
    ];
    for url in computed {
        assert_eq!(faults(url.clone()), ["/url"], "{url}");
    }
    let open = json!({"url": "{{ctx.input.url}}"});
    assert!(registry.check("http", &open).is_empty());
}

/// An earlier release saved the definition, or the template computes another text than expected.
#[tokio::test]
async fn a_secret_is_not_sent_to_another_host_than_the_definition_has() {
    let (url, other) = (server().await, server().await);
    let (registry, safe) = registry("127.0.0.1");
    let perform = async |written: &str, url: &str| {
        let config = |url: &str| json!({"url": url, "auth": {"type": "bearer", "token": {"$secret": "token"}}});
        let secrets = vec!["/auth/token".to_owned()];
        let task = Task { secrets, written: config(written), ..task("http", config(url), json!({})) };
        registry.find_handler("http").unwrap().perform(task).await.result
    };
    let reached = perform(&format!("{url}/echo/{{{{ctx.input.a}}}}"), &format!("{url}/echo/a")).await.unwrap();
    assert_eq!(reached.output.value()["body"]["headers"]["authorization"], "Bearer [secret]");
    for (written, resolved) in [
        ("http:///{{ctx.input.host}}", format!("{other}/echo/a")),
        ("{{ctx.input.url}}", format!("{other}/echo/a")),
        ("http://a@{{ctx.input.host}}", format!("{other}/echo/a")),
        (&*format!("{url}/{{{{ctx.input.a}}}}"), format!("{other}/echo/a")),
        (&*url, format!("{other}/echo/a")),
    ] {
        let failure = perform(written, &resolved).await.unwrap_err();
        assert_eq!((failure.code.as_str(), failure.retryable), (code::INVALID_CONFIG, false), "{written}: {failure}");
        assert!(failure.message.contains("secret"), "{failure}");
    }
    assert_eq!(safe.0.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn a_redirect_carries_no_secret_to_another_host() {
    let other = server().await;
    let target = format!("{other}/echo/b");
    let router = Router::new()
        .route("/away", any(move || async move { (StatusCode::TEMPORARY_REDIRECT, [("location", target)]) }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/away", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let headers = json!({
        "url": url,
        "method": "POST",
        "headers": {"X-Key": {"$secret": "password"}, "X-Plain": "plain"},
        "query": {"key": {"$secret": "password"}},
        "auth": {"type": "header", "name": "X-Token", "value": {"$secret": "token"}},
    });
    let echoed = ask_with_secrets(headers, &["/headers/X-Key", "/query/key", "/auth/value"]).await.expect("it answers");
    assert_eq!(echoed["body"]["uri"], "/echo/b");
    let headers = echoed["body"]["headers"].as_object().unwrap();
    assert_eq!(headers["x-plain"], "plain");
    assert!(!headers.contains_key("x-key") && !headers.contains_key("x-token") && !headers.contains_key("referer"));
    let body = json!({"url": url, "method": "POST", "body": {"key": {"$secret": "password"}}});
    let failure = ask_with_secrets(body, &["/body/key"]).await.unwrap_err();
    assert!(failure.message.contains("the body contains a secret"), "{failure}");
}

#[tokio::test]
async fn secrets_are_masked_however_a_server_encodes_them() {
    let echo = |headers: HeaderMap| async move {
        let token = headers["x-key"].to_str().unwrap_or_default().to_owned();
        let encode = |text: &str| base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, text);
        let bytes: String = token.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let (pair, alone) = (encode(&format!("me:{token}!")), encode(&token));
        let location = [("x-location", format!("https://a.example/?token={bytes}&at={alone}"))];
        (location, axum::Json(json!({"percent": bytes, "base64": alone, "pair": pair})))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new().route("/", any(echo));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = json!({"url": url, "headers": {"X-Key": {"$secret": "password"}}});
    let echoed = ask_with_secrets(config, &["/headers/X-Key"]).await.expect("it answers");
    assert_eq!(echoed["headers"]["x-location"], "https://a.example/?token=[secret]&at=[secret]");
    assert_eq!((&echoed["body"]["percent"], &echoed["body"]["base64"]), (&json!("[secret]"), &json!("[secret]")));
    // Of the pair, the text around the password is left.
    assert_eq!(echoed["body"]["pair"], "bWU6[secret]IQ");
}

#[tokio::test]
async fn secrets_are_sent_and_never_seen() {
    let url = format!("{}/echo/a", server().await);
    let bearer = json!({"url": url, "auth": {"type": "bearer", "token": {"$secret": "token"}}});
    let echoed = ask_with_secrets(bearer, &["/auth/token"]).await.expect("it answers");
    assert_eq!(echoed["body"]["headers"]["authorization"], "Bearer [secret]");
    let basic = json!({"url": url, "auth": {"type": "basic", "username": "me", "password": {"$secret": "password"}}});
    let echoed = ask_with_secrets(basic, &["/auth/password"]).await.expect("it answers");
    assert_eq!(echoed["body"]["headers"]["authorization"], "Basic [secret]");
    let header = json!({"url": url, "auth": {"type": "header", "name": "X-Key", "value": {"$secret": "password"}}});
    let echoed = ask_with_secrets(header, &["/auth/value"]).await.expect("it answers");
    assert_eq!(echoed["body"]["headers"]["x-key"], "[secret]");
    let everywhere = json!({
        "url": url,
        "method": "POST",
        "query": {"key": {"$secret": "password"}},
        "headers": {"X-Key": {"$secret": "password"}},
        "body": {"deep": [{"key": {"$secret": "token"}}]},
    });
    let places = ["/query/key", "/headers/X-Key", "/body/deep/0/key"];
    let echoed = ask_with_secrets(everywhere, &places).await.expect("it answers");
    assert_eq!(echoed["body"]["uri"], "/echo/a?key=[secret]");
    assert_eq!(echoed["body"]["headers"]["x-key"], "[secret]");
    assert!(!echoed.to_string().contains("s3cret") && !echoed.to_string().contains("pass-word"), "{echoed}");
    // The request that the server received: without the mask it would contain the secret.
    let plain = ask(json!({"url": url, "auth": {"type": "basic", "username": "me", "password": "pass-word"}}));
    assert_eq!(plain.await.expect("it answers")["body"]["headers"]["authorization"], "Basic bWU6cGFzcy13b3Jk");
}

#[tokio::test]
async fn no_failure_contains_a_secret() {
    let url = server().await;
    let status =
        json!({"url": format!("{url}/status/403"), "auth": {"type": "bearer", "token": {"$secret": "password"}}});
    let failure = ask_with_secrets(status, &["/auth/token"]).await.unwrap_err();
    assert!(failure.message.ends_with("no: Bearer [secret]"), "{failure}");
    // A secret at a useless place is not shown either.
    let address = json!({"url": {"$secret": "password"}});
    let failure = ask_with_secrets(address, &["/url"]).await.unwrap_err();
    assert_eq!(failure.code, code::INVALID_CONFIG);
    assert!(!failure.message.contains("pass-word"), "{failure}");
    let unknown = json!({"url": url, "auth": {"type": "bearer", "token": {"$secret": "missing"}}});
    let failure = ask_with_secrets(unknown, &["/auth/token"]).await.unwrap_err();
    assert_eq!(failure, Failure::fatal("SECRET_NOT_FOUND", "the secret \"missing\" does not exist"));
}

#[tokio::test]
async fn what_only_looks_like_a_secrets_name_is_not_one() {
    let url = format!("{}/echo/a", server().await);
    let (registry, safe) = registry("127.0.0.1");
    let perform = async |config: Value| {
        let report = registry.find_handler("http").unwrap().perform(task("http", config, json!({}))).await;
        report.result.map(|outcome| outcome.output.value().clone())
    };
    // As if an expression had created it: the definition names no secrets.
    let body = perform(json!({"url": url, "method": "POST", "body": {"$secret": "token"}})).await.unwrap();
    assert_eq!(body["body"]["body"], "{\"$secret\":\"token\"}");
    let header = perform(json!({"url": url, "headers": {"X-Key": {"$secret": "token"}}})).await.unwrap_err();
    assert_eq!(header.code, code::INVALID_CONFIG);
    let auth = json!({"url": url, "auth": {"type": "bearer", "token": {"$secret": "token"}}});
    assert_eq!(perform(auth).await.unwrap_err().code, code::INVALID_CONFIG);
    assert_eq!(safe.0.load(Ordering::SeqCst), 0, "nothing was revealed");
}

#[test]
fn configs_are_checked_when_saved() {
    let fine = [
        json!({"url": "https://example.com"}),
        json!({"url": "{{ctx.url}}", "method": "{{ctx.method}}", "headers": {"$expr": "ctx.headers"}}),
        json!({"url": "https://example.com", "auth": {"type": "basic", "username": "{{ctx.u}}", "password": {"$secret": "p"}}}),
        json!({"url": {"$secret": "hook"}, "timeoutSeconds": 5, "maxResponseBytes": "{{ctx.most}}"}),
        json!({"url": "https://example.com", "acceptStatuses": ["2xx", 404], "retryOn": []}),
    ];
    for config in fine {
        assert_eq!(faults("http", &config), [""; 0], "{config}");
    }
    let wrong = [
        (json!({}), "/url: `url` is missing"),
        (json!({"url": ""}), "/url: it must not be empty"),
        (json!({"url": "example.com"}), "/url: `url` is not a valid address: relative URL without a base"),
        (json!({"url": "ftp://example.com"}), "/url: `url` must begin with http:// or https://"),
        (json!({"url": "https://a:b@example.com"}), "/url: `url` must not contain credentials; use `auth`"),
        (json!({"url": "https://a", "method": "get"}), "/method: expected one of GET, POST, PUT, PATCH, DELETE, HEAD"),
        (json!({"url": "https://a", "headers": {"a b": "x"}}), "/headers/a b: `headers`: \"a b\" is not a valid name"),
        (
            json!({"url": "https://a", "headers": {"Host": "x"}}),
            "/headers/Host: `headers`: the client sets the header host",
        ),
        (json!({"url": "https://a", "headers": {"X": "a\nb"}}), "/headers/X: the value of \"X\" is not valid"),
        (json!({"url": "https://a", "headers": {"X": {}}}), "/headers/X: expected a string or a number"),
        (json!({"url": "https://a", "auth": {"type": "digest"}}), "/auth: expected {\"type\": \"none\", …} or"),
        (json!({"url": "https://a", "auth": {"type": "bearer"}}), "/auth/token: `token` is missing"),
        (
            json!({"url": "https://a", "auth": {"type": "bearer", "token": "x", "tokn": 1}}),
            "/auth/tokn: the field `tokn`",
        ),
        (json!({"url": "https://a", "acceptStatuses": ["6xx"]}), "/acceptStatuses/0: it does not match the pattern"),
        (json!({"url": "https://a", "acceptStatuses": []}), "/acceptStatuses: it must not be empty"),
        (json!({"url": "https://a", "retryOn": [99]}), "/retryOn/0: 99 is out of range"),
        (json!({"url": "https://a", "maxResponseBytes": 1_048_577}), "/maxResponseBytes: 1048577 is out of range"),
        (json!({"url": "https://a", "bodyType": "form"}), "/bodyType: `bodyType` has no effect without a body"),
        (
            json!({"url": "https://a", "body": "x", "contentType": "a/b", "headers": {"content-type": "c/d"}}),
            "/contentType: the content type is set in both",
        ),
        (
            json!({"url": "https://a", "sendIdempotencyKey": false, "idempotencyHeader": "X"}),
            "/idempotencyHeader: `idempotencyHeader` has no effect",
        ),
        (json!({"url": "https://a", "colour": "red"}), "/colour: the field `colour` does not exist"),
    ];
    for (config, message) in wrong {
        let found = faults("http", &config);
        assert!(found.len() == 1 && found[0].starts_with(message), "{config}: {found:?}");
    }
}

#[test]
fn requests_are_bounded_by_workspace_and_by_host() {
    let registry = Registry::standard(Ports::none());
    let handler = registry.find_handler("http").expect("the kind exists");
    let ShareBounds { places, workspace_max, key_max } = handler.bounds();
    assert_eq!((places, workspace_max, key_max), (1_024, 128, 64));
    let host = |url: Value| handler.place_key(&task("http", json!({"url": url}), Value::Null));
    assert_eq!(&*host(json!("https://API.example.com:8443/orders?a=b")), "api.example.com");
    assert_eq!(&*host(json!({"$secret": "address"})), "", "it is not revealed before its task begins");
    assert_eq!(&*host(json!("no address")), "");
}
