//! Pages of records and links.

use everstep_core::ids::WorkspaceId;
use everstep_core::records::{self, OpFailure, PAGE_ITEMS_DEFAULT, PAGE_ITEMS_MAX};
use everstep_store::NamespaceQuery;

use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

pub(crate) const LIMIT_PARAMETER: Parameter = Parameter::whole(
    "limit",
    1,
    PAGE_ITEMS_MAX as u64,
    "The maximum number of results; 100 by default. A page may be shorter and still have a next one: it ends at \
     512 KiB of values, or after 10,000 rows that were read.",
);

pub(crate) fn read_limit(query: &Query) -> usize {
    query.number("limit").map_or(PAGE_ITEMS_DEFAULT, |limit| usize::try_from(limit).expect("a page is small"))
}

/// The key or the name after which a page begins.
pub(crate) fn read_cursor(query: &Query) -> Result<Option<String>, Problem> {
    check_cursor(query, records::read_cursor)
}

/// Reads a cursor with the function of its list.
pub(crate) fn check_cursor<T>(
    query: &Query,
    read: impl Fn(&str) -> Result<T, OpFailure>,
) -> Result<Option<T>, Problem> {
    let hint = "send nextCursor of the previous page unchanged";
    let wrong = |_| Problem::invalid("the query parameter \"cursor\" is not valid").hint(hint);
    query.text("cursor").map(read).transpose().map_err(wrong)
}

/// Whether a page is the only one and empty, so that its namespace may not exist.
pub(crate) fn is_end<T, N>(items: &[T], next: Option<&N>) -> bool {
    items.is_empty() && next.is_none()
}

/// Rejects a request for a namespace that was never written to. An emptied one exists.
pub(crate) async fn check_namespace(app: &AppState, workspace: WorkspaceId, namespace: &str) -> Result<(), Problem> {
    let page = app.engine.records().namespaces(workspace, &NamespaceQuery::by_name(namespace)).await?;
    if page.namespaces.is_empty() { Err(missing_namespace(namespace)) } else { Ok(()) }
}

pub(crate) fn missing_namespace(namespace: &str) -> Problem {
    Problem::not_found(format!("namespace {namespace:?} was not found"))
        .hint("a namespace exists after its first write")
}
