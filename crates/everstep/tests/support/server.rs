//! A server as a separate process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::Value;

use super::http::Client;
use super::{everstep, wait_for};

/// A server that is ready, on its own ports. It is killed with this value.
pub(crate) struct Server {
    child: Child,
    address: String,
    key: Option<String>,
    /// Its output so far.
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// A server on the SQLite database of a data folder.
    pub(crate) fn start(data: &str) -> Self {
        Self::with(&["--data", data], &[])
    }

    /// A server with its own flags and settings. Its API key is that of its data folder, if there is one.
    pub(crate) fn with(args: &[&str], settings: &[(&str, &str)]) -> Self {
        let mut command = everstep();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(args).stderr(Stdio::piped());
        command.env("EVERSTEP_LOG", "warn").envs(settings.iter().copied());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let said = Arc::new(Mutex::new(String::new()));
        let heard = Arc::clone(&said);
        let listener = std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|read| read > 0) {
                heard.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        let address = wait_for("the server to listen", || {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("the server ended with {status}: {}", said.lock().unwrap());
            }
            let said = said.lock().unwrap();
            // The greeting is complete with its last line.
            let is_greeted = said.lines().any(|line| line.starts_with("  try ") || line.starts_with("  keys "));
            let line = said.lines().find_map(|line| line.split_once("listens on http://")).filter(|_| is_greeted)?;
            Some(line.1.trim().to_owned())
        });
        let data = args.iter().skip_while(|arg| **arg != "--data").nth(1);
        let file = data.map(|data| std::path::Path::new(data).join("admin.key"));
        let key = file.and_then(|file| std::fs::read_to_string(file).ok()).map(|text| text.trim().to_owned());
        let server = Self { child, address, key, said, listener: Some(listener) };
        server.wait_until_ready();
        server
    }

    /// Waits until it may write and its database replies.
    pub(crate) fn wait_until_ready(&self) {
        let client = self.stranger();
        wait_for("the server to be ready", || {
            let answer = client.try_ask("GET", "/readyz", &[], &Value::Null).ok()?;
            (answer.status == 200).then_some(())
        });
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The present id of its node.
    pub(crate) fn node(&self) -> String {
        self.stranger().get("/readyz").body["node"].as_str().unwrap().to_owned()
    }

    /// A client with the first admin API key.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address, Some(self.key.as_deref().expect("the data folder has a key")))
    }

    /// A client without an API key.
    pub(crate) fn stranger(&self) -> Client {
        Client::new(&self.address, None)
    }

    pub(crate) fn with_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Its output so far.
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Sends a signal: `STOP`, `CONT`, `TERM`, …
    pub(crate) fn signal(&self, signal: &str) {
        send(&self.child, signal);
    }

    /// Stops it in order and returns its output.
    pub(crate) fn stop(mut self) -> String {
        self.signal("TERM");
        let status = self.child.wait().unwrap();
        self.hear_out();
        assert_eq!(status.code(), Some(0), "{}", self.said());
        self.said()
    }

    /// Kills it at once and returns its output.
    pub(crate) fn kill(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.hear_out();
        self.said()
    }

    fn hear_out(&mut self) {
        if let Some(listener) = self.listener.take() {
            listener.join().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("-- a server said --\n{}", self.said());
        }
    }
}

/// Sends a signal to a process.
pub(crate) fn send(child: &Child, signal: &str) {
    let status = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
    assert!(status.success());
}
