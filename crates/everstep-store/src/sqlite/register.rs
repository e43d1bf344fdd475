//! Registration of versions whose numbers their author has chosen.

use std::sync::Arc;

use everstep_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::database::Database;
use super::queries::query;
use super::topics::replace_triggers;
use super::workflows::count_name;
use crate::error::Result;
use crate::preconditions::{RegistrationOutcome, VersionState};
use crate::quota::NewRows;
use crate::texts;
use crate::workflows::NewWorkflow;

impl Database {
    pub fn register_workflows(&mut self, workflows: &[(NewWorkflow, u32)]) -> Result<Vec<RegistrationOutcome>> {
        for (workflow, _) in workflows {
            texts::check([workflow.name.as_str(), &workflow.style, &workflow.digest])?;
        }
        let now = self.now();
        let counts = Arc::clone(&self.workflow_counts);
        let mut rows = counts.begin();
        let tx = self.begin()?;
        let registered: Vec<_> = workflows
            .iter()
            .map(|(workflow, version)| register(&tx, &mut rows, workflow, *version, now))
            .collect::<Result<_>>()?;
        if RegistrationOutcome::are_all(&registered) {
            tx.commit()?;
            rows.keep();
        }
        Ok(registered)
    }
}

fn register(
    tx: &Connection,
    rows: &mut NewRows<'_>,
    workflow: &NewWorkflow,
    version: u32,
    now: Timestamp,
) -> Result<RegistrationOutcome> {
    let workspace = workflow.workspace.uuid().into_bytes();
    let known = tx.prepare_cached(query!("register_workflows/1_known"))?.query_row(
        named_params! { ":workspace": workspace, ":name": workflow.name, ":version": version },
        version_state_from_row,
    )?;
    if let Some(style) = known.other_style(&workflow.style) {
        return Ok(RegistrationOutcome::OtherStyle(style.to_owned()));
    }
    if known.is_as_registered(workflow) {
        return Ok(RegistrationOutcome::Registered);
    }
    if version <= known.deleted
        && let Some(style) = free_number(tx, workflow, version, known.deleted)?
    {
        return Ok(RegistrationOutcome::OtherStyle(style));
    }
    if known.is_new_name() {
        count_name(tx, rows, workflow.workspace)?;
    }
    tx.prepare_cached(query!("register_workflows/6_save"))?.execute(named_params! {
        ":workspace": workspace,
        ":name": workflow.name,
        ":version": version,
        ":style": workflow.style,
        ":definition": workflow.definition.json().as_bytes(),
        ":digest": workflow.digest,
        ":retention_days": workflow.retention_days,
        ":created_at": workflow.created_at.micros(),
    })?;
    if known.is_activated(workflow, version) {
        tx.prepare_cached(query!("put_workflow/3_activate"))?
            .execute(named_params! { ":workspace": workspace, ":name": workflow.name, ":version": version })?;
    }
    // The last registration of the active version determines its triggers.
    replace_triggers(tx, workflow.workspace, &workflow.name, now, known.prior_versions())?;
    Ok(RegistrationOutcome::Registered)
}

/// Frees the number of a deleted version and those after it. Otherwise returns the style of a version that is in use.
fn free_number(tx: &Connection, workflow: &NewWorkflow, version: u32, deleted: u32) -> Result<Option<String>> {
    let workspace = workflow.workspace.uuid().into_bytes();
    let in_use: Option<String> = tx
        .prepare_cached(query!("register_workflows/3_in_use"))?
        .query_row(
            named_params! {
                ":workspace": workspace, ":name": workflow.name, ":version": version, ":deleted": deleted,
                ":style": workflow.style,
            },
            |row| row.get(0),
        )
        .optional()?;
    if in_use.is_some() {
        return Ok(in_use);
    }
    tx.prepare_cached(query!("register_workflows/4_deleted"))?
        .execute(named_params! { ":workspace": workspace, ":name": workflow.name, ":version": version })?;
    tx.prepare_cached(query!("register_workflows/5_forget"))?.execute(named_params! {
        ":workspace": workspace, ":name": workflow.name, ":version": version, ":deleted": deleted,
    })?;
    Ok(None)
}

/// In the order of `register_workflows/1_known.sql`.
fn version_state_from_row(row: &Row<'_>) -> rusqlite::Result<VersionState> {
    Ok(VersionState {
        newest: row.get(0)?,
        style: row.get(1)?,
        retention_days: row.get(2)?,
        digest: row.get(3)?,
        deleted: row.get(4)?,
    })
}
