//! `everstep serve`: health, signals and trouble at the start.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Folder, Told, call, chain, everstep};

/// A server that is ready, on a port of its own.
pub(crate) struct Server {
    child: Child,
    address: String,
    /// What it says after it is ready.
    stderr: JoinHandle<String>,
}

impl Server {
    pub(crate) fn start(data: &str) -> Self {
        let mut command = everstep();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", data, "--log", "warn"]).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut address = None;
        let mut said = String::new();
        while address.is_none() {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the server ended: {said}");
            address = line.split_once("listens on http://").map(|(_, address)| address.trim().to_owned());
            said += &line;
        }
        let stderr = std::thread::spawn(move || {
            stderr.read_to_string(&mut said).unwrap();
            said
        });
        Self { child, address: address.unwrap(), stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The status, the content type and the body of a page.
    fn get(&self, path: &str) -> (u16, String, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let kind = head.lines().find_map(|line| line.strip_prefix("content-type: ")).unwrap_or_default();
        (status, kind.to_owned(), serde_json::from_str(body).unwrap())
    }

    /// Stops it in order and returns all it said.
    pub(crate) fn stop(mut self) -> String {
        send(&self.child, "TERM");
        let status = self.child.wait().unwrap();
        let said = self.stderr.join().unwrap();
        assert_eq!(status.code(), Some(0), "{said}");
        said
    }
}

/// Sends a signal to a process.
pub(crate) fn send(child: &Child, signal: &str) {
    let status = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_server_tells_how_it_is_and_stops_in_order() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    assert_eq!(server.get("/livez"), (200, "application/json".to_owned(), json!({"status": "ok"})));
    let (status, _, mut body) = server.get("/readyz");
    assert_eq!(status, 200);
    let node = body["node"].take();
    assert_eq!(node.as_str().unwrap().len(), 36);
    let store = json!({"kind": "sqlite", "status": "ok", "error": null});
    assert_eq!(body, json!({"status": "ok", "node": null, "store": store, "activeRuns": 0, "fenced": false}));
    let (status, kind, body) = server.get("/v1/runs");
    assert_eq!((status, kind.as_str()), (404, "application/problem+json"));
    assert_eq!(body["code"], "NOT_FOUND");
    let said = server.stop();
    assert!(said.contains("SIGTERM: stopping") && said.contains("stopped"), "{said}");
    assert!(said.contains(&folder.path().canonicalize().unwrap().join("data").display().to_string()), "{said}");
}

#[test]
fn a_server_goes_on_with_the_runs_of_its_folder() {
    let folder = Folder::new();
    let data = folder.at("data");
    let pause = json!({"id": "pause", "type": "delay", "config": {"delaySeconds": 1}});
    let file = folder.write("slow.json", chain(&[pause]).to_string());
    let mut command = everstep();
    command.args(["run", &file, "--data", &data, "--key", "k"]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    crate::crash::wait_for_entries(&folder.path().join("data"), 4);
    send(&child, "KILL");
    child.wait_with_output().unwrap();
    let server = Server::start(&data);
    crate::crash::wait_for_entries(&folder.path().join("data"), 8);
    server.stop();
    let told = call(&["run", &file, "--data", &data, "--key", "k"]);
    assert_eq!(told.exits(0).says("has that key").json(), json!({}));
}

#[test]
fn a_server_waits_for_tasks_under_way_but_not_for_ever() {
    let folder = Folder::new();
    let data = folder.at("data");
    let slow = json!({"id": "slow", "type": "noop", "config": {"delayMs": 60_000}, "timeoutSeconds": 120});
    let file = folder.write("slow.json", chain(&[slow]).to_string());
    let mut command = everstep();
    command.args(["run", &file, "--data", &data]).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    crate::crash::wait_for_entries(&folder.path().join("data"), 4);
    send(&child, "KILL");
    child.wait_with_output().unwrap();
    let mut command = everstep();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &data, "--shutdown-grace", "500ms"]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    // The lost task is dispatched again.
    crate::crash::wait_for_entries(&folder.path().join("data"), 5);
    let began = Instant::now();
    send(&child, "TERM");
    let told = Told::from(child.wait_with_output().unwrap());
    told.exits(0).says("tasks were still running");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_port_in_use_is_told_so() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let port = server.address.rsplit_once(':').unwrap().1.to_owned();
    let told = call(&["serve", "--listen", &server.address, "--data", &folder.at("other")]);
    told.exits(3).says(&format!("port {port} is in use")).says("--listen");
    server.stop();
    call(&["serve", "--listen", "nonsense", "--data", &folder.at("other")]).exits(2).says("--listen");
}

#[test]
fn logs_are_json_when_asked_for() {
    let folder = Folder::new();
    let mut command = everstep();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &folder.at("data"), "--log-format", "json"]);
    let mut child = command.env("EVERSTEP_LOG", "info").stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    send(&child, "TERM");
    child.wait().unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "INFO", "{line}");
}
