//! Workflow versions, compiled once. They are immutable, so they are cached without expiry.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use everstep_core::definition;
use everstep_core::fair_share::ShareBounds;
use everstep_core::graph::Problem;
use everstep_core::ids::WorkspaceId;
use everstep_core::journal::Event;
use everstep_core::payload::Payload;
use everstep_core::publisher::Publisher;
use everstep_core::run::State;
use everstep_core::schema::Schema;
use everstep_core::style::StyleName;
use everstep_core::workflow::{Style, Workflow};
use everstep_handlers::Places;
use everstep_store::{RunRow, StoredRun, WorkflowRow};
use serde_json::Value;

use super::registrations::{INPUT_SCHEMA, REGISTRATIONS_MAX};
use crate::error::Error;
use crate::ports::World;
use crate::read::active_version::ActiveVersions;
use crate::read::folded_states::FoldedStates;
use crate::read::journal::JournalEntry;
use crate::start::TEST;
use crate::workers;

/// The number of days for which a test run is kept.
const TEST_RETENTION_DAYS: u32 = 1;

/// Compiled versions, with their digests.
type Compiled = BTreeMap<(WorkspaceId, String, u32), (String, Arc<Version>)>;

/// The schemas of the inputs of code workflows that were compiled, with the digests of their registrations.
type InputSchemas = BTreeMap<(WorkspaceId, String, u32), (String, Arc<Schema>)>;

pub struct Library {
    pub(super) world: World,
    pub(super) active: ActiveVersions,
    compiled: RwLock<Compiled>,
    input_schemas: RwLock<InputSchemas>,
    /// States of parked runs that were folded with these versions.
    states: FoldedStates,
    /// The places of registrations, one for a workspace.
    pub(super) registrations: Places,
}

/// A version with the data that a start needs.
#[derive(Debug)]
pub struct Version {
    pub workflow: Arc<Workflow>,
    pub retention_days: u32,
    /// The schema that the input of a new run fits.
    pub input_schema: Option<Arc<Schema>>,
    /// The search attributes of the workflow: paths of the input by which its runs are found.
    pub search_paths: Arc<[String]>,
    /// Whether the version was deleted: it is kept for its runs.
    pub is_deleted: bool,
}

impl Version {
    /// Checks the input of a new run. Forks and retries keep the input of their run, which is not checked again.
    pub(crate) fn check_input(&self, input: &Payload) -> Result<(), Error> {
        let faults = self.workflow.style.check_input(self.input_schema.as_deref(), input.value());
        if faults.is_empty() {
            return Ok(());
        }
        let Workflow { name, version, .. } = &*self.workflow;
        Err(Error::InputRejected { workflow: name.clone(), version: *version, faults })
    }
}

impl Library {
    pub(crate) fn new(world: World) -> Self {
        let active = ActiveVersions::new(world.clone());
        let (compiled, input_schemas, states) = (RwLock::default(), RwLock::default(), FoldedStates::default());
        let bounds = ShareBounds { workspace_max: 1, ..ShareBounds::new(REGISTRATIONS_MAX) };
        let registrations = Places::new(bounds);
        Self { active, world, compiled, input_schemas, states, registrations }
    }

    /// The state of a loaded run after its last entry, or why this build cannot read the journal.
    pub(crate) fn fold(&self, loaded: &StoredRun, workflow: &Arc<Workflow>) -> Result<State, String> {
        self.states.fold(loaded, workflow)
    }

