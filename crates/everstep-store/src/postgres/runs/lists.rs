//! Pages of runs.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::rows;
use crate::error::Result;
use crate::filter::{self, EXAMINED_RUNS_MAX, PageBuilder, RunFilter};
use crate::postgres::columns;
use crate::postgres::queries::{params, query};
use crate::postgres::store::PostgresStore;
use crate::rows::RunPage;
use crate::{numbers, texts};

/// How many runs are read at once if their documents are examined.
const BATCH_RUNS: usize = 200;

/// The position of a run in a list: its creation time and its id.
type PageKey = (i64, Uuid);

impl PostgresStore {
    /// First finds the last run that may be examined. Up to there the database applies the conditions on columns; runs
    /// whose documents must be examined are read in batches.
    pub(super) async fn read_page(
        &self,
        workspace: WorkspaceId,
        filter: &RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage> {
        let trigger = filter.trigger.as_ref().map(|(_, id)| id.clone());
        if [&filter.workflow, &filter.state, &filter.key, &filter.error_code, &trigger]
            .into_iter()
            .flatten()
            .any(|text| texts::has_nul(text))
        {
            return Ok(PageBuilder::new(limit).finish(None));
        }
        let limit = limit.min(EXAMINED_RUNS_MAX);
        let mut before = filter.begin(after);
        let end = match filter.is_selective() && !filter.is_narrow() {
            true => self.read_end(workspace, filter, before).await?,
            false => None,
        };
        let last = end.map_or((filter.end(), Uuid::nil()), |(time, run)| (time.micros(), run.uuid()));
        // One more than requested: it shows whether there is another page.
        let batch = if filter.examines_documents() { BATCH_RUNS } else { limit + 1 };
        let mut page = PageBuilder::new(limit);
        loop {
            let rows = self.read_batch(workspace, filter, before, last, batch).await?;
            for row in &rows {
                if is_wanted(filter, row)? && !page.push(rows::summary_from_row(row)?) {
                    return Ok(page.finish(None));
                }
            }
            match rows.last().filter(|_| rows.len() == batch) {
                Some(row) => before = (columns::get(row, 7)?, columns::get(row, 0)?),
                None => return Ok(page.finish(end)),
            }
        }
    }

    /// The position of the last run that may be examined, if so many exist.
    async fn read_end(
        &self,
        workspace: WorkspaceId,
        filter: &RunFilter,
        (before, before_id): PageKey,
    ) -> Result<Option<(Timestamp, RunId)>> {
        let workspace = workspace.uuid();
        let (since, look) = (filter.end(), numbers::clamp_limit(EXAMINED_RUNS_MAX));
        let row = if let Some(parent) = filter.parent {
            let parent = parent.uuid();
            let params = params! {
                "workspace": workspace, "parent": parent, "before": before, "before_id": before_id,
                "since": since, "look": look,
            };
            self.connections.query_opt(query!("list_runs/of_parent_end"), params).await?
        } else if let Some((workflow, state)) = filter.open_state() {
            let params = params! {
                "workspace": workspace, "workflow": workflow, "state": state, "before": before, "before_id": before_id,
                "since": since, "look": look,
            };
            self.connections.query_opt(query!("list_runs/of_state_end"), params).await?
        } else if let Some(workflow) = filter.workflow.as_deref() {
            let params = params! {
                "workspace": workspace, "workflow": workflow, "before": before, "before_id": before_id,
                "since": since, "look": look,
            };
            self.connections.query_opt(query!("list_runs/of_workflow_end"), params).await?
        } else {
            let params = params! {
                "workspace": workspace, "before": before, "before_id": before_id, "since": since, "look": look,
            };
            self.connections.query_opt(query!("list_runs/all_end"), params).await?
        };
        row.map(|row| Ok((columns::time(&row, 0)?, RunId::from_uuid(columns::get(&row, 1)?)))).transpose()
    }

    async fn read_batch(
        &self,
        workspace: WorkspaceId,
        filter: &RunFilter,
        (before, before_id): PageKey,
        (last, last_id): PageKey,
        batch: usize,
    ) -> Result<Vec<Row>> {
        // No stored run has a version that cannot be stored.
        let Ok(version) = filter.version.map(numbers::checked_integer).transpose() else {
            return Ok(vec![]);
        };
        let (workspace, limit) = (workspace.uuid(), numbers::clamp_limit(batch));
        let state = filter.state.as_deref();
        let statuses: Vec<_> = filter.listed_statuses().iter().copied().map(Status::as_str).collect();
        let whole = filter.input.iter().flat_map(|(path, _)| path).any(|name| is_odd(name));
        let path = |path: &[String]| if whole { String::new() } else { array(path) };
        let paths: Vec<_> = filter.input.iter().map(|(names, _)| path(names)).collect();
        let (key, origin) = (filter.key.as_deref(), filter.origin.map(RunId::uuid));
        let (error_code, (first_id, final_id)) = (filter.error_code.as_deref(), filter.id_range());
        if let Some((kind, trigger)) = &filter.trigger {
            let (workflow, parent) = (filter.workflow.as_deref(), filter.parent.map(RunId::uuid));
            let (trigger, trigger_type) = (trigger.as_str(), kind.as_str());
            let params = params! {
                "paths": paths, "whole": whole, "workspace": workspace, "trigger": trigger,
                "trigger_type": trigger_type, "workflow": workflow, "parent": parent,
                "before": before, "before_id": before_id, "last": last, "last_id": last_id,
                "statuses": statuses, "version": version, "key": key, "origin": origin,
                "error_code": error_code, "first_id": first_id, "final_id": final_id, "state": state, "limit": limit,
            };
            self.connections.query(query!("list_runs/of_trigger"), params).await
        } else if filter.is_narrow() && filter.parent.is_none() {
            let workflow = filter.workflow.as_deref();
            let params = params! {
                "paths": paths, "whole": whole, "workspace": workspace, "workflow": workflow,
                "before": before, "before_id": before_id, "last": last, "last_id": last_id,
                "statuses": statuses, "version": version, "key": key, "origin": origin,
                "error_code": error_code, "first_id": first_id, "final_id": final_id, "state": state, "limit": limit,
            };
            let statement = if key.is_some() { query!("list_runs/of_key") } else { query!("list_runs/of_ids") };
            self.connections.query(statement, params).await
        } else if let Some(parent) = filter.parent {
            let (parent, workflow) = (parent.uuid(), filter.workflow.as_deref());
            let params = params! {
                "paths": paths, "whole": whole, "workspace": workspace, "parent": parent, "workflow": workflow,
                "before": before, "before_id": before_id, "last": last, "last_id": last_id,
                "statuses": statuses, "version": version, "key": key, "origin": origin,
                "error_code": error_code, "first_id": first_id, "final_id": final_id, "state": state, "limit": limit,
            };
            self.connections.query(query!("list_runs/of_parent"), params).await
        } else if let Some((workflow, state)) = filter.open_state() {
            let params = params! {
                "paths": paths, "whole": whole, "workspace": workspace, "workflow": workflow, "state": state,
                "before": before, "before_id": before_id, "last": last, "last_id": last_id,
                "statuses": statuses, "version": version, "key": key, "origin": origin,
                "error_code": error_code, "first_id": first_id, "final_id": final_id, "limit": limit,
            };
            self.connections.query(query!("list_runs/of_state"), params).await
        } else if let Some(workflow) = filter.workflow.as_deref() {
            let params = params! {
                "paths": paths, "whole": whole, "workspace": workspace, "workflow": workflow,
                "before": before, "before_id": before_id, "last": last, "last_id": last_id,
                "statuses": statuses, "version": version, "key": key, "origin": origin,
                "error_code": error_code, "first_id": first_id, "final_id": final_id, "state": state, "limit": limit,
            };
            self.connections.query(query!("list_runs/of_workflow"), params).await
        } else {
            let params = params! {
                "paths": paths, "whole": whole, "workspace": workspace,
                "before": before, "before_id": before_id, "last": last, "last_id": last_id,
                "statuses": statuses, "version": version, "key": key, "origin": origin,
                "error_code": error_code, "first_id": first_id, "final_id": final_id, "state": state, "limit": limit,
            };
            self.connections.query(query!("list_runs/all"), params).await
        }
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
