//! Pages of runs.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::rows;
use crate::error::Result;
use crate::filter::{self, EXAMINED_RUNS_MAX, PageBuilder, RunFilter, Walk};
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::rows::RunPage;
use crate::terms::{self, Sought};
use crate::{numbers, texts};

/// How many runs are read at once if their documents are examined.
const BATCH_RUNS: usize = 200;

/// The position of a run in a list: its creation time and its id.
type PageKey = (i64, Uuid);

/// The positions between which runs are examined, and the term by which they are found.
#[derive(Clone, Copy)]
struct Range<'a> {
    workspace: WorkspaceId,
    before: PageKey,
    last: PageKey,
    sought: Option<&'a Sought<'a>>,
}

/// Why no more runs of a range were examined.
#[derive(Clone, Copy, PartialEq)]
enum End {
    /// There are none.
    Last,
    /// The page is full.
    Full,
    /// Enough runs were examined, the last of them at this position.
    At((Timestamp, RunId)),
}

impl End {
    fn position(self) -> Option<(Timestamp, RunId)> {
        match self {
            Self::At(position) => Some(position),
            Self::Last | Self::Full => None,
        }
    }
}

impl PostgresStore {
    /// Runs that have terms are found by them; older runs are examined one by one.
    pub(super) async fn read_page(
        &self,
        workspace: WorkspaceId,
        filter: &RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage> {
        let trigger = filter.trigger.as_ref().map(|(_, id)| id.clone());
        let mut page = PageBuilder::new(limit.min(EXAMINED_RUNS_MAX));
        if [&filter.workflow, &filter.state, &filter.key, &filter.error_code, &trigger]
            .into_iter()
            .flatten()
            .any(|text| texts::has_nul(text))
        {
            return Ok(page.finish(None));
        }
        let begin = filter.begin(after);
        let oldest = (filter.end(), Uuid::nil());
        let Some((sought, since)) = self.covering_term(workspace, filter).await? else {
            let range = Range { workspace, before: begin, last: oldest, sought: None };
            let end = self.examine(range, filter, &mut page).await?;
            return Ok(page.finish(end.position()));
        };
        let boundary = (since, Uuid::nil());
        let range = Range { workspace, before: begin, last: oldest.max(boundary), sought: Some(&sought) };
        let end = self.examine(range, filter, &mut page).await?;
        if end != End::Last || boundary <= oldest {
            return Ok(page.finish(end.position()));
        }
        let range = Range { workspace, before: begin.min(boundary), last: oldest, sought: None };
        let end = self.examine(range, filter, &mut page).await?;
        Ok(page.finish(end.position()))
    }

    /// The condition of a filter by whose term runs are found, and the time from which on all runs have it.
    async fn covering_term<'a>(
        &self,
        workspace: WorkspaceId,
        filter: &'a RunFilter,
    ) -> Result<Option<(Sought<'a>, i64)>> {
        if !filter.may_use_terms() {
            return Ok(None);
        }
        for sought in terms::sought(filter) {
            let row = match &sought.attribute {
                Some(path) => {
                    let (workspace, workflow, path) = (workspace.uuid(), sought.workflow, path.as_str());
                    let params = params! { "workspace": workspace, "workflow": workflow, "path": path };
                    self.connections.query_opt(query!("list_runs/coverage"), params).await?
                }
                None => self.connections.query_opt(query!("list_runs/tag_terms_since"), &[]).await?,
            };
            if let Some(since) = row.map(|row| columns::get::<Option<i64>>(&row, 0)).transpose()?.flatten() {
                return Ok(Some((sought, since)));
            }
        }
        Ok(None)
    }

    /// Adds the runs of a range that match, until the page is full or enough runs were examined. The database applies the
    /// conditions on columns; runs whose documents must be examined are read in batches.
    async fn examine(&self, mut range: Range<'_>, filter: &RunFilter, page: &mut PageBuilder) -> Result<End> {
        // One more than requested: it shows whether there is another page.
        let batch = if filter.examines_documents() { BATCH_RUNS } else { page.limit() + 1 };
        loop {
            if page.left() == 0 {
                return Ok(End::At((Timestamp::from_micros(range.before.0), RunId::from_uuid(range.before.1))));
            }
            let (examined, rows) = (page.scanned, self.read_batch(range, filter, page.left(), batch).await?);
            for (index, row) in rows.iter().enumerate() {
                let place = rows::place_from_row(row)?;
                page.scanned = examined + place.as_ref().map_or(index + 1, |place| place.number);
                let is_match = place.is_none_or(|place| place.is_match) && is_wanted(filter, row)?;
                if is_match && !page.push(rows::summary_from_row(row)?) {
                    return Ok(End::Full);
                }
            }
            let Some(last) = rows.last() else { return Ok(End::Last) };
            range.before = (columns::get(last, 7)?, columns::get(last, 0)?);
            if rows.len() < batch && page.left() > 0 {
                return Ok(End::Last);
            }
        }
    }

