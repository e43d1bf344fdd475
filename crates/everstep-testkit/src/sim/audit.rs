//! Requests with a row of the audit: a row exists with the entry that its request wrote, and not without it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::{Entry, Event};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_engine::Error;
use everstep_store::AuditRow;
use uuid::Uuid;

use super::client::Client;
use super::judge::signals_in;
use super::ledger::{Fate, Ledger};
use super::store::SimStore;

/// A request, and the response that its sender received.
#[derive(Clone)]
pub(super) struct AuditedRequest {
    asked: Asked,
    fate: Fate,
}

/// The action that a request demands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Asked {
    /// A start under this key.
    Start(String),
    /// A signal with this number.
    Signal(RunId, u64),
    /// A request to a machine with this number.
    Act(RunId, u64),
    Pause(RunId),
    Resume(RunId),
    Cancel(RunId),
    Retry(RunId),
}

impl Asked {
    /// The action of an input from a person; `None` for inputs of the engine or of a worker.
    pub(super) fn from_input(run: RunId, input: &Input) -> Option<Self> {
        match input {
            Input::Signal { payload, .. } | Input::BufferedSignal { payload, .. } => payload
                .value()
                .get("signal")
                .and_then(serde_json::Value::as_u64)
                .map(|number| Self::Signal(run, number)),
            Input::Pause { .. } => Some(Self::Pause(run)),
            Input::Resume => Some(Self::Resume(run)),
            Input::Cancel { .. } => Some(Self::Cancel(run)),
            Input::Retry => Some(Self::Retry(run)),
            Input::Transition(act) => number_of(act.comment.as_deref()).map(|number| Self::Act(run, number)),
            Input::Start { .. }
            | Input::Result { .. }
            | Input::TaskLost { .. }
            | Input::Timer { .. }
            | Input::ChildEnded { .. }
            | Input::ChildStarted { .. }
            | Input::Event { .. }
            | Input::BeginTurn { .. }
            | Input::LoseTurn { .. }
            | Input::Report { .. }
            | Input::SetContext { .. }
            | Input::Assign(_)
            | Input::Fail { .. }
            | Input::Settle => None,
        }
    }
}

impl Client {
    /// The row of a request that is about to be sent.
    pub(super) fn audit(&self, asked: Asked) -> Arc<AuditRow> {
        let mut ledger = self.judge.store.ledger();
        let id = Uuid::from_u128(ledger.audited.len() as u128 + 1);
        let action = format!("{asked:?}");
        ledger.audited.insert(id, AuditedRequest { asked, fate: Fate::Unknown });
        Arc::new(AuditRow {
            id,
            workspace: WorkspaceId::DEFAULT,
            at: self.executor.now(),
            actor: Actor::key("1"),
            action,
            target: String::new(),
            details: Payload::null(),
        })
    }
}

impl Ledger {
    /// Records the response that the sender of a request received.
    pub(super) fn answer_audited(&mut self, row: Uuid, fate: Fate) {
        if let Some(request) = self.audited.get_mut(&row) {
            request.fate = fate;
        }
    }
}

/// The fate of an audit row, according to the reply to its input.
pub(super) fn fate_of_reply(reply: Option<&Result<Reply, Error>>) -> Fate {
    match reply {
        Some(Ok(reply)) if reply.is_recorded() => Fate::Accepted,
        Some(Err(Error::OutcomeUnknown(_))) | None => Fate::Unknown,
        Some(Ok(_) | Err(_)) => Fate::Nothing,
    }
}

