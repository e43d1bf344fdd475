//! Workflow versions, compiled once. They are immutable, so they are kept for ever.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use everstep_core::codec;
use everstep_core::event::Event;
use everstep_core::graph::{self, Graph, Problem};
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::workflow::{Style, Workflow, is_name};
use everstep_store::{Expects, NewWorkflow, Put, RunRow, StoredEntry, WorkflowRow};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::ports::World;

/// How long runs are kept when neither the workflow nor the start says so.
const RETENTION_DAYS: u32 = 30;

pub struct Library {
    world: World,
    compiled: RwLock<BTreeMap<(WorkspaceId, String, u32), Arc<Version>>>,
}

/// How a definition is saved.
#[derive(Clone, Copy, Debug)]
pub struct Saving {
    /// Whether new runs take it from now on.
    pub activate: bool,
    /// What must be there already, or must not.
    pub expects: Expects,
}

/// What became of a definition that was to be saved.
#[derive(Clone, Debug, PartialEq)]
pub enum Save {
    Saved {
        version: u32,
        /// Whether there was no version of that name before.
        is_first: bool,
    },
    /// It cannot be run; nothing was written.
    Invalid(Vec<Problem>),
    /// The workflow is not as expected; nothing was written. This version is active; 0 stands for none.
    Unexpected { active: u32 },
}

/// A version with what a start needs of it.
pub struct Version {
    pub workflow: Arc<Workflow>,
    pub retention_days: u32,
}

impl Library {
    pub(crate) fn new(world: World) -> Self {
        Self { world, compiled: RwLock::default() }
    }

    /// Checks a definition and saves it as the active version. The same definition again is the same version.
    pub async fn publish(
        &self,
        workspace: WorkspaceId,
        name: &str,
        definition: &Value,
    ) -> Result<Result<u32, Vec<Problem>>, Error> {
        let saving = Saving { activate: true, expects: Expects::Anything };
        match self.save(workspace, name, definition, saving).await? {
            Save::Saved { version, .. } => Ok(Ok(version)),
            Save::Invalid(problems) => Ok(Err(problems)),
            Save::Unexpected { .. } => unreachable!("nothing was expected"),
        }
    }

    /// What is wrong with a definition; nothing when it can be saved.
    pub fn validate(&self, definition: &Value) -> Vec<Problem> {
        graph::compile(definition, &*self.world.handlers, &*self.world.evaluate).err().unwrap_or_default()
    }

    /// Checks a definition and saves it as a version. The same definition as the newest version's is that version.
    pub async fn save(
        &self,
        workspace: WorkspaceId,
        name: &str,
        definition: &Value,
        saving: Saving,
    ) -> Result<Save, Error> {
        check_name(name)?;
        let graph = match graph::compile(definition, &*self.world.handlers, &*self.world.evaluate) {
            Ok(graph) => graph,
            Err(problems) => return Ok(Save::Invalid(problems)),
        };
        let definition = Payload::from(graph.definition().clone());
        let digest = Sha256::digest(definition.json().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let row = NewWorkflow {
            workspace,
            name: name.to_owned(),
            style: "graph".to_owned(),
            definition,
            digest,
            retention_days: graph.retention_days().unwrap_or(RETENTION_DAYS),
            created_at: self.world.clock.now(),
        };
        match self.world.store.save_workflow(row, saving.activate, saving.expects).await? {
            Put::Saved { version, is_first, .. } => Ok(Save::Saved { version, is_first }),
            Put::Unexpected { active } => Ok(Save::Unexpected { active }),
            Put::OtherStyle(style) => Err(Error::Invalid(format!("{name} is a workflow of another style: {style}"))),
        }
    }

    /// A version of a workflow; the active one when none is named. The active pointer is never cached.
    pub async fn find(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Arc<Version>, Error> {
        if let Some(version) = version.and_then(|version| self.cached(workspace, name, version)) {
            return Ok(version);
        }
        let row = self.world.store.workflow(workspace, name, version).await?;
        let row = row.ok_or_else(|| Error::WorkflowNotFound { name: name.to_owned(), version })?;
        if let Some(version) = self.cached(workspace, name, row.version) {
            return Ok(version);
        }
        let compiled = Arc::new(self.compile(row)?);
        let key = (workspace, name.to_owned(), compiled.workflow.version);
        self.compiled.write().expect("no holder of the lock panics").insert(key, Arc::clone(&compiled));
        Ok(compiled)
    }

    /// The workflow of a run: a version of the library, or what a test run's journal begins with.
    pub async fn of_run(&self, row: &RunRow) -> Result<Arc<Workflow>, Error> {
        if row.is_test
            && let Some(definition) = self.held_by(row).await?
        {
            let graph = graph::load(definition.value(), &*self.world.handlers, &*self.world.evaluate);
            let graph = graph.map_err(|problems| cannot_run(&row.workflow, row.version, &problems))?;
            return Ok(Arc::new(unpublished(&row.workflow, graph)));
        }
        let version = self.find(row.workspace, &row.workflow, Some(row.version)).await?;
        Ok(Arc::clone(&version.workflow))
    }

    /// The definition that a run's first entry holds.
    async fn held_by(&self, row: &RunRow) -> Result<Option<Payload>, Error> {
        let first = self.world.store.journal(row.id, 0, 1).await?.into_iter().next();
        let Some(StoredEntry { seq, at, row, .. }) = first else { return Ok(None) };
        match codec::decode(seq, at, row).map_err(|error| Error::Invalid(error.to_string()))?.event {
            Event::RunStarted { definition, .. } => Ok(definition),
            _ => Ok(None),
        }
    }

    /// Checks a definition that is to be run without being saved.
    pub(crate) fn check(&self, name: &str, definition: &Value) -> Result<Workflow, Vec<Problem>> {
        let graph = graph::compile(definition, &*self.world.handlers, &*self.world.evaluate)?;
        Ok(unpublished(name, graph))
    }

    fn cached(&self, workspace: WorkspaceId, name: &str, version: u32) -> Option<Arc<Version>> {
        let compiled = self.compiled.read().expect("no holder of the lock panics");
        compiled.get(&(workspace, name.to_owned(), version)).cloned()
    }

    fn compile(&self, row: WorkflowRow) -> Result<Version, Error> {
        let graph = graph::load(row.definition.value(), &*self.world.handlers, &*self.world.evaluate);
        let graph = graph.map_err(|problems| cannot_run(&row.name, row.version, &problems))?;
        let workflow =
            Workflow { name: row.name, version: row.version, style: Style::Graph(graph), is_unpublished: false };
        Ok(Version { workflow: Arc::new(workflow), retention_days: row.retention_days })
    }
}

/// A workflow that is in no library.
fn unpublished(name: &str, graph: Graph) -> Workflow {
    Workflow { name: name.to_owned(), version: 0, style: Style::Graph(graph), is_unpublished: true }
}

fn cannot_run(name: &str, version: u32, problems: &[Problem]) -> Error {
    let first = problems.first().map(|problem| format!("{}: {}", problem.path, problem.message));
    Error::Invalid(format!("this server cannot run {name} version {version}: {}", first.unwrap_or_default()))
}

/// Words that stand in the place of a name in the paths of the API.
const RESERVED: &[&str] = &["import", "validate"];

fn check_name(name: &str) -> Result<(), Error> {
    if !is_name(name) {
        let hint = "1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit";
        return Err(Error::Invalid(format!("{name:?} cannot be a workflow's name: {hint}")));
    }
    if RESERVED.contains(&name) {
        return Err(Error::Invalid(format!("{name:?} cannot be a workflow's name: the API uses that word")));
    }
    Ok(())
}
