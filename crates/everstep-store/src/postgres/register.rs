//! Registration of versions whose numbers their author has chosen.

use tokio_postgres::Row;
use uuid::Uuid;

use super::columns;
use super::connection::Connection;
use super::queries::{params, query};
use super::store::PostgresStore;
use super::topics::replace_triggers;
use super::workflows::count_name;
use crate::error::Result;
use crate::preconditions::{RegistrationOutcome, VersionState};
use crate::quota::NewRows;
use crate::workflows::NewWorkflow;
use crate::{numbers, texts};

impl PostgresStore {
    pub(super) async fn register(&self, workflows: &[(NewWorkflow, u32)]) -> Result<Vec<RegistrationOutcome>> {
        let wanted = Wanted::new(workflows)?;
        if let Some(answers) = self.known_answers(workflows, &wanted).await? {
            return Ok(answers);
        }
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        let names = params! { "workspaces": wanted.workspaces, "names": wanted.names };
        connection.query(query!("register_workflows/2_lock"), names).await?;
        let mut new = self.workflow_counts.begin();
        let mut answers = Vec::with_capacity(workflows.len());
        for one in workflows {
            answers.push(register(&connection, &mut new, one).await?);
        }
        if RegistrationOutcome::are_all(&answers) {
            connection.commit().await?;
            new.keep();
        } else {
            connection.rollback().await?;
        }
        Ok(answers)
    }

    /// The answers if nothing must be written, which is the usual case for a worker that reconnects.
    async fn known_answers(
        &self,
        workflows: &[(NewWorkflow, u32)],
        wanted: &Wanted<'_>,
    ) -> Result<Option<Vec<RegistrationOutcome>>> {
        let params = params! { "workspaces": wanted.workspaces, "names": wanted.names, "versions": wanted.versions };
        let rows = self.connections.query(query!("register_workflows/1_known"), params).await?;
        let mut answers = Vec::with_capacity(workflows.len());
        for (row, (workflow, _)) in rows.iter().zip(workflows) {
            let known = version_state_from_row(row)?;
            match known.other_style(&workflow.style) {
                Some(style) => answers.push(RegistrationOutcome::OtherStyle(style.to_owned())),
                None if known.is_as_registered(workflow) => answers.push(RegistrationOutcome::Registered),
                None => return Ok(None),
            }
        }
        Ok(Some(answers))
    }
}

/// The versions to register, as arrays.
struct Wanted<'a> {
    workspaces: Vec<Uuid>,
    names: Vec<&'a str>,
    versions: Vec<i32>,
}

impl<'a> Wanted<'a> {
    fn new(workflows: &'a [(NewWorkflow, u32)]) -> Result<Self> {
        let mut wanted = Self { workspaces: vec![], names: vec![], versions: vec![] };
        for (workflow, version) in workflows {
            texts::check([workflow.name.as_str(), &workflow.style, &workflow.digest])?;
            wanted.workspaces.push(workflow.workspace.uuid());
            wanted.names.push(&workflow.name);
            wanted.versions.push(numbers::checked_integer(*version)?);
        }
        Ok(wanted)
    }
}

/// Registers one version, under the lock of its name.
async fn register(
    connection: &Connection<'_>,
    new: &mut NewRows<'_>,
    one: &(NewWorkflow, u32),
) -> Result<RegistrationOutcome> {
    let wanted = Wanted::new(std::slice::from_ref(one))?;
    let params = params! { "workspaces": wanted.workspaces, "names": wanted.names, "versions": wanted.versions };
    let rows = connection.query(query!("register_workflows/1_known"), params).await?;
    let known = version_state_from_row(&rows[0])?;
    let (workflow, version) = one;
    if let Some(style) = known.other_style(&workflow.style) {
        return Ok(RegistrationOutcome::OtherStyle(style.to_owned()));
    }
    if known.is_as_registered(workflow) {
        return Ok(RegistrationOutcome::Registered);
    }
    let activate = known.is_activated(workflow, *version);
    let version = numbers::checked_integer(*version)?;
    let deleted = numbers::checked_integer(known.deleted)?;
    if version <= deleted
        && let Some(style) = free_number(connection, workflow, version, deleted).await?
    {
        return Ok(RegistrationOutcome::OtherStyle(style));
    }
    if known.is_new_name() {
        count_name(connection, new, workflow.workspace).await?;
    }
    connection
        .execute(
            query!("register_workflows/6_save"),
            params! {
                "workspace": workflow.workspace.uuid(),
                "name": workflow.name,
                "version": version,
                "style": workflow.style,
                "definition": workflow.definition.json().as_bytes(),
                "digest": workflow.digest,
                "retention_days": i64::from(workflow.retention_days),
                "created_at": workflow.created_at.micros(),
                "activate": activate,
            },
        )
        .await?;
    // The last registration of the active version determines its triggers.
    replace_triggers(connection, workflow.workspace, &workflow.name, known.prior_versions()).await?;
    Ok(RegistrationOutcome::Registered)
}

/// Frees the number of a deleted version and those after it. Otherwise returns the style of a version that is in use.
async fn free_number(
    connection: &Connection<'_>,
    workflow: &NewWorkflow,
    version: i32,
    deleted: i32,
) -> Result<Option<String>> {
    let (workspace, name) = (workflow.workspace.uuid(), workflow.name.as_str());
    let style = workflow.style.as_str();
    let versions = params! {
        "workspace": workspace, "name": name, "version": version, "deleted": deleted, "style": style,
    };
    let in_use = connection.query(query!("register_workflows/3_in_use"), versions).await?;
    if let Some(row) = in_use.first() {
        return columns::get(row, 0).map(Some);
    }
    let number = params! { "workspace": workspace, "name": name, "version": version };
    connection.execute(query!("register_workflows/4_deleted"), number).await?;
    let versions = params! { "workspace": workspace, "name": name, "version": version, "deleted": deleted };
    connection.execute(query!("register_workflows/5_forget"), versions).await?;
    Ok(None)
}

/// In the order of `register_workflows/1_known.sql`.
fn version_state_from_row(row: &Row) -> Result<VersionState> {
    let is_there = columns::get::<Option<i64>>(row, 2)?.is_some();
    Ok(VersionState {
        newest: columns::integer(row, 0)?,
        style: columns::get(row, 1)?,
        retention_days: is_there.then(|| columns::bigint(row, 2)).transpose()?,
        digest: columns::get(row, 3)?,
        deleted: columns::integer(row, 4)?,
    })
}