    /// A version of a workflow; the active one if none is named. The active pointer is never cached.
    pub async fn find(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Arc<Version>, Error> {
        match self.read(workspace, name, version).await? {
            Some(row) => self.version_from_row(workspace, row),
            None => Err(Error::WorkflowNotFound { name: name.to_owned(), version }),
        }
    }

    /// A version that runs have, compiled once.
    pub async fn of_version(&self, workspace: WorkspaceId, name: &str, version: u32) -> Result<Arc<Version>, Error> {
        match self.cached(workspace, name, version) {
            Some((_, version)) => Ok(version),
            None => self.find(workspace, name, Some(version)).await,
        }
    }

    /// The workflow of a run: a version of the library, or the definition at the beginning of a test run's journal.
    pub async fn of_run(&self, row: &RunRow) -> Result<Arc<Workflow>, Error> {
        if row.is_test
            && let Some(definition) = self.held_by(row).await?
        {
            let style = self.load(&row.workflow, row.version, definition.value())?;
            // Its publisher was checked when it was started.
            return Ok(Arc::new(unsaved(&row.workflow, style, None)));
        }
        if workers::is_worker_lane(&row.lane) {
            return Ok(Arc::new(code(&row.workflow, row.version)));
        }
        let version = self.of_version(row.workspace, &row.workflow, row.version).await?;
        Ok(Arc::clone(&version.workflow))
    }

    /// The definition in a run's first entry.
    async fn held_by(&self, row: &RunRow) -> Result<Option<Payload>, Error> {
        let first = self.world.runs.journal(row.id, 0, 1).await?.into_iter().next();
        let Some(first) = first.map(JournalEntry::decode) else { return Ok(None) };
        match first.entry.map_err(|error| Error::Invalid(error.to_string()))?.event {
            Event::RunStarted { definition, .. } => Ok(definition),
            Event::StepDispatched { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::TimerSet { .. }
            | Event::TimerFired { .. }
            | Event::WaitOpened { .. }
            | Event::WaitResolved { .. }
            | Event::SignalBuffered { .. }
            | Event::TurnStarted { .. }
            | Event::TurnLost { .. }
            | Event::TransitionApplied(_)
            | Event::VoteCast(_)
            | Event::Assigned(_)
            | Event::ContextSet { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed
            | Event::RunRetried
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. } => Ok(None),
        }
    }

    /// Compiles a definition that is not saved. Its runs are test runs: they are neither listed nor counted, and are
    /// deleted an hour after their end.
    pub fn compile_test(&self, definition: &Value, publisher: Option<Publisher>) -> Result<Arc<Version>, Vec<Problem>> {
        let style = self.validate(definition, publisher.as_ref())?;
        let input_schema = style.input_schema().cloned();
        let workflow = Arc::new(unsaved(TEST, style, publisher));
        let (retention_days, search_paths) = (TEST_RETENTION_DAYS, Arc::default());
        Ok(Arc::new(Version { workflow, retention_days, input_schema, search_paths, is_deleted: false }))
    }

    pub(super) async fn read(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
    ) -> Result<Option<WorkflowRow>, Error> {
        Ok(match version {
            Some(_) => self.world.workflows.workflow(workspace, name, version).await?,
            None => self.active.find(workspace, name).await?,
        })
    }

    pub(super) fn version_from_row(&self, workspace: WorkspaceId, row: WorkflowRow) -> Result<Arc<Version>, Error> {
        match read_style(&row)? {
            StyleName::Graph | StyleName::Machine => self.find_compiled(workspace, row),
            // Its retention and the schema of its input are those of the last registration.
            StyleName::Code => {
                let workflow = Arc::new(code(&row.name, row.version));
                let input_schema = self.registered_schema(workspace, &row)?;
                let WorkflowRow { retention_days, search_paths, is_deleted, .. } = row;
                let search_paths = search_paths.into();
                Ok(Arc::new(Version { workflow, retention_days, input_schema, search_paths, is_deleted }))
            }
        }
    }

    /// The schema of the input that a worker registered with a version, compiled once.
    fn registered_schema(&self, workspace: WorkspaceId, row: &WorkflowRow) -> Result<Option<Arc<Schema>>, Error> {
        if row.definition.json() == "{}" {
            return Ok(None);
        }
        let key = (workspace, row.name.clone(), row.version);
        let known = self.input_schemas.read().expect("no holder of the lock panics").get(&key).cloned();
        if let Some((_, schema)) = known.filter(|(digest, _)| *digest == row.digest) {
            return Ok(Some(schema));
        }
        let Some(source) = row.definition.value().get(INPUT_SCHEMA) else { return Ok(None) };
        let schema = Schema::for_input(source).map_err(|faults| {
            // A later build may check more keywords. Another node may know them, or this one after its upgrade.
            let (name, version) = (&row.name, row.version);
            let fault = faults.first().map(|fault| format!("{}: {}", fault.pointer, fault.message));
            let fault = fault.unwrap_or_default();
            Error::Busy(format!("this node cannot check the inputSchema of {name} version {version}: {fault}"))
        })?;
        let schema = Arc::new(schema);
        let entry = (row.digest.clone(), Arc::clone(&schema));
        self.input_schemas.write().expect("no holder of the lock panics").insert(key, entry);
        Ok(Some(schema))
    }

    /// The compiled form of a version that has a definition.
    fn find_compiled(&self, workspace: WorkspaceId, row: WorkflowRow) -> Result<Arc<Version>, Error> {
        // A deleted version's number may belong to another version by now.
        let is_same = |(digest, version): &(String, Arc<Version>)| {
            *digest == row.digest
                && *version.workflow.publisher == row.publisher.clone().unwrap_or_default()
                && *version.search_paths == *row.search_paths
                && version.is_deleted == row.is_deleted
        };
        if let Some((_, version)) = self.cached(workspace, &row.name, row.version).filter(is_same) {
            return Ok(version);
        }
        let digest = row.digest.clone();
        let compiled = Arc::new(self.compile(row)?);
        let key = (workspace, compiled.workflow.name.clone(), compiled.workflow.version);
        self.compiled.write().expect("no holder of the lock panics").insert(key, (digest, Arc::clone(&compiled)));
        Ok(compiled)
    }

    /// A compiled version, with its digest.
    fn cached(&self, workspace: WorkspaceId, name: &str, version: u32) -> Option<(String, Arc<Version>)> {
        let compiled = self.compiled.read().expect("no holder of the lock panics");
        compiled.get(&(workspace, name.to_owned(), version)).cloned()
    }

    fn compile(&self, row: WorkflowRow) -> Result<Version, Error> {
        let style = self.load(&row.name, row.version, row.definition.value())?;
        let input_schema = style.input_schema().cloned();
        let publisher = Arc::new(row.publisher.unwrap_or_default());
        let workflow = Workflow { name: row.name, version: row.version, style, is_unsaved: false, publisher };
        let (workflow, search_paths) = (Arc::new(workflow), row.search_paths.into());
        let WorkflowRow { retention_days, is_deleted, .. } = row;
        Ok(Version { workflow, retention_days, input_schema, search_paths, is_deleted })
    }

    /// Compiles a definition that was saved before.
    fn load(&self, name: &str, version: u32, definition: &Value) -> Result<Style, Error> {
        let style = definition::load(definition, &*self.world.handlers, &*self.world.evaluate);
        style.map_err(|problems| cannot_run(name, version, &problems))
    }
}

/// The style of a version. A later build may have saved a style that this build does not know. The caller may try
/// again: another node may know it, or this one after its upgrade.
pub(super) fn read_style(row: &WorkflowRow) -> Result<StyleName, Error> {
    StyleName::parse(&row.style).ok_or_else(|| {
        let (name, version, style) = (&row.name, row.version, &row.style);
        Error::Busy(format!(
            "{name} version {version} has the style {style:?}, which this node does not know; upgrade the node"
        ))
    })
}

/// A workflow of which the server knows only the name.
pub(super) fn code(name: &str, version: u32) -> Workflow {
    Workflow { name: name.to_owned(), version, style: Style::Code, is_unsaved: false, publisher: Arc::default() }
}

/// A workflow that is not saved.
fn unsaved(name: &str, style: Style, publisher: Option<Publisher>) -> Workflow {
    let publisher = Arc::new(publisher.unwrap_or_default());
    Workflow { name: name.to_owned(), version: 0, style, is_unsaved: true, publisher }
}

fn cannot_run(name: &str, version: u32, problems: &[Problem]) -> Error {
    let first = problems.first().map(|problem| format!("{}: {}", problem.path, problem.message));
    Error::Invalid(format!("this server cannot run {name} version {version}: {}", first.unwrap_or_default()))
}
