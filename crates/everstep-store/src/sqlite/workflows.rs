//! Workflows: their versions, and the active one.
//!
//! The simulator calls [`Database`] directly, so the verbs are synchronous methods of it.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::ids::WorkspaceId;
use everstep_core::limits;
use everstep_core::planted::{self, Bug};
use everstep_core::publisher::Publisher;
use everstep_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::columns;
use super::database::Database;
use super::disk::Purpose;
use super::queries::query;
use super::store::SqliteStore;
use super::topics::replace_triggers;
use crate::error::{Error, Result};
use crate::ports::WorkflowStore;
use crate::preconditions::{ActivationOutcome, Head, Precondition, RegistrationOutcome, SaveOutcome};
use crate::quota::{self, NewRows};
use crate::retention::{DELETED_VERSIONS_KEPT_MIN, WORKFLOW_KEY_RETENTION};
use crate::terms::PriorVersions;
use crate::workflows::{ChangeKey, Deletion, KeyedChange, NewWorkflow, VersionRow, WorkflowRow, WorkflowSummary};
use crate::{numbers, texts};

#[async_trait]
impl WorkflowStore for SqliteStore {
    async fn save_workflow(
        &self,
        workflow: NewWorkflow,
        activate: bool,
        precondition: Precondition,
    ) -> Result<SaveOutcome> {
        self.write_for(Purpose::NewWork, move |database| database.save_workflow(&workflow, activate, precondition))
            .await
    }

    async fn register_workflows(&self, workflows: Vec<(NewWorkflow, u32)>) -> Result<Vec<RegistrationOutcome>> {
        self.write_for(Purpose::AcceptedWork, move |database| database.register_workflows(&workflows)).await
    }

    async fn choose_version(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
        precondition: Precondition,
        key: Option<(ChangeKey, u32)>,
    ) -> Result<ActivationOutcome> {
        let name = name.to_owned();
        self.write_for(Purpose::AcceptedWork, move |database| {
            database.choose_version(workspace, &name, version, precondition, key.as_ref())
        })
        .await
    }

    async fn keyed_change(
        &self,
        workspace: WorkspaceId,
        name: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyedChange>> {
        let (name, key) = (name.to_owned(), key.to_owned());
        self.read(move |database| database.keyed_change(workspace, &name, &key, now)).await
    }

    async fn delete_workflow(&self, workspace: WorkspaceId, name: &str) -> Result<Deletion> {
        let name = name.to_owned();
        self.write(move |database| database.delete_workflow(workspace, &name)).await
    }

    async fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        let name = name.to_owned();
        self.read(move |database| database.workflow(workspace, &name, version)).await
    }

    async fn count_workflows(&self, workspace: WorkspaceId) -> Result<u64> {
        self.read(move |database| database.count_workflows(workspace)).await
    }

    async fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>> {
        let after = after.map(str::to_owned);
        self.read(move |database| database.list_workflows(workspace, after.as_deref(), limit)).await
    }

    async fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>> {
        let name = name.to_owned();
        self.read(move |database| database.list_versions(workspace, &name, before, limit)).await
    }
}

