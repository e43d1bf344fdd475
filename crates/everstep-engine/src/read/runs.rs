//! The one reader of runs.

use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::run::State;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::{RunFilter, RunGlance, RunPage, RunRow, Snapshot, StoredEntry, StoredRun, WaitKind, WaitRow};

use super::journal::{self, JournalEntry};
use super::shared_read::SharedReads;
use super::snapshot::RunSnapshot;
use crate::engine::Engine;
use crate::error::Error;
use crate::ports::Spawn;

/// Reads runs: the only code that pages through journals, decodes them, and handles snapshots and entries that this
/// build cannot read.
#[derive(Clone)]
pub struct Runs {
    pub(super) engine: Engine,
}

/// A run as the database had it at one moment.
pub struct LoadedRun {
    pub row: RunRow,
    /// None if this build cannot read the workflow.
    pub workflow: Option<Arc<Workflow>>,
    /// None if this build cannot read all of the journal.
    pub state: Option<State>,
}

/// A run with the part of its journal that its state was folded from.
pub struct JournaledRun {
    pub loaded: LoadedRun,
    pub(super) snapshot: Option<Snapshot>,
    /// The entries after the snapshot.
    pub(super) entries: Vec<StoredEntry>,
}

/// Reads of runs that concurrent callers share: if fifty persons act in one run, the run is not read fifty times.
pub(crate) struct RunReads {
    glances: Arc<SharedReads<(WorkspaceId, RunId), Option<RunGlance>>>,
    loads: Arc<SharedReads<RunId, Arc<JournaledRun>>>,
}

impl RunReads {
    pub(crate) fn new(spawn: &Arc<dyn Spawn>) -> Self {
        Self { glances: SharedReads::new(Arc::clone(spawn)), loads: SharedReads::new(Arc::clone(spawn)) }
    }
}

impl Engine {
    /// Reads runs.
    pub fn runs(&self) -> Runs {
        Runs { engine: self.clone() }
    }
}

impl Runs {
    /// A run's row. A run of another workspace does not exist.
    pub async fn row(&self, workspace: WorkspaceId, run: RunId) -> Result<RunRow, Error> {
        let row = self.engine.world().runs.get_run(workspace, run).await?;
        row.ok_or(Error::RunNotFound(run))
    }

    /// The small columns of a run. A run of another workspace does not exist. Concurrent callers share a read that
    /// began after their calls.
    pub async fn glance(&self, workspace: WorkspaceId, run: RunId) -> Result<RunGlance, Error> {
        let store = Arc::clone(&self.engine.world().runs);
        let read = move |(workspace, run)| {
            let store = Arc::clone(&store);
            async move { store.glance(workspace, run).await }
        };
        let glance = self.engine.reads().glances.find((workspace, run), read).await?;
        glance.ok_or(Error::RunNotFound(run))
    }

    /// Runs of a workspace, newest first. Paging is by keyset: runs created while you page do not shift later pages.
    pub async fn list(
        &self,
        workspace: WorkspaceId,
        filter: RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage, Error> {
        Ok(self.engine.world().runs.list_runs(workspace, filter, after, limit).await?)
    }

    /// Open waits of a workspace, after one of them, by run and step.
    pub async fn waits(
        &self,
        workspace: WorkspaceId,
        kind: WaitKind,
        workflow: Option<String>,
        after: Option<(RunId, StepKey)>,
        limit: usize,
    ) -> Result<Vec<WaitRow>, Error> {
        Ok(self.engine.world().runs.list_waits(workspace, kind, workflow, after, limit).await?)
    }

    /// A run with its state, read at one moment.
    pub async fn load(&self, run: RunId) -> Result<LoadedRun, Error> {
        Ok(self.load_journaled(run).await?.loaded)
    }

    /// A run with its state and its last entries, read at one moment. Concurrent callers share a read that began after
    /// their calls.
    pub async fn load_shared(&self, run: RunId) -> Result<Arc<JournaledRun>, Error> {
        let runs = self.clone();
        let read = move |run| {
            let runs = runs.clone();
            async move { runs.load_journaled(run).await.map(Arc::new) }
        };
        self.engine.reads().loads.find(run, read).await
    }

    async fn load_journaled(&self, run: RunId) -> Result<JournaledRun, Error> {
        let stored = self.engine.world().runs.load_run(run).await?.ok_or(Error::RunNotFound(run))?;
        let workflow = self.engine.library().of_run(&stored.run).await.ok();
        let mut state = match &workflow {
            Some(workflow) if stored.unreadable.is_none() => self.engine.library().fold(&stored, workflow).ok(),
            Some(_) | None => None,
        };
        if state.is_none() && workflow.is_some() && stored.snapshot.is_some() && stored.unreadable.is_none() {
            // This build cannot use the snapshot.
            state = self.state_at(&stored.run, stored.run.seq).await.ok().map(|(_, state)| state);
        }
        let StoredRun { run: row, snapshot, entries, .. } = stored;
        Ok(JournaledRun { loaded: LoadedRun { row, workflow, state }, snapshot, entries })
    }

    /// The state that a run had after an entry, with its workflow. The journal is read from its beginning.
    pub async fn state_at(&self, row: &RunRow, seq: u64) -> Result<(Arc<Workflow>, State), Error> {
        let workflow = self.engine.library().of_run(row).await?;
        let mut state = State::new(row.id, &workflow);
        let fold = |stored| {
            let entry = JournalEntry::decode(stored).entry.map_err(|error| Error::Busy(error.to_string()))?;
            state.apply(&workflow, &entry).map_err(|error| Error::Busy(error.to_string()))?;
            Ok(())
        };
        journal::read_until(&*self.engine.world().runs, row.id, seq, fold).await?;
        Ok((workflow, state))
    }
}

impl LoadedRun {
    /// The activity of the run, by its state; none if it has ended or cannot be read.
    pub fn snapshot(&self) -> Option<RunSnapshot> {
        let (workflow, state) = self.workflow.as_ref().zip(self.state.as_ref())?;
        let snapshot = || RunSnapshot { status: self.status(), ..RunSnapshot::from_state(workflow, state) };
        self.row.ended_at.is_none().then(snapshot)
    }

    /// The status by the state, or by the row if the state cannot be read or the run has not begun.
    pub fn status(&self) -> Status {
        self.state.as_ref().filter(|state| state.seq > 0).map_or(self.row.status, State::status)
    }

    /// Why the run failed or is paused.
    pub fn failure(&self) -> Option<&Failure> {
        self.state.as_ref().and_then(State::failure)
    }
}
