//! What the entries of a run so far add up to.

use std::sync::Arc;

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::journal::codec;
use everstep_core::journal::{Entry, Kind};
use everstep_core::payload::Payload;
use everstep_core::run::State;
use everstep_core::status::Status;
use everstep_core::workflow::Workflow;
use everstep_engine::Look;
use everstep_store::StoredEntry;

use crate::problem::Problem;
use crate::runs::{self, Where};
use crate::server::Served;
use crate::wire::Run;

/// A run as it stands at the seq [`Snapshot::seq`], with all that is needed to go on from there.
pub(crate) struct Snapshot {
    pub(crate) run: Run,
    pub(crate) seq: u64,
    pub(crate) fold: Fold,
}

impl Snapshot {
    /// Reads a run of a workspace, at one moment.
    pub(crate) async fn take(served: &Served, workspace: WorkspaceId, run: RunId) -> Result<Self, Problem> {
        let row = runs::row(served, workspace, run).await?;
        let workflow = served.engine.library().of_run(&row).await;
        let _permit = served.live.loads.acquire().await.expect("nobody closes it");
        let Some(loaded) = served.engine.world().runs.load_run(run).await? else {
            return Err(everstep_engine::Error::RunNotFound(run).into());
        };
        let state = |workflow: Arc<Workflow>| runs::fold(&loaded, &workflow).map(|state| (workflow, state));
        let fold = Fold { status: loaded.run.status, folded: workflow.ok().and_then(state) };
        let (seq, has_ended) = (loaded.run.seq, loaded.run.ended_at.is_some());
        let run = match &fold.folded {
            Some((workflow, state)) if !has_ended => {
                let look = Look::of(state);
                let for_worker = runs::for_worker(served, &loaded.run, workflow, &look, Where::Anywhere).await;
                Run::of(loaded.run).seen(look, for_worker)
            }
            _ => Run::of(loaded.run),
        };
        Ok(Self { run, seq, fold })
    }

    /// Refuses to go on from an entry that is not there.
    pub(crate) fn check(&self, after: u64) -> Result<(), Problem> {
        if after <= self.seq {
            return Ok(());
        }
        let detail = format!("the run's last entry is {}; there is nothing after {after}", self.seq);
        Err(Problem::invalid(detail).hint("send the seq of an entry of this run, or nothing"))
    }
}

/// The status and the context of a run, entry by entry.
pub(crate) struct Fold {
    /// The status by the entries alone, for a journal that this build cannot fold.
    status: Status,
    folded: Option<(Arc<Workflow>, State)>,
}

impl Fold {
    /// Takes the next entry; one that cannot be read comes back as nothing.
    pub(crate) fn apply(&mut self, stored: &StoredEntry) -> Option<Entry> {
        self.status = status_after(stored.row.kind, self.status);
        let entry = codec::decode(stored.seq, stored.at, stored.row.clone()).ok();
        let is_folded = match (&entry, &mut self.folded) {
            // What was folded already is not folded again.
            (Some(entry), Some((_, state))) if entry.seq <= state.seq => true,
            (Some(entry), Some((workflow, state))) => state.apply(workflow, entry).is_ok(),
            _ => false,
        };
        if !is_folded {
            self.folded = None;
        }
        entry
    }

    pub(crate) fn status(&self) -> Status {
        self.folded.as_ref().map_or(self.status, |(_, state)| state.status())
    }

    /// The context without what begins with `__`; null where this build cannot tell.
    pub(crate) fn context(&self) -> Payload {
        self.folded.as_ref().map_or_else(Payload::null, |(workflow, state)| state.context(workflow))
    }

    /// The name of the part of the workflow that a step runs.
    pub(crate) fn name_of<'a>(&self, step: &'a StepKey) -> &'a str {
        self.folded.as_ref().map_or(step.place(), |(workflow, _)| workflow.style.name_of(step))
    }

    /// Why the run failed or was paused.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.folded.as_ref().and_then(|(_, state)| state.failure())
    }
}

fn status_after(kind: Kind, before: Status) -> Status {
    match kind {
        Kind::RunStarted | Kind::RunResumed | Kind::RunRetried => Status::Running,
        Kind::RunPaused => Status::Paused,
        Kind::RunCompleted => Status::Completed,
        Kind::RunFailed => Status::Failed,
        Kind::RunCancelled => Status::Cancelled,
        Kind::StepDispatched
        | Kind::StepCompleted
        | Kind::StepFailed
        | Kind::StepSkipped
        | Kind::TimerSet
        | Kind::TimerFired
        | Kind::WaitOpened
        | Kind::WaitResolved
        | Kind::SignalBuffered
        | Kind::TurnStarted
        | Kind::TurnLost
        | Kind::ContextSet => before,
    }
}
