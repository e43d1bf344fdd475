//! `everstep start` with a server that is lost before it responds.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{CommandOutput, everstep};

const RUN: &str = "019a8a3f-6c1e-7d58-9f3e-0d4b3a6f0c11";

/// A server that responds to one request per connection, and then accepts no more connections.
struct Script {
    address: String,
    /// The first lines of the requests.
    heard: Arc<Mutex<Vec<String>>>,
}

impl Script {
    /// Each reply is a status with a body. Without one the connection is closed when the request has been read.
    fn start(replies: Vec<Option<(u16, Value)>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&heard);
        std::thread::spawn(move || {
            for reply in replies {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream);
                requests.lock().unwrap().push(read_request(&mut reader));
                let Some((status, body)) = reply else { continue };
                let body = body.to_string();
                let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-type: application/json\r\n");
                write!(reader.get_mut(), "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
            }
        });
        Self { address, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn call(&self, args: &[&str]) -> CommandOutput {
        let mut command = everstep();
        command.args(args).env("EVERSTEP_URL", format!("http://{}", self.address)).env("EVERSTEP_API_KEY", "es_x");
        command.output().unwrap().into()
    }
}

/// Reads a request, and returns its first line.
fn read_request(reader: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    head.lines().next().unwrap_or_default().to_owned()
}

fn started() -> Option<(u16, Value)> {
    Some((201, json!({"run": {"id": RUN, "status": "running", "endedAt": null}, "created": true})))
}

#[test]
fn a_wait_survives_the_loss_of_the_server() {
    let refused = Some((503, json!({"code": "UNAVAILABLE", "detail": "this node is stopping"})));
    let ended =
        json!({"id": RUN, "status": "completed", "endedAt": "2026-11-17T08:01:26.260000Z", "output": {"total": 7}});
    let server = Script::start(vec![started(), None, refused, Some((200, ended))]);
    let output = server.call(&["start", "order", "--wait"]);
    assert_eq!(output.exits(0).stdout, "{\"total\":7}\n");
    output.says(&format!("run {RUN} was started\n"));
    let get = format!("GET /v1/runs/{RUN}?waitSeconds=30 HTTP/1.1");
    assert_eq!(server.heard(), ["POST /v1/workflows/order/runs HTTP/1.1", &*get, &*get, &*get]);
}

#[test]
fn a_wait_that_is_rejected_names_the_run() {
    let refused = Some((401, json!({"code": "AUTH_ERROR", "detail": "the API key is revoked"})));
    let server = Script::start(vec![started(), refused]);
    let output = server.call(&["start", "order", "--wait"]);
    output.exits(3).says(&format!("waiting for run {RUN}; `everstep follow {RUN}` waits for it again: AUTH_ERROR"));
    assert_eq!(output.stdout, "");
}

#[test]
fn a_lost_start_is_reported_with_the_remedy() {
    let keyed = Script::start(vec![None]).call(&["start", "order", "--key", "o-7"]);
    keyed.exits(3).says("the run may have been started: repeat the command with the same --key");
    let unknown = Some((504, json!({"code": "OUTCOME_UNKNOWN", "detail": "the committer has not replied"})));
    let keyed = Script::start(vec![unknown]).call(&["start", "order", "--key", "o-7", "--wait"]);
    keyed.exits(3).says("OUTCOME_UNKNOWN").says("repeat the command with the same --key");
    let unkeyed = Script::start(vec![None]).call(&["start", "order", "--wait"]);
    unkeyed.exits(3).says("`everstep runs --workflow order` lists it").says("with a --key the command can be repeated");
    // A server that was not reached has not started the run.
    let unreached = Script { address: "127.0.0.1:1".to_owned(), heard: Arc::default() }.call(&["start", "order"]);
    assert!(!unreached.exits(3).stderr.contains("may have been started"), "{}", unreached.stderr);
}
