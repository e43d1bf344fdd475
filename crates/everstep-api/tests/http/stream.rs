//! A client that follows a run by server-sent events.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, Method};
use futures_util::StreamExt;
use serde_json::Value;

use crate::support::Server;

/// Longer than any event may take to arrive.
const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Stream {
    pub(crate) headers: HeaderMap,
    body: BodyDataStream,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Stream {
    /// Follows a run, from its snapshot or with headers that set the beginning.
    pub(crate) async fn open(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let headers = [headers, &[("x-api-key", server.key())]].concat();
        Self::open_with(server, path, &headers).await
    }

    pub(crate) async fn open_with(server: &Server, path: &str, headers: &[(&str, &str)]) -> Self {
        let response = server.send(Method::GET, path, headers, "").await;
        assert_eq!(response.status(), 200);
        let (parts, body): (_, Body) = response.into_parts();
        Self { headers: parts.headers, body: body.into_data_stream(), text: String::new() }
    }

    /// The next event; `None` when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            let block = self.block().await?;
            if let Some(event) = read(&block) {
                return Some(event);
            }
        }
    }

    /// The next event, a comment or another separate line.
    pub(crate) async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let rest = self.text.split_off(end + 2);
                let block = std::mem::replace(&mut self.text, rest);
                return Some(block.trim_end().to_owned());
            }
            let part = tokio::time::timeout(EVENT_TIMEOUT, self.body.next()).await.expect("an event comes in time")?;
            self.text.push_str(str::from_utf8(&part.ok()?).unwrap());
        }
    }

    /// Reads until an event matches.
    pub(crate) async fn until(&mut self, is_meant: impl Fn(&Event) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            let event = self.next().await.expect("the stream goes on");
            events.push(event);
            if is_meant(&events[events.len() - 1]) {
                return events;
            }
        }
    }

    /// Everything up to the end of the stream.
    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// The entries among events.
pub(crate) fn entries(events: &[Event]) -> Vec<Value> {
    let entries = events.iter().filter(|event| event.name == "entry");
    entries
        .map(|event| {
            assert_eq!(event.id, event.data["seq"].as_u64(), "an entry's id is its seq");
            event.data.clone()
        })
        .collect()
}

/// The statuses among events.
pub(crate) fn statuses(events: &[Event]) -> Vec<&str> {
    let statuses = events.iter().filter(|event| event.name == "status");
    statuses.map(|event| event.data["status"].as_str().unwrap()).collect()
}

fn read(block: &str) -> Option<Event> {
    let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    Some(Event {
        id: field("id").map(|id| id.parse().unwrap()),
        name: field("event")?.to_owned(),
        data: serde_json::from_str(field("data")?).unwrap(),
    })
}
