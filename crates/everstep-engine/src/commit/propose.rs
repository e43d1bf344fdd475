//! Makes an item of the decision for a run.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::dead_letter::DeadLetter;
use everstep_core::files::{self, FileBinding};
use everstep_core::ids::{CommitId, NodeId, RunId, StepKey};
use everstep_core::journal::{Dispatch, Entry, Event, codec};
use everstep_core::run::{Input, Reply, State, delivery, inbox};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::{self, TopicEvent};
use everstep_store::{Gate, InboxInput, Item, MachinePlace, NewEntry, NewRun, Projection, SideWrites};

use crate::run::{ActiveRun, Decided, Envelope, InFlight, Ownership, Rest};

/// The approximate overhead of a row in a batch.
const ROW_OVERHEAD_BYTES: usize = 128;
/// A shorter wait does not change the status that lists show.
const BRIEF_WAIT: Duration = Duration::from_secs(1);

/// The node that commits, and the time of the commit.
pub(crate) struct Writer {
    pub(crate) node: NodeId,
    pub(crate) commit: CommitId,
    pub(crate) now: Timestamp,
}

/// The item that writes a decision, with its size in bytes, and the actions after its commit.
pub(crate) fn propose(
    run: &mut ActiveRun,
    decided: Decided,
    start: Option<NewRun>,
    rest: Rest,
    writer: &Writer,
) -> (Item, usize, InFlight) {
    let Decided { entries, settled, answered, kept } = decided;
    // A visit to a run that has not begun leaves its row unchanged, which may be paused.
    let is_visit = run.is_pending() && start.is_none();
    let status = if is_visit { run.row_status() } else { shown_status(run, rest, writer.now) };
    let (waits, workflow, state) = run.waits_and_state();
    let renews_waits = waits.must_renew();
    let waits = waits.changes(workflow, state, &entries);
    let is_start = start.is_some();
    let before = (!is_start).then_some(run.row_status());
    let is_guest = run.ownership() == Ownership::Guest;
    let gate = match (start, run.ownership()) {
        (Some(new), _) => Gate::Start(Box::new(new)),
        (None, Ownership::Owner) => Gate::Owned,
        (None, Ownership::Guest) => Gate::Unowned,
    };
    let format = run.format_of(&entries);
    // Most items do not change the run's row: it changes only with the run's status, format, owner and end, and with each
    // transition of a machine.
    let changes_row = is_start
        || renews_waits
        || status != run.row_status()
        || run.is_row_behind(format)
        || rest != Rest::Active
        || (is_guest && (rest == Rest::Active || !entries.is_empty()));
    let changes_row = changes_row && !is_visit;
    let projection = changes_row.then(|| project(run.state(), status, rest, writer));
    let dispatched = entries.iter().filter_map(dispatched_task).collect();
    let mut bytes = ROW_OVERHEAD_BYTES;
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| {
            let row = codec::encode(entry);
            bytes += ROW_OVERHEAD_BYTES + row.payload.len();
            NewEntry { seq: entry.seq, at: entry.at, row }
        })
        .collect();
    let mut inbox_inputs: Vec<_> = inbox::inputs_after(run.state(), &entries).into_iter().map(inbox_input).collect();
    inbox_inputs.extend(kept);
    bytes += inbox_inputs.iter().map(|input| ROW_OVERHEAD_BYTES + input.input.len()).sum::<usize>();
    let published: Vec<_> =
        topics::published_after(run.state(), run.workspace(), &entries).into_iter().map(Arc::new).collect();
    let dead_letters = dead_letters(run, &entries);
    let side = side_writes(&answered, &published, dead_letters, files::bound_by(&entries));
    bytes += side.as_ref().map_or(0, |side| side.size());
    let in_flight = InFlight {
        dispatched,
        has_inbox_inputs: !inbox_inputs.is_empty(),
        published,
        first_seq: rows.first().map(|entry| entry.seq),
        rest,
        before,
        status,
        format,
        is_withdrawn: false,
        start: None,
        row: None,
        answered,
        entries,
        settled,
    };
    let item = Item {
        commit: writer.commit,
        run: run.id(),
        workspace: run.workspace(),
        gate,
        format,
        entries: rows,
        projection,
        waits,
        taken: in_flight.answered.iter().filter_map(|(envelope, _)| envelope.inbox).collect(),
        inbox_inputs,
        side,
    };
    (item, bytes, in_flight)
}

