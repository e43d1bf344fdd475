//! States of parked runs that were folded before.
//!
//! Every input of a parked run loads the run. A state is a function of the journal alone, and a journal only grows, so
//! that a state that was folded up to some entry stays right: the next load folds only the entries after it. Without
//! this, each request to a run with a large context parses the whole context again, and a caller whose requests are
//! refused could occupy a node with it.
//!
//! Small states are not kept: folding them is cheaper. The memory of the others is bounded; the state that was not used
//! for the longest time leaves first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use everstep_core::ids::RunId;
use everstep_core::journal::codec;
use everstep_core::run::{SNAPSHOT_FORMAT, State};
use everstep_core::workflow::Workflow;
use everstep_store::{Snapshot, StoredRun};

/// States of less than this weight are not kept.
const WEIGHT_MIN: usize = 32 * 1024;
/// The approximate memory of all kept states.
const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Parsed JSON needs several times the memory of its text.
const BYTES_PER_WEIGHT: usize = 8;

#[derive(Default)]
pub(crate) struct FoldedStates(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    states: BTreeMap<RunId, KeptState>,
    /// The runs in the order of their last use.
    uses: BTreeMap<u64, RunId>,
    bytes: usize,
    next_use: u64,
}

struct KeptState {
    last_use: u64,
    bytes: usize,
    /// The version that the state was folded with.
    workflow: Arc<Workflow>,
    state: State,
}

impl FoldedStates {
    /// The state of a loaded run after its last entry, or why this build cannot read the journal.
    pub(crate) fn fold(&self, loaded: &StoredRun, workflow: &Arc<Workflow>) -> Result<State, String> {
        let first = loaded.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
        let last = loaded.entries.last().map_or(first, |entry| entry.seq);
        let known = self.find(loaded.run.id, workflow).filter(|state| (first..=last).contains(&state.seq));
        let mut state = match (known, &loaded.snapshot) {
            (Some(state), _) => state,
            (None, Some(snapshot)) => read_snapshot(snapshot, workflow)?,
            (None, None) => State::new(loaded.run.id, workflow),
        };
        let known_seq = state.seq;
        for stored in loaded.entries.iter().filter(|entry| entry.seq > known_seq) {
            let entry = codec::decode(stored.seq, stored.at, stored.row.clone()).map_err(|error| error.to_string())?;
            state.apply(workflow, &entry).map_err(|error| error.to_string())?;
        }
        // An owned run stays in memory.
        if loaded.run.owner.is_none() {
            self.keep(workflow, &state);
        }
        Ok(state)
    }

    fn find(&self, run: RunId, workflow: &Arc<Workflow>) -> Option<State> {
        let mut kept = self.kept();
        let next_use = kept.next_use;
        let found = kept.states.get_mut(&run).filter(|found| Arc::ptr_eq(&found.workflow, workflow))?;
        let (last_use, state) = (std::mem::replace(&mut found.last_use, next_use), found.state.clone());
        kept.uses.remove(&last_use);
        kept.uses.insert(next_use, run);
        kept.next_use += 1;
        Some(state)
    }

    fn keep(&self, workflow: &Arc<Workflow>, state: &State) {
        let weight = state.weight();
        let bytes = weight.saturating_mul(BYTES_PER_WEIGHT);
        if weight < WEIGHT_MIN || bytes > BYTES_MAX / 4 {
            return;
        }
        let mut kept = self.kept();
        kept.remove(state.run);
        while kept.bytes + bytes > BYTES_MAX {
            let Some((_, run)) = kept.uses.pop_first() else { break };
            kept.remove(run);
        }
        let last_use = kept.next_use;
        kept.next_use += 1;
        kept.bytes += bytes;
        kept.uses.insert(last_use, state.run);
        let kept_state = KeptState { last_use, bytes, workflow: Arc::clone(workflow), state: state.clone() };
        kept.states.insert(state.run, kept_state);
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

impl Kept {
    fn remove(&mut self, run: RunId) {
        if let Some(removed) = self.states.remove(&run) {
            self.uses.remove(&removed.last_use);
            self.bytes -= removed.bytes;
        }
    }
}

/// Whether this build can use a snapshot.
pub(crate) fn is_usable(snapshot: &Snapshot) -> bool {
    snapshot.format == SNAPSHOT_FORMAT && serde_json::from_slice::<State>(&snapshot.state).is_ok()
}

fn read_snapshot(snapshot: &Snapshot, workflow: &Workflow) -> Result<State, String> {
    if snapshot.format != SNAPSHOT_FORMAT {
        return Err(format!("the snapshot has format {}, not {SNAPSHOT_FORMAT}", snapshot.format));
    }
    State::from_snapshot(workflow, &snapshot.state)
}
