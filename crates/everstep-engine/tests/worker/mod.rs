//! A worker that a test controls.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up is to fail")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_core::code::Report;
use everstep_core::ids::RunId;
use everstep_core::payload::Payload;
use everstep_engine::{Engine, Hello, Options, ServedWorkflow, Session, Start, Turn, WorkerMessage, WorkerReport};
use serde_json::{Value, json};

use crate::support::{WORKSPACE, engine_with, open, options};

/// A worker that executes the commands of a test, message by message.
pub(crate) struct Worker {
    pub(crate) engine: Engine,
    pub(crate) session: Arc<Session>,
    pub(crate) carrier: u64,
    pub(crate) messages: VecDeque<WorkerMessage>,
    pub(crate) n: u64,
}

impl Worker {
    pub(crate) async fn come(engine: &Engine, capacity: usize, holds: Vec<(RunId, u32)>) -> Self {
        Self::named(engine, "ann", 1, capacity, holds).await
    }

    pub(crate) async fn named(
        engine: &Engine,
        name: &str,
        version: u32,
        capacity: usize,
        holds: Vec<(RunId, u32)>,
    ) -> Self {
        Self::connect(engine, name, ("order", version), capacity, holds).await
    }

    pub(crate) async fn connect(
        engine: &Engine,
        name: &str,
        (workflow, version): (&str, u32),
        capacity: usize,
        holds: Vec<(RunId, u32)>,
    ) -> Self {
        let workflows = vec![ServedWorkflow {
            name: workflow.to_owned(),
            version,
            retention_days: None,
            input_schema: None,
            triggers: Vec::new(),
            index: Vec::new(),
        }];
        let worker = name.to_owned();
        let hello = Hello { workspace: WORKSPACE, worker, sdk: None, workflows, capacity, holds };
        let session = engine.open_session(hello).await.unwrap();
        let carrier = engine.attach(&session);
        Self { engine: engine.clone(), session, carrier, messages: VecDeque::new(), n: 0 }
    }

    /// The next message; the lease is renewed while waiting. Fails after ten seconds without one.
    pub(crate) async fn next(&mut self) -> WorkerMessage {
        let patience = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(message) = self.messages.pop_front() {
                return message;
            }
            assert!(Instant::now() < patience, "no message comes");
            self.engine.heard(&self.session);
            let news = self.session.any_news(self.carrier);
            let _ = tokio::time::timeout(Duration::from_millis(100), news).await;
            assert!(!self.session.is_over(), "the session is over");
            if let Some(batch) = self.session.next_batch() {
                self.session.seen(batch.m);
                self.messages.extend(batch.messages.iter().cloned());
            }
        }
    }

    /// Renews the lease, for a test that waits for something else.
    pub(crate) fn renew_lease(&self) {
        self.engine.heard(&self.session);
    }

    pub(crate) async fn turn(&mut self) -> Turn {
        match self.next().await {
            WorkerMessage::Turn(turn) => *turn,
            message => panic!("expected a turn, not {message:?}"),
        }
    }

    /// Sends a report, and waits for the reply.
    pub(crate) async fn say(&mut self, turn: &Turn, report: Report) -> WorkerMessage {
        self.tell(turn, report);
        self.next().await
    }

    pub(crate) async fn done(&mut self, turn: &Turn, report: Report) {
        let message = self.say(turn, report).await;
        assert!(matches!(message, WorkerMessage::Ack { .. }), "{message:?}");
    }

    pub(crate) fn tell(&mut self, turn: &Turn, report: Report) {
        self.n += 1;
        self.engine.heard(&self.session);
        let reported = WorkerReport { n: self.n, run: turn.run, turn: turn.turn, report };
        self.engine.report(&self.session, vec![reported]);
    }
}

pub(crate) fn completed(step: &str, output: Value) -> Report {
    Report::Completed { step: step.into(), attempt: 1, output: Payload::from(output), logs: vec![], took: 1_000 }
}

pub(crate) fn returned(output: Value) -> Report {
    Report::returned(output)
}

pub(crate) async fn start(engine: &Engine) -> RunId {
    let start = Start { allow_unserved: true, ..Start::new("order", json!({"id": 7})) };
    engine.start_run(start).await.unwrap().run
}

pub(crate) async fn journal(engine: &Engine, run: RunId) -> Vec<&'static str> {
    let entries = engine.world().runs.journal(run, 0, 1_000).await.unwrap();
    entries.iter().map(|entry| entry.row.kind.name()).collect()
}

pub(crate) fn hasty() -> Options {
    let worker_lease = Duration::from_millis(600);
    Options { worker_lease, park_after: Duration::from_millis(50), ..options() }
}

pub(crate) async fn place() -> (tempfile::TempDir, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, hasty()).await;
    (folder, engine)
}
