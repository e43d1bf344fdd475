//! Workflows: their versions, and the active one.

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::limits;
use everstep_core::publisher::Publisher;
use everstep_core::time::Timestamp;
use tokio_postgres::Row;

use super::columns;
use super::connection::Connection;
use super::errors::StatementError;
use super::queries::{params, query};
use super::store::PostgresStore;
use super::topics::replace_triggers;
use crate::error::{Error, Result};
use crate::ports::WorkflowStore;
use crate::preconditions::{ActivationOutcome, Head, Precondition, RegistrationOutcome, SaveOutcome};
use crate::quota::{self, NewRows};
use crate::retention::{DELETED_VERSIONS_KEPT_MIN, WORKFLOW_KEY_RETENTION};
use crate::terms::PriorVersions;
use crate::workflows::{
    ChangeKey, Deletion, KeyedChange, NewWorkflow, VersionRow, WorkflowRow, WorkflowSummary, default_permissions,
};
use crate::{numbers, texts};

#[async_trait]
impl WorkflowStore for PostgresStore {
    async fn save_workflow(
        &self,
        workflow: NewWorkflow,
        activate: bool,
        precondition: Precondition,
    ) -> Result<SaveOutcome> {
        loop {
            match self.try_to_save(&workflow, activate, precondition).await {
                Ok(outcome) => return Ok(outcome),
                // Another call has saved a version at the same time: this one is the next.
                Err(failure) if failure.is_taken() || failure.is_to_be_resent() => {}
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    async fn register_workflows(&self, workflows: Vec<(NewWorkflow, u32)>) -> Result<Vec<RegistrationOutcome>> {
        self.register(&workflows).await
    }

    async fn choose_version(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
        precondition: Precondition,
        key: Option<(ChangeKey, u32)>,
    ) -> Result<ActivationOutcome> {
        // No stored workflow has a version or name that cannot be stored.
        let version = version.map(numbers::checked_integer).transpose().ok().filter(|_| !texts::has_nul(name));
        let Some(version) = version else { return Ok(ActivationOutcome::NotFound) };
        let connection = self.lock_workflow(workspace, name).await?;
        let head = read_head(&connection, workspace, name).await?;
        if !precondition.allows(head.as_ref(), None) {
            connection.commit().await?;
            return Ok(ActivationOutcome::Unexpected { active: head.map_or(0, |head| head.active) });
        }
        let id = workspace.uuid();
        let is_found = match version {
            Some(version) => {
                let params = params! { "workspace": id, "name": name, "version": version };
                connection.execute(query!("activate_workflow"), params).await? == 1
            }
            None => {
                let params = params! { "workspace": id, "name": name };
                connection.execute(query!("deactivate_workflow"), params).await?;
                head.is_some()
            }
        };
        replace_triggers(&connection, workspace, name, PriorVersions::Present).await?;
        if let Some((key, shown)) = key.filter(|_| is_found) {
            record_key(&connection, workspace, name, &key, shown).await?;
        }
        connection.commit().await?;
        Ok(if is_found { ActivationOutcome::Chosen } else { ActivationOutcome::NotFound })
    }

    async fn keyed_change(
        &self,
        workspace: WorkspaceId,
        name: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyedChange>> {
        if texts::has_nul(name) || texts::has_nul(key) {
            return Ok(None);
        }
        let (workspace, since) = (workspace.uuid(), now.micros() - numbers::micros(WORKFLOW_KEY_RETENTION));
        let params = params! { "workspace": workspace, "name": name, "key": key, "since": since };
        let row = self.connections.query_opt(query!("workflow_keys/find"), params).await?;
        row.map(|row| Ok(KeyedChange { digest: columns::get(&row, 0)?, version: columns::integer(&row, 1)? }))
            .transpose()
    }

    async fn delete_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Deletion> {
        if texts::has_nul(name) {
            return Ok(Deletion::NotFound);
        }
        let connection = self.lock_workflow(workspace, name).await?;
        let id = workspace.uuid();
        let key = params! { "workspace": id, "name": name };
        let newest = connection.query(query!("delete_workflow/1_newest"), key).await?;
        let Some(newest) = newest.first().map(|row| columns::get::<i32>(row, 0)).transpose()? else {
            connection.commit().await?;
            return Ok(Deletion::NotFound);
        };
        let open = connection.query(query!("delete_workflow/2_open"), key).await?;
        let open = columns::seq(&open[0], 0)?;
        if open > 0 {
            connection.commit().await?;
            return Ok(Deletion::InUse(open));
        }
        bury(&connection, workspace, name, newest).await?;
        replace_triggers(&connection, workspace, name, PriorVersions::Present).await?;
        connection.commit().await?;
        self.workflow_counts.remove(workspace);
        Ok(Deletion::Deleted)
    }

    async fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        // No stored workflow has a version or name that cannot be stored.
        let Some(version) = version.map(numbers::checked_integer).transpose().ok().filter(|_| !texts::has_nul(name))
        else {
            return Ok(None);
        };
        let row = self
            .connections
            .query_opt(query!("workflow"), params! { "workspace": workspace.uuid(), "name": name, "version": version })
            .await?;
        row.as_ref().map(workflow_from_row).transpose()
    }

    async fn count_workflows(&self, workspace: WorkspaceId) -> Result<u64> {
        let (workspace, names) = (workspace.uuid(), numbers::clamp_limit(limits::COUNTED_NAMES));
        let params = params! { "workspace": workspace, "names": names };
        workflow_count_from_rows(&self.connections.query(query!("count_workflows"), params).await?)
    }

    async fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>> {
        let (after, limit) = (texts::page_start(after), numbers::clamp_limit(limit));
        let workspace = workspace.uuid();
        let params = params! { "workspace": workspace, "after": after, "limit": limit };
        let rows = self.connections.query(query!("list_workflows"), params).await?;
        rows.iter().map(workflow_summary_from_row).collect()
    }

    async fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>> {
        if texts::has_nul(name) {
            return Ok(vec![]);
        }
        let (before, limit) = (before.map_or(i64::MAX, i64::from), numbers::clamp_limit(limit));
        let workspace = workspace.uuid();
        let params = params! { "workspace": workspace, "name": name, "before": before, "limit": limit };
        let rows = self.connections.query(query!("list_versions"), params).await?;
        rows.iter().map(version_from_row).collect()
    }
}

impl PostgresStore {
    async fn try_to_save(
        &self,
        workflow: &NewWorkflow,
        activate: bool,
        precondition: Precondition,
    ) -> Result<SaveOutcome, StatementError> {
        let connection = self.lock_workflow(workflow.workspace, &workflow.name).await?;
        let mut head = read_head(&connection, workflow.workspace, &workflow.name).await?;
        let replaced = head.take_if(|head| head.is_replaced_by(&workflow.style));
        if let Some(replaced) = &replaced {
            if !precondition.allows_replacing(replaced, workflow) {
                connection.commit().await?;
                return Ok(SaveOutcome::Unexpected { active: replaced.active });
            }
            let newest = numbers::checked_integer(replaced.version)?;
            bury(&connection, workflow.workspace, &workflow.name, newest).await?;
        }
        if let Some(style) = head.as_ref().and_then(|head| head.other_style(&workflow.style)) {
            connection.commit().await?;
            return Ok(SaveOutcome::OtherStyle(style));
        }
        if replaced.is_none() && !precondition.allows(head.as_ref(), Some(workflow)) {
            connection.commit().await?;
            return Ok(SaveOutcome::Unexpected { active: head.map_or(0, |head| head.active) });
        }
        let mut new = self.workflow_counts.begin();
        if head.is_none() && replaced.is_none() {
            match count_name(&connection, &mut new, workflow.workspace).await {
                Err(StatementError::Rejected(error)) => {
                    connection.rollback().await?;
                    return Err(error.into());
                }
                counted => counted?,
            }
        }
        let publisher = workflow.publisher.as_ref().and_then(Publisher::stored_name);
        let permissions = workflow.publisher.as_ref().map(Publisher::permission_text);
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
                    "publisher": publisher,
                    "permissions": permissions,
                    "default_permissions": default_permissions(),
                },
            )
            .await?;
        let row = rows.into_iter().next().expect("the statement always returns a row");
        let (version, is_new) = (columns::integer(&row, 0)?, columns::get(&row, 1)?);
        if activate || replaced.is_some() {
            let prior = SaveOutcome::prior_versions(version, is_new);
            replace_triggers(&connection, workflow.workspace, &workflow.name, prior).await?;
        }
        if let Some(key) = &workflow.key {
            record_key(&connection, workflow.workspace, &workflow.name, key, version).await?;
        }
        connection.commit().await?;
        new.keep();
        Ok(SaveOutcome::Saved { version, is_new, is_first: head.is_none() })
    }

    /// Begins a transaction that holds the lock of a workflow's name.
    async fn lock_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Connection<'_>, StatementError> {
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        let workspace = workspace.uuid();
        let key = params! { "workspace": workspace, "name": name };
        connection.query(query!("put_workflow/1_lock"), key).await?;
        Ok(connection)
    }
}

