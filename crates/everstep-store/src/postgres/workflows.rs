//! Workflows: their versions, the active one, and how many runs they have.

use std::time::Duration;

use everstep_core::ids::WorkspaceId;

use super::connection::Connection;
use super::errors::Failure;
use super::queries::{params, query};
use super::store::PostgresStore;
use super::{arrays, nodes, rows};
use crate::error::Result;
use crate::expects::{Choice, Expects, Head, Put};
use crate::rows::{Counts, Deletion, GRACE, NewWorkflow, VersionRow, WorkflowRow, WorkflowSummary};
use crate::{numbers, texts};

/// How long all runs may take to be counted.
const PATIENCE: Duration = Duration::from_secs(300);

impl PostgresStore {
    pub(super) async fn save(&self, workflow: &NewWorkflow, activate: bool, expects: Expects) -> Result<Put> {
        loop {
            match self.try_to_save(workflow, activate, expects).await {
                Ok(put) => return put,
                // Another has saved a version at the same time: ours is the next.
                Err(failure) if failure.is_taken() || failure.is_to_be_resent() => {}
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn try_to_save(
        &self,
        workflow: &NewWorkflow,
        activate: bool,
        expects: Expects,
    ) -> Result<Result<Put>, Failure> {
        let connection = self.lock_workflow(workflow.workspace, &workflow.name).await?;
        let head = match head(&connection, workflow.workspace, &workflow.name).await? {
            Ok(head) => head,
            Err(unreadable) => return Ok(Err(unreadable)),
        };
        if let Some(style) = head.as_ref().and_then(|head| head.other_style(&workflow.style)) {
            connection.commit().await?;
            return Ok(Ok(Put::OtherStyle(style)));
        }
        if !expects.allows(head.as_ref(), &workflow.digest) {
            connection.commit().await?;
            return Ok(Ok(Put::Unexpected { active: head.map_or(0, |head| head.active) }));
        }
        let rows = connection
            .query(
                query!("put_workflow/3_save"),
                params! {
                    "workspace": workflow.workspace.uuid(),
                    "name": workflow.name,
                    "digest": workflow.digest,
                    "style": workflow.style,
                    "definition": workflow.definition.json().as_bytes(),
                    "retention_days": i64::from(workflow.retention_days),
                    "created_at": workflow.created_at.micros(),
                    "activate": activate,
                },
            )
            .await?;
        connection.commit().await?;
        let row = rows.into_iter().next().expect("the statement always returns a row");
        let saved = || {
            Ok(Put::Saved { version: rows::number(&row, 0)?, is_new: rows::get(&row, 1)?, is_first: head.is_none() })
        };
        Ok(saved())
    }

    /// Begins a transaction in which nobody else changes the workflow of a name.
    async fn lock_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Connection<'_>, Failure> {
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        let workspace = workspace.uuid();
        let key = params! { "workspace": workspace, "name": name };
        connection.query(query!("put_workflow/1_lock"), key).await?;
        Ok(connection)
    }

    pub(super) async fn choose(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: u32,
        expects: Expects,
    ) -> Result<Choice> {
        // A version that cannot be stored is none that is.
        let Some(version) = arrays::small(version).ok().filter(|_| !texts::has_nul(name)) else {
            return Ok(Choice::NotFound);
        };
        let connection = self.lock_workflow(workspace, name).await?;
        let head = head(&connection, workspace, name).await??;
        if !expects.allows(head.as_ref(), "") {
            connection.commit().await?;
            return Ok(Choice::Unexpected { active: head.map_or(0, |head| head.active) });
        }
        let workspace = workspace.uuid();
        let params = params! { "workspace": workspace, "name": name, "version": version };
        let activated = connection.execute(query!("activate_workflow"), params).await?;
        connection.commit().await?;
        Ok(if activated == 1 { Choice::Chosen } else { Choice::NotFound })
    }

    pub(super) async fn remove_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Deletion> {
        if texts::has_nul(name) {
            return Ok(Deletion::NotFound);
        }
        let connection = self.lock_workflow(workspace, name).await?;
        let workspace = workspace.uuid();
        let key = params! { "workspace": workspace, "name": name };
        let newest = connection.query(query!("delete_workflow/1_newest"), key).await?;
        let Some(newest) = newest.first().map(|row| rows::get::<i32>(row, 0)).transpose()? else {
            connection.commit().await?;
            return Ok(Deletion::NotFound);
        };
        let open = connection.query(query!("delete_workflow/2_open"), key).await?;
        let open = rows::seq(&open[0], 0)?;
        if open > 0 {
            connection.commit().await?;
            return Ok(Deletion::InUse(open));
        }
        let grace = nodes::micros(GRACE);
        let buried = params! { "workspace": workspace, "name": name, "version": newest, "grace": grace };
        connection.execute(query!("delete_workflow/3_bury"), buried).await?;
        connection.execute(query!("delete_workflow/4_head"), key).await?;
        connection.commit().await?;
        Ok(Deletion::Deleted)
    }

    pub(super) async fn read_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>> {
        let (after, limit) = (texts::place(after), numbers::limit(limit));
        let workspace = workspace.uuid();
        let params = params! { "workspace": workspace, "after": after, "limit": limit };
        let rows = self.connections.query(query!("list_workflows"), params).await?;
        rows.iter().map(rows::workflow_summary).collect()
    }

    pub(super) async fn read_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>> {
        if texts::has_nul(name) {
            return Ok(vec![]);
        }
        let (before, limit) = (before.map_or(i64::MAX, i64::from), numbers::limit(limit));
        let workspace = workspace.uuid();
        let params = params! { "workspace": workspace, "name": name, "before": before, "limit": limit };
        let rows = self.connections.query(query!("list_versions"), params).await?;
        rows.iter().map(rows::version).collect()
    }

    pub(super) async fn read_workflow(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<WorkflowRow>> {
        // A version or a name that cannot be stored is none that is.
        let Some(version) = version.map(arrays::small).transpose().ok().filter(|_| !texts::has_nul(name)) else {
            return Ok(None);
        };
        let row = self
            .connections
            .query_opt(query!("workflow"), params! { "workspace": workspace.uuid(), "name": name, "version": version })
            .await?;
        row.as_ref().map(rows::workflow).transpose()
    }

    pub(super) async fn count(&self, workspace: WorkspaceId, deltas: &[Counts]) -> Result<()> {
        self.connections
            .execute(
                query!("add_counts"),
                params! {
                    "workspace": workspace.uuid(),
                    "workflows": deltas.iter().map(|delta| delta.workflow.as_str()).collect::<Vec<_>>(),
                    "statuses": deltas.iter().map(|delta| delta.status.as_str()).collect::<Vec<_>>(),
                    "numbers": deltas.iter().map(|delta| delta.n).collect::<Vec<_>>(),
                },
            )
            .await?;
        Ok(())
    }

    /// Counts all runs. The plan is the usual one for that: it reads the whole table.
    pub(super) async fn count_anew(&self) -> Result<()> {
        let connection = self.connections.get_for(PATIENCE).await?;
        connection.begin("begin").await?;
        connection.define("set local statement_timeout = 0; set local enable_seqscan = on").await?;
        for query in [query!("recount/1_lock"), query!("recount/2_clear"), query!("recount/3_count")] {
            connection.execute(query, &[]).await?;
        }
        Ok(connection.commit().await?)
    }

    pub(super) async fn read_counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        let rows = self.connections.query(query!("counts"), params! { "workspace": workspace.uuid() }).await?;
        rows.iter().map(rows::count).collect()
    }
}

/// A workflow as it is, under its lock.
async fn head(
    connection: &Connection<'_>,
    workspace: WorkspaceId,
    name: &str,
) -> Result<Result<Option<Head>>, Failure> {
    let workspace = workspace.uuid();
    let key = params! { "workspace": workspace, "name": name };
    let rows = connection.query(query!("put_workflow/2_head"), key).await?;
    let read = |row| Ok(Head { digest: rows::get(row, 1)?, active: rows::number(row, 2)?, style: rows::get(row, 3)? });
    Ok(rows.first().map(read).transpose())
}
