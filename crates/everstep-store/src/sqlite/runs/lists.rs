//! Pages of runs.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use rusqlite::types::Value;
use rusqlite::{OptionalExtension, ToSql, named_params};
use uuid::Uuid;

use super::rows;
use crate::error::Result;
use crate::filter::{EXAMINED_RUNS_MAX, PageBuilder, RunFilter, STATUSES_WITH_INDEX, Walk};
use crate::numbers;
use crate::rows::RunPage;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::terms::{self, Sought};

impl Database {
    /// Runs that have terms are found by them; older runs are examined one by one.
    pub fn list_runs(
        &self,
        workspace: WorkspaceId,
        filter: &RunFilter,
        after: Option<(Timestamp, RunId)>,
        limit: usize,
    ) -> Result<RunPage> {
        let mut page = PageBuilder::new(limit.min(EXAMINED_RUNS_MAX));
        let begin = filter.begin(after);
        let Some((sought, since)) = self.covering_term(workspace, filter)? else {
            let range = Range { workspace, before: begin, since: filter.end() };
            let end = self.examine(range, filter, None, &mut page)?;
            return Ok(page.finish(end.position()));
        };
        let range = Range { workspace, before: begin, since: filter.end().max(since) };
        let end = self.examine(range, filter, Some(&sought), &mut page)?;
        if end != End::Last || since <= filter.end() {
            return Ok(page.finish(end.position()));
        }
        let range = Range { workspace, before: begin.min((since, Uuid::nil())), since: filter.end() };
        let end = self.examine(range, filter, None, &mut page)?;
        Ok(page.finish(end.position()))
    }

    /// The condition of a filter by whose term runs are found, and the time from which on all runs have it.
    fn covering_term<'a>(&self, workspace: WorkspaceId, filter: &'a RunFilter) -> Result<Option<(Sought<'a>, i64)>> {
        if !filter.may_use_terms() {
            return Ok(None);
        }
        for sought in terms::sought(filter) {
            let since: Option<i64> = match &sought.attribute {
                Some(path) => self.connection.prepare_cached(query!("list_runs/coverage"))?.query_row(
                    named_params! {
                        ":workspace": workspace.uuid().into_bytes(), ":workflow": sought.workflow, ":path": path,
                    },
                    |row| row.get(0),
                )?,
                None => self
                    .connection
                    .prepare_cached(query!("list_runs/tag_terms_since"))?
                    .query_row([], |row| row.get(0))
                    .optional()?,
            };
            if let Some(since) = since {
                return Ok(Some((sought, since)));
            }
        }
        Ok(None)
    }

    /// Adds the runs of a range that match, until the page is full or enough runs were examined.
    fn examine(
        &self,
        range: Range,
        filter: &RunFilter,
        sought: Option<&Sought<'_>>,
        page: &mut PageBuilder,
    ) -> Result<End> {
        let (before, before_id) = range.before;
        let (workspace, before_id) = (range.workspace.uuid().into_bytes(), before_id.into_bytes());
        let (since, left) = (range.since, page.left());
        // One more than is examined: it shows whether there is another page.
        let one_more = numbers::clamp_limit(left + 1);
        let (sql, own_params) = statement(filter, sought);
        let mut params: Vec<(&str, &dyn ToSql)> = vec![
            (":workspace", &workspace),
            (":before", &before),
            (":before_id", &before_id),
            (":since", &since),
            (":limit", &one_more),
        ];
        params.extend(own_params.iter().map(|(name, value)| (*name, value as &dyn ToSql)));
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut listed = statement.query(&*params)?;
        let mut last = None;
        while let Some(row) = listed.next()? {
            if page.left() == 0 {
                return Ok(last.map_or(End::Last, End::At));
            }
            page.scanned += 1;
            last = Some((columns::time(row, 7)?, RunId::from_uuid(columns::uuid(row, 0)?)));
            if is_wanted(filter, row)? && !page.push(rows::summary_from_row(row)?) {
                return Ok(End::Full);
            }
        }
        // Nothing of another range may be examined.
        Ok(if page.left() == 0 { last.map_or(End::Last, End::At) } else { End::Last })
    }
}

/// The positions between which runs are examined.
#[derive(Clone, Copy)]
struct Range {
    workspace: WorkspaceId,
    before: (i64, Uuid),
    since: i64,
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

/// The parameters that only some statements have, by their names.
type OwnParams = Vec<(&'static str, Value)>;

/// The statement that finds the runs, and those of its parameters that other statements do not have.
fn statement(filter: &RunFilter, sought: Option<&Sought<'_>>) -> (&'static str, OwnParams) {
    let text = |text: &str| Value::from(text.to_owned());
    let id = |id: Uuid| Value::Blob(id.into_bytes().into());
    if let Some(sought) = sought {
        let value = (":value", text(&sought.values.0));
        let other = (":other", sought.values.1.clone().into());
        let workflow = (":workflow", sought.workflow.map(str::to_owned).into());
        return (query!("list_runs/of_term"), vec![(":path", text(&sought.path)), value, other, workflow]);
    }
    match filter.walk() {
        Walk::Trigger(trigger) => (query!("list_runs/of_trigger"), vec![(":trigger", text(trigger))]),
        Walk::Key(key) => (query!("list_runs/of_key"), vec![(":key", text(key))]),
        Walk::Ids(first, last) => (query!("list_runs/of_ids"), vec![(":first_id", id(first)), (":final_id", id(last))]),
        Walk::Parent(parent) => (query!("list_runs/of_parent"), vec![(":parent", id(parent.uuid()))]),
        Walk::Origin(origin) => (query!("list_runs/of_origin"), vec![(":origin", id(origin.uuid()))]),
        Walk::State(workflow, state) => {
            (query!("list_runs/of_state"), vec![(":workflow", text(workflow)), (":state", text(state))])
        }
        Walk::ErrorCode(code) => (query!("list_runs/of_error"), vec![(":error_code", text(code))]),
        Walk::WorkflowStatuses(workflow) => {
            let mut params = is_listed(filter);
            params.push((":workflow", text(workflow)));
            (query!("list_runs/of_workflow_statuses"), params)
        }
        Walk::Statuses => (query!("list_runs/of_statuses"), is_listed(filter)),
        Walk::Workflow(workflow) => (query!("list_runs/of_workflow"), vec![(":workflow", text(workflow))]),
        Walk::All => (query!("list_runs/all"), vec![]),
    }
}

/// For each status in the index, whether the runs with it are listed.
fn is_listed(filter: &RunFilter) -> OwnParams {
    let names = [":pending", ":running", ":waiting", ":paused", ":failed", ":cancelled"];
    let listed = STATUSES_WITH_INDEX.map(|status| filter.listed_statuses().contains(&status).into());
    names.into_iter().zip(listed).collect()
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
