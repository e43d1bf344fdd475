//! Workers over HTTP: sessions, polls, reports.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use axum::http::Method;
use everstep_api::auth::{ApiKey, Permission};
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_store::KeyRow;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Server, add_key, carriers, chain, until, until_carriers};

/// A worker that uses HTTP.
pub(crate) struct Worker<'a> {
    server: &'a Server,
    key: String,
    pub(crate) session: String,
    seen: u64,
    n: u64,
    /// Turns that it has received and not begun.
    turns: VecDeque<Value>,
}

/// The hello of a worker.
pub(crate) fn hello(workflows: &[(&str, u32)]) -> Value {
    let workflows: Vec<_> = workflows.iter().map(|(name, version)| json!({"name": name, "version": version})).collect();
    json!({"protocol": 1, "worker": "host:1", "sdk": "test/1", "capacity": 10, "workflows": workflows})
}

impl<'a> Worker<'a> {
    pub(crate) async fn open(server: &'a Server, workflows: &[(&str, u32)]) -> Self {
        Self::open_with(server, &hello(workflows)).await
    }

    pub(crate) async fn open_with(server: &'a Server, hello: &Value) -> Self {
        let key = server.key_with(&[Permission::Serve]).await;
        let opened = server.ask_as(&key, Method::POST, "/v1/worker/sessions", hello).await.is(201);
        let session = opened["session"].as_str().unwrap().to_owned();
        Self { server, key, session, seen: 0, n: 0, turns: VecDeque::new() }
    }

    async fn ask(&self, path: &str, body: &Value) -> crate::support::Answer {
        self.server.ask_as(&self.key, Method::POST, path, body).await
    }

    /// The messages of a response, all in order.
    fn record_messages(&mut self, answer: &Value) -> Vec<Value> {
        let messages = answer["messages"].as_array().unwrap().clone();
        for message in &messages {
            let m = message["m"].as_u64().unwrap();
            assert_eq!(m, self.seen + 1, "{messages:?}");
            self.seen = m;
            self.turns.extend(message["turns"].as_array().cloned().unwrap_or_default());
        }
        messages
    }

    pub(crate) async fn poll(&mut self) -> Vec<Value> {
        let answer = self.ask("/v1/worker/poll", &json!({"session": self.session, "seen": self.seen})).await.is(200);
        self.record_messages(&answer)
    }

    /// Leaves in order.
    pub(crate) async fn close(self) {
        let place = format!("/v1/worker/sessions/{}", self.session);
        self.server.ask_as(&self.key, Method::DELETE, &place, &Value::Null).await.is(204);
    }

    /// The next turn that it receives.
    pub(crate) async fn turn(&mut self) -> Value {
        for _ in 0..5 {
            if let Some(turn) = self.turns.pop_front() {
                return turn;
            }
            self.poll().await;
        }
        panic!("no turn came");
    }

    /// Sends reports about a turn and returns the messages of the response.
    pub(crate) async fn send(&mut self, turn: &Value, reports: &[Value]) -> Vec<Value> {
        let reports: Vec<_> = reports.iter().map(|report| self.report(turn, report)).collect();
        let body = json!({"session": self.session, "seen": self.seen, "reports": reports});
        let answer = self.ask("/v1/worker/reports", &body).await.is(200);
        self.record_messages(&answer)
    }

    fn report(&mut self, turn: &Value, report: &Value) -> Value {
        self.n += 1;
        let mut report = report.clone();
        (report["n"], report["run"], report["turn"]) = (json!(self.n), turn["run"].clone(), turn["turn"].clone());
        report
    }
}

pub(crate) async fn start(server: &Server, name: &str, body: &Value) -> String {
    let started = server.post(&format!("/v1/workflows/{name}/runs"), body).await.is(201);
    format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap())
}

pub(crate) fn completed(step: &str, output: &Value) -> Value {
    json!({"kind": "completed", "step": step, "attempt": 1, "output": output, "tookMs": 0.25})
}

#[tokio::test]
async fn requests_without_a_session_count_against_the_rate_limit() {
    let server = Server::start().await;
    let new = json!({"name": "slow", "role": "worker", "rateLimit": 1});
    let made = server.post("/v1/keys", &new).await.is(201);
    let key = made["secret"].as_str().unwrap();
    let unknown = format!("{}.{}", Uuid::from_u128(7), Uuid::from_u128(8));
    for path in ["/v1/worker/poll", "/v1/worker/reports"] {
        let body = json!({"session": unknown, "seen": 0});
        let body = if path.ends_with("reports") { json!({"session": unknown, "seen": 0, "reports": []}) } else { body };
        let mut statuses = Vec::new();
        for _ in 0..10 {
            statuses.push(server.ask_as(key, Method::POST, path, &body).await.status);
        }
        assert!(statuses.contains(&429) && statuses.iter().all(|status| [410, 429].contains(status)), "{statuses:?}");
    }
}

