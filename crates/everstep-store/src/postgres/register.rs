//! Workflows whose versions bring numbers of their own.

use tokio_postgres::Row;
use uuid::Uuid;

use super::connection::Connection;
use super::queries::{params, query};
use super::store::PostgresStore;
use super::{arrays, rows};
use crate::error::Result;
use crate::expects::{Known, Registered};
use crate::rows::NewWorkflow;
use crate::texts;

impl PostgresStore {
    pub(super) async fn register(&self, workflows: &[(NewWorkflow, u32)]) -> Result<Vec<Registered>> {
        let wanted = Wanted::of(workflows)?;
        if let Some(answers) = self.known_answers(workflows, &wanted).await? {
            return Ok(answers);
        }
        let connection = self.connections.get().await?;
        connection.begin("begin").await?;
        let names = params! { "workspaces": wanted.workspaces, "names": wanted.names };
        connection.query(query!("register_workflows/2_lock"), names).await?;
        let mut answers = Vec::with_capacity(workflows.len());
        for one in workflows {
            answers.push(register(&connection, one).await?);
        }
        if Registered::are_all(&answers) {
            connection.commit().await?;
        } else {
            connection.rollback().await?;
        }
        Ok(answers)
    }

    /// The answers, if nothing is to be written: what a worker hears that comes back.
    async fn known_answers(
        &self,
        workflows: &[(NewWorkflow, u32)],
        wanted: &Wanted<'_>,
    ) -> Result<Option<Vec<Registered>>> {
        let params = params! { "workspaces": wanted.workspaces, "names": wanted.names, "versions": wanted.versions };
        let rows = self.connections.query(query!("register_workflows/1_known"), params).await?;
        let mut answers = Vec::with_capacity(workflows.len());
        for (row, (workflow, _)) in rows.iter().zip(workflows) {
            let known = known(row)?;
            match known.other_style(&workflow.style) {
                Some(style) => answers.push(Registered::OtherStyle(style.to_owned())),
                None if known.is_as_registered(workflow) => answers.push(Registered::Registered),
                None => return Ok(None),
            }
        }
        Ok(Some(answers))
    }
}

/// What is to be registered, as arrays.
struct Wanted<'a> {
    workspaces: Vec<Uuid>,
    names: Vec<&'a str>,
    versions: Vec<i32>,
}

impl<'a> Wanted<'a> {
    fn of(workflows: &'a [(NewWorkflow, u32)]) -> Result<Self> {
        let mut wanted = Self { workspaces: vec![], names: vec![], versions: vec![] };
        for (workflow, version) in workflows {
            texts::check([workflow.name.as_str(), &workflow.style, &workflow.digest])?;
            wanted.workspaces.push(workflow.workspace.uuid());
            wanted.names.push(&workflow.name);
            wanted.versions.push(arrays::small(*version)?);
        }
        Ok(wanted)
    }
}

/// Registers one version, under the lock of its name.
async fn register(connection: &Connection<'_>, one: &(NewWorkflow, u32)) -> Result<Registered> {
    let wanted = Wanted::of(std::slice::from_ref(one))?;
    let params = params! { "workspaces": wanted.workspaces, "names": wanted.names, "versions": wanted.versions };
    let rows = connection.query(query!("register_workflows/1_known"), params).await?;
    let known = known(&rows[0])?;
    let (workflow, version) = one;
    if let Some(style) = known.other_style(&workflow.style) {
        return Ok(Registered::OtherStyle(style.to_owned()));
    }
    if known.is_as_registered(workflow) {
        return Ok(Registered::Registered);
    }
    let activate = known.is_activated(workflow, *version);
    let version = arrays::small(*version)?;
    let deleted = arrays::small(known.deleted)?;
    if version <= deleted
        && let Some(style) = free_number(connection, workflow, version, deleted).await?
    {
        return Ok(Registered::OtherStyle(style));
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
    Ok(Registered::Registered)
}

/// Frees the number of a deleted version and those after it. Otherwise returns the style of one that is in use.
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
        return rows::get(row, 0).map(Some);
    }
    let number = params! { "workspace": workspace, "name": name, "version": version };
    connection.execute(query!("register_workflows/4_deleted"), number).await?;
    let versions = params! { "workspace": workspace, "name": name, "version": version, "deleted": deleted };
    connection.execute(query!("register_workflows/5_forget"), versions).await?;
    Ok(None)
}

/// In the order of `register_workflows/1_known.sql`.
fn known(row: &Row) -> Result<Known> {
    let is_there = rows::get::<Option<i64>>(row, 2)?.is_some();
    Ok(Known {
        newest: rows::number(row, 0)?,
        style: rows::get(row, 1)?,
        retention_days: is_there.then(|| rows::days(row, 2)).transpose()?,
        is_brought: rows::get(row, 3)?,
        deleted: rows::number(row, 4)?,
    })
}
