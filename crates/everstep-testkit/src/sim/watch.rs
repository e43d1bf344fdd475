//! The conditions at every moment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId};
use everstep_core::run::{OpenActivity, OpenStep};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::{CommitOutcome, Gate, Item, RunRow, WaitChange};

use super::executor::BEGIN;
use super::judge::{Judge, is_code};
use super::ledger::Ledger;
use super::server::Server;
use super::store::SimStore;

/// Observations of the database's operations, in their order.
impl SimStore {
    /// A fenced node writes nothing, and the writer of every entry is recorded.
    pub(super) fn watch_commit(&self, node: NodeId, items: &[Item], outcomes: &[CommitOutcome]) {
        let mut ledger = self.ledger();
        for (item, outcome) in items.iter().zip(outcomes) {
            let seqs = item.entries.first().map_or(0, |entry| entry.seq)..=item.entries.last().map_or(0, |e| e.seq);
            self.executor.note(|| format!("server {} as {node}: {} {seqs:?}: {outcome:?}", self.machine, item.run));
            if !matches!(outcome, CommitOutcome::Applied(_)) {
                continue;
            }
            if let Some(at) = ledger.fenced.get(&node) {
                let text = format!("{} was written by {node}, which was fenced at {at}", item.run);
                ledger.violation(text);
            }
            if let Gate::Start(new) = &item.gate
                && new.parent.is_some()
            {
                ledger.children.insert(item.run);
            }
            if matches!(item.gate, Gate::Start(_)) && item.entries.is_empty() {
                ledger.pending.insert(item.run);
            }
            for change in &item.waits {
                if let WaitChange::Open(wait) = change {
                    ledger.order.note_wait(item.run, &wait.step);
                }
            }
            for event in item.side.iter().flat_map(|side| &side.published) {
                ledger.order.note_event(event.id);
            }
            for entry in &item.entries {
                ledger.writers.insert((item.run, entry.seq), node);
            }
        }
    }

    /// A fenced node claims nothing.
    pub(super) fn watch_claims(&self, node: NodeId, runs: &[RunId]) {
        let mut ledger = self.ledger();
        for run in runs {
            self.executor.note(|| format!("server {} as {node} claims {run}", self.machine));
            if ledger.fenced.contains_key(&node) {
                ledger.violation(format!("{run} was claimed by {node}, which is fenced"));
            }
        }
    }

    /// A node that has run and reached the database for a whole lease is not fenced.
    pub(super) fn watch_fence(&self, node: NodeId) {
        let now = self.executor.now();
        self.executor.note(|| format!("server {} fences {node}", self.machine));
        let mut ledger = self.ledger();
        ledger.fenced.insert(node, now);
        let Some(member) = ledger.members.get(&node).filter(|member| member.died_at.is_none()) else { return };
        let well_since = ledger.well_since(member.machine, now).map(|since| since.max(member.joined_at));
        if let Some(since) = well_since.filter(|since| now.since(*since) >= ledger.lease) {
            let machine = member.machine;
            ledger
                .violation(format!("{node} on server {machine} was fenced although it has been healthy since {since}"));
        }
    }

    pub(super) fn watch_leave(&self, node: NodeId) {
        let now = self.executor.now();
        self.executor.note(|| format!("server {} leaves as {node}", self.machine));
        self.ledger().fenced.insert(node, now);
    }
}

/// Checks all runs now and then: no run is stranded.
///
/// 1. A run that a dead or fenced node owned continues within two leases, if a node could claim it.
/// 2. A node with room claims every unowned run that is due.
/// 3. An unowned run without a wake time waits for an input.
pub(super) struct Watch {
    judge: Arc<Judge>,
    servers: Vec<Server>,
    next: Timestamp,
    /// Runs that could have been claimed, and since when.
    claimable: BTreeMap<RunId, Timestamp>,
}

impl Watch {
    pub(super) fn new(judge: Arc<Judge>, servers: Vec<Server>) -> Self {
        Self { judge, servers, next: BEGIN, claimable: BTreeMap::new() }
    }

