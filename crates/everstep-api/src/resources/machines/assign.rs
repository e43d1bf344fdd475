//! `POST /v1/runs/{id}/assign`: assigns the present state to other persons, or replaces a voter.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::machine::{self, AssignmentChange};
use everstep_core::run::Input;
use everstep_engine::RunInput;
use serde_json::json;

use super::attempt::AttemptFacts;
use super::digest::digest;
use super::reader::Reader;
use super::transition;
use super::wire::{AssignRequest, Assignment};
use crate::audit::AuditDraft;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::resources::runs::read_id;
use crate::server::AppState;

/// Bytes of a request: a thousand names.
const BODY_BYTES_MAX: usize = 1024 * 1024;

pub(crate) async fn post(
    State(app): State<AppState>,
    audit: AuditDraft,
    Path(id): Path<String>,
    key: IdempotencyKey,
    body: Body<BODY_BYTES_MAX>,
) -> Result<Json<Assignment>, Problem> {
    let AssignRequest { who, voter, reason } = body.json()?;
    let change = match (who, voter) {
        (Some(who), None) => AssignmentChange::Who(who),
        (None, Some(voter)) => AssignmentChange::Voter { from: voter.from, to: voter.to },
        (Some(_), Some(_)) | (None, None) => {
            let hint = "{\"who\": [\"ann\"]}, or {\"voter\": {\"from\": \"ann\", \"to\": \"bob\"}}";
            return Err(Problem::invalid("send either who or voter").hint(hint));
        }
    };
    let run = read_id(&id)?;
    let caller = audit.caller();
    let reader = Reader::from_caller(&app, caller).await?;
    let digest = digest(&json!({"assign": change, "reason": reason}));
    let (by, rights) = (reader.actor.clone(), reader.rights.clone());
    let assignment = machine::Assignment { by, rights, change, reason, digest };
    let input = Input::Assign(Box::new(assignment));
    let row = Some(audit.row(StatusCode::OK));
    let addressed = RunInput { key: key.into_inner(), audit: row, ..RunInput::new(caller.workspace, run, input) };
    let applied = transition::send(&app, &audit, &AttemptFacts::default(), &reader, addressed, &mut None).await?;
    Ok(Json(Assignment::from_applied(run, applied)))
}
