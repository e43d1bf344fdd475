//! `/v1/runs/{id}/steps/{key}`: one step with the values of one attempt.

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::ids::StepKey;

use super::show;
use super::wire::{StepDetail, StepPart};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

const PARTS: &[&str] = &["output", "input", "logs"];

pub(crate) const SELECTION: &[Parameter] = &[
    Parameter::whole("attempt", 1, u32::MAX as u64, "The attempt; the last one by default."),
    Parameter::choice("part", PARTS, "The part that is sent whole, even if it has more than 1 MiB."),
];

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path((id, key)): Path<(String, String)>,
    query: Query,
) -> Result<Json<StepDetail>, Problem> {
    let attempt = query.number("attempt").and_then(|number| u32::try_from(number).ok());
    let part = query.word("part", PARTS)?.map(|word| match word {
        "output" => StepPart::Output,
        "input" => StepPart::Input,
        _ => StepPart::Logs,
    });
    let row = show::row(&app, caller.workspace, show::read_id(&id)?).await?;
    let detail = app.engine.runs().step(&row, &StepKey::from(key.as_str()), attempt).await?;
    let missing = || match attempt {
        None => Problem::not_found(format!("run {} has no step {key:?}", row.id)),
        Some(attempt) => Problem::not_found(format!("run {} has no attempt {attempt} of a step {key:?}", row.id)),
    };
    let detail = detail.ok_or_else(missing)?;
    Ok(Json(StepDetail::from_detail(detail, part)))
}