    pub(super) fn look(&mut self) -> Result<(), String> {
        let now = self.judge.store.executor.now();
        let (runs, lease) = {
            let ledger = self.judge.store.ledger();
            if now < self.next || !ledger.is_shared {
                return Ok(());
            }
            (ledger.runs(), ledger.lease)
        };
        self.next = now.plus(lease / 4);
        for run in runs {
            let row = self.judge.row(run)?;
            if row.ended_at.is_some() {
                self.claimable.remove(&run);
                continue;
            }
            match row.owner {
                Some(owner) => {
                    self.claimable.remove(&run);
                    self.check_owner(&row, owner, now)?;
                }
                None if row.wake_at == Timestamp::NEVER => self.check_waiting(&row)?,
                // The workers determine whether there is room for it.
                None if is_code(&row) => {}
                None => self.check_claimable(&row, now)?,
            }
        }
        Ok(())
    }

    fn check_owner(&self, row: &RunRow, owner: NodeId, now: Timestamp) -> Result<(), String> {
        let ledger = self.judge.store.ledger();
        let patience = patience(&ledger);
        let Some(gone_since) = ledger.gone_since(owner) else { return Ok(()) };
        let is_late = now.since(gone_since.max(ledger.set_back_until)) > patience;
        let is_steady = |machine| {
            let since = ledger.steady_since(machine, now);
            since.is_some_and(|since| now.since(since) > patience)
        };
        if is_late && (0..ledger.machines.len()).any(is_steady) {
            return Err(format!("{} is still owned by {owner}, which has not existed since {gone_since}", row.id));
        }
        Ok(())
    }

    fn check_claimable(&mut self, row: &RunRow, now: Timestamp) -> Result<(), String> {
        let ledger = self.judge.store.ledger();
        let patience = patience(&ledger);
        let engines: Vec<_> = self.servers.iter().map(Server::engine).collect();
        let is_due = |engine: &everstep_engine::Engine| engine.world().clock.now() >= row.wake_at;
        let could_claim = engines.iter().enumerate().any(|(machine, engine)| {
            let max = ledger.machines[machine].max_active_runs;
            // Claims leave the last quarter to the starts of other workspaces.
            let places =
                if ledger.neighbours.is_empty() { max } else { max - max.div_ceil(4).min(max.saturating_sub(1)) };
            let has_room = engine.as_ref().is_some_and(|engine| is_due(engine) && engine.active_runs() < places);
            let steady_since = ledger.steady_since(machine, now);
            has_room && steady_since.is_some_and(|since| now.since(since) > patience)
        });
        if !could_claim {
            self.claimable.remove(&row.id);
            return Ok(());
        }
        let since = *self.claimable.entry(row.id).or_insert(now);
        if now.since(since) > patience {
            return Err(format!("{} has been due since {} and no node claims it", row.id, row.wake_at));
        }
        Ok(())
    }

    fn check_waiting(&mut self, row: &RunRow) -> Result<(), String> {
        self.claimable.remove(&row.id);
        let journal = self.judge.journal(row.id)?;
        let state = self.judge.fold(row, &journal)?;
        let waits = |open: OpenStep<'_>| match open.activity {
            OpenActivity::Wait { due, .. } => due.is_none(),
            // Only its parent would start it.
            OpenActivity::Child(child) => self.judge.row(child.run).is_ok(),
            OpenActivity::Task
            | OpenActivity::Delay { .. }
            | OpenActivity::Backoff { .. }
            | OpenActivity::Body { .. }
            | OpenActivity::Soon => false,
        };
        // A machine waits for a person, unless a timer of its state is open.
        let waits_for_person = state.place_of_machine().is_some() && state.next_due().is_none();
        // A run that has not begun is paused by its row alone.
        let is_held = journal.is_empty() && row.status == Status::Paused;
        if is_held || state.is_paused() || waits_for_person || state.open().any(waits) {
            return Ok(());
        }
        Err(format!("{} has no owner and no wake time, and waits for nothing", row.id))
    }
}

/// The maximum time until a node continues the runs of another.
fn patience(ledger: &Ledger) -> Duration {
    ledger.lease * 2 + ledger.lease / 2
}