/// The dead letters of an item. A test run has none: neither is it listed, nor are operators notified of it.
fn dead_letters(run: &ActiveRun, entries: &[Entry]) -> Vec<Arc<DeadLetter>> {
    if run.is_test() {
        return Vec::new();
    }
    let letters = delivery::dead_letters_after(run.workflow(), run.workspace(), run.state(), entries);
    letters.into_iter().map(Arc::new).collect()
}

/// The audit rows of the requests that an item carries out, the events that it publishes, the dead letters of its
/// failures, and the files that it binds. Most items have none.
fn side_writes(
    answered: &[(Envelope, Reply)],
    published: &[Arc<TopicEvent>],
    dead_letters: Vec<Arc<DeadLetter>>,
    files: Vec<FileBinding>,
) -> Option<Box<SideWrites>> {
    let mut side: Option<Box<SideWrites>> = None;
    for (envelope, reply) in answered {
        if let Some(row) = &envelope.audit
            && reply.is_recorded()
        {
            side.get_or_insert_default().audit.push(Arc::clone(row));
        }
    }
    if !published.is_empty() {
        side.get_or_insert_default().published = published.to_vec();
    }
    if !files.is_empty() {
        side.get_or_insert_default().files = files;
    }
    if !dead_letters.is_empty() {
        side.get_or_insert_default().dead_letters = dead_letters;
    }
    side
}

fn inbox_input((to, input): (RunId, Input)) -> InboxInput {
    InboxInput { to, input: serde_json::to_vec(&input).expect("inputs are plain data") }
}

fn project(state: &State, status: Status, rest: Rest, writer: &Writer) -> Projection {
    let (owner, wake_at) = match rest {
        Rest::Active => (Some(writer.node), Timestamp::NEVER),
        Rest::Parked(due) => (None, due),
        Rest::Ended => (None, Timestamp::NEVER),
    };
    let has_ended = rest == Rest::Ended;
    Projection {
        status,
        owner,
        wake_at,
        output: state.output().cloned(),
        error: state.failure().cloned(),
        ended_at: has_ended.then_some(state.updated_at),
        machine: state
            .place_of_machine()
            .map(|(state, version_no)| MachinePlace { state: state.to_owned(), version_no }),
    }
}

/// The status that lists show. A run that waits for less than [`BRIEF_WAIT`], or whose function runs at a worker, stays
/// `running` there.
fn shown_status(run: &ActiveRun, rest: Rest, now: Timestamp) -> Status {
    let status = run.state().status();
    let is_brief = run.state().next_due_of_state().is_some_and(|due| due <= now.plus(BRIEF_WAIT));
    if status == Status::Waiting && rest == Rest::Active && (is_brief || run.is_at_work()) {
        Status::Running
    } else {
        status
    }
}

/// Whether an entry of an item dispatches a task that is begun after the commit. `state` is the state after the item: no
/// delivery of a paused run is begun.
pub(crate) fn begins_task(state: &State, entry: &Entry) -> bool {
    dispatched_task(entry).is_some_and(|(step, _)| !(state.is_paused() && state.is_delivery(&step)))
}

fn dispatched_task(entry: &Entry) -> Option<(StepKey, u32)> {
    let Event::StepDispatched { step, attempt, dispatch } = &entry.event else { return None };
    let is_task = match dispatch {
        Dispatch::Task => true,
        Dispatch::Delivery(delivery) => delivery.is_task(),
        Dispatch::Instant
        | Dispatch::Publish
        | Dispatch::Delay { .. }
        | Dispatch::Wait { .. }
        | Dispatch::Child(_)
        | Dispatch::Body { .. } => false,
    };
    is_task.then(|| (step.clone(), *attempt))
}
