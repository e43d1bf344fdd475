//! Lists the open approvals of a workspace.

use std::fmt;
use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use everstep_core::ids::{RunId, StepKey};
use everstep_engine::{RunSnapshot, StepActivity};
use everstep_store::{WaitKind, WaitRow};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::wire::{Inbox, InboxItem};
use crate::auth::{Caller, Permission};
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::time::Time;
use crate::resources::runs::wire::about;
use crate::server::AppState;

/// Runs that are read at the same time.
const CONCURRENT_READS: usize = 4;

pub(crate) async fn list(State(app): State<AppState>, caller: Caller, query: Query) -> Result<Json<Inbox>, Problem> {
    let page = Page::read(&query);
    let after = page.cursor::<Position>()?.map(|Position(run, step)| (run, step));
    let workflow = query.text("workflow").map(str::to_owned);
    // Signals need this permission: a caller without it could not answer.
    if !caller.may(Permission::Manage) {
        return Ok(Json(Inbox { inbox: Vec::new(), next_cursor: None }));
    }
    let runs = app.engine.runs();
    let rows = runs.waits(caller.workspace, WaitKind::Approval, workflow, after, page.limit + 1).await?;
    let (rows, next_cursor) = page.cut(rows, |row: &WaitRow| Position(row.run, row.step.clone()).to_string());
    let items = stream::iter(rows).map(|row| show(&app, row)).buffered(CONCURRENT_READS);
    let inbox: Vec<Option<InboxItem>> = items.try_collect().await?;
    Ok(Json(Inbox { inbox: inbox.into_iter().flatten().collect(), next_cursor }))
}

/// A wait with the facts that its row does not contain. None if it has ended since it was listed.
async fn show(app: &AppState, row: WaitRow) -> Result<Option<InboxItem>, Problem> {
    let snapshot = match app.engine.snapshot(row.run).await {
        Some(snapshot) => Some(snapshot),
        None => match app.engine.runs().load(row.run).await {
            Ok(loaded) => loaded.snapshot(),
            Err(everstep_engine::Error::RunNotFound(_)) => None,
            Err(error) => return Err(error.into()),
        },
    };
    Ok(snapshot.and_then(|snapshot| item(&snapshot, row)))
}

fn item(snapshot: &RunSnapshot, row: WaitRow) -> Option<InboxItem> {
    let open = snapshot.open.iter().find(|open| open.step == row.step);
    // A run may have more open steps than its snapshot lists; the row is known nevertheless.
    if open.is_none() && snapshot.more == 0 {
        return None;
    }
    let title = open.and_then(|open| match &open.activity {
        StepActivity::Wait { defined, .. } => defined.as_ref()?.title.clone(),
        StepActivity::Task
        | StepActivity::Delay
        | StepActivity::Child { .. }
        | StepActivity::Retry
        | StepActivity::Body
        | StepActivity::Soon => None,
    });
    Some(InboxItem {
        kind: "wait",
        run: row.run,
        workflow: row.workflow,
        title,
        since: open.and_then(|open| open.since).map(Time::from_timestamp),
        due: row.deadline.map(Time::from_timestamp),
        about: open.and_then(|open| about(&open.activity)),
        step: row.step,
        signal: row.event,
        pattern: row.pattern,
    })
}

/// The place of a wait in the list.
struct Position(RunId, StepKey);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl FromStr for Position {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "it is not a cursor of this list";
        let (run, step) = text.split_once('.').ok_or(wrong)?;
        Ok(Self(run.parse().map_err(|_| wrong)?, StepKey::from(step)))
    }
}
