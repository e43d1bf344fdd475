//! Other workspaces beside the one of the clients, with very different load: one has many due runs, the others few.
//!
//! Their runs are rows without a journal that were written before the first server starts. Each run has a task that takes
//! time, so that more runs are due than the nodes have room for, and more tasks wait than there are places for their kind.
//! No client touches these runs, and all of them complete.
//!
//! No workspace waits for more than its turn:
//!
//! 1. A claim that returns fewer runs than it has places has left no run of the server's own lane that was due.
//! 2. A full claim that gives nothing to a workspace with due runs gives its places to workspaces before it in the circle.
//!    So this happens to a workspace at most as often as there are others, until a claim of that node takes a run of it.
//!    A claim whose reply was lost does not count, because the node does not know where it has ended.

use std::collections::BTreeSet;
use std::time::Duration;

use everstep_core::ids::{CommitId, NodeId, RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::sqlite::Database;
use everstep_store::{Gate, Item, NewRun, NewWorkflow, Precondition, Projection};
use serde_json::json;
use uuid::Uuid;

use super::executor::Executor;
use super::handlers::REST;
use super::random::SeededRng;
use super::store::SimStore;

const NAME: &str = "neighbour";
const IN_MEMORY: &str = "the database is in memory";

/// Writes the runs of the other workspaces. Returns their ids.
pub(super) fn write_runs(executor: &Executor, db: &mut Database) -> BTreeSet<(WorkspaceId, RunId)> {
    let now = executor.now();
    let writer = NodeId::new(now, executor.with_random(number));
    let items = executor.with_random(|random| make_items(random, now));
    db.join(writer, Duration::from_secs(60), None).expect(IN_MEMORY);
    for workspace in items.iter().map(|item| item.workspace).collect::<BTreeSet<_>>() {
        db.save_workflow(&workflow(workspace, now), true, Precondition::Anything).expect(IN_MEMORY);
    }
    db.commit(writer, &items).expect(IN_MEMORY);
    db.leave(writer, now).expect(IN_MEMORY);
    items.into_iter().map(|item| (item.workspace, item.run)).collect()
}

/// Many runs of one workspace, which are due first, and a few runs of others.
fn make_items(random: &mut SeededRng, now: Timestamp) -> Vec<Item> {
    let mut items = Vec::new();
    // The busy workspace is anywhere in the circle.
    let (workspaces, busy) = (random.between(3, 5), random.between(0, 2));
    for index in 0..workspaces {
        let (runs, millis_max) =
            if index == busy { (random.between(20, 40), 500) } else { (random.between(1, 3), 5_000) };
        for _ in 0..runs {
            let wake_at = now.plus(Duration::from_millis(random.between(0, millis_max)));
            let workspace = WorkspaceId::from_uuid(Uuid::from_u128(10 + u128::from(index)));
            items.push(pending(random, workspace, now, wake_at));
        }
    }
    items
}

fn number(random: &mut SeededRng) -> u128 {
    u128::from(random.number()) << 64 | u128::from(random.number())
}

fn workflow(workspace: WorkspaceId, now: Timestamp) -> NewWorkflow {
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "rest", "type": REST, "config": {}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": "rest"}, {"source": "rest", "target": "end"}],
    });
    NewWorkflow {
        workspace,
        name: NAME.to_owned(),
        style: "graph".to_owned(),
        definition: Payload::from(definition),
        digest: "digest".to_owned(),
        retention_days: 1,
        created_at: now,
        publisher: None,
        key: None,
    }
}

fn pending(random: &mut SeededRng, workspace: WorkspaceId, now: Timestamp, wake_at: Timestamp) -> Item {
    Item {
        commit: CommitId::new(now, number(random)),
        run: RunId::new(now, number(random)),
        workspace,
        gate: Gate::Start(Box::new(NewRun {
            workflow: NAME.to_owned(),
            version: 1,
            lane: String::new(),
            key: None,
            input: Payload::from(json!({})),
            parent: None,
            tags: Payload::from(json!({})),
            search_paths: std::sync::Arc::default(),
            retention_days: 1,
            is_test: false,
            created_at: now,
            trigger: None,
            start: None,
        })),
        format: 3,
        entries: Vec::new(),
        projection: Some(Projection {
            status: Status::Pending,
            owner: None,
            wake_at,
            output: None,
            error: None,
            ended_at: None,
            machine: None,
        }),
        waits: Vec::new(),
        taken: Vec::new(),
        inbox_inputs: Vec::new(),
        side: None,
    }
}