impl Database {
    pub fn save_workflow(
        &mut self,
        workflow: &NewWorkflow,
        activate: bool,
        precondition: Precondition,
    ) -> Result<SaveOutcome> {
        let publisher = workflow.publisher.as_ref().and_then(Publisher::stored_name);
        let permissions = workflow.publisher.as_ref().map(Publisher::permission_text);
        let texts = [workflow.name.as_str(), &workflow.style, &workflow.digest];
        texts::check(texts.into_iter().chain(publisher.as_deref()).chain(permissions.as_deref()))?;
        let now = self.now();
        let look_at = now.plus(DELETED_VERSIONS_KEPT_MIN);
        let counts = Arc::clone(&self.workflow_counts);
        let mut rows = counts.begin();
        let tx = self.begin()?;
        let workspace = workflow.workspace.uuid().into_bytes();
        let mut head = read_head(&tx, workflow.workspace, &workflow.name)?;
        let replaced = head.take_if(|head| head.is_replaced_by(&workflow.style));
        if let Some(replaced) = &replaced {
            if !precondition.allows_replacing(replaced, workflow) {
                return Ok(SaveOutcome::Unexpected { active: replaced.active });
            }
            bury(&tx, workflow.workspace, &workflow.name, replaced.version, look_at)?;
        }
        if let Some(style) = head.as_ref().and_then(|head| head.other_style(&workflow.style)) {
            return Ok(SaveOutcome::OtherStyle(style));
        }
        if replaced.is_none() && !precondition.allows(head.as_ref(), Some(workflow)) {
            return Ok(SaveOutcome::Unexpected { active: head.map_or(0, |head| head.active) });
        }
        if head.is_none() && replaced.is_none() {
            count_name(&tx, &mut rows, workflow.workspace)?;
        }
        let newest: Option<u32> = tx
            .prepare_cached(query!("put_workflow/1_newest"))?
            .query_row(named_params! { ":workspace": workspace, ":name": workflow.name }, |row| row.get(0))
            .optional()?;
        let deleted = read_deleted_version(&tx, workflow.workspace, &workflow.name)?;
        let same = head.as_ref().filter(|head| head.is_version(workflow)).map(|head| head.version);
        let (version, is_new) = match same {
            Some(version) => (version, false),
            None => (newest.unwrap_or(0).max(deleted) + 1, true),
        };
        if is_new {
            tx.prepare_cached(query!("put_workflow/2_insert"))?.execute(named_params! {
                ":workspace": workspace,
                ":name": workflow.name,
                ":version": version,
                ":style": workflow.style,
                ":definition": workflow.definition.json().as_bytes(),
                ":digest": workflow.digest,
                ":retention_days": workflow.retention_days,
                ":created_at": workflow.created_at.micros(),
                ":publisher": publisher,
                ":permissions": permissions,
            })?;
        }
        if activate {
            tx.prepare_cached(query!("put_workflow/3_activate"))?.execute(named_params! {
                ":workspace": workspace,
                ":name": workflow.name,
                ":version": version,
            })?;
        }
        if activate || replaced.is_some() {
            let prior = SaveOutcome::prior_versions(version, is_new);
            replace_triggers(&tx, workflow.workspace, &workflow.name, now, prior)?;
        }
        if let Some(key) = &workflow.key {
            record_key(&tx, workflow.workspace, &workflow.name, key, version)?;
        }
        tx.commit()?;
        rows.keep();
        Ok(SaveOutcome::Saved { version, is_new, is_first: head.is_none() })
    }

    pub fn choose_version(
        &mut self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
        precondition: Precondition,
        key: Option<&(ChangeKey, u32)>,
    ) -> Result<ActivationOutcome> {
        let now = self.now();
        let tx = self.begin()?;
        let head = read_head(&tx, workspace, name)?;
        if !precondition.allows(head.as_ref(), None) {
            return Ok(ActivationOutcome::Unexpected { active: head.map_or(0, |head| head.active) });
        }
        let id = workspace.uuid().into_bytes();
        let is_found = match version {
            Some(version) => {
                let params = named_params! { ":workspace": id, ":name": name, ":version": version };
                tx.prepare_cached(query!("activate_workflow"))?.execute(params)? == 1
            }
            None => {
                let params = named_params! { ":workspace": id, ":name": name };
                tx.prepare_cached(query!("deactivate_workflow"))?.execute(params)?;
                head.is_some()
            }
        };
        if !planted::is_planted(Bug::TriggersOfAnOldVersion) {
            replace_triggers(&tx, workspace, name, now, PriorVersions::Present)?;
        }
        if let Some((key, shown)) = key.filter(|_| is_found) {
            record_key(&tx, workspace, name, key, *shown)?;
        }
        tx.commit()?;
        Ok(if is_found { ActivationOutcome::Chosen } else { ActivationOutcome::NotFound })
    }