/// Counts the new name of a workflow against the quota of its workspace.
pub(super) async fn count_name(
    connection: &Connection<'_>,
    new: &mut NewRows<'_>,
    workspace: WorkspaceId,
) -> Result<(), StatementError> {
    let counted = match new.add(workspace, limits::WORKFLOWS) {
        Some(counted) => counted,
        None => {
            let (id, names) = (workspace.uuid(), numbers::clamp_limit(limits::COUNTED_NAMES));
            let params = params! { "workspace": id, "names": names };
            let rows = connection.query(query!("count_workflows"), params).await?;
            new.set_and_add(workspace, workflow_count_from_rows(&rows)?, limits::WORKFLOWS)
        }
    };
    Ok(counted.map_err(Error::WorkflowQuotaReached)?)
}

/// Deletes a workflow up to its newest version. The versions are kept while runs refer to them.
async fn bury(
    connection: &Connection<'_>,
    workspace: WorkspaceId,
    name: &str,
    newest: i32,
) -> Result<(), StatementError> {
    let (workspace, grace) = (workspace.uuid(), numbers::micros(DELETED_VERSIONS_KEPT_MIN));
    let buried = params! { "workspace": workspace, "name": name, "version": newest, "grace": grace };
    connection.execute(query!("delete_workflow/3_bury"), buried).await?;
    for statement in [query!("delete_workflow/4_head"), query!("delete_workflow/5_keys")] {
        connection.execute(statement, params! { "workspace": workspace, "name": name }).await?;
    }
    Ok(())
}

