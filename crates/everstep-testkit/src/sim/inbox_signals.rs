//! Signals that arrive through the inbox, once each.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::run::Input;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::Hint;
use everstep_store::{CommitOutcome, Gate, InboxInput, Item, NewRun, Projection};
use futures_util::future::{self, Either};
use serde_json::json;

use super::executor::Executor;
use super::server::Server;
use super::store::SimStore;

pub(super) struct InboxSender {
    pub(super) executor: Executor,
    pub(super) servers: Vec<Server>,
    pub(super) store: SimStore,
}

impl InboxSender {
    pub(super) async fn deliver(self) {
        let (wait_opened, is_shared) = {
            let ledger = self.store.ledger();
            (Arc::clone(&ledger.inbox_wait_opened), ledger.is_shared)
        };
        let slowest = if is_shared { 4_000 } else { 20_000 };
        loop {
            let millis = self.executor.with_random(|random| random.between(100, slowest));
            let sleep = std::pin::pin!(self.executor.sleep(Duration::from_millis(millis)));
            let opened = std::pin::pin!(wait_opened.notified());
            let waits = match future::select(sleep, opened).await {
                Either::Left(_) => self.open_waits(),
                Either::Right(_) => std::mem::take(&mut self.store.ledger().new_inbox_waits),
            };
            let mut has_sent = false;
            for (run, step, event) in waits {
                let is_new = !self.store.ledger().inbox_signals.contains(&(run, step.clone()));
                if is_new && self.send(run, &event) {
                    let mut ledger = self.store.ledger();
                    ledger.inbox_signals.insert((run, step));
                    *ledger.inbox_signals_sent.entry(run).or_default() += 1;
                    has_sent = true;
                }
            }
            // Of several servers another one may be notified, or none: all of them poll.
            let notified = self.executor.with_random(|random| random.below(self.servers.len()));
            if has_sent && (!is_shared || self.executor.chance(50)) {
                self.servers[notified].accept(|engine| async move { engine.hinted(Hint::Inbox) });
            }
        }
    }

    fn open_waits(&self) -> Vec<(RunId, StepKey, String)> {
        let waits = self.store.waits_for("inbox");
        waits.into_iter().map(|(run, wait)| (run, wait.step, wait.event)).collect()
    }

    /// Writes the signal in the item of a run of the sender, as the end of a child would.
    fn send(&self, to: RunId, event: &str) -> bool {
        let now = self.executor.now();
        let random =
            || self.executor.with_random(|random| u128::from(random.number()) << 64 | u128::from(random.number()));
        let sender = NodeId::new(now, random());
        let input = Input::Signal { event: event.to_owned(), payload: Payload::from(json!({"inbox": true})) };
        let item = Item {
            commit: CommitId::new(now, random()),
            run: RunId::new(now, random()),
            workspace: WorkspaceId::from_uuid(uuid::Uuid::from_u128(99)),
            gate: Gate::Start(Box::new(NewRun {
                workflow: "sender".into(),
                version: 1,
                lane: "nowhere".into(),
                key: None,
                input: Payload::null(),
                parent: None,
                tags: Payload::from(json!({})),
                search_paths: std::sync::Arc::default(),
                retention_days: 1,
                is_test: false,
                created_at: now,
                trigger: None,
                start: None,
            })),
            format: 1,
            entries: Vec::new(),
            projection: Some(Projection {
                status: Status::Completed,
                owner: None,
                wake_at: Timestamp::NEVER,
                output: None,
                error: None,
                ended_at: Some(now),
                machine: None,
            }),
            waits: Vec::new(),
            taken: Vec::new(),
            inbox_inputs: vec![InboxInput { to, input: serde_json::to_vec(&input).expect("inputs are plain data") }],
            side: None,
        };
        self.store.direct(|db| {
            let outcomes = db.join(sender, Duration::from_secs(60), None).and_then(|_| db.commit(sender, &[item]));
            db.leave(sender, now).expect("the database is in memory");
            // A run that has ended gets no signals.
            outcomes
                .is_ok_and(|outcomes| matches!(&outcomes[..], [CommitOutcome::Applied(sent)] if sent[0].id.is_some()))
        })
    }
}
