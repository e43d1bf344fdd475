//! Pages of runs.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use rusqlite::named_params;

use super::rows;
use crate::error::Result;
use crate::filter::{EXAMINED_RUNS_MAX, PageBuilder, RunFilter};
use crate::numbers;
use crate::rows::RunPage;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;

impl Database {
    pub fn list_runs(
        &self,
        workspace: WorkspaceId,
        filter: &RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage> {
        let limit = limit.min(EXAMINED_RUNS_MAX);
        let (before, before_id) = filter.begin(after);
        let (workspace, before_id) = (workspace.uuid().into_bytes(), before_id.into_bytes());
        let since = filter.end();
        // One more than is examined: it shows whether there is another page.
        let examined = if filter.is_selective() { EXAMINED_RUNS_MAX } else { limit };
        let one_more = numbers::clamp_limit(examined + 1);
        let mut statement;
        let mut listed = if let Some(key) = &filter.key {
            statement = self.connection.prepare_cached(query!("list_runs/of_key"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":key": key, ":before": before,
                ":before_id": before_id, ":since": since, ":limit": one_more,
            })?
        } else if let Some((_, trigger)) = &filter.trigger {
            statement = self.connection.prepare_cached(query!("list_runs/of_trigger"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":trigger": trigger, ":before": before,
                ":before_id": before_id, ":since": since, ":limit": one_more,
            })?
        } else if let Some((first, last)) = filter.ids {
            statement = self.connection.prepare_cached(query!("list_runs/of_ids"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":first_id": first.into_bytes(), ":final_id": last.into_bytes(),
                ":before": before, ":before_id": before_id, ":since": since, ":limit": one_more,
            })?
        } else if let Some(parent) = filter.parent {
            statement = self.connection.prepare_cached(query!("list_runs/of_parent"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":parent": parent.uuid().into_bytes(), ":before": before,
                ":before_id": before_id, ":since": since, ":limit": one_more,
            })?
        } else if let Some((workflow, state)) = filter.open_state() {
            statement = self.connection.prepare_cached(query!("list_runs/of_state"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":workflow": workflow, ":state": state, ":before": before,
                ":before_id": before_id, ":since": since, ":limit": one_more,
            })?
        } else if let Some(workflow) = &filter.workflow {
            statement = self.connection.prepare_cached(query!("list_runs/of_workflow"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":workflow": workflow, ":before": before,
                ":before_id": before_id, ":since": since, ":limit": one_more,
            })?
        } else {
            statement = self.connection.prepare_cached(query!("list_runs/all"))?;
            statement.query(named_params! {
                ":workspace": workspace, ":before": before,
                ":before_id": before_id, ":since": since, ":limit": one_more,
            })?
        };
        let mut page = PageBuilder::new(limit);
        let mut last = None;
        let mut examined = 0;
        while let Some(row) = listed.next()? {
            if examined == EXAMINED_RUNS_MAX {
                return Ok(page.finish(last));
            }
            examined += 1;
            last = Some((columns::time(row, 7)?, RunId::from_uuid(columns::uuid(row, 0)?)));
            if is_wanted(filter, row)? && !page.push(rows::summary_from_row(row)?) {
                break;
            }
        }
        Ok(page.finish(None))
    }
}

/// Whether a row has the expected id, parent and origin.
fn is_of_ids(filter: &RunFilter, row: &rusqlite::Row<'_>) -> rusqlite::Result<bool> {
    let (first, last) = filter.id_range();
    let is_one = |wanted: Option<RunId>, column| match wanted {
        None => Ok(true),
        Some(wanted) => Ok::<_, rusqlite::Error>(columns::optional_uuid(row, column)? == Some(wanted.uuid())),
    };
    Ok((first..=last).contains(&columns::uuid(row, 0)?) && is_one(filter.parent, 9)? && is_one(filter.origin, 10)?)
}

/// Whether a row of a list matches the filter.
fn is_wanted(filter: &RunFilter, row: &rusqlite::Row<'_>) -> rusqlite::Result<bool> {
    let statuses = filter.listed_statuses();
    let is_plainly_wanted = (statuses.is_empty() || statuses.contains(&columns::status(row, 3)?))
        && filter.version.is_none_or(|version| row.get(2).is_ok_and(|stored: u32| stored == version))
        && filter.workflow.as_deref().is_none_or(|name| row.get_ref(1).is_ok_and(|it| it.as_str() == Ok(name)))
        && filter.state.as_deref().is_none_or(|state| row.get_ref(11).is_ok_and(|it| it.as_str() == Ok(state)))
        && filter.key.as_deref().is_none_or(|key| row.get_ref(14).is_ok_and(|it| it.as_str() == Ok(key)))
        && is_of_ids(filter, row)?
        && (filter.trigger.is_none() || filter.has_trigger(columns::json(row, 15)?.as_ref()))
        && filter.has_error(row.get::<_, Option<String>>(5)?.as_deref());
    if !is_plainly_wanted {
        return Ok(false);
    }
    Ok(filter.has_tags(columns::text(row, 6)?) && filter.has_input(columns::text(row, 13)?))
}