#[tokio::test]
async fn runs_of_code_have_the_retention_of_their_registration() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let serve = async |days: u32| {
        let mut hello = hello(&[("long", 1), ("plain", 1)]);
        hello["workflows"][0]["retentionDays"] = json!(days);
        server.ask_as(&key, Method::POST, "/v1/worker/sessions", &hello).await.is(201);
    };
    let kept = async |run: &str| server.get(run).await.is(200)["retentionDays"].clone();
    serve(45).await;
    let (long, plain) = (start(&server, "long", &json!({})).await, start(&server, "plain", &json!({})).await);
    assert_eq!((kept(&long).await, kept(&plain).await), (json!(45), json!(30)));
    let own = start(&server, "long", &json!({"retentionDays": 7})).await;
    assert_eq!(kept(&own).await, 7);
    // The retention of a run does not change.
    serve(10).await;
    let later = start(&server, "long", &json!({})).await;
    assert_eq!((kept(&long).await, kept(&later).await), (json!(45), json!(10)));
}

#[tokio::test]
async fn runs_of_code_are_found_by_the_search_attributes_of_their_registration() {
    let server = Server::start().await;
    let key = server.key_with(&[Permission::Serve]).await;
    let mut hello = hello(&[("orders", 1)]);
    hello["workflows"][0]["index"] = json!(["customer"]);
    server.ask_as(&key, Method::POST, "/v1/worker/sessions", &hello).await.is(201);
    for customer in ["ann", "bob", "ann", "carl"] {
        start(&server, "orders", &json!({"input": {"customer": customer}})).await;
    }
    let page = server.get("/v1/workflows/orders/runs?input.customer=ann").await.is(200);
    assert_eq!((page["runs"].as_array().unwrap().len(), &page["scanned"]), (2, &json!(2)));
}

#[tokio::test]
async fn a_worker_runs_a_workflow_over_http() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("greet", 1)]).await;
    let run = start(&server, "greet", &json!({"input": {"name": "Ada"}})).await;
    let turn = worker.turn().await;
    assert_eq!(run, format!("/v1/runs/{}", turn["run"].as_str().unwrap()));
    assert_eq!((&turn["turn"], &turn["workflow"], &turn["version"]), (&json!(1), &json!("greet"), &json!(1)));
    assert_eq!((&turn["input"], &turn["steps"]), (&json!({"name": "Ada"}), &json!([])));
    let answers = worker.send(&turn, &[completed("hello", &json!({"said": "hello Ada"}))]).await;
    let acks = answers[0]["acks"].as_array().unwrap();
    assert_eq!((acks.len(), &acks[0][0]), (1, &json!(1)), "{answers:?}");
    // The same report again is acknowledged again, and written once.
    let again = worker.send(&turn, &[completed("hello", &json!({"said": "hello Ada"}))]).await;
    assert_eq!(again[0]["acks"][0][0], 2, "{again:?}");
    worker.send(&turn, &[json!({"kind": "returned", "output": {"done": true}})]).await;
    let ended = server.get(&format!("{run}?waitSeconds=10")).await.is(200);
    assert_eq!((&ended["status"], &ended["output"]), (&json!("completed"), &json!({"done": true})), "{ended}");
    let journal = server.get(&format!("{run}/journal")).await.is(200);
    let events: Vec<_> = journal["entries"].as_array().unwrap().iter().map(|entry| entry["event"].clone()).collect();
    assert_eq!(events, ["RunStarted", "TurnStarted", "StepCompleted", "RunCompleted"], "{journal}");
}

