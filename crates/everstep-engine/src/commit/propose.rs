//! Makes an item of what was decided for a run.

use everstep_core::ids::{CommitId, NodeId, RunId};
use everstep_core::journal::codec;
use everstep_core::journal::{Dispatch, Entry, Event};
use everstep_core::run::inbox;
use everstep_core::run::{Input, OpenWhat};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{Change, Gate, InboxInput, Item, NewEntry, NewRun, Projection, Wait};

use crate::run::active::{Becomes, Decided, Flight, Held, Tenure};

/// A row's overhead in a batch, roughly.
const ENTRY_BYTES: usize = 128;

/// Who commits, and when.
pub(crate) struct Writer {
    pub(crate) node: NodeId,
    pub(crate) commit: CommitId,
    pub(crate) now: Timestamp,
}

/// The item that writes a decision, with its size, and what is to be known when it comes back.
pub(crate) fn propose(
    held: &mut Held,
    decided: Decided,
    start: Option<NewRun>,
    becomes: Becomes,
    writer: &Writer,
) -> (Item, usize, Flight) {
    let Decided { entries, since, answered } = decided;
    let status = shown_status(held, becomes, writer.now);
    let renews_waits = std::mem::take(&mut held.renews_waits);
    let waits = changed_waits(held, &entries, renews_waits);
    let is_start = start.is_some();
    let before = (!is_start).then_some(held.status);
    let gate = match (start, held.tenure) {
        (Some(new), _) => Gate::Start(Box::new(new)),
        (None, Tenure::Owned) => Gate::Owned,
        (None, Tenure::Visiting) => Gate::Unowned,
    };
    // A step's item leaves the run's row alone: only its status, its owner and its end are written there.
    let changes_row = is_start
        || renews_waits
        || status != held.status
        || becomes != Becomes::Owned
        || (held.tenure == Tenure::Visiting && (becomes == Becomes::Owned || !entries.is_empty()));
    let projection = changes_row.then(|| project(held, status, becomes, writer));
    let dispatched = entries.iter().filter_map(dispatched_task).collect();
    let mut bytes = ENTRY_BYTES;
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let row = codec::encode(entry);
            bytes += ENTRY_BYTES + row.payload.len();
            NewEntry { seq: entry.seq, at: entry.at, row }
        })
        .collect();
    let inbox_inputs: Vec<_> = inbox::messages(&held.state, &entries).into_iter().map(inbox_input).collect();
    bytes += inbox_inputs.iter().map(|input| ENTRY_BYTES + input.input.len()).sum::<usize>();
    let flight = Flight {
        dispatched,
        has_messages: !inbox_inputs.is_empty(),
        first_seq: rows.first().map(|entry| entry.seq),
        becomes,
        before,
        status,
        start: None,
        row: None,
        answered,
        entries,
        since,
    };
    let item = Item {
        commit: writer.commit,
        run: held.state.run,
        workspace: held.workspace,
        gate,
        entries: rows,
        projection,
        waits,
        taken: flight.answered.iter().filter_map(|(mail, _)| mail.inbox).collect(),
        inbox_inputs,
    };
    (item, bytes, flight)
}

fn inbox_input((to, input): (RunId, Input)) -> InboxInput {
    InboxInput { to, input: serde_json::to_vec(&input).expect("inputs are plain data") }
}

fn project(held: &Held, status: Status, becomes: Becomes, writer: &Writer) -> Projection {
    let state = &held.state;
    let (owner, wake_at) = match becomes {
        Becomes::Owned => (Some(writer.node), Timestamp::NEVER),
        Becomes::Parked(due) => (None, due),
        Becomes::Ended => (None, Timestamp::NEVER),
    };
    let has_ended = becomes == Becomes::Ended;
    Projection {
        status,
        owner,
        wake_at,
        output: state.output().cloned(),
        error: state.failure().cloned(),
        ended_at: has_ended.then_some(state.updated_at),
    }
}

/// The status that lists show. A run that waits for less than a second stays `running` there.
fn shown_status(held: &Held, becomes: Becomes, now: Timestamp) -> Status {
    let status = held.state.status();
    let soon = now.plus(std::time::Duration::from_secs(1));
    let is_brief = held.state.next_due().is_some_and(|due| due <= soon);
    let is_busy = held.at_worker.as_ref().is_some_and(|at| !at.is_blocked);
    if status == Status::Waiting && becomes == Becomes::Owned && (is_brief || is_busy) {
        Status::Running
    } else {
        status
    }
}

/// Whether an entry dispatches a task.
pub(crate) fn is_task(entry: &Entry) -> bool {
    dispatched_task(entry).is_some()
}

fn dispatched_task(entry: &Entry) -> Option<(everstep_core::ids::StepKey, u32)> {
    match &entry.event {
        Event::StepDispatched { step, attempt, dispatch: Dispatch::Task } => Some((step.clone(), *attempt)),
        _ => None,
    }
}

/// The waits that appear and go with these entries.
fn changed_waits(held: &mut Held, entries: &[Entry], renews: bool) -> Vec<Change<Wait>> {
    // The rows of a failed run's waits are gone; a retry brings them back.
    let opens = entries.iter().any(|entry| {
        matches!(
            &entry.event,
            Event::StepDispatched { dispatch: Dispatch::Wait { .. }, .. }
                | Event::WaitOpened { .. }
                | Event::RunRetried
        )
    });
    if held.waits.is_empty() && !opens {
        return Vec::new();
    }
    let mut changes = Vec::new();
    let mut open = std::collections::BTreeSet::new();
    for step in held.state.open().filter(|_| !held.state.has_ended()) {
        let OpenWhat::Wait { event, pattern, due } = step.what else { continue };
        open.insert(step.step.clone());
        let is_known = held.waits.contains(step.step);
        if is_known && renews {
            changes.push(Change::Close(step.step.clone()));
        }
        if !is_known || renews {
            changes.push(Change::Open(Wait {
                step: step.step.clone(),
                event: event.to_owned(),
                pattern: pattern.clone(),
                deadline: due,
            }));
        }
    }
    changes.extend(held.waits.difference(&open).cloned().map(Change::Close));
    held.waits = open;
    changes
}
