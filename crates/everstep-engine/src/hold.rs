//! Pauses and resumes runs that have not begun.
//!
//! Such a run has no journal, so its pause is a change of its row: it is `paused` and never due. A resumption makes it
//! `pending` again, due when it was to begin. The store changes the row only if no node owns the run and it still has no
//! journal; otherwise the run has begun, and the input is sent to it again. The row contains the idempotency keys of such
//! inputs, which the run knows also after it has begun.

use std::sync::Arc;

use everstep_core::ids::RunId;
use everstep_core::run::{Input, Reply, keys};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{AuditRow, HeldStart, PendingStart, RunRow, SideWrites};

use crate::engine::Engine;
use crate::error::Error;
use crate::message::ToClaimer;
use crate::node::peers::Hint;
use crate::observe::CommittedItem;
use crate::run::Envelope;
use crate::shard::ToShard;
use crate::watch::Notification;

/// A pause or a resumption of a run, with its idempotency key and the row of the audit that exists with it.
#[derive(Clone)]
pub(crate) struct Hold {
    verb: Verb,
    input: Input,
    key: Option<String>,
    audit: Option<Arc<AuditRow>>,
}

#[derive(Clone, Copy)]
enum Verb {
    Pause,
    Resume,
}

impl Hold {
    /// The hold that an input requests, if it is one.
    pub(crate) fn from_envelope(envelope: &Envelope) -> Option<Self> {
        let verb = match &envelope.input {
            Input::Pause { .. } => Verb::Pause,
            Input::Resume => Verb::Resume,
            Input::Start { .. }
            | Input::Result { .. }
            | Input::TaskLost { .. }
            | Input::Timer { .. }
            | Input::ChildEnded { .. }
            | Input::ChildStarted { .. }
            | Input::Signal { .. }
            | Input::BufferedSignal { .. }
            | Input::Event { .. }
            | Input::BeginTurn { .. }
            | Input::LoseTurn { .. }
            | Input::Report { .. }
            | Input::SetContext { .. }
            | Input::Cancel { .. }
            | Input::Retry
            | Input::Transition(_)
            | Input::Assign(_)
            | Input::Fail { .. }
            | Input::Settle => return None,
        };
        let Envelope { input, key, audit, .. } = envelope;
        Some(Self { verb, input: input.clone(), key: key.clone(), audit: audit.clone() })
    }
}

impl Hold {
    /// The start of a run with the key of the hold, if it has one.
    fn remember_key(&self, row: &RunRow) -> Option<PendingStart> {
        let mut start = row.start.clone().unwrap_or_default();
        keys::remember_hold(&mut start.holds, &self.input, self.key.as_ref()?);
        Some(start)
    }
}

impl Engine {
    /// Pauses or resumes a run that has not begun. `None` if it has begun or changed: send the input again.
    pub(crate) async fn hold_start(&self, run: RunId, hold: &Hold) -> Result<Option<Reply>, Error> {
        let store = &self.world().runs;
        let loaded = store.load_run(run).await?.ok_or(Error::RunNotFound(run))?;
        if loaded.has_begun() {
            return Ok(None);
        }
        let row = loaded.run;
        let known = row.start.as_ref().map(|start| start.holds.as_slice()).unwrap_or_default();
        if let Some(reply) = hold.key.as_ref().and_then(|key| keys::answer_held(known, &hold.input, key)) {
            return Ok(Some(reply));
        }
        let held_start = match (hold.verb, row.status) {
            (Verb::Pause, Status::Paused) => return Ok(Some(Reply::ignored("the run is already paused"))),
            (Verb::Pause, before) => HeldStart { before, ..HeldStart::pause() },
            (Verb::Resume, Status::Paused) => HeldStart::resume(self.begin_time(&row)),
            (Verb::Resume, status) => {
                let message = format!("run {run} is {status} and is not paused");
                return Ok(Some(Reply::refused("INVALID_TRANSITION", message)));
            }
        };
        let held_start = HeldStart { start: hold.remember_key(&row), ..held_start };
        let (after, wake_at) = (held_start.after, held_start.wake_at);
        let side = hold.audit.clone().map_or_else(SideWrites::default, SideWrites::with_audit);
        match store.hold_start(run, held_start, side).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) if error.is_transient() => {
                // If the reply of the database was lost, the row may have changed. Without this message nothing would
                // claim a resumed run on a database that only this node uses.
                self.wake_claimers(&row, wake_at);
                return Err(Error::OutcomeUnknown(self.member().node));
            }
            Err(error) => return Err(error.into()),
        }
        self.announce_hold(&row, after, wake_at);
        Ok(Some(Reply::Accepted))
    }

    /// When a run that has not begun is due.
    fn begin_time(&self, row: &RunRow) -> Timestamp {
        let begin_at = row.start.as_ref().and_then(|start| start.begin_at);
        begin_at.unwrap_or_else(|| self.world().clock.now())
    }

    /// Counts the change, notifies the callers that wait for the run, and wakes the claimers.
    fn announce_hold(&self, row: &RunRow, after: Status, wake_at: Timestamp) {
        let item = CommittedItem {
            run: row.id,
            workspace: row.workspace,
            workflow: &row.workflow,
            version: row.version,
            folded: None,
            is_test: row.is_test,
            parent: None,
            started_at: row.created_at,
            created_at: row.created_at,
            before: Some(row.status),
            after,
            entries: &[],
            settled: &[],
            answered: &[],
        };
        self.tally().count_item(&item, || self.world().clock.now());
        self.world().observe.committed(&item);
        // The shard of the run has written nothing, so its watchers read the row.
        let _ = self.member().tell(row.id, ToShard::Notify(row.id, Notification::Look));
        self.wake_claimers(row, wake_at);
    }

    /// Makes this node and its peers claim a run when it is due.
    fn wake_claimers(&self, row: &RunRow, wake_at: Timestamp) {
        if wake_at == Timestamp::NEVER {
            return;
        }
        let member = self.member();
        let _ = member.claimer.send(ToClaimer::Parked(row.lane.as_str().into(), wake_at));
        if wake_at <= self.world().clock.now() {
            for peer in member.shared.peers() {
                self.world().peers.hint(&peer, Hint::Work);
            }
        }
    }
}
