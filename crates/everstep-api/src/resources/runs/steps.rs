//! `/v1/runs/{id}/steps`: the steps of a run with their attempts and times.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::status::StepStatus;
use everstep_store::{DeadLetterFilter, DeadLetterQuery, RunRow};

use super::cursor::read_seq;
use super::show;
use super::wire::{Step, StepDeadLetter, Steps};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

const PAGE_SIZE_DEFAULT: u64 = 100;
const PAGE_SIZE_MAX: u64 = 500;
/// The newest dead letters of a run, which its steps show.
const DEAD_LETTERS_MAX: usize = 1_000;

pub(crate) const PAGE: &[Parameter] = &[
    Parameter::text("cursor", "`nextCursor` of the previous page, unchanged."),
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 100 by default."),
];

pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Steps>, Problem> {
    let row = show::row(&app, caller.workspace, show::read_id(&id)?).await?;
    show(&app, &row, &query).await
}

pub(crate) async fn of_workflow(
    State(app): State<AppState>,
    caller: Caller,
    Path((name, id)): Path<(String, String)>,
    query: Query,
) -> Result<Json<Steps>, Problem> {
    let row = show::row_of(&app, caller.workspace, Some(&name), show::read_id(&id)?).await?;
    show(&app, &row, &query).await
}

async fn show(app: &AppState, row: &RunRow, query: &Query) -> Result<Json<Steps>, Problem> {
    let after = read_seq(query)?;
    let limit = query.number("limit").unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    let page = app.engine.runs().story(row, after, limit).await?;
    let next_cursor = page.next_after.map(|seq| seq.to_string());
    let mut steps: Vec<_> = page.steps.into_iter().map(Step::from_story).collect();
    add_dead_letters(app, row, &mut steps).await?;
    Ok(Json(Steps { steps, next_cursor }))
}

/// Adds the dead letters of steps that failed, or that the end of the run has cancelled.
async fn add_dead_letters(app: &AppState, row: &RunRow, steps: &mut [Step]) -> Result<(), Problem> {
    let may_have = |step: &Step| matches!(step.status, StepStatus::Failed | StepStatus::Cancelled);
    if !steps.iter().any(may_have) {
        return Ok(());
    }
    let filter = DeadLetterFilter { run: Some(row.id), ..DeadLetterFilter::default() };
    let query = DeadLetterQuery { filter, before: None, limit: DEAD_LETTERS_MAX };
    let letters = app.engine.dead_letters().store().list_letters(row.workspace, &query).await?;
    let by_step: BTreeMap<_, _> = letters
        .iter()
        .filter_map(|found| {
            let letter = StepDeadLetter { id: found.letter.id, status: found.status.as_str() };
            Some((found.letter.step.as_ref()?, letter))
        })
        .collect();
    for step in steps.iter_mut().filter(|step| may_have(step)) {
        step.dead_letter = by_step.get(&step.key).copied();
    }
    Ok(())
}