#[tokio::test]
async fn an_error_in_one_report_rejects_only_that_report() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("greet", 1)]).await;
    start(&server, "greet", &json!({})).await;
    let turn = worker.turn().await;
    let long = "x".repeat(257);
    let answers = worker
        .send(
            &turn,
            &[
                completed("good", &json!(1)),
                completed("", &json!(1)),
                completed(&long, &json!(1)),
                json!({"kind": "completed", "step": "odd", "attempt": 1, "colour": "blue"}),
                json!({"kind": "sleep", "step": "nap"}),
                completed("fine", &json!(2)),
            ],
        )
        .await;
    let all = |name: &str| -> Vec<Value> {
        answers.iter().flat_map(|message| message[name].as_array().cloned().unwrap_or_default()).collect()
    };
    let acked: Vec<_> = all("acks").iter().map(|ack| ack[0].clone()).collect();
    assert_eq!(acked, [1, 6], "{answers:?}");
    let mut refused = all("refused");
    refused.sort_by_key(|one| one["n"].as_u64());
    assert_eq!(refused.iter().map(|one| one["n"].clone()).collect::<Vec<_>>(), [2, 3, 4, 5]);
    assert!(refused.iter().all(|one| one["code"] == "VALIDATION_ERROR"), "{refused:?}");
    assert!(refused[1]["detail"].as_str().unwrap().contains("257"), "{refused:?}");
}

#[tokio::test]
async fn a_function_that_throws_half_an_emoji_fails_its_run() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("greet", 1)]).await;
    let run = start(&server, "greet", &Value::Null).await;
    let turn = worker.turn().await;
    let threw = json!({"n": 1, "run": turn["run"], "turn": 1, "kind": "threw", "error": {"message": "HALF"}});
    let body = json!({"session": worker.session, "seen": worker.seen, "reports": [threw]});
    // Many languages write a text like this when it was cut within a surrogate pair.
    let body = body.to_string().replace("HALF", r"no \ud83d");
    let headers = [("x-api-key", &*worker.key)];
    server.ask(Method::POST, "/v1/worker/reports", &headers, &body).await.is(200);
    let failed = server.wait_for(&run, "failed").await;
    assert_eq!(failed["error"]["message"], "no \u{fffd}", "{failed}");
}

