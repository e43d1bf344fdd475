//! Followers of `/v1/socket` at one node receive the changes of another.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::{IntoClientRequest, client};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use crate::support::cluster::Site;
use crate::support::{Client, chain, wait_for};

const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
const APPROVALS: usize = 20;
const ROUNDS: usize = 3;

struct Socket(WebSocket<TcpStream>);

impl Socket {
    fn open(caller: &Client) -> Self {
        let stream = TcpStream::connect(caller.address()).unwrap();
        stream.set_read_timeout(Some(MESSAGE_TIMEOUT)).unwrap();
        let mut request = format!("ws://{}/v1/socket", caller.address()).into_client_request().unwrap();
        request.headers_mut().insert("x-api-key", caller.key().parse().unwrap());
        Self(client(request, stream).unwrap().0)
    }

    fn say(&mut self, message: &Value) {
        self.0.send(Message::from(message.to_string())).unwrap();
    }

    /// The next message that meets a condition.
    fn until(&mut self, mut is_met: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let Message::Text(text) = self.0.read().unwrap() else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            if is_met(&message) {
                return message;
            }
        }
    }

    /// Follows the workspace, and waits until the node gathers changes.
    fn follow_workspace(&mut self) {
        self.say(&json!({"follow": "workspace"}));
        self.until(|message| message["workspace"] == "counts");
    }
}

fn id(run: &str) -> &str {
    run.trim_start_matches("/v1/runs/")
}

fn wait_node(id: &str, config: &Value) -> Value {
    json!({"id": id, "type": "wait", "config": config})
}

#[test]
fn the_workspace_reports_the_runs_of_all_nodes() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    a.publish("held", &chain(&[wait_node("wait", &json!({"event": "go", "timeoutSeconds": 3_600}))]));
    let mut socket = Socket::open(&b);
    socket.follow_workspace();
    let run = a.start("held", &json!({}));
    let mut expect = |status: &str| {
        let message = socket.until(|message| {
            let runs = message["data"].as_array().filter(|_| message["workspace"] == "runs");
            runs.is_some_and(|runs| runs.iter().any(|shown| shown["id"] == id(&run) && shown["status"] == status))
        });
        message["data"].as_array().unwrap().iter().find(|shown| shown["id"] == id(&run)).unwrap().clone()
    };
    assert_eq!(expect("waiting")["endedAt"], Value::Null);
    a.post(&format!("{run}/signals/go"), &json!({})).is(200);
    let ended = expect("completed");
    assert_eq!((&ended["workflow"], &ended["endedAt"]), (&json!("held"), &a.get(&run).is(200)["endedAt"]));
}

#[test]
fn followers_of_a_workspace_learn_that_a_node_is_gone() {
    let site = Site::new().set("EVERSTEP_NODE_LEASE", "2s");
    let ((one, a), (_two, b)) = site.start_two();
    a.publish("held", &chain(&[wait_node("wait", &json!({"event": "go"}))]));
    let mut socket = Socket::open(&b);
    socket.follow_workspace();
    one.kill();
    // The last changes of that node may be missing: the list of runs has them.
    socket.until(|message| message["workspace"] == "many");
}

/// Starts a run of many approvals, gives each at one node, and returns the 95th percentile of the times until the
/// follower at the other has received its entry. The run waits in the database: no node owns it while it waits.
fn approve_and_follow(approver: &Client, follower: &Client) -> Duration {
    let asks: Vec<_> =
        (0..APPROVALS).map(|n| wait_node(&format!("ask{n}"), &json!({"approval": format!("approve.{n}")}))).collect();
    approver.publish("order", &chain(&asks));
    let run = approver.start("order", &json!({}));
    wait_for("the run to wait", || (approver.get(&run).is(200)["status"] == "waiting").then_some(()));
    let mut socket = Socket::open(follower);
    socket.say(&json!({"follow": "run", "id": id(&run), "view": "heads"}));
    socket.until(|message| message["event"] == "snapshot");
    let approve = |n: usize| {
        let began = Instant::now();
        approver.post(&format!("{run}/signals/approve.{n}"), &json!({"approved": true})).is(200);
        let step = format!("ask{n}");
        socket.until(|message| {
            let head = &message["data"];
            message["event"] == "entry" && head["event"] == "StepCompleted" && head["step"] == step.as_str()
        });
        began.elapsed()
    };
    let mut times: Vec<_> = (0..APPROVALS).map(approve).collect();
    times.sort();
    times[APPROVALS * 95 / 100 - 1]
}

#[test]
fn an_approval_at_one_node_is_shown_at_another_within_a_second() {
    let site = Site::new();
    let ((_one, a), (_two, b)) = site.start_two();
    let p95 = approve_and_follow(&a, &b);
    assert!(p95 < Duration::from_secs(1), "{p95:?}");
}

#[test]
fn an_approval_is_shown_at_its_own_node_within_100_milliseconds() {
    let site = Site::new();
    let server = site.start();
    let caller = server.client();
    // The bound is that of a machine that is not overloaded; other tests may load this one during a round.
    let rounds: Vec<_> = (0..ROUNDS).map(|_| approve_and_follow(&caller, &caller)).collect();
    assert!(rounds.iter().any(|p95| *p95 < Duration::from_millis(100)), "{rounds:?}");
}
