//! Registers the versions of code workflows.

use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::style::StyleName;
use everstep_core::topics::DeclaredTrigger;
use everstep_store::{NewWorkflow, RegistrationOutcome};
use serde_json::{Map, Value, json};

use super::definitions::{RETENTION_DAYS_DEFAULT, digest};
use super::names::check_name;
use super::versions::{Library, read_style};
use crate::error::Error;
use crate::workers::ServedWorkflow;

/// Registrations at a time, each of another workspace.
pub(super) const REGISTRATIONS_MAX: u64 = 4;
/// Workflows that are registered in one transaction. If a later part of a registration is refused, the parts before it
/// remain.
const REGISTERED_TOGETHER_MAX: usize = 50;
/// The greatest version that a worker may serve.
pub(super) const VERSION_MAX: u32 = i32::MAX as u32;

/// The member of the definition of a code workflow that holds the schema of its input.
pub(super) const INPUT_SCHEMA: &str = "inputSchema";
/// The member of a definition with the events that start runs. The store reads it when a version becomes active.
const TRIGGERS: &str = "triggers";
/// The member of a definition with the search attributes. The store reads it when a version becomes active.
const OPTIONS: &str = "options";

/// The content of a registration.
#[derive(Clone, Copy, Debug)]
enum Registration {
    /// The definition of the version, which a worker sends.
    Definition,
    /// Only the name and the number: a start names a version that no worker has registered.
    Name,
}

impl Library {
    /// Saves the versions of code workflows that a worker serves.
    pub(crate) async fn register(&self, workspace: WorkspaceId, workflows: &[ServedWorkflow]) -> Result<(), Error> {
        self.register_as(workspace, workflows, Registration::Definition).await
    }

    /// Saves the name of a version of code that no worker has registered.
    pub(super) async fn register_unserved(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: u32,
    ) -> Result<(), Error> {
        // The number may be that of a deleted version, which is kept for its runs.
        if let Some(row) = self.world.workflows.workflow(workspace, name, Some(version)).await?
            && read_style(&row)? != StyleName::Code
        {
            return Err(Error::StyleConflict { name: name.to_owned(), style: row.style });
        }
        let served = ServedWorkflow {
            name: name.to_owned(),
            version,
            retention_days: None,
            input_schema: None,
            triggers: Vec::new(),
            index: Vec::new(),
        };
        self.register_as(workspace, &[served], Registration::Name).await
    }

    /// Saves versions of code workflows.
    async fn register_as(
        &self,
        workspace: WorkspaceId,
        workflows: &[ServedWorkflow],
        registration: Registration,
    ) -> Result<(), Error> {
        let now = self.world.clock.now();
        let mut rows = Vec::with_capacity(workflows.len());
        for served in workflows {
            check_name(&served.name)?;
            if !(1..=VERSION_MAX).contains(&served.version) {
                return Err(Error::Invalid(format!("{}: a version is a number from 1 to {VERSION_MAX}", served.name)));
            }
            let definition = Payload::from(definition_of(served));
            let digest = match registration {
                Registration::Definition => digest(&definition),
                Registration::Name => String::new(),
            };
            let row = NewWorkflow {
                workspace,
                name: served.name.clone(),
                style: StyleName::Code.as_str().to_owned(),
                definition,
                digest,
                retention_days: served.retention_days.unwrap_or(RETENTION_DAYS_DEFAULT),
                created_at: now,
                publisher: None,
                key: None,
            };
            rows.push((row, served.version));
        }
        // A workspace registers one part at a time, so that other writes come between.
        let Some(_place) = self.registrations.acquire(workspace, (), 1).await else { return Err(Error::Stopping) };
        let mut rows = rows.into_iter().peekable();
        let mut served = workflows.iter();
        while rows.peek().is_some() {
            let part = rows.by_ref().take(REGISTERED_TOGETHER_MAX).collect();
            let registered = self.world.workflows.register_workflows(part).await?;
            for (registered, served) in registered.into_iter().zip(&mut served) {
                if let RegistrationOutcome::OtherStyle(style) = registered {
                    return Err(Error::StyleConflict { name: served.name.clone(), style });
                }
            }
        }
        Ok(())
    }
}

/// The definition of a code workflow: the parts of a registration that the server needs. Parts that are missing are left
/// out, so that a registration of an earlier release has the same digest.
fn definition_of(served: &ServedWorkflow) -> Value {
    let mut definition = Map::new();
    if let Some(schema) = &served.input_schema {
        definition.insert(INPUT_SCHEMA.to_owned(), schema.source().clone());
    }
    if !served.triggers.is_empty() {
        let triggers = served.triggers.iter().map(DeclaredTrigger::to_json).collect();
        definition.insert(TRIGGERS.to_owned(), triggers);
    }
    if !served.index.is_empty() {
        definition.insert(OPTIONS.to_owned(), json!({"index": served.index}));
    }
    definition.into()
}