#[tokio::test]
async fn messages_that_cannot_be_used_are_refused_whole() {
    let server = Server::start().await;
    let worker = Worker::open(&server, &[("greet", 1)]).await;
    let session = &worker.session;
    let wrong = [
        ("/v1/worker/reports", json!({"session": session, "seen": 0})),
        ("/v1/worker/reports", json!({"session": session, "seen": 0, "reports": {}})),
        ("/v1/worker/reports", json!({"session": session, "seen": 0, "reports": [{"kind": "returned"}]})),
        ("/v1/worker/reports", json!({"session": session, "seen": 0, "reports": [], "more": 1})),
        ("/v1/worker/reports", json!({"session": session, "seen": 0, "reports": vec![json!({"n": 1}); 513]})),
        ("/v1/worker/poll", json!({"session": session})),
        ("/v1/worker/poll", json!({"session": session, "seen": -1})),
        ("/v1/worker/poll", json!({"session": session, "seen": 0, "waitMs": 10_001})),
        ("/v1/worker/poll", json!({"session": session, "seen": 0, "capacity": 10_001})),
        ("/v1/worker/poll", json!({"session": session, "seen": 0, "wait": 1})),
    ];
    for (path, body) in wrong {
        worker.ask(path, &body).await.refuses(400, "VALIDATION_ERROR");
    }
    let large = json!({"session": session, "seen": 0, "reports": ["x".repeat(4 * 1024 * 1024)]});
    worker.ask("/v1/worker/reports", &large).await.refuses(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_worker_that_makes_no_sense_is_not_let_in() {
    let server = Server::start().await;
    server.publish("graph", &chain(&[])).await;
    let with = |change: fn(&mut Value)| {
        let mut hello = hello(&[("greet", 1)]);
        change(&mut hello);
        hello
    };
    let wrong: [(Value, Option<&str>); 15] = [
        (with(|it| it["protocol"] = json!(2)), Some("protocol")),
        (with(|it| it["worker"] = json!("")), Some("worker")),
        (with(|it| it["worker"] = json!("x".repeat(257))), Some("worker")),
        (with(|it| it["capacity"] = json!(10_001)), Some("capacity")),
        (with(|it| it["sdk"] = json!("x".repeat(257))), Some("sdk")),
        (with(|it| it["holds"] = json!(vec![json!({"run": Uuid::nil(), "turn": 1}); 10_001])), Some("holds")),
        (with(|it| it["workflows"] = json!([])), Some("workflows")),
        (with(|it| it["workflows"][0]["name"] = json!("No Name")), Some("workflows[0].name")),
        (with(|it| it["workflows"][0]["version"] = json!(0)), Some("workflows[0].version")),
        (with(|it| it["workflows"][0]["retentionDays"] = json!(0)), Some("workflows[0].retentionDays")),
        (with(|it| it["workflows"][0]["index"] = json!(["a", "a"])), Some("workflows[0].index[1]")),
        (
            with(|it| it["workflows"] = json!([{"name": "a", "version": 1}, {"name": "a", "version": 1}])),
            Some("workflows[1]"),
        ),
        (with(|it| it["holds"] = json!([{"run": "x", "turn": 1}])), None),
        (with(|it| it["colour"] = json!("blue")), None),
        (with(|it| it["workflows"][0]["colour"] = json!("blue")), None),
    ];
    for (hello, path) in wrong {
        let problem = server.post("/v1/worker/sessions", &hello).await.refuses(400, "VALIDATION_ERROR");
        assert_eq!(problem["path"].as_str(), path, "{problem}");
    }
    let problem = server.post("/v1/worker/sessions", &hello(&[("graph", 1)])).await;
    let problem = problem.refuses(409, "WORKFLOW_STYLE_CONFLICT");
    assert!(problem["detail"].as_str().unwrap().contains("graph"), "{problem}");
}

#[tokio::test]
async fn a_session_is_there_for_its_workspace_until_it_ends() {
    let server = Server::start().await;
    let worker = Worker::open(&server, &[("greet", 1)]).await;
    let other = add_key(&*server.access, WorkspaceId::from_uuid(Uuid::from_u128(7)), &[Permission::Serve]).await;
    let poll = json!({"session": worker.session, "seen": 0, "waitMs": 0});
    let reports = json!({"session": worker.session, "seen": 0, "reports": []});
    let place = format!("/v1/worker/sessions/{}", worker.session);
    let gone = async |key: &str| {
        for (path, body) in [("/v1/worker/poll", &poll), ("/v1/worker/reports", &reports)] {
            let problem = server.ask_as(key, Method::POST, path, body).await.refuses(410, "SESSION_GONE");
            assert!(problem["hint"].as_str().unwrap().contains("holds"), "{problem}");
        }
        server.ask_as(key, Method::DELETE, &place, &Value::Null).await.refuses(410, "SESSION_GONE");
    };
    gone(&other).await;
    server.ask_as(&worker.key, Method::POST, "/v1/worker/poll", &poll).await.is(200);
    server.ask_as(&worker.key, Method::DELETE, &place, &Value::Null).await.is(204);
    gone(&worker.key).await;
    for session in ["", "x", "x.y", &format!("{}.{}", "0".repeat(32), "1".repeat(32))] {
        let body = json!({"session": session, "seen": 0});
        server.ask_as(&worker.key, Method::POST, "/v1/worker/poll", &body).await.refuses(410, "SESSION_GONE");
    }
}

#[tokio::test]
async fn unacknowledged_messages_are_sent_again() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("greet", 1)]).await;
    start(&server, "greet", &json!({})).await;
    let turn = worker.turn().await;
    let seen = std::mem::replace(&mut worker.seen, 0);
    let again = worker.poll().await;
    assert_eq!((again.len() as u64, &again[again.len() - 1]["turns"][0]), (seen, &turn), "{again:?}");
    let before = Instant::now();
    let body = json!({"session": worker.session, "seen": worker.seen, "waitMs": 200});
    assert_eq!(worker.ask("/v1/worker/poll", &body).await.is(200), json!({"messages": []}));
    assert!(before.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_second_poll_ends_the_first() {
    let server = Server::start().await;
    let worker = Worker::open(&server, &[("greet", 1)]).await;
    let body = json!({"session": worker.session, "seen": 0});
    let first = worker.ask("/v1/worker/poll", &body);
    let second = async {
        until_carriers(&server.engine, &worker.session, 1).await;
        let polled = worker.ask("/v1/worker/poll", &body);
        let started = async {
            until_carriers(&server.engine, &worker.session, 2).await;
            start(&server, "greet", &json!({})).await
        };
        tokio::join!(polled, started).0
    };
    let before = Instant::now();
    let (first, second) = tokio::join!(first, second);
    assert_eq!(first.is(200), json!({"messages": []}));
    let second = second.is(200);
    assert_eq!(second["messages"][0]["turns"].as_array().unwrap().len(), 1, "{second}");
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn a_worker_is_not_counted_against_the_limit_of_its_key() {
    let server = Server::start().await;
    let secret = ApiKey::generate();
    let row = secret.row(WorkspaceId::DEFAULT, "slow", &[Permission::Serve], Timestamp::EPOCH);
    server.access.add_key(&KeyRow { rate_limit: Some(1), ..row }).await.unwrap();
    let key = secret.reveal();
    let opened = server.ask_as(key, Method::POST, "/v1/worker/sessions", &hello(&[("greet", 1)])).await.is(201);
    for _ in 0..20 {
        let poll = json!({"session": opened["session"], "seen": 0, "waitMs": 0});
        server.ask_as(key, Method::POST, "/v1/worker/poll", &poll).await.is(200);
        let reports = json!({"session": opened["session"], "seen": 0, "reports": []});
        server.ask_as(key, Method::POST, "/v1/worker/reports", &reports).await.is(200);
    }
    // All other values are rejected.
    let open = async || server.ask_as(key, Method::POST, "/v1/worker/sessions", &hello(&[("greet", 1)])).await.status;
    assert!([open().await, open().await, open().await].contains(&429));
}

#[tokio::test]
async fn sessions_are_audited_and_what_is_said_in_them_is_not() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("greet", 1)]).await;
    start(&server, "greet", &json!({})).await;
    let turn = worker.turn().await;
    worker.send(&turn, &[json!({"kind": "returned"})]).await;
    let place = format!("/v1/worker/sessions/{}", worker.session);
    server.ask_as(&worker.key, Method::DELETE, &place, &Value::Null).await.is(204);
    let actions = until("three rows", async || {
        let audit = server.get("/v1/audit").await.is(200);
        assert!(!audit.to_string().contains(&worker.session), "{audit}");
        let entries = audit["entries"].as_array().unwrap();
        let actions: Vec<_> = entries.iter().map(|entry| entry["action"].as_str().unwrap().to_owned()).collect();
        (actions.len() >= 3).then_some(actions)
    });
    let actions = actions.await;
    let expected = ["DELETE /v1/worker/sessions/{id}", "POST /v1/workflows/{name}/runs", "POST /v1/worker/sessions"];
    assert_eq!(actions, expected);
}