    pub fn delete_workflow(&mut self, workspace: WorkspaceId, name: &str) -> Result<Deletion> {
        let now = self.now();
        let look_at = now.plus(DELETED_VERSIONS_KEPT_MIN);
        let tx = self.begin()?;
        let key = named_params! { ":workspace": workspace.uuid().into_bytes(), ":name": name };
        let newest: Option<u32> =
            tx.prepare_cached(query!("delete_workflow/1_newest"))?.query_row(key, |row| row.get(0)).optional()?;
        let Some(newest) = newest else {
            return Ok(Deletion::NotFound);
        };
        let open = tx.prepare_cached(query!("delete_workflow/2_open"))?.query_row(key, |row| columns::seq(row, 0))?;
        if open > 0 {
            return Ok(Deletion::InUse(open));
        }
        bury(&tx, workspace, name, newest, look_at)?;
        replace_triggers(&tx, workspace, name, now, PriorVersions::Present)?;
        tx.commit()?;
        self.workflow_counts.remove(workspace);
        Ok(Deletion::Deleted)
    }

    pub fn keyed_change(
        &self,
        workspace: WorkspaceId,
        name: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyedChange>> {
        let mut statement = self.connection.prepare_cached(query!("workflow_keys/find"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":name": name,
            ":key": key,
            ":since": now.micros() - numbers::micros(WORKFLOW_KEY_RETENTION),
        };
        let read = |row: &Row<'_>| Ok(KeyedChange { digest: row.get(0)?, version: row.get(1)? });
        Ok(statement.query_row(params, read).optional()?)
    }

    pub fn count_workflows(&self, workspace: WorkspaceId) -> Result<u64> {
        count_workflows(&self.connection, workspace)
    }

    pub fn list_workflows(
        &self,
        workspace: WorkspaceId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<WorkflowSummary>> {
        let mut statement = self.connection.prepare_cached(query!("list_workflows"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":after": after.unwrap_or_default(),
            ":limit": numbers::clamp_limit(limit),
        };
        Ok(statement.query_map(params, workflow_summary_from_row)?.collect::<rusqlite::Result<_>>()?)
    }

    pub fn list_versions(
        &self,
        workspace: WorkspaceId,
        name: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<VersionRow>> {
        let mut statement = self.connection.prepare_cached(query!("list_versions"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":name": name,
            ":before": before.map_or(i64::MAX, i64::from),
            ":limit": numbers::clamp_limit(limit),
        };
        Ok(statement.query_map(params, version_from_row)?.collect::<rusqlite::Result<_>>()?)
    }

    pub fn workflow(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Option<WorkflowRow>> {
        let mut statement = self.connection.prepare_cached(query!("workflow"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":name": name,
            ":version": version,
        };
        Ok(statement.query_row(params, workflow_from_row).optional()?)
    }
}

/// Deletes a workflow up to its newest version. The versions are kept while runs refer to them.
fn bury(tx: &Connection, workspace: WorkspaceId, name: &str, newest: u32, look_at: Timestamp) -> Result<()> {
    let workspace = workspace.uuid().into_bytes();
    tx.prepare_cached(query!("delete_workflow/3_bury"))?.execute(named_params! {
        ":workspace": workspace, ":name": name, ":version": newest, ":look_at": look_at.micros(),
    })?;
    for statement in [query!("delete_workflow/4_head"), query!("delete_workflow/5_keys")] {
        tx.prepare_cached(statement)?.execute(named_params! { ":workspace": workspace, ":name": name })?;
    }
    Ok(())
}

/// Records the idempotency key of a change.
fn record_key(tx: &Connection, workspace: WorkspaceId, name: &str, key: &ChangeKey, version: u32) -> Result<()> {
    let (workspace, at) = (workspace.uuid().into_bytes(), key.at.micros());
    texts::check([key.key.as_str(), key.digest.as_str()])?;
    tx.prepare_cached(query!("workflow_keys/record"))?.execute(named_params! {
        ":workspace": workspace,
        ":name": name,
        ":key": key.key,
        ":digest": key.digest,
        ":version": version,
        ":at": at,
    })?;
    Ok(())
}

/// Counts the new name of a workflow against the quota of its workspace.
pub(super) fn count_name(tx: &Connection, rows: &mut NewRows<'_>, workspace: WorkspaceId) -> Result<()> {
    let counted = match rows.add(workspace, limits::WORKFLOWS) {
        Some(counted) => counted,
        None => rows.set_and_add(workspace, count_workflows(tx, workspace)?, limits::WORKFLOWS),
    };
    counted.map_err(Error::WorkflowQuotaReached)
}

fn count_workflows(connection: &Connection, workspace: WorkspaceId) -> Result<u64> {
    let mut statement = connection.prepare_cached(query!("count_workflows"))?;
    let params = named_params! {
        ":workspace": workspace.uuid().into_bytes(),
        ":names": numbers::clamp_limit(limits::COUNTED_NAMES),
    };
    let (count, names) = statement.query_row(params, |row| Ok((columns::seq(row, 0)?, columns::seq(row, 1)?)))?;
    Ok(quota::workflow_count(count, names))
}

fn read_head(tx: &Connection, workspace: WorkspaceId, name: &str) -> Result<Option<Head>> {
    let mut statement = tx.prepare_cached(query!("put_workflow/1_head"))?;
    let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":name": name };
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Head {
            version: row.get(0)?,
            digest: row.get(1)?,
            active: row.get(2)?,
            style: row.get(3)?,
            is_only_named: row.get(4)?,
            permissions: row.get(5)?,
        })
    };
    Ok(statement.query_row(params, read).optional()?)
}

/// The newest version that a workflow had when it was deleted; 0 if it was never deleted.
fn read_deleted_version(tx: &Connection, workspace: WorkspaceId, name: &str) -> Result<u32> {
    let mut statement = tx.prepare_cached(query!("put_workflow/1_deleted"))?;
    let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":name": name };
    Ok(statement.query_row(params, |row| row.get(0)).optional()?.unwrap_or_default())
}

/// In the order of `workflow.sql`.
fn workflow_from_row(row: &Row<'_>) -> rusqlite::Result<WorkflowRow> {
    Ok(WorkflowRow {
        workspace: WorkspaceId::from_uuid(columns::uuid(row, 0)?),
        name: row.get(1)?,
        version: row.get(2)?,
        style: row.get(3)?,
        definition: columns::payload(4, row.get(4)?)?,
        digest: row.get(5)?,
        retention_days: row.get(6)?,
        created_at: columns::time(row, 7)?,
        publisher: Publisher::from_stored(
            row.get::<_, Option<String>>(8)?.as_deref(),
            row.get::<_, Option<String>>(9)?.as_deref(),
        ),
        search_paths: columns::json(row, 10)?.unwrap_or_default(),
        is_deleted: row.get(11)?,
    })
}

/// In the order of `list_workflows.sql`.
fn workflow_summary_from_row(row: &Row<'_>) -> rusqlite::Result<WorkflowSummary> {
    Ok(WorkflowSummary {
        name: row.get(0)?,
        style: row.get(1)?,
        active_version: row.get(2)?,
        latest_version: row.get(3)?,
        updated_at: columns::time(row, 4)?,
    })
}

/// In the order of `list_versions.sql`.
fn version_from_row(row: &Row<'_>) -> rusqlite::Result<VersionRow> {
    Ok(VersionRow {
        version: row.get(0)?,
        digest: row.get(1)?,
        created_at: columns::time(row, 2)?,
        retention_days: row.get(3)?,
        is_active: row.get(4)?,
    })
}
