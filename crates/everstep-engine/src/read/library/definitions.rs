//! Definitions that are checked and saved as versions.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use everstep_core::definition;
use everstep_core::failure::Failure;
use everstep_core::graph::{NamedSecret, Problem};
use everstep_core::ids::WorkspaceId;
use everstep_core::kinds::TaskPart;
use everstep_core::payload::Payload;
use everstep_core::publisher::Publisher;
use everstep_core::workflow::Style;
use everstep_store::{ChangeKey, NewWorkflow, Precondition, SaveOutcome};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::names::check_name;
use super::versions::Library;
use crate::error::Error;

/// The number of days for which an ended run is kept if neither the workflow nor the start sets it.
pub(super) const RETENTION_DAYS_DEFAULT: u32 = 30;

/// How a definition is saved.
#[derive(Clone, Copy, Debug)]
pub struct SaveOptions {
    /// Whether new runs use it from now on.
    pub activate: bool,
    /// The state that the workflow must have.
    pub precondition: Precondition,
}

/// A definition that can be saved.
#[derive(Debug)]
pub struct CheckedDefinition {
    name: String,
    style: Style,
    definition: Payload,
    digest: String,
    publisher: Option<Publisher>,
    key: Option<ChangeKey>,
}

impl CheckedDefinition {
    /// The name of its workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn style(&self) -> &Style {
        &self.style
    }

    /// The same definition, saved under an idempotency key.
    #[must_use]
    pub fn under(self, key: Option<ChangeKey>) -> Self {
        Self { key, ..self }
    }
}

/// The outcome of saving a definition.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionOutcome {
    Saved {
        version: u32,
        /// Whether the workflow had no version before.
        is_first: bool,
        /// The secrets that it names.
        secrets: Vec<NamedSecret>,
    },
    /// The workflow is not as expected; nothing was written. `active` is the active version; 0 if there is none.
    Unexpected { active: u32 },
}

/// Why a definition was not saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveError {
    /// It cannot be run, for these reasons. Nothing was written.
    Invalid(Vec<Problem>),
    /// The engine could not do it.
    Engine(Error),
}

impl From<Error> for SaveError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<everstep_store::Error> for SaveError {
    fn from(error: everstep_store::Error) -> Self {
        Self::Engine(error.into())
    }
}

impl Library {
    /// Checks a definition and saves it as the active version, without a publisher. The same definition again is the
    /// same version.
    pub async fn publish(&self, workspace: WorkspaceId, name: &str, definition: &Value) -> Result<u32, SaveError> {
        let options = SaveOptions { activate: true, precondition: Precondition::Anything };
        match self.save(workspace, name, definition, None, options).await? {
            DefinitionOutcome::Saved { version, .. } => Ok(version),
            DefinitionOutcome::Unexpected { .. } => unreachable!("no state was expected"),
        }
    }

    /// Compiles a definition as its publisher would save it, or returns all its problems.
    pub fn validate(&self, definition: &Value, publisher: Option<&Publisher>) -> Result<Style, Vec<Problem>> {
        let handlers = &*self.world.handlers;
        let style = definition::compile(definition, handlers, &*self.world.evaluate)?;
        let denied = publisher.map(|publisher| style.denied_parts(handlers, publisher)).unwrap_or_default();
        if denied.is_empty() { Ok(style) } else { Err(denied) }
    }

    /// A problem for each part of a definition that this server is not configured to perform for a workspace.
    pub async fn find_obstacles(&self, workspace: WorkspaceId, style: &Style) -> Result<Vec<Problem>, Error> {
        let mut by_kind = BTreeMap::new();
        let mut problems = Vec::new();
        for TaskPart { kind, node, path } in style.task_parts() {
            let obstacle = match by_kind.entry(kind) {
                Entry::Occupied(found) => found.into_mut(),
                Entry::Vacant(vacant) => {
                    let handler = self.world.handlers.find_handler(vacant.key());
                    let obstacle = match handler {
                        Some(handler) => handler.find_obstacle(workspace).await.map_err(unavailable)?,
                        None => None,
                    };
                    vacant.insert(obstacle)
                }
            };
            problems.extend(obstacle.clone().map(|problem| Problem { node: Some(node), path, ..problem }));
        }
        Ok(problems)
    }

    /// Checks a definition that is about to be saved under a name. A definition may be large: call it where it delays no
    /// other work.
    pub fn check(
        &self,
        name: &str,
        definition: &Value,
        publisher: Option<Publisher>,
    ) -> Result<CheckedDefinition, SaveError> {
        check_name(name)?;
        let style = self.validate(definition, publisher.as_ref()).map_err(SaveError::Invalid)?;
        let definition = Payload::from(style.definition().cloned().unwrap_or_default());
        let (name, digest) = (name.to_owned(), digest(&definition));
        Ok(CheckedDefinition { name, digest, definition, style, publisher, key: None })
    }

    /// Checks a definition and saves it as a version.
    pub async fn save(
        &self,
        workspace: WorkspaceId,
        name: &str,
        definition: &Value,
        publisher: Option<Publisher>,
        options: SaveOptions,
    ) -> Result<DefinitionOutcome, SaveError> {
        let checked = self.check(name, definition, publisher)?;
        self.save_checked(workspace, checked, options).await
    }

    /// Saves a definition as a version. A definition that equals the newest version, by a publisher with the same
    /// permissions, is that version.
    pub async fn save_checked(
        &self,
        workspace: WorkspaceId,
        checked: CheckedDefinition,
        options: SaveOptions,
    ) -> Result<DefinitionOutcome, SaveError> {
        let CheckedDefinition { name, style, definition, digest, publisher, key } = checked;
        let obstacles = self.find_obstacles(workspace, &style).await?;
        if !obstacles.is_empty() {
            return Err(SaveError::Invalid(obstacles));
        }
        let row = NewWorkflow {
            workspace,
            name: name.clone(),
            style: style.name().as_str().to_owned(),
            definition,
            digest,
            retention_days: style.retention_days().unwrap_or(RETENTION_DAYS_DEFAULT),
            created_at: self.world.clock.now(),
            publisher,
            key,
        };
        match self.world.workflows.save_workflow(row, options.activate, options.precondition).await? {
            SaveOutcome::Saved { version, is_first, .. } => {
                Ok(DefinitionOutcome::Saved { version, is_first, secrets: style.named_secrets() })
            }
            SaveOutcome::Unexpected { active } => Ok(DefinitionOutcome::Unexpected { active }),
            SaveOutcome::OtherStyle(style) => Err(Error::StyleConflict { name, style }.into()),
        }
    }
}

pub(super) fn digest(definition: &Payload) -> String {
    Sha256::digest(definition.json().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The error of a handler that could not read its configuration.
fn unavailable(failure: Failure) -> Error {
    Error::Unavailable(failure.message)
}
