//! A client of a server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// Longer than any response may take: a route waits for at most 30 seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// A server's address, and an API key.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    address: String,
    key: Option<String>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Lines such as `etag: "4"`.
    pub(crate) headers: Vec<String>,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// A problem document with this code.
    #[track_caller]
    pub(crate) fn refuses(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        self.body
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

impl Client {
    pub(crate) fn new(address: &str, key: Option<&str>) -> Self {
        Self { address: address.to_owned(), key: key.map(str::to_owned) }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Its API key.
    pub(crate) fn key(&self) -> &str {
        self.key.as_deref().expect("this client has a key")
    }

    /// Sends a request, and returns the error if the server cannot be reached or disconnects.
    pub(crate) fn try_ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> io::Result<Answer> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(READ_TIMEOUT))?;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        if let Some(key) = &self.key {
            request += &format!("x-api-key: {key}\r\n");
        }
        request += &format!("content-length: {}\r\n\r\n{body}", body.len());
        stream.write_all(request.as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        let broken = || io::Error::new(io::ErrorKind::UnexpectedEof, format!("half an answer: {reply:?}"));
        let (head, body) = reply.split_once("\r\n\r\n").ok_or_else(broken)?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).ok_or_else(broken)?;
        let body = match body {
            "" => Value::Null,
            // The page of metrics.
            body if head.contains("\r\ncontent-type: text/plain") => body.into(),
            body => serde_json::from_str(body).map_err(|_| broken())?,
        };
        Ok(Answer { status, headers: lines.map(str::to_owned).collect(), body })
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.try_ask("GET", path, &[], &Value::Null).unwrap()
    }

    #[track_caller]
    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        self.try_ask("PUT", path, &[], body).unwrap()
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body)
    }

    #[track_caller]
    pub(crate) fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.try_ask("POST", path, headers, body).unwrap()
    }

    /// Saves a workflow.
    #[track_caller]
    pub(crate) fn publish(&self, name: &str, definition: &Value) {
        let answer = self.put(&format!("/v1/workflows/{name}"), definition);
        assert!([200, 201].contains(&answer.status), "{}", answer.body);
    }

    /// Starts a run and returns its path.
    #[track_caller]
    pub(crate) fn start(&self, name: &str, start: &Value) -> String {
        let started = self.post(&format!("/v1/workflows/{name}/runs"), start).is(201);
        format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap())
    }

    /// Waits until a run has ended and returns it.
    #[track_caller]
    pub(crate) fn wait(&self, run: &str) -> Value {
        let shown = self.get(&format!("{run}?waitSeconds=30")).is(200);
        assert!(shown["endedAt"].is_string(), "the run has not ended within 30 s: {shown}");
        shown
    }

    /// Reads a run until it has a status.
    #[track_caller]
    pub(crate) fn wait_for(&self, run: &str, status: &str) -> Value {
        super::wait_for(&format!("{run} to be {status}"), || {
            Some(self.get(run).is(200)).filter(|shown| shown["status"] == status)
        })
    }

    /// Every entry of a run's journal.
    #[track_caller]
    pub(crate) fn journal(&self, run: &str) -> Vec<Value> {
        let mut entries = Vec::new();
        let mut after = Value::from(0);
        while !after.is_null() {
            let mut page = self.get(&format!("{run}/journal?after={after}&limit=1000")).is(200);
            entries.append(page["entries"].as_array_mut().unwrap());
            after = page["nextAfter"].take();
        }
        entries
    }
}