    /// The next runs of a range that match, at most `batch` of the next `look`. Unless the index finds few runs, the last
    /// row is that of the last examined run if the batch is not full.
    async fn read_batch(&self, range: Range<'_>, filter: &RunFilter, look: usize, batch: usize) -> Result<Vec<Row>> {
        let statement = match filter.walk() {
            _ if range.sought.is_some() => query!("list_runs/of_term"),
            Walk::Trigger(_) => query!("list_runs/of_trigger"),
            Walk::Key(_) => query!("list_runs/of_key"),
            Walk::Ids(..) => query!("list_runs/of_ids"),
            Walk::Parent(_) => query!("list_runs/of_parent"),
            Walk::Origin(_) => query!("list_runs/of_origin"),
            Walk::State(..) => query!("list_runs/of_state"),
            Walk::ErrorCode(_) => query!("list_runs/of_error"),
            Walk::WorkflowStatuses(_) => query!("list_runs/of_workflow_statuses"),
            Walk::Statuses => query!("list_runs/of_statuses"),
            Walk::Workflow(_) => query!("list_runs/of_workflow"),
            Walk::All => query!("list_runs/all"),
        };
        // No stored run has a version that cannot be stored.
        let version = filter.version.map(|version| numbers::checked_integer(version).unwrap_or(0));
        let (workspace, workflow) = (range.workspace.uuid(), filter.workflow.as_deref());
        let ((before, before_id), (last, last_id)) = (range.before, range.last);
        let (limit, look) = (numbers::clamp_limit(batch), numbers::clamp_limit(look));
        let state = filter.state.as_deref();
        let statuses: Vec<_> = filter.listed_statuses().iter().copied().map(Status::as_str).collect();
        let whole = filter.input.iter().flat_map(|(path, _)| path).any(|name| is_odd(name));
        let path = |path: &[String]| if whole { String::new() } else { array(path) };
        let paths: Vec<_> = filter.input.iter().map(|(names, _)| path(names)).collect();
        let (key, origin, parent) =
            (filter.key.as_deref(), filter.origin.map(RunId::uuid), filter.parent.map(RunId::uuid));
        let (error_code, (first_id, final_id)) = (filter.error_code.as_deref(), filter.id_range());
        let (trigger_type, trigger) = filter.trigger.as_ref().map(|(kind, id)| (kind.as_str(), id.as_str())).unzip();
        let term = range.sought.map(|sought| sought.path.as_str());
        let value = range.sought.map(|sought| sought.values.0.as_str());
        let other = range.sought.and_then(|sought| sought.values.1.as_deref());
        let params = params! {
            "paths": paths, "whole": whole, "workspace": workspace, "path": term, "value": value, "other": other,
            "trigger": trigger, "trigger_type": trigger_type, "workflow": workflow, "parent": parent,
            "before": before, "before_id": before_id, "last": last, "last_id": last_id, "look": look,
            "statuses": statuses, "version": version, "key": key, "origin": origin, "error_code": error_code,
            "first_id": first_id, "final_id": final_id, "state": state, "limit": limit,
        };
        self.connections.query(statement, &statement.pick(params)).await
    }
}

/// Whether the documents of a row match the filter. The database has applied the conditions on columns.
fn is_wanted(filter: &RunFilter, row: &Row) -> Result<bool> {
    if !filter.has_tags(columns::get(row, 6)?) {
        return Ok(false);
    }
    if let Some(input) = columns::get(row, 13)? {
        return Ok(filter.has_input(input));
    }
    Ok(filter.has_found(&columns::list(row, 14)?))
}

/// Whether PostgreSQL would interpret a name as an index of an array where the filter does not, or rejects the name.
fn is_odd(name: &str) -> bool {
    let begins_like_a_number = name.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
    texts::has_nul(name)
        || begins_like_a_number && filter::array_index(name).is_none_or(|index| i32::try_from(index).is_err())
}

/// An array of texts in the notation of PostgreSQL.
fn array(texts: &[String]) -> String {
    let quoted = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    format!("{{{}}}", texts.iter().map(quoted).collect::<Vec<_>>().join(","))
}