/// Checks all rows of the audit against the replies and the journals.
pub(super) fn check(
    store: &SimStore,
    started: &BTreeMap<String, RunId>,
    journal: impl Fn(RunId) -> Result<Vec<Entry>, String>,
) -> Result<(), String> {
    let rows = store.audit_rows();
    let (requests, runs) = {
        let ledger = store.ledger();
        (ledger.audited.clone(), ledger.runs())
    };
    let mut written: BTreeMap<Asked, usize> = BTreeMap::new();
    for row in &rows {
        let request = requests.get(row).ok_or_else(|| format!("audit row {row} belongs to no request"))?;
        if request.fate == Fate::Nothing {
            return Err(format!("audit row {row} exists and nothing was written for it: {:?}", request.asked));
        }
        *written.entry(request.asked.clone()).or_insert(0) += 1;
    }
    let is_missing = |(row, request): &(&Uuid, &AuditedRequest)| request.fate == Fate::Accepted && !rows.contains(*row);
    if let Some((row, request)) = requests.iter().find(is_missing) {
        return Err(format!("audit row {row} is missing; its request was accepted: {:?}", request.asked));
    }
    for key in started.keys() {
        let count = written.remove(&Asked::Start(key.clone())).unwrap_or(0);
        if count != 1 {
            return Err(format!("the start of {key} has {count} audit rows"));
        }
    }
    // The pause and the resumption of a run that has not begun have no entry.
    for (asked, count) in store.ledger().holds.clone() {
        let of_journal = written.remove(&asked).unwrap_or(0).checked_sub(count);
        let of_journal = of_journal.ok_or_else(|| format!("{asked:?} was carried out without an audit row"))?;
        if of_journal > 0 {
            written.insert(asked, of_journal);
        }
    }
    for run in runs {
        let copied = store.ledger().copied(run);
        // Signals wait in the inbox of a run that has not begun, which may be cancelled before it begins.
        let was_pending = store.ledger().pending.contains(&run);
        if was_pending {
            written.retain(|asked, _| !matches!(asked, Asked::Signal(of, _) if *of == run));
        }
        for (asked, entries) in asked_in(run, &journal(run)?, copied) {
            let count = written.remove(&asked).unwrap_or(0);
            // A parent that ends cancels its children, without a request.
            let is_right = match asked {
                Asked::Cancel(_) => count <= entries,
                Asked::Signal(..) if was_pending => true,
                _ => count == entries,
            };
            if !is_right {
                return Err(format!("{asked:?} has {count} audit rows and {entries} entries"));
            }
        }
    }
    if written.is_empty() { Ok(()) } else { Err(format!("audit rows without an entry: {written:?}")) }
}

/// The number of a request to a machine, which is its comment.
pub(super) fn number_of(comment: Option<&str>) -> Option<u64> {
    comment.and_then(|comment| comment.parse().ok())
}

/// The actions that the entries of a run record, and how often, without those that it has copied from another run.
fn asked_in(run: RunId, journal: &[Entry], copied: u64) -> BTreeMap<Asked, usize> {
    let mut asked: BTreeMap<_, _> =
        signals_in(journal, copied).into_iter().map(|(number, times)| (Asked::Signal(run, number), times)).collect();
    let controls = journal.iter().filter(|entry| entry.seq > copied).filter_map(|entry| match &entry.event {
        // A pause with a reason is the engine's own.
        Event::RunPaused { reason } => reason.is_none().then_some(Asked::Pause(run)),
        Event::RunResumed => Some(Asked::Resume(run)),
        Event::RunCancelled { .. } => Some(Asked::Cancel(run)),
        Event::RunRetried => Some(Asked::Retry(run)),
        Event::TransitionApplied(applied) => {
            number_of(applied.comment.as_deref()).map(|number| Asked::Act(run, number))
        }
        Event::VoteCast(vote) => number_of(vote.comment.as_deref()).map(|number| Asked::Act(run, number)),
        Event::RunStarted { .. }
        | Event::StepDispatched { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::WaitOpened { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::Assigned(_)
        | Event::ContextSet { .. }
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. } => None,
    });
    for control in controls {
        *asked.entry(control).or_insert(0) += 1;
    }
    asked
}

impl SimStore {
    /// The ids of all rows of the audit.
    fn audit_rows(&self) -> BTreeSet<Uuid> {
        self.direct(|db| {
            let mut statement = db.connection().prepare("select id from audit")?;
            let rows = statement.query_map([], |row| row.get::<_, [u8; 16]>(0))?;
            rows.map(|id| id.map(Uuid::from_bytes)).collect::<Result<_, rusqlite::Error>>()
        })
        .expect("the database is in memory")
    }
}
