//! `/v1/test-runs`: runs of a definition that is not saved.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use everstep_core::limits;
use everstep_core::run::Input;
use everstep_core::strict::StrictValue;
use everstep_engine::{RunInput, Start};

use super::show;
use super::start;
use super::wire::{Started, TestRun};
use crate::audit::AuditDraft;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::resources::workflows;
use crate::run_deadline::within_run_deadline;
use crate::server::AppState;

/// Bytes of a definition with its input.
const BODY_BYTES_MAX: usize = 16 * 1024 * 1024 + limits::PAYLOAD_BYTES;

type Answer = Result<(StatusCode, [(header::HeaderName, HeaderValue); 1], Json<Started>), Problem>;

/// Starts a run of a definition, which is checked as for saving.
pub(crate) async fn post(State(app): State<AppState>, audit: AuditDraft, body: Body<BODY_BYTES_MAX>) -> Answer {
    let checked = workflows::check(&app, audit.caller(), move |app, publisher| {
        let TestRun { definition, input } = body.json()?;
        start::check_size(&input)?;
        let StrictValue(definition) = serde_json::from_str(definition.json()).map_err(|error| {
            Problem::invalid(format!("the definition does not have the form that this route expects: {error}"))
        })?;
        let version = app.engine.library().compile_test(&definition, Some(publisher)).map_err(workflows::refuse)?;
        Ok((version, input))
    });
    let (version, input) = checked.await?;
    let (workspace, row) = (audit.caller().workspace, audit.row(StatusCode::CREATED));
    let by = Some(audit.caller().actor());
    let start = Start { workspace, by, audit: Some(row), ..Start::of_version(&version, input) };
    let started = within_run_deadline(&app, app.engine.start_run(start)).await?;
    audit.record(started.created);
    let run = show::show(&app, show::row(&app, workspace, started.run).await?).await?;
    let place = HeaderValue::from_str(&format!("/v1/runs/{}", started.run)).expect("an id is plain text");
    Ok((StatusCode::CREATED, [(header::LOCATION, place)], Json(Started { run, created: true, warning: None })))
}

/// Stops a test run and deletes it, with its journal.
pub(crate) async fn delete(
    State(app): State<AppState>,
    audit: AuditDraft,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    let workspace = audit.caller().workspace;
    let row = show::row(&app, workspace, show::read_id(&id)?).await?;
    if !row.is_test {
        let detail = format!("run {} is not a test run", row.id);
        let hint = "stop a run with POST /v1/runs/{id}/cancel; it is deleted when its retention has passed";
        return Err(Problem::new(StatusCode::CONFLICT, "NOT_A_TEST_RUN", detail).hint(hint));
    }
    if row.ended_at.is_none() {
        let input = Input::Cancel { reason: Some("the test was stopped".to_owned()) };
        // The run may not be deleted at once, so the status is not known.
        let addressed = RunInput { audit: Some(audit.shared_row()), ..RunInput::new(workspace, row.id, input) };
        // The answer matters only to the audit: the run may have ended by itself.
        audit.record(within_run_deadline(&app, app.engine.route(addressed)).await?.is_recorded());
    }
    if !app.engine.delete_test_run(workspace, row.id).await? {
        return Err(Problem::unavailable("the test run has not ended yet; try again"));
    }
    Ok(StatusCode::NO_CONTENT)
}
