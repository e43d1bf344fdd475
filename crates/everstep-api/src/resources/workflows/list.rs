//! Reads workflows.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use everstep_core::status::Status;

use super::wire::{Workflow, WorkflowSummary};
use super::{etag, find};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(crate) const PAGE_PARAMETERS: &[Parameter] = &[
    Parameter::text("cursor", "Workflows after this name, as in the header `Link` of the previous page."),
    Parameter::whole("limit", 1, PAGE_SIZE_MAX, "The maximum number of results; 100 by default."),
];
pub(crate) const VERSION_PARAMETERS: &[Parameter] =
    &[Parameter::whole("version", 1, u32::MAX as u64, "This version; the active one by default.")];
const PAGE_SIZE_DEFAULT: u64 = 100;
const PAGE_SIZE_MAX: u64 = 500;

/// Workflows by name, with the number of runs of each in each status.
pub(crate) async fn list(
    State(app): State<AppState>,
    caller: Caller,
    query: Query,
) -> Result<(HeaderMap, Json<Vec<WorkflowSummary>>), Problem> {
    let limit = query.number("limit").unwrap_or(PAGE_SIZE_DEFAULT);
    let limit = usize::try_from(limit).expect("a page is small");
    let store = &app.workflows;
    // One row more than shown: it shows whether there is another page.
    let mut rows = store.list_workflows(caller.workspace, query.text("cursor"), limit + 1).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let mut headers = HeaderMap::new();
    if let Some(last) = rows.last().filter(|_| has_more) {
        let link = format!("</v1/workflows?cursor={}&limit={limit}>; rel=\"next\"", last.name);
        headers.insert(header::LINK, HeaderValue::from_str(&link).expect("a name is plain text"));
    }
    let mut counts: BTreeMap<String, BTreeMap<Status, u64>> = BTreeMap::new();
    for count in app.engine.counts(caller.workspace).await? {
        let n = u64::try_from(count.n).unwrap_or(0);
        *counts.entry(count.workflow).or_default().entry(count.status).or_default() += n;
    }
    let shown = rows.into_iter().map(|row| {
        let counts = counts.remove(&row.name).unwrap_or_default();
        WorkflowSummary::from_row(row, &counts)
    });
    Ok((headers, Json(shown.collect())))
}

/// The active version of a workflow, or the requested one.
pub(crate) async fn get(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    query: Query,
) -> Result<([(HeaderName, HeaderValue); 1], Json<Workflow>), Problem> {
    let (workflow, active) = find(&app, caller.workspace, &name, read_version(&query)).await?;
    Ok(([etag(active)], Json(workflow)))
}

pub(super) fn read_version(query: &Query) -> Option<u32> {
    query.number("version").and_then(|version| u32::try_from(version).ok())
}
