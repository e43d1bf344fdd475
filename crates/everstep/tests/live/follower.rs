//! Programs that follow a run: the stock Socket.IO client under Node.js, and curl.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Client;

/// Longer than any line may take to arrive.
const LINE_TIMEOUT: Duration = Duration::from_secs(60);

/// A program that prints one item per line. It is killed with this value.
struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    fn start(command: &mut Command) -> Self {
        let name = command.get_program().to_string_lossy().into_owned();
        let spawned = command.stdout(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{name} cannot be started ({error}); install it"));
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// The next line; `None` when the program has ended.
    fn next(&self) -> Option<String> {
        match self.lines.recv_timeout(LINE_TIMEOUT) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("no line within {LINE_TIMEOUT:?}"),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The stock Socket.IO client.
pub(crate) struct Socket {
    program: Program,
    stdin: ChildStdin,
}

impl Socket {
    /// A client that sends an API key and is accepted.
    pub(crate) fn connect(client: &Client) -> Self {
        let options = json!({"transports": ["websocket"], "auth": {"key": client.key()}});
        let socket = Self::open(client, &options);
        assert_eq!(socket.next()["on"], "connect");
        socket
    }

    /// A client with its own options.
    pub(crate) fn open(client: &Client, options: &Value) -> Self {
        let folder = installed();
        let mut command = Command::new("node");
        let program = json!({"url": format!("http://{}", client.address()), "options": options});
        command.current_dir(folder).arg("follow.mjs").arg(program.to_string()).stdin(Stdio::piped());
        let mut program = Program::start(&mut command);
        let stdin = program.child.stdin.take().unwrap();
        Self { program, stdin }
    }

    pub(crate) fn tell(&mut self, line: &Value) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Joins a run and returns the response.
    pub(crate) fn join(&mut self, run: &str) -> Value {
        self.tell(&json!({"join": {"runId": id(run)}}));
        let mut heard = self.next();
        assert_eq!(heard["on"], "ack", "the answer comes first");
        heard["answer"].take()
    }

    pub(crate) fn next(&self) -> Value {
        serde_json::from_str(&self.program.next().expect("the client goes on")).unwrap()
    }

    /// All items up to the one that matches.
    pub(crate) fn until(&self, is_meant: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut heard = vec![self.next()];
        while !is_meant(&heard[heard.len() - 1]) {
            heard.push(self.next());
        }
        heard
    }

    pub(crate) fn until_status(&self, status: &str) -> Vec<Value> {
        self.until(|heard| heard["on"] == "workflow_status_update" && heard["data"]["status"] == status)
    }
}

/// The folder of the clients' scripts, with their dependencies.
pub(crate) fn installed() -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let install = || {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/live/client");
        let is_missing = |name: &str| !folder.join(format!("node_modules/{name}/package.json")).exists();
        if ["socket.io-client", "cloudevents", "standardwebhooks"].into_iter().any(is_missing) {
            let done = Command::new("npm").args(["ci", "--silent"]).current_dir(&folder).status();
            let done =
                done.unwrap_or_else(|error| panic!("npm cannot be started ({error}): install Node.js 20 or later"));
            assert!(done.success(), "`npm ci` in {} has failed", folder.display());
        }
        folder
    };
    FOLDER.get_or_init(install).clone()
}

/// A run's events as curl shows them.
pub(crate) struct Curl(Program);

impl Curl {
    pub(crate) fn follow(client: &Client, path: &str) -> Self {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--no-buffer"]);
        command.args(["--header", &format!("x-api-key: {}", client.key())]);
        command.arg(format!("http://{}{path}", client.address()));
        Self(Program::start(&mut command))
    }

    /// The next event with its data; `None` when the stream has ended.
    pub(crate) fn next(&self) -> Option<(String, Value)> {
        let mut name = None;
        loop {
            let line = self.0.next()?;
            if let Some(text) = line.strip_prefix("event: ") {
                name = Some(text.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name.expect("an event has a name"), serde_json::from_str(data).unwrap()));
            }
        }
    }

    pub(crate) fn rest(&self) -> Vec<(String, Value)> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

pub(crate) fn id(run: &str) -> &str {
    run.trim_start_matches("/v1/runs/")
}

/// Compares the updates of a run that a Socket.IO client received with the journal: nothing missed, nothing twice, in
/// order.
#[track_caller]
pub(crate) fn compare_steps(heard: &[Value], journal: &[Value]) {
    let updates = heard.iter().filter(|heard| heard["on"] == "workflow_node_update").map(|heard| &heard["data"]);
    let heard: Vec<_> =
        updates.map(|data| (&data["seq"], &data["stepKey"], &data["attempt"], &data["output"])).collect();
    let steps = journal.iter().filter(|entry| {
        let event = entry["event"].as_str().unwrap();
        ["StepDispatched", "StepCompleted", "StepFailed", "StepSkipped"].contains(&event)
    });
    let written: Vec<_> =
        steps.map(|entry| (&entry["seq"], &entry["step"], &entry["attempt"], &entry["data"]["output"])).collect();
    assert_eq!(heard, written);
}

/// Compares the events of a run that curl received from its beginning with the journal.
#[track_caller]
pub(crate) fn compare_entries(events: &[(String, Value)], journal: &[Value]) {
    let entries: Vec<_> = events.iter().filter(|(name, _)| name == "entry").map(|(_, data)| data).collect();
    assert_eq!(entries, journal.iter().collect::<Vec<_>>());
    assert_eq!(events.last().unwrap().0, "end");
}
