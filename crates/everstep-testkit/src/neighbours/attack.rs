//! The tool of the misuses: connections that send requests until the misuse is over.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::misuse::Misuse;
use super::site::{self, Tenant};
use crate::connection::{self, Connection};

/// A misuse ends after this time, also if no measurement ends it.
const MISUSE_TIME_MAX: Duration = Duration::from_secs(20);
/// The pause after a connection could not be opened, or was closed.
const RECONNECT_PAUSE: Duration = Duration::from_millis(20);

/// The misusing workspace, and the end of its misuse.
#[derive(Clone)]
pub(super) struct Attack {
    pub(super) address: Arc<str>,
    /// An API key with all permissions in the workspace.
    pub(super) key: Arc<str>,
    begun: Arc<Mutex<Option<oneshot::Sender<()>>>>,
    is_over: watch::Sender<bool>,
    answers: Arc<Mutex<MisuseAnswers>>,
}

/// The responses to a misuse.
#[derive(Clone, Debug, Default)]
pub struct MisuseAnswers {
    /// The number of responses by their status; 0 counts connections that the server closed without a response.
    pub by_status: BTreeMap<u16, u64>,
}

impl MisuseAnswers {
    pub fn total(&self) -> u64 {
        self.by_status.values().sum()
    }
}

impl fmt::Display for MisuseAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answers: Vec<_> = self.by_status.iter().map(|(status, number)| format!("{number} × {status}")).collect();
        f.write_str(&answers.join(", "))
    }
}

impl Attack {
    pub(super) fn new(address: &str, tenant: &Tenant, begun: oneshot::Sender<()>) -> Self {
        Self {
            address: address.into(),
            key: tenant.key.as_str().into(),
            begun: Arc::new(Mutex::new(Some(begun))),
            is_over: watch::Sender::new(false),
            answers: Arc::default(),
        }
    }

    /// Performs a misuse until it is over.
    pub(super) async fn perform(self, misuse: Misuse) -> anyhow::Result<()> {
        let mut is_over = self.is_over.subscribe();
        // The channel is closed if the preparation fails, so that no measurement waits for its beginning.
        let begun = Arc::clone(&self.begun);
        let performed = tokio::select! {
            performed = misuse.perform(self) => performed,
            _ = is_over.wait_for(|is_over| *is_over) => Ok(()),
            () = tokio::time::sleep(MISUSE_TIME_MAX) => Ok(()),
        };
        drop(begun.lock().unwrap_or_else(PoisonError::into_inner).take());
        performed
    }

    /// Reports that the preparation is complete: from now on the good workspace is measured.
    pub(super) fn begin(&self) {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(begun) = begun {
            // The measurement may have ended.
            let _ = begun.send(());
        }
    }

    pub(super) fn end(&self) {
        self.is_over.send_replace(true);
    }

    pub(super) fn answers(&self) -> MisuseAnswers {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn count(&self, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.by_status.entry(status).or_default() += 1;
    }

    pub(super) fn get(&self, path: &str) -> Vec<u8> {
        connection::get_with_key(&self.address, &self.key, path)
    }

    pub(super) fn post(&self, path: &str, body: &str) -> Vec<u8> {
        connection::post(&self.address, &self.key, path, body)
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(&self.address).await
    }

    /// Sends a request of the preparation, which must succeed.
    pub(super) async fn prepare(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let mut connection = self.connect().await?;
        site::send(&mut connection, &self.address, &self.key, method, path, body).await
    }

    pub(super) async fn save(&self, workflow: &str, definition: &Value) -> anyhow::Result<()> {
        self.prepare("PUT", &format!("/v1/workflows/{workflow}"), definition).await.map(drop)
    }

    /// Starts a run and returns its id.
    pub(super) async fn start(&self, workflow: &str, input: &Value) -> anyhow::Result<String> {
        let path = format!("/v1/workflows/{workflow}/runs");
        let started = self.prepare("POST", &path, &json!({"input": input})).await?;
        started["run"]["id"].as_str().map(str::to_owned).with_context(|| format!("no run: {started}"))
    }

    /// The same workspace with another API key.
    pub(super) async fn with_role(&self, role: &str) -> anyhow::Result<Self> {
        let made = self.prepare("POST", "/v1/keys", &json!({"name": role, "role": role})).await?;
        let key = made["secret"].as_str().with_context(|| format!("no key: {made}"))?;
        Ok(Self { key: key.into(), ..self.clone() })
    }

    /// Sends requests on several connections, each the next one after the response to the one before and a pause,
    /// until the misuse is over.
    pub(super) async fn keep_sending<R>(&self, clients: usize, pause: Duration, request: R)
    where
        R: Fn(usize, usize) -> Arc<[u8]> + Clone + Send + Sync + 'static,
    {
        let mut sending = JoinSet::new();
        for client in 0..clients {
            sending.spawn(self.clone().send_one_by_one(client, pause, request.clone()));
        }
        while sending.join_next().await.is_some() {}
    }

    async fn send_one_by_one(
        self,
        client: usize,
        pause: Duration,
        request: impl Fn(usize, usize) -> Arc<[u8]> + Send + Sync,
    ) {
        let mut connection = None;
        for n in 0.. {
            let opened = match connection.take() {
                Some(opened) => Ok(opened),
                None => self.connect().await,
            };
            let mut status = None;
            if let Ok(mut opened) = opened {
                let request = request(client, n);
                status = opened.ask(&request).await.ok().map(|answer| answer.status);
                connection = status.map(|_| opened);
            }
            self.count(status.unwrap_or_default());
            let next_pause = if status.is_some() { pause } else { pause.max(RECONNECT_PAUSE) };
            if !next_pause.is_zero() {
                tokio::time::sleep(next_pause).await;
            }
        }
    }

    /// Opens a stream, and holds it until the server closes it.
    pub(super) async fn hold_stream(self, request: Arc<[u8]>) {
        let Ok(mut connection) = self.connect().await else { return self.count(0) };
        match connection.open_stream(&request).await {
            Ok(status @ (101 | 200)) => self.count(status),
            Ok(status) => return self.count(status),
            Err(_) => return self.count(0),
        }
        connection.closed().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_listed_by_their_status() {
        let answers = MisuseAnswers { by_status: BTreeMap::from([(200, 3), (429, 1)]) };
        assert_eq!((answers.total(), answers.to_string()), (4, "3 × 200, 1 × 429".to_owned()));
    }
}