/// Records the idempotency key of a change.
async fn record_key(
    connection: &Connection<'_>,
    workspace: WorkspaceId,
    name: &str,
    key: &ChangeKey,
    version: u32,
) -> Result<(), StatementError> {
    let (workspace, at, version) = (workspace.uuid(), key.at.micros(), numbers::checked_integer(version)?);
    let (key, digest) = (key.key.as_str(), key.digest.as_str());
    let params = params! {
        "workspace": workspace, "name": name, "key": key, "digest": digest, "version": version, "at": at,
    };
    connection.execute(query!("workflow_keys/record"), params).await?;
    Ok(())
}

/// The state of a workflow, read under its lock.
async fn read_head(
    connection: &Connection<'_>,
    workspace: WorkspaceId,
    name: &str,
) -> Result<Option<Head>, StatementError> {
    let workspace = workspace.uuid();
    let key = params! { "workspace": workspace, "name": name };
    let rows = connection.query(query!("put_workflow/2_head"), key).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Head {
        version: columns::integer(row, 0)?,
        digest: columns::get(row, 1)?,
        active: columns::integer(row, 2)?,
        style: columns::get(row, 3)?,
        is_only_named: columns::get(row, 4)?,
        permissions: columns::get(row, 5)?,
    }))
}

/// In the order of `count_workflows.sql`.
fn workflow_count_from_rows(rows: &[Row]) -> Result<u64> {
    let row = rows.first().expect("the statement always returns a row");
    Ok(quota::workflow_count(columns::seq(row, 0)?, columns::seq(row, 1)?))
}

/// In the order of `workflow.sql`.
fn workflow_from_row(row: &Row) -> Result<WorkflowRow> {
    Ok(WorkflowRow {
        workspace: WorkspaceId::from_uuid(columns::get(row, 0)?),
        name: columns::get(row, 1)?,
        version: columns::integer(row, 2)?,
        style: columns::get(row, 3)?,
        definition: columns::bytes_payload(columns::get(row, 4)?)?,
        digest: columns::get(row, 5)?,
        retention_days: columns::bigint(row, 6)?,
        created_at: columns::time(row, 7)?,
        publisher: Publisher::from_stored(columns::get(row, 8)?, columns::get(row, 9)?),
        search_paths: columns::list(row, 10)?,
        is_deleted: columns::get(row, 11)?,
    })
}

/// In the order of `list_workflows.sql`.
fn workflow_summary_from_row(row: &Row) -> Result<WorkflowSummary> {
    Ok(WorkflowSummary {
        name: columns::get(row, 0)?,
        style: columns::get(row, 1)?,
        active_version: columns::integer(row, 2)?,
        latest_version: columns::integer(row, 3)?,
        updated_at: columns::time(row, 4)?,
    })
}

/// In the order of `list_versions.sql`.
fn version_from_row(row: &Row) -> Result<VersionRow> {
    Ok(VersionRow {
        version: columns::integer(row, 0)?,
        digest: columns::get(row, 1)?,
        created_at: columns::time(row, 2)?,
        retention_days: columns::bigint(row, 3)?,
        is_active: columns::get(row, 4)?,
    })
}
