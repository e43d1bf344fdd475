//! Requests of scripts: their number, size and duration. A fake host answers them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use everstep_sandbox::{
    BODY_BYTES_MAX, Error, Fetch, FetchFuture, FetchRequest, FetchResponse, REQUESTS_IN_FLIGHT_MAX, REQUESTS_MAX,
    Sandbox, Script, ScriptFailure, ScriptOutput,
};
use serde_json::{Value, json};

use crate::CLOCK;

/// Answers by the address: `slow` after some time, `never`, `long`, `refused`; otherwise with the request.
#[derive(Default)]
struct Host {
    asked: Mutex<Vec<FetchRequest>>,
    flying: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    aborted: Arc<AtomicUsize>,
}

/// Counts a request while it is in flight.
struct Flight {
    flying: Arc<AtomicUsize>,
    aborted: Arc<AtomicUsize>,
    has_landed: bool,
}

impl Flight {
    /// Moves the whole value into the closure, which an assignment to its field would not do.
    fn land(&mut self) {
        self.has_landed = true;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flying.fetch_sub(1, Ordering::SeqCst);
        if !self.has_landed {
            self.aborted.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Fetch for Host {
    fn fetch(&self, request: FetchRequest) -> FetchFuture {
        self.asked.lock().expect("no holder panics").push(request.clone());
        let flying = self.flying.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(flying, Ordering::SeqCst);
        let mut flight =
            Flight { flying: Arc::clone(&self.flying), aborted: Arc::clone(&self.aborted), has_landed: false };
        Box::pin(async move {
            let answer = |status: u16, body: Vec<u8>| FetchResponse {
                status,
                url: request.url.clone(),
                headers: vec![
                    ("content-type".into(), "text/plain".into()),
                    ("x-a".into(), "1".into()),
                    ("x-a".into(), "2".into()),
                ],
                body,
            };
            let result = match request.url.as_str() {
                "slow" => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    Ok(answer(200, b"slow".to_vec()))
                }
                "never" => std::future::pending().await,
                "long" => Ok(answer(200, vec![b'x'; BODY_BYTES_MAX + 1])),
                "refused" => Err("no server at this address".to_owned()),
                "missing" => Ok(answer(404, b"not here".to_vec())),
                _ => Ok(answer(200, format!("{{\"asked\": {:?}}}", request.url).into_bytes())),
            };
            flight.land();
            result
        })
    }
}

async fn ask(host: &Arc<Host>, timeout: Duration, code: &str) -> Result<ScriptOutput, ScriptFailure> {
    let fetch = Arc::clone(host) as Arc<dyn Fetch>;
    Sandbox::new(1).run(Script { timeout, fetch: Some(fetch), ..Script::new(code, "{}") }).await
}

async fn value(code: &str) -> Value {
    let ran = ask(&Arc::default(), Duration::from_secs(10), code).await;
    let ran = ran.unwrap_or_else(|stopped| panic!("{code}: {stopped}"));
    serde_json::from_str(&ran.json).expect("a result is JSON")
}

async fn error(code: &str) -> String {
    ask(&Arc::default(), Duration::from_secs(10), code).await.expect_err(code).error.to_string()
}

#[tokio::test]
async fn an_answer_has_status_headers_and_body() {
    let code = "const answer = await fetch('here');
        return [answer.ok, answer.status, answer.url, answer.headers.get('X-A'), answer.headers.get('none'),
            answer.headers.has('Content-Type'), answer.headers.keys(), await answer.text(), (await answer.json()).asked]";
    let expected =
        json!([true, 200, "here", "1, 2", null, true, ["content-type", "x-a"], "{\"asked\": \"here\"}", "here"]);
    assert_eq!(value(code).await, expected);
    assert_eq!(
        value("const a = await fetch('missing'); return [a.ok, a.status, await a.text()]").await,
        json!([false, 404, "not here"])
    );
}

#[tokio::test]
async fn a_request_carries_what_it_is_given() {
    let host = Arc::<Host>::default();
    let code =
        "await fetch('there', { method: 'POST', headers: { Accept: 'a', 'X-N': 5 }, body: JSON.stringify({ é: 1 }) })";
    ask(&host, Duration::from_secs(10), code).await.unwrap();
    let asked = host.asked.lock().unwrap();
    let request = &asked[0];
    assert_eq!((request.method.as_str(), request.url.as_str(), request.body.as_str()), ("POST", "there", "{\"é\":1}"));
    assert_eq!(request.headers, [("Accept".to_owned(), "a".to_owned()), ("X-N".to_owned(), "5".to_owned())]);
    assert!(request.timeout > Duration::from_secs(5) && request.timeout <= Duration::from_secs(10));
}

#[tokio::test]
async fn what_goes_wrong_is_thrown_where_it_is_awaited() {
    assert_eq!(error("\n await fetch('refused')").await, "TypeError: no server at this address");
    assert_eq!(
        value("try { await fetch('refused') } catch (e) { return e.message }").await,
        json!("no server at this address")
    );
    assert!(error("await fetch('long')").await.contains("the response has more than 1024 KiB"));
    assert!(error("await fetch('x', { body: 'x'.repeat(2e6) })").await.contains("the body has more than 1024 KiB"));
    assert!(error("await fetch('x'.repeat(1e6))").await.contains("more than 64 KiB"));
    assert!(error("await fetch('x', { signal: 1 })").await.contains("fetch has no option signal: there are method"));
    assert!(error("await fetch('x', { body: { a: 1 } })").await.contains("a body is text: use JSON.stringify"));
    assert!(error("await (await fetch('missing')).json()").await.contains("SyntaxError"));
}

#[tokio::test]
async fn requests_fly_together_but_not_too_many() {
    let host = Arc::<Host>::default();
    let code = "const all = Array.from({ length: 24 }, () => fetch('slow'));
        return (await Promise.all(all)).filter((answer) => answer.ok).length";
    let ran = ask(&host, Duration::from_secs(10), code).await.unwrap();
    assert_eq!(ran.json, "24");
    assert_eq!(host.most.load(Ordering::SeqCst), REQUESTS_IN_FLIGHT_MAX);
}

#[tokio::test]
async fn a_script_makes_a_bounded_number_of_requests() {
    let host = Arc::<Host>::default();
    let code = "let n = 0; try { for (;;) { await fetch('x'); n++ } } catch (e) { return [n, e.message] }";
    let ran = ask(&host, Duration::from_secs(10), code).await.unwrap();
    assert_eq!(ran.json, format!("[{REQUESTS_MAX},\"a script sends at most {REQUESTS_MAX} requests\"]"));
    assert_eq!(host.asked.lock().unwrap().len(), REQUESTS_MAX);
}

#[tokio::test]
async fn an_answer_that_never_comes_counts_in_the_limit() {
    let _clock = CLOCK.lock().await;
    let host = Arc::<Host>::default();
    let limit = Duration::from_millis(300);
    let begin = Instant::now();
    let stopped = ask(&host, limit, "console.log('asked'); await fetch('never')").await.unwrap_err();
    assert_eq!((stopped.error, stopped.logs), (Error::Timeout(limit), vec!["asked".to_owned()]));
    assert!(begin.elapsed() <= limit + Duration::from_millis(500), "{:?}", begin.elapsed());
    landed(&host).await;
}

#[tokio::test]
async fn requests_end_with_their_script() {
    let host = Arc::<Host>::default();
    let ran =
        ask(&host, Duration::from_secs(10), "for (let i = 0; i < 20; i++) fetch('never'); return 1").await.unwrap();
    assert_eq!(ran.json, "1");
    landed(&host).await;
    assert_eq!(host.aborted.load(Ordering::SeqCst), host.asked.lock().unwrap().len());
}

#[tokio::test]
async fn requests_end_when_the_caller_of_their_script_stops_waiting() {
    let _clock = CLOCK.lock().await;
    let host = Arc::<Host>::default();
    let script = ask(&host, Duration::from_secs(60), "await fetch('never')");
    assert!(tokio::time::timeout(Duration::from_millis(200), script).await.is_err());
    landed(&host).await;
}

#[tokio::test]
async fn a_script_that_waits_for_nothing_but_a_stranger_s_promise_still_never_settles() {
    let host = Arc::<Host>::default();
    let stopped = ask(&host, Duration::from_secs(60), "await fetch('x'); await new Promise(() => {})").await;
    assert_eq!(stopped.unwrap_err().error, Error::NeverSettles);
}

#[tokio::test]
async fn tampering_with_promises_does_not_reach_the_host() {
    let code = "Map = null; Promise.prototype.then = null; Object.keys = null; String = null; JSON.parse = null;
        const answer = await fetch('here'); return [(await answer.json()).asked, answer.headers.get('X-A')]";
    assert_eq!(value(code).await, json!(["here", "1, 2"]));
}

/// Waits until no request is in flight.
async fn landed(host: &Host) {
    let begin = Instant::now();
    while host.flying.load(Ordering::SeqCst) > 0 {
        assert!(begin.elapsed() < Duration::from_secs(5), "requests outlive their script");
        tokio::task::yield_now().await;
    }
}
