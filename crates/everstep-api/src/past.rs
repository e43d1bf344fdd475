//! `/v1/runs/{id}/context` and `/v1/runs/{id}/logs`: what a journal says of variables, and of log lines.

use axum::Json;
use axum::extract::{Path, State};
use everstep_core::journal::Event;
use everstep_core::journal::codec;
use everstep_core::run;
use everstep_core::workflow::Workflow;
use everstep_store::RunRow;

use crate::auth::Caller;
use crate::openapi::Parameter;
use crate::problem::Problem;
use crate::query::Query;
use crate::runs;
use crate::server::Served;
use crate::wire::{Context, Line, Logs, Scope, Time};

const LIMIT: u64 = 500;
const MOST: u64 = 5_000;
/// Entries that are read at once.
const PART: usize = 500;

pub(crate) const AT: &[Parameter] =
    &[Parameter::whole("at", 1, i64::MAX as u64, "As it was after this entry of the journal; the last one otherwise.")];
pub(crate) const LINES: &[Parameter] = &[
    Parameter::text("step", "Lines of this step."),
    Parameter::text("cursor", "`nextCursor` of the page before, as it is."),
    Parameter::whole("limit", 1, MOST, "How many at most, but for those of the last attempt; 500 if it is left out."),
];

/// The variables of a run, as they were after an entry.
pub(crate) async fn context(
    State(served): State<Served>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Context>, Problem> {
    let at = query.number("at", 1..=i64::MAX as u64)?;
    let row = runs::row(&served, caller.workspace, runs::read_id(&id)?).await?;
    let workflow = served.engine.library().of_run(&row).await?;
    let state = match at {
        Some(at) if at > row.seq => {
            let hint = format!("its last entry is {}", row.seq);
            return Err(Problem::invalid(format!("run {} has no entry {at} yet", row.id)).hint(hint));
        }
        at => fold(&served, &row, &workflow, at.unwrap_or(row.seq)).await?,
    };
    let scopes = state.scopes(&workflow).into_iter().map(|(scope, context)| Scope { scope, context });
    Ok(Json(Context { seq: state.seq, context: state.context(&workflow), scopes: scopes.collect() }))
}

/// Folds a journal from its beginning up to an entry.
async fn fold(served: &Served, row: &RunRow, workflow: &Workflow, at: u64) -> Result<run::State, Problem> {
    let mut state = run::State::new(row.id, workflow);
    while state.seq < at {
        let wanted = usize::try_from(at - state.seq).unwrap_or(usize::MAX).min(PART);
        let part = served.engine.world().runs.journal(row.id, state.seq, wanted).await?;
        if part.is_empty() {
            break;
        }
        for stored in part {
            let entry = codec::decode(stored.seq, stored.at, stored.row);
            let entry = entry.map_err(|error| Problem::unavailable(error.to_string()))?;
            state.apply(workflow, &entry).map_err(|misfit| Problem::unavailable(misfit.to_string()))?;
        }
    }
    Ok(state)
}

/// What the steps of a run have logged, in order.
pub(crate) async fn logs(
    State(served): State<Served>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Json<Logs>, Problem> {
    let row = runs::row(&served, caller.workspace, runs::read_id(&id)?).await?;
    let limit = query.number("limit", 1..=MOST)?.unwrap_or(LIMIT);
    let limit = usize::try_from(limit).expect("a page is small");
    let step = query.text("step");
    let (mut lines, mut last, mut has_more) = (Vec::new(), runs::read_seq(&query)?, true);
    while has_more && lines.len() < limit {
        let part = served.engine.world().runs.journal(row.id, last, PART).await?;
        has_more = part.len() == PART;
        for stored in part {
            if lines.len() >= limit {
                has_more = true;
                break;
            }
            last = stored.seq;
            if step.is_some_and(|step| stored.row.step.as_ref().is_none_or(|key| key.as_str() != step)) {
                continue;
            }
            if let Ok(entry) = codec::decode(stored.seq, stored.at, stored.row) {
                take(&mut lines, entry.seq, Time::of(entry.at), entry.event);
            }
        }
    }
    Ok(Json(Logs { logs: lines, next_cursor: has_more.then(|| last.to_string()) }))
}

fn take(lines: &mut Vec<Line>, seq: u64, at: Time, event: Event) {
    let (step, attempt, logs) = match event {
        Event::StepCompleted { step, attempt, outcome } => (step, attempt, outcome.logs),
        Event::StepFailed { step, attempt, logs, .. } => (step, attempt, logs),
        _ => return,
    };
    lines.extend(logs.into_iter().map(|line| Line { seq, step: step.clone(), attempt, at, line }));
}
