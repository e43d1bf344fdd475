//! `fetch` of scripts, with a real server on this machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::WorkspaceId;
use everstep_handlers::{FetchPolicy, Ports, Registry, TaskResult};
use everstep_net::{Client, Guard};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::task;

struct Everyone;

#[async_trait]
impl FetchPolicy for Everyone {
    async fn allows(&self, _: WorkspaceId) -> Result<bool, Failure> {
        Ok(true)
    }
}

/// Serves HTTP on a free port: `/echo` returns the request, `/missing` returns 404, `/never` does not respond, `/long`
/// does not end.
async fn serve() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    format!("http://{address}")
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut asked = Vec::new();
    let mut buffer = [0; 4096];
    let (head, length) = loop {
        let read = stream.read(&mut buffer).await?;
        asked.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&asked).into_owned();
        let Some((head, _)) = text.split_once("\r\n\r\n") else { continue };
        let length = head
            .to_lowercase()
            .split("content-length: ")
            .nth(1)
            .map_or(0, |rest| rest.split("\r\n").next().and_then(|length| length.parse().ok()).unwrap_or(0));
        break (head.to_owned(), length);
    };
    while asked.len() < head.len() + 4 + length {
        let read = stream.read(&mut buffer).await?;
        asked.extend_from_slice(&buffer[..read]);
    }
    let body = String::from_utf8_lossy(&asked[head.len() + 4..]).into_owned();
    let (status, answer) = match head.split(' ').nth(1).unwrap_or_default() {
        "/echo" => ("200 OK", json!({"head": head, "body": body}).to_string()),
        "/never" => std::future::pending().await,
        "/long" => ("200 OK", "x".repeat(2_000_000)),
        _ => ("404 Not Found", "nothing here".to_owned()),
    };
    let length = answer.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all((head + &answer).as_bytes()).await
}

async fn perform(guard: Guard, fetch_policy: Option<Arc<dyn FetchPolicy>>, code: &str) -> TaskResult {
    let mut ports = Ports { client: Client::new(guard), ..Ports::none() };
    ports.fetch_policy = fetch_policy.unwrap_or(ports.fetch_policy);
    let mut task = task("javascript", json!({"code": code}), json!({}));
    task.timeout = Duration::from_secs(2);
    Registry::standard(ports).find_handler("javascript").expect("it is standard").perform(task).await
}

async fn allowed(code: &str) -> Result<Value, Failure> {
    let report = perform(Guard::open(), Some(Arc::new(Everyone)), code).await;
    report.result.map(|outcome| outcome.output.value().clone())
}

#[tokio::test]
async fn a_script_asks_a_real_server() {
    let server = serve().await;
    let code = format!(
        "const answer = await fetch('{server}/echo', {{ method: 'post', headers: {{ 'X-Name': 'Ada' }}, body: 'tö' }});
         const {{ head, body }} = await answer.json();
         return [answer.ok, answer.status, answer.headers.get('Content-Type'), head.split('\\r\\n')[0], /x-name: Ada/i.test(head), body]"
    );
    let expected = json!([true, 200, "application/json", "POST /echo HTTP/1.1", true, "tö"]);
    assert_eq!(allowed(&code).await, Ok(expected));
    let code = format!("const a = await fetch('{server}/x'); return [a.ok, a.status, await a.text()]");
    assert_eq!(allowed(&code).await, Ok(json!([false, 404, "nothing here"])));
}

#[tokio::test]
async fn many_answers_are_awaited_together() {
    let server = serve().await;
    let code = format!(
        "const all = Array.from({{ length: 20 }}, () => fetch('{server}/echo').then((answer) => answer.status));
         return (await Promise.all(all)).every((status) => status === 200)"
    );
    assert_eq!(allowed(&code).await, Ok(json!(true)));
}

#[tokio::test]
async fn without_the_workspace_s_leave_there_is_no_fetch() {
    let code = "console.log(typeof fetch); await fetch('http://example.com')";
    let report = perform(Guard::open(), None, code).await;
    let failure = report.result.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), ("JAVASCRIPT_ERROR", false));
    assert!(failure.message.contains("fetch is not defined"), "{failure}");
    assert!(failure.message.contains("only if its options contain \"fetch\": true"), "{failure}");
    assert_eq!(report.logs, ["undefined"]);
}

#[tokio::test]
async fn addresses_inside_are_refused_with_the_setting() {
    let server = serve().await;
    let code = format!("await fetch('{server}/echo')");
    let report = perform(Guard::default(), Some(Arc::new(Everyone)), &code).await;
    let failure = report.result.unwrap_err();
    assert!(failure.message.contains("EVERSTEP_ALLOW_ADDRESSES"), "{failure}");
}

#[tokio::test]
async fn an_answer_is_bounded_in_time_and_size() {
    let server = serve().await;
    let begin = Instant::now();
    let failure = allowed(&format!("await fetch('{server}/never')")).await.unwrap_err();
    assert_eq!(failure.code, code::STEP_TIMEOUT);
    assert!(begin.elapsed() <= Duration::from_millis(2_500), "{:?}", begin.elapsed());
    let failure = allowed(&format!("await fetch('{server}/long')")).await.unwrap_err();
    assert!(failure.message.contains("the response has more than"), "{failure}");
}

#[tokio::test]
async fn an_invalid_request_is_reported() {
    for (code, expected) in [
        ("await fetch('nowhere')", "is not a valid address"),
        ("await fetch('file:///etc/passwd')", "is not supported"),
        ("await fetch('http://x', { method: 'TRACE' })", "is not supported"),
        ("await fetch('http://x', { headers: { Host: 'y' } })", "cannot be set"),
        ("await fetch('http://x', { headers: { 'a b': 'y' } })", "is not a valid name of a header"),
        ("await fetch('http://x', { headers: { a: 'x\\ny' } })", "is not valid"),
    ] {
        let failure = allowed(code).await.unwrap_err();
        assert!(failure.message.contains(expected), "{code}: {failure}");
    }
}
