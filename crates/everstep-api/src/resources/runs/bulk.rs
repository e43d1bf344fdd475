//! `/v1/runs/bulk`: one control for many runs.

use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use everstep_core::ids::RunId;
use everstep_core::run::Reply;
use everstep_engine::{Error, RunInput};
use everstep_store::RunFilter;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use uuid::Uuid;

use super::cursor::{read_cursor, write_cursor};
use super::filter;
use super::wire::{Action, Bulk, Gathered, Refusal};
use crate::audit::AuditDraft;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::server::AppState;

const RUNS_DEFAULT: u64 = 1_000;
const RUNS_MAX: u64 = 10_000;
/// The number of runs that are listed together.
const LIST_BATCH_RUNS: usize = 200;
/// Runs that receive the control at the same time, so that other callers are served in between.
const CONCURRENT_RUNS: usize = 16;
/// The time after which the response is sent, with a cursor for the rest.
const ANSWER_AFTER: Duration = Duration::from_secs(20);
/// The maximum number of rejections in the response.
const REFUSALS_MAX: usize = 20;

/// Sends a control to all runs that a filter finds, page by page. The idempotency key applies to each run, so that a
/// repeated call does nothing twice.
pub(crate) async fn post(
    State(app): State<AppState>,
    audit: AuditDraft,
    key: IdempotencyKey,
    body: Body<{ 64 * 1024 }>,
) -> Result<Json<Gathered>, Problem> {
    let Bulk { action, filter, all, dry_run, limit, cursor, reason } = body.json()?;
    let text = filter.text.clone();
    let filter = filter::from_body(filter)?;
    let filter = filter::with_text(&app, audit.caller().workspace, filter, text.as_deref()).await?;
    if filter == RunFilter::default() && !all {
        let hint = "name a workflow, a status or another field, or send \"all\": true";
        return Err(Problem::invalid("the filter is empty, so every run would be selected").hint(hint));
    }
    if reason.is_some() && action != Action::Cancel {
        return Err(Problem::invalid("reason is accepted only if action is cancel"));
    }
    let limit = limit.unwrap_or(RUNS_DEFAULT);
    if !(1..=RUNS_MAX).contains(&limit) {
        return Err(Problem::invalid(format!("limit must be a whole number from 1 to {RUNS_MAX}, not {limit}")));
    }
    let workspace = audit.caller().workspace;
    // Each run gets a copy; the runs share the audit row.
    let control = RunInput {
        key: key.into_inner(),
        audit: Some(audit.shared_row()),
        ..RunInput::new(workspace, RunId::from_uuid(Uuid::nil()), action.input(reason))
    };
    let mut after = cursor.as_deref().map(read_cursor).transpose()?;
    let mut gathered = Gathered::default();
    let began = Instant::now();
    loop {
        let room = usize::try_from(limit - gathered.matched).expect("a call is bounded").min(LIST_BATCH_RUNS);
        let page = app.engine.runs().list(workspace, filter.clone(), after, room).await?;
        gathered.matched += page.runs.len() as u64;
        if !dry_run {
            let asks: Vec<_> =
                page.runs.iter().map(|run| ask(&app, RunInput { run: run.id, ..control.clone() })).collect();
            let mut answers = stream::iter(asks).buffer_unordered(CONCURRENT_RUNS);
            while let Some((run, answer)) = answers.next().await {
                audit.record(answer.as_ref().is_ok_and(Reply::is_recorded));
                gathered.count(run, answer);
            }
        }
        after = page.next;
        if after.is_none() || gathered.matched >= limit || began.elapsed() > ANSWER_AFTER {
            gathered.next_cursor = after.map(write_cursor);
            return Ok(Json(gathered));
        }
    }
}

type Asked = BoxFuture<'static, (RunId, Result<Reply, Error>)>;

fn ask(app: &AppState, control: RunInput) -> Asked {
    let engine = app.engine.clone();
    Box::pin(async move { (control.run, engine.route(control).await) })
}

impl Gathered {
    fn count(&mut self, run: RunId, answer: Result<Reply, Error>) {
        let (code, message) = match answer {
            Ok(Reply::Accepted | Reply::Buffered | Reply::Applied(_)) => return self.accepted += 1,
            Ok(Reply::Repeated | Reply::Ignored(_)) => return self.ignored += 1,
            Ok(Reply::Refused { code, message, .. }) => (code.into_owned(), message),
            Err(error) => Problem::from(error).into_words(),
        };
        self.refused += 1;
        if self.errors.len() < REFUSALS_MAX {
            self.errors.push(Refusal { run, code, message });
        }
    }
}
