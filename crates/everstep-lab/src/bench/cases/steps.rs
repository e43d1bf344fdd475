//! Items of the same shape as the engine's: runs of a chain, a step each.

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::{Dispatch, Entry, Event, Outcome};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::{NodeClock, Random, SystemRng};
use everstep_store::{Gate, Item, NewEntry, NewRun, Projection};
use serde_json::{Value, json};

use crate::bench::shapes;

/// The maximum number of items in a batch of the engine's committer.
const BATCH_ITEMS_MAX: usize = 512;
/// Steps of a run, as in the chain with which the engine is measured.
const STEPS_PER_RUN: u64 = 10;

/// Runs in flight, in groups that are committed together and start together.
pub(super) struct Steps {
    pub(super) node: NodeId,
    clock: NodeClock,
    random: SystemRng,
    groups: Vec<Group>,
    next: usize,
}

struct Group {
    runs: Vec<RunId>,
    /// Steps that its runs have completed; `STEPS_PER_RUN` if they must be replaced.
    done: u64,
}

impl Steps {
    pub(super) fn new(in_flight: usize) -> Self {
        let (clock, random) = (NodeClock::system(), SystemRng::default());
        let node = NodeId::new(clock.now(), random.next());
        let ids: Vec<_> = (0..in_flight).map(|_| RunId::new(clock.now(), random.next())).collect();
        let groups =
            ids.chunks(BATCH_ITEMS_MAX).map(|runs| Group { runs: runs.to_vec(), done: STEPS_PER_RUN }).collect();
        Self { node, clock, random, groups, next: 0 }
    }

    pub(super) fn next_batch(&mut self) -> Vec<Item> {
        let place = self.next % self.groups.len();
        self.next += 1;
        let group = &mut self.groups[place];
        let (now, random) = (self.clock.now(), &self.random);
        let commit = || CommitId::new(now, random.next());
        if group.done == STEPS_PER_RUN {
            group.done = 0;
            group.runs.iter_mut().for_each(|run| *run = RunId::new(now, random.next()));
            return group.runs.iter().map(|run| start(self.node, *run, commit(), now)).collect();
        }
        group.done += 1;
        group.runs.iter().map(|run| step(*run, commit(), group.done, now)).collect()
    }
}

fn start(node: NodeId, run: RunId, commit: CommitId, now: Timestamp) -> Item {
    let input = Payload::from(shapes::input());
    let new = NewRun {
        workflow: "steps".to_owned(),
        version: 1,
        lane: String::new(),
        key: None,
        input: input.clone(),
        parent: None,
        tags: Payload::from(json!({})),
        retention_days: 30,
        is_test: false,
        created_at: now,
        trigger: None,
        start: None,
    };
    let projection = Projection {
        status: Status::Running,
        owner: Some(node),
        wake_at: Timestamp::NEVER,
        output: None,
        error: None,
        ended_at: None,
        machine: None,
    };
    let entries = entries(1, now, [Event::RunStarted { input, cause: None, definition: None }, dispatched(1)]);
    Item { gate: Gate::Start(Box::new(new)), projection: Some(projection), ..item(run, commit, entries) }
}

/// The item of a step in a chain: it is completed, and the next is dispatched.
fn step(run: RunId, commit: CommitId, n: u64, now: Timestamp) -> Item {
    let completed = Event::StepCompleted { step: key(n), attempt: 1, outcome: Outcome::from_output(Value::Null) };
    item(run, commit, entries(2 * n + 1, now, [completed, dispatched(n + 1)]))
}

fn item(run: RunId, commit: CommitId, entries: Vec<NewEntry>) -> Item {
    Item {
        commit,
        run,
        workspace: WorkspaceId::DEFAULT,
        gate: Gate::Owned,
        format: 1,
        entries,
        projection: None,
        waits: Vec::new(),
        taken: Vec::new(),
        inbox_inputs: Vec::new(),
        side: None,
    }
}

fn entries(first: u64, now: Timestamp, events: [Event; 2]) -> Vec<NewEntry> {
    let entries = (first..).zip(events).map(|(seq, event)| Entry::new(seq, now, event));
    entries.map(|entry| NewEntry { seq: entry.seq, at: now, row: codec::encode(&entry) }).collect()
}

fn dispatched(n: u64) -> Event {
    Event::StepDispatched { step: key(n), attempt: 1, dispatch: Dispatch::Task }
}

fn key(n: u64) -> StepKey {
    StepKey::from(format!("step-{n}"))
}
