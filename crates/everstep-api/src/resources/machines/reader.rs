//! Which runs a caller may read.
//!
//! A caller with `workflow:view` may read every run. A caller with `workflow:act` alone may read a run of a state
//! machine that concerns them: they started it, are or were assigned, acted in it, or can act now. For them, no other
//! run exists.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::ids::RunId;
use everstep_core::machine::{self, Rights};
use everstep_core::meter::Meter;
use everstep_core::run::{Cx, State};
use everstep_core::workflow::Workflow;
use everstep_engine::{Error, LoadedRun};
use everstep_store::RunRow;

use crate::auth::{Caller, Permission};
use crate::http::problem::Problem;
use crate::resources::runs::read_id;
use crate::server::AppState;

/// A caller, with their rights in runs of state machines.
pub(crate) struct Reader {
    pub(crate) actor: Actor,
    pub(crate) rights: Rights,
    /// Whether the caller may read every run.
    sees_all: bool,
}

/// A run of a state machine, with its state as the journal has it.
pub(super) struct MachineRun {
    pub(super) row: RunRow,
    pub(super) workflow: Arc<Workflow>,
    pub(super) state: State,
}

impl Reader {
    pub(crate) async fn from_caller(app: &AppState, caller: &Caller) -> Result<Self, Problem> {
        let rights = app.role_maps.rights(caller, app.engine.world().clock.now()).await?;
        Ok(Self { actor: caller.actor(), rights, sees_all: caller.may(Permission::View) })
    }

    /// Whether the caller may read a run in this state.
    pub(super) fn may_read(&self, app: &AppState, workflow: &Workflow, state: &State) -> bool {
        self.sees_all || machine::may_read(workflow, state, &self.actor, &self.rights, cx(app, &Meter::new()))
    }

    pub(super) fn sees_all(&self) -> bool {
        self.sees_all
    }
}

/// The present time, the evaluator of the engine, and the meter of one answer.
pub(crate) fn cx<'a>(app: &'a AppState, meter: &'a Meter) -> Cx<'a> {
    let world = app.engine.world();
    Cx { now: world.clock.now(), evaluate: &*world.evaluate, meter }
}

/// Loads a run of a state machine for a caller. A run that they may not read does not exist.
pub(super) async fn load(app: &AppState, caller: &Caller, reader: &Reader, id: &str) -> Result<MachineRun, Problem> {
    let run = load_any(app, caller, read_id(id)?).await?;
    if reader.may_read(app, &run.workflow, &run.state) {
        return if run.state.machine().is_some() { Ok(run) } else { Err(not_a_machine(run.row.id)) };
    }
    Err(Error::RunNotFound(run.row.id).into())
}

/// Rejects a caller who may not read a run, as if the run did not exist.
pub(crate) async fn check_reader(app: &AppState, caller: &Caller, run: RunId) -> Result<(), Problem> {
    if caller.may(Permission::View) {
        return Ok(());
    }
    let reader = Reader::from_caller(app, caller).await?;
    let loaded = load_any(app, caller, run).await?;
    match reader.may_read(app, &loaded.workflow, &loaded.state) {
        true => Ok(()),
        false => Err(Error::RunNotFound(run).into()),
    }
}

/// Loads a run of the caller's workspace.
async fn load_any(app: &AppState, caller: &Caller, run: RunId) -> Result<MachineRun, Problem> {
    let LoadedRun { row, workflow, state } = app.engine.runs().load(run).await?;
    if row.workspace != caller.workspace {
        return Err(Error::RunNotFound(run).into());
    }
    match workflow.zip(state) {
        Some((workflow, state)) => Ok(MachineRun { row, workflow, state }),
        None if caller.may(Permission::View) => {
            let detail = format!("run {run} was written by a newer release");
            Err(Problem::unavailable(detail).hint("send the request to a node of that release"))
        }
        None => Err(Error::RunNotFound(run).into()),
    }
}

/// The answer to a request that only runs of state machines support.
fn not_a_machine(run: RunId) -> Problem {
    let detail = format!("run {run} is not a run of a state machine, and has no actions");
    let hint = "GET /v1/runs/{id} shows what it waits for; send it a signal with POST /v1/runs/{id}/signals/{event}";
    Problem::new(axum::http::StatusCode::CONFLICT, "INVALID_TRANSITION", detail).hint(hint)
}