/// A claim of the server's own lane that is about to be executed.
pub(super) struct WatchedClaim {
    node: NodeId,
    places: usize,
    /// The workspaces with due runs before the claim.
    due: BTreeSet<WorkspaceId>,
}

impl SimStore {
    /// Looks at the due runs before a claim; `None` in a simulation with one workspace.
    pub(super) fn before_claim(
        &self,
        db: &Database,
        node: NodeId,
        now: Timestamp,
        places: usize,
    ) -> Option<WatchedClaim> {
        if self.ledger().neighbours.is_empty() || places == 0 {
            return None;
        }
        let sql = "select distinct workspace from runs
            where lane = '' and owner is null and ended_at is null and wake_at <= ?1";
        let mut statement = db.connection().prepare_cached(sql).expect(IN_MEMORY);
        let due = statement.query_map([now.micros()], |row| row.get(0)).expect(IN_MEMORY);
        let due = due.map(|id| WorkspaceId::from_uuid(Uuid::from_bytes(id.expect(IN_MEMORY)))).collect();
        Some(WatchedClaim { node, places, due })
    }

    /// Compares a claim with the due runs before it. Returns the workspaces to which it gave nothing.
    pub(super) fn after_claim(
        &self,
        db: &Database,
        claim: Option<WatchedClaim>,
        claimed: &[RunId],
    ) -> Vec<(NodeId, WorkspaceId)> {
        let Some(WatchedClaim { node, places, due }) = claim else { return Vec::new() };
        let sql = "select workspace from runs where id = ?1 and lane = ''";
        let mut statement = db.connection().prepare_cached(sql).expect(IN_MEMORY);
        let workspace = |run: &RunId| {
            let found = statement.query_row([run.uuid().into_bytes()], |row| row.get(0));
            found.ok().map(|id| WorkspaceId::from_uuid(Uuid::from_bytes(id)))
        };
        let served: Vec<_> = claimed.iter().filter_map(workspace).collect();
        let mut ledger = self.ledger();
        ledger
            .missed
            .retain(|(of, workspace), _| *of != node || due.contains(workspace) && !served.contains(workspace));
        let missed: Vec<_> = due.into_iter().filter(|workspace| !served.contains(workspace)).collect();
        if served.len() < places
            && let Some(workspace) = missed.first()
        {
            let free = places - served.len();
            ledger.violation(format!("{workspace} has due runs and a claim of {node} has left {free} places"));
        }
        missed.into_iter().map(|workspace| (node, workspace)).collect()
    }

    /// Records that a node has received the reply of a claim that gave nothing to some workspaces with due runs.
    pub(super) fn record_missed(&self, missed: Vec<(NodeId, WorkspaceId)>) {
        let mut ledger = self.ledger();
        let workspaces: BTreeSet<_> = ledger.neighbours.iter().map(|(workspace, _)| *workspace).collect();
        // The clients have a workspace of their own.
        let others = workspaces.len();
        for (node, workspace) in missed {
            let times = ledger.missed.entry((node, workspace)).or_default();
            *times += 1;
            if *times > others {
                let text =
                    format!("{workspace} has due runs and {node} has passed it over {times} times", times = *times);
                ledger.violation(text);
            }
        }
    }

    /// Whether the runs of the other workspaces have ended.
    pub(super) fn have_neighbours_ended(&self) -> bool {
        let neighbours = self.ledger().neighbours.clone();
        self.direct(|db| {
            let has_ended = |(workspace, run): &(WorkspaceId, RunId)| {
                db.get_run(*workspace, *run).is_ok_and(|row| row.is_some_and(|row| row.ended_at.is_some()))
            };
            neighbours.iter().all(has_ended)
        })
    }

    /// Checks that the runs of the other workspaces have completed. Returns the number of their entries.
    pub(super) fn check_neighbours(&self) -> Result<usize, String> {
        let neighbours = self.ledger().neighbours.clone();
        self.direct(|db| {
            let mut entries = 0;
            for (workspace, run) in neighbours {
                let row = db.get_run(workspace, run).map_err(|error| error.to_string())?;
                let row = row.ok_or_else(|| format!("{run} of {workspace} does not exist"))?;
                if row.status != Status::Completed || row.owner.is_some() {
                    return Err(format!("{run} of {workspace} is {}", row.status));
                }
                entries += row.seq as usize;
            }
            Ok(entries)
        })
    }
}
