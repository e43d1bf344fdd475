//! Creates the runs of a slice.
//!
//! A run for which this node has room (a permit, and a free seat if the run needs a worker) is owned by this node from its
//! insert, so that no claim is necessary. The shard receives it with its row, so that no read is necessary either. Any
//! other run is unowned and due: a claim takes it when a node has room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{EventSlice, RunRow, StartRow, StoredRun};

use super::slice::MadeSlice;
use crate::feed::StatusUpdate;
use crate::message::ToClaimer;
use crate::node::member::Member;
use crate::node::permits::{Reservation, Share};
use crate::read::Version;
use crate::shard::{BeginningRun, ToShard, shard_of};
use crate::upkeep::counts::{Change, Tally};
use crate::workers::More;

/// Makes this node the owner of as many new runs as it has room for.
pub(super) fn place(made: &mut [MadeSlice], member: &Member) -> Reservation {
    let mut reserved = member.shared.permits.reserve(Share::Server, 0);
    if member.shared.is_stopping() {
        return reserved;
    }
    let mut by_lane: BTreeMap<(Arc<str>, WorkspaceId), Vec<&mut StartRow>> = BTreeMap::new();
    for slice in made.iter_mut().map(|made| &mut made.slice) {
        for start in &mut slice.starts {
            by_lane.entry((start.new.lane.as_str().into(), slice.workspace)).or_default().push(start);
        }
    }
    for ((lane, workspace), starts) in by_lane {
        let seats = if lane.is_empty() { usize::MAX } else { member.workers.room_for_new(&lane) };
        let share = Share::of_lane(&lane);
        let of_lane = member.shared.permits.reserve_for(share, workspace, seats.min(starts.len()));
        let places = of_lane.places();
        reserved.add(of_lane);
        for start in starts.into_iter().take(places) {
            start.owner = Some(member.node);
        }
    }
    reserved
}

/// Counts the runs that a slice has created, and makes this node begin those that it owns. Returns whether some are
/// unowned.
pub(super) fn begin(
    slice: &EventSlice,
    versions: &[Arc<Version>],
    started: &[RunId],
    member: &Member,
    reserved: &mut Reservation,
    tally: &Tally,
    now: Timestamp,
) -> bool {
    let started: BTreeSet<_> = started.iter().collect();
    let mut by_shard: Vec<Vec<BeginningRun>> = member.shards.iter().map(|_| Vec::new()).collect();
    let mut unowned: BTreeSet<&str> = BTreeSet::new();
    let mut seated: BTreeMap<&str, Vec<RunId>> = BTreeMap::new();
    for (start, version) in slice.starts.iter().zip(versions).filter(|(start, _)| started.contains(&start.run)) {
        count(slice.workspace, start, tally, now);
        if start.owner.is_none() {
            unowned.insert(&start.new.lane);
            continue;
        }
        if !start.new.lane.is_empty() {
            seated.entry(&start.new.lane).or_default().push(start.run);
        }
        by_shard[shard_of(start.run, member.shards.len())].push(BeginningRun {
            loaded: Box::new(stored_run(slice.workspace, start)),
            workflow: Arc::clone(&version.workflow),
            permit: reserved.fill(),
        });
    }
    // Counted before they are sent to their shards: a run that reached its shard first would stay counted as incoming, and
    // its seat would be lost.
    for (lane, runs) in seated {
        member.workers.claimed(&lane.into(), &runs, More::Unknown);
    }
    for (shard, runs) in member.shards.iter().zip(by_shard).filter(|(_, runs)| !runs.is_empty()) {
        // A shard that has ended has dropped its runs; other nodes claim them.
        let _ = shard.send(ToShard::Begin(runs));
    }
    for lane in &unowned {
        let _ = member.claimer.send(ToClaimer::Parked((*lane).into(), slice.at));
    }
    !unowned.is_empty()
}

/// Counts a run that was created and has not begun.
fn count(workspace: WorkspaceId, start: &StartRow, tally: &Tally, now: Timestamp) {
    let (created_at, status) = (start.new.created_at, Status::Pending);
    let change = Change { before: None, after: status, begins_at: None, started_at: created_at, at: created_at };
    tally.change(workspace, &start.new.workflow, change);
    let workflow = || start.new.workflow.clone();
    tally.feed.add_created(workspace, now, || StatusUpdate {
        run: start.run,
        workflow: workflow(),
        status,
        created_at,
        ended_at: None,
        seq: 0,
    });
}

/// A run as the database has it after its slice.
fn stored_run(workspace: WorkspaceId, start: &StartRow) -> StoredRun {
    let new = start.new.clone();
    let run = RunRow {
        id: start.run,
        workspace,
        workflow: new.workflow,
        version: new.version,
        lane: new.lane,
        status: Status::Pending,
        owner: start.owner,
        wake_at: start.wake_at,
        format: start.format,
        key: new.key,
        input: new.input,
        output: None,
        error: None,
        parent: new.parent,
        origin: None,
        tags: new.tags,
        retention_days: new.retention_days,
        is_test: new.is_test,
        created_at: new.created_at,
        ended_at: None,
        trigger: new.trigger,
        start: new.start,
        machine: None,
        seq: 0,
    };
    StoredRun { run, snapshot: None, entries: Vec::new(), inbox: Vec::new(), unreadable: None }
}
