//! Items of the same shape as the engine's: runs of a chain, a step each.

use std::time::Duration;

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::{Dispatch, Entry, Event, Outcome};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::{NodeClock, Random, SystemRng};
use everstep_store::{CommitOutcome, Gate, Item, NewEntry, NewRun, Projection, RunStore};
use serde_json::{Value, json};

use crate::bench::shapes;

/// The maximum number of items in a batch of the engine's committer.
const BATCH_ITEMS_MAX: usize = 512;
/// Steps of a run, as in the chain with which the engine is measured.
const STEPS_PER_RUN: u64 = 10;
/// Steps of a run that only fills a store.
const STEPS_OF_ENDED: u64 = 3;
const RETENTION_DAYS: u32 = 30;
/// Runs that one node writes.
const RUNS_PER_NODE: usize = 50_000;
/// Longer than it takes to write them.
const FILL_LEASE: Duration = Duration::from_secs(600);

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

/// Writes ended runs, each with a journal of a few steps. Returns a time at which their retention has passed.
pub(super) async fn fill_with_ended(store: &dyn RunStore, runs: usize) -> anyhow::Result<Timestamp> {
    fill(store, runs, |_, _, _| ()).await
}

/// The same, with a change to each run: of its row and its end, by its number.
///
/// A run has two items, as the runs of an engine have at least: the database changes a row at the end that it has written
/// at the start.
pub(super) async fn fill(
    store: &dyn RunStore,
    runs: usize,
    mut change: impl FnMut(usize, &mut NewRun, &mut Projection),
) -> anyhow::Result<Timestamp> {
    let numbers: Vec<_> = (0..runs).collect();
    let mut now = NodeClock::system().now();
    for numbers in numbers.chunks(RUNS_PER_NODE) {
        let steps = Steps::new(1);
        store.join(steps.node, FILL_LEASE, None).await?;
        for numbers in numbers.chunks(BATCH_ITEMS_MAX) {
            now = steps.clock.now();
            let id = || steps.random.next();
            let (mut starts, mut ends) = (Vec::new(), Vec::new());
            for number in numbers {
                let run = RunId::new(now, id());
                let mut begin = start(steps.node, run, CommitId::new(now, id()), now);
                let mut finish = end(run, CommitId::new(now, id()), now);
                if let (Gate::Start(new), Some(end)) = (&mut begin.gate, &mut finish.projection) {
                    change(*number, new, end);
                }
                starts.push(begin);
                ends.push(finish);
            }
            for batch in [starts, ends] {
                let outcomes = store.commit(steps.node, &batch).await?;
                let is_applied = outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Applied(_)));
                anyhow::ensure!(is_applied, "the store rejected an item of the benchmark");
            }
        }
        store.leave(steps.node, now).await?;
    }
    Ok(now.plus(Duration::from_secs(u64::from(RETENTION_DAYS + 1) * 86_400)))
}

/// The item that ends a run, with all of its steps.
fn end(run: RunId, commit: CommitId, now: Timestamp) -> Item {
    let steps = (1..=STEPS_OF_ENDED).flat_map(|n| {
        let completed = Event::StepCompleted { step: key(n), attempt: 1, outcome: Outcome::from_output(Value::Null) };
        let next = if n == STEPS_OF_ENDED { Event::run_completed(Payload::null()) } else { dispatched(n + 1) };
        entries(2 * n + 1, now, [completed, next])
    });
    let projection = Projection {
        status: Status::Completed,
        owner: None,
        wake_at: Timestamp::NEVER,
        output: None,
        error: None,
        ended_at: Some(now),
        machine: None,
    };
    Item { projection: Some(projection), ..item(run, commit, steps.collect()) }
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
        search_paths: std::sync::Arc::default(),
        retention_days: RETENTION_DAYS,
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
