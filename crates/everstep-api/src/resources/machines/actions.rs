//! `GET /v1/runs/{id}/actions`: the present state of a run, and the actions of the caller in it.

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::machine;
use everstep_core::meter::Meter;
use everstep_engine::MachineSnapshot;

use super::reader::{self, MachineRun, Reader};
use super::wire::{Actions, AvailableAction, ShownFields, Votes};
use crate::auth::Caller;
use crate::http::problem::Problem;
use crate::http::time::Time;
use crate::resources::workflows;
use crate::server::AppState;

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Actions>, Problem> {
    let reader = Reader::from_caller(&app, &caller).await?;
    let run = reader::load(&app, &caller, &reader, &id).await?;
    show_checked(&app, &caller, reader, run).await.map(|(_, actions)| Json(actions))
}

/// Shows the actions of a run, whose conditions are evaluated on a thread for checks.
pub(super) async fn show_checked(
    app: &AppState,
    caller: &Caller,
    reader: Reader,
    run: MachineRun,
) -> Result<(MachineRun, Actions), Problem> {
    let evaluated = workflows::check(app, caller, move |app, _| {
        let actions = show(app, &reader, &run)?;
        Ok((run, actions))
    });
    evaluated.await
}

fn show(app: &AppState, reader: &Reader, run: &MachineRun) -> Result<Actions, Problem> {
    let MachineRun { row, workflow, state } = run;
    let no_state = || Problem::unavailable(format!("run {} has no state yet; try again", row.id));
    let MachineSnapshot { situation, due, assigned, votes } =
        MachineSnapshot::from_state(workflow, state).ok_or_else(no_state)?;
    let shown = machine::shown(workflow, state).ok_or_else(no_state)?;
    let views = match state.has_ended() {
        true => Vec::new(),
        false => machine::actions(workflow, state, &reader.actor, &reader.rights, reader::cx(app, &Meter::new())),
    };
    Ok(Actions {
        state: situation.state,
        title: situation.title,
        version_no: situation.version_no,
        since: Time::from_timestamp(situation.since),
        due: due.map(Time::from_timestamp),
        assigned,
        votes: votes.into_iter().map(Votes::from_tally).collect(),
        shown: ShownFields::from_core(shown),
        actions: views.into_iter().map(AvailableAction::from_view).collect(),
    })
}