#[tokio::test]
async fn workers_are_listed_with_what_they_serve() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/workers").await.is(200), json!({"workers": [], "silentNodes": []}));
    let mut worker = Worker::open(&server, &[("greet", 1), ("part", 3)]).await;
    start(&server, "greet", &json!({})).await;
    let turn = worker.turn().await;
    let listed = server.get("/v1/workers").await.is(200);
    let [one] = &listed["workers"].as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&one["worker"], &one["sdk"], &one["capacity"]), (&json!("host:1"), &json!("test/1"), &json!(10)));
    assert_eq!(one["workflows"], json!([{"name": "greet", "version": 1}, {"name": "part", "version": 3}]));
    assert_eq!(one["running"], 1, "{one}");
    let (node, secret) = worker.session.split_once('.').unwrap();
    assert_eq!(one["node"].as_str().unwrap().replace('-', ""), node);
    assert!(!listed.to_string().contains(secret));
    assert!(secret.starts_with(one["session"].as_str().unwrap()));
    worker.send(&turn, &[json!({"kind": "returned"})]).await;
    let listed = server.get("/v1/workers").await.is(200);
    assert_eq!(listed["workers"][0]["running"], 0, "{listed}");
    // Those of another workspace do not exist.
    let other = add_key(&*server.access, WorkspaceId::from_uuid(Uuid::from_u128(7)), &[Permission::Read]).await;
    let listed = server.ask_as(&other, Method::GET, "/v1/workers", &Value::Null).await.is(200);
    assert_eq!(listed["workers"], json!([]));
}

#[tokio::test]
async fn a_message_in_a_response_is_not_sent_by_a_poll_as_well() {
    let server = Server::start().await;
    let mut worker = Worker::open(&server, &[("greet", 1)]).await;
    start(&server, "greet", &json!({})).await;
    let turn = worker.turn().await;
    let before = worker.seen;
    worker.send(&turn, &[completed("hello", &json!(1))]).await;
    let poll = json!({"session": worker.session, "seen": before, "waitMs": 300});
    let seen = json!({"session": worker.session, "seen": worker.seen, "reports": []});
    let polls = carriers(&server.engine, &worker.session);
    let polled = worker.ask("/v1/worker/poll", &poll);
    let came = async {
        until_carriers(&server.engine, &worker.session, polls + 1).await;
        worker.ask("/v1/worker/reports", &seen).await.is(200)
    };
    let (polled, _) = tokio::join!(polled, came);
    assert_eq!(polled.is(200), json!({"messages": []}));
}
