//! What must hold once a simulation is over.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use everstep_core::codec;
use everstep_core::event::{Entry, Event};
use everstep_core::graph;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::law;
use everstep_core::state::State;
use everstep_core::workflow::{Style, Workflow};
use everstep_engine::World;
use everstep_store::RunRow;

use super::store::SimStore;

/// Reads runs and judges them by the laws.
pub(super) struct Judge {
    pub(super) store: SimStore,
    pub(super) world: World,
}

pub(super) struct Judged {
    pub(super) entries: usize,
    pub(super) digest: u64,
}

impl Judge {
    pub(super) fn row(&self, run: RunId) -> Result<RunRow, String> {
        let row = self.store.direct(|db| db.get_run(WorkspaceId::DEFAULT, run)).map_err(|error| error.to_string())?;
        row.ok_or_else(|| format!("{run} was answered as started and is not there"))
    }

    pub(super) fn workflow(&self, row: &RunRow) -> Result<Workflow, String> {
        let found = self.store.direct(|db| db.workflow(row.workspace, &row.workflow, Some(row.version)));
        let found = found.map_err(|error| error.to_string())?.ok_or("the workflow is gone")?;
        let graph = graph::compile(found.definition.value(), &*self.world.handlers, &*self.world.evaluate)
            .map_err(|problems| format!("{problems:?}"))?;
        Ok(Workflow { name: found.name, version: found.version, style: Style::Graph(graph) })
    }

    pub(super) fn journal(&self, run: RunId) -> Result<Vec<Entry>, String> {
        let stored = self.store.direct(|db| db.journal(run, 0, 1_000_000)).map_err(|error| error.to_string())?;
        let read = |stored: everstep_store::StoredEntry| {
            codec::decode(stored.seq, stored.at, stored.row).map_err(|error| error.to_string())
        };
        stored.into_iter().map(read).collect()
    }

    /// Whether a state that the engine holds is the fold of the journal up to its seq.
    pub(super) fn compare(&self, held: &State) -> Result<(), String> {
        let workflow = self.workflow(&self.row(held.run)?)?;
        let journal = self.journal(held.run)?;
        let upto = journal.get(..held.seq as usize).ok_or("the engine holds entries that are not durable")?;
        let folded = State::fold(held.run, &workflow, upto).map_err(|misfit| misfit.to_string())?;
        if folded == *held { Ok(()) } else { Err(format!("{}: the state is not the fold of its journal", held.run)) }
    }

    /// Judges all runs.
    pub(super) fn verdict(
        &self,
        started: &BTreeMap<String, RunId>,
        posted: &BTreeMap<RunId, usize>,
    ) -> Result<Judged, String> {
        let mut hasher = DefaultHasher::new();
        let mut entries = 0;
        let mut expected = 0;
        for (key, run) in started {
            let row = self.row(*run)?;
            if row.key.as_ref().map(|(_, key)| key) != Some(key) {
                return Err(format!("{run} was answered for key {key} and has {:?}", row.key));
            }
            let journal = self.journal(*run)?;
            let workflow = self.workflow(&row)?;
            let state = law::check(*run, &workflow, &journal, &*self.world.evaluate, false)
                .map_err(|fault| format!("{run}: {fault}\n{}", show(&journal)))?;
            if !state.has_ended() || row.ended_at.is_none() || row.status != state.status() {
                return Err(format!("{run} is {} and its row says {}", state.status(), row.status));
            }
            if row.owner.is_some() {
                return Err(format!("{run} has ended and is owned"));
            }
            let answered = journal.iter().filter(|entry| is_letter(&entry.event)).count();
            if answered > posted.get(run).copied().unwrap_or(0) {
                return Err(format!("{run}: {answered} waits were answered by {:?} letters", posted.get(run)));
            }
            entries += journal.len();
            expected += journal.len();
            format!("{journal:?}").hash(&mut hasher);
        }
        let stored = self.store.direct(|db| db.count_entries()).map_err(|error| error.to_string())?;
        if stored != expected as u64 {
            return Err(format!("{stored} entries are stored, {expected} belong to runs that were started"));
        }
        Ok(Judged { entries, digest: hasher.finish() })
    }
}

/// Whether a wait was answered by a letter.
fn is_letter(event: &Event) -> bool {
    matches!(event, Event::StepCompleted { outcome, .. } if outcome.output.json() == r#"{"letter":true}"#)
}

/// A journal's last entries, for people.
pub(super) fn show(journal: &[Entry]) -> String {
    let from = journal.len().saturating_sub(12);
    let lines = journal[from..].iter().map(|entry| {
        let step = entry.event.step().map(|(step, attempt)| format!(" {step} #{attempt}")).unwrap_or_default();
        format!("    {} {}{step}", entry.seq, entry.event.kind().name())
    });
    lines.collect::<Vec<_>>().join("\n")
}
