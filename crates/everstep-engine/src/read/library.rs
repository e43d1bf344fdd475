//! Workflow versions, compiled once. They are immutable, so they are cached without expiry.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use everstep_core::definition;
use everstep_core::fair_share::ShareBounds;
use everstep_core::graph::{self, NamedSecret, Problem};
use everstep_core::ids::WorkspaceId;
use everstep_core::journal::Event;
use everstep_core::payload::Payload;
use everstep_core::publisher::Publisher;
use everstep_core::run::State;
use everstep_core::schema::Schema;
use everstep_core::style::StyleName;
use everstep_core::topics::DeclaredTrigger;
use everstep_core::workflow::{Style, Workflow, is_name};
use everstep_handlers::Places;
use everstep_store::{NewWorkflow, Precondition, RegistrationOutcome, RunRow, SaveOutcome, StoredRun, WorkflowRow};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::active_version::ActiveVersions;
use super::folded_states::FoldedStates;
use super::journal::JournalEntry;
use crate::error::Error;
use crate::ports::World;
use crate::start::{Start, TEST};
use crate::workers::{self, ServedWorkflow};

/// The number of days for which an ended run is kept if neither the workflow nor the start sets it.
const RETENTION_DAYS_DEFAULT: u32 = 30;
/// The number of days for which a test run is kept.
const TEST_RETENTION_DAYS: u32 = 1;
/// Versions that are read at once.
const VERSIONS_PAGE_SIZE: usize = 500;
/// Names among which a similar one is searched.
const SIMILAR_NAMES_MAX: usize = 1_000;
/// Registrations at a time, each of another workspace.
const REGISTRATIONS_MAX: u64 = 4;
/// Workflows that are registered in one transaction. If a later part of a registration is refused, the parts before it
/// remain.
const REGISTERED_TOGETHER_MAX: usize = 50;
/// The greatest version that a worker may serve.
const VERSION_MAX: u32 = i32::MAX as u32;

/// The member of the definition of a code workflow that holds the schema of its input.
const INPUT_SCHEMA: &str = "inputSchema";
/// The member of a definition with the events that start runs. The store reads it when a version becomes active.
const TRIGGERS: &str = "triggers";

/// The content of a registration.
#[derive(Clone, Copy, Debug)]
enum Registration {
    /// The definition of the version, which a worker sends.
    Definition,
    /// Only the name and the number: a start names a version that no worker has registered.
    Name,
}

/// Compiled versions, with their digests.
type Compiled = BTreeMap<(WorkspaceId, String, u32), (String, Arc<Version>)>;

/// The schemas of the inputs of code workflows that were compiled, with the digests of their registrations.
type InputSchemas = BTreeMap<(WorkspaceId, String, u32), (String, Arc<Schema>)>;

pub struct Library {
    world: World,
    active: ActiveVersions,
    compiled: RwLock<Compiled>,
    input_schemas: RwLock<InputSchemas>,
    /// States of parked runs that were folded with these versions.
    states: FoldedStates,
    /// The places of registrations, one for a workspace.
    registrations: Places,
}

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
}

impl CheckedDefinition {
    /// The name of its workflow.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn style(&self) -> &Style {
        &self.style
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
    /// It cannot be run; nothing was written.
    Invalid(Vec<Problem>),
    /// The workflow is not as expected; nothing was written. `active` is the active version; 0 if there is none.
    Unexpected { active: u32 },
}

/// A version with the data that a start needs.
#[derive(Debug)]
pub struct Version {
    pub workflow: Arc<Workflow>,
    pub retention_days: u32,
    /// The schema that the input of a new run fits.
    pub input_schema: Option<Arc<Schema>>,
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

    /// Checks a definition and saves it as the active version, without a publisher. The same definition again is the
    /// same version.
    pub async fn publish(
        &self,
        workspace: WorkspaceId,
        name: &str,
        definition: &Value,
    ) -> Result<Result<u32, Vec<Problem>>, Error> {
        let options = SaveOptions { activate: true, precondition: Precondition::Anything };
        match self.save(workspace, name, definition, None, options).await? {
            DefinitionOutcome::Saved { version, .. } => Ok(Ok(version)),
            DefinitionOutcome::Invalid(problems) => Ok(Err(problems)),
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

    /// Checks a definition that is about to be saved under a name, or returns all its problems. A definition may be
    /// large: call it where it delays no other work.
    pub fn check(
        &self,
        name: &str,
        definition: &Value,
        publisher: Option<Publisher>,
    ) -> Result<Result<CheckedDefinition, Vec<Problem>>, Error> {
        check_name(name)?;
        Ok(self.validate(definition, publisher.as_ref()).map(|style| {
            let definition = Payload::from(style.definition().cloned().unwrap_or_default());
            CheckedDefinition { name: name.to_owned(), digest: digest(&definition), definition, style, publisher }
        }))
    }

    /// Checks a definition and saves it as a version.
    pub async fn save(
        &self,
        workspace: WorkspaceId,
        name: &str,
        definition: &Value,
        publisher: Option<Publisher>,
        options: SaveOptions,
    ) -> Result<DefinitionOutcome, Error> {
        match self.check(name, definition, publisher)? {
            Ok(checked) => self.save_checked(workspace, checked, options).await,
            Err(problems) => Ok(DefinitionOutcome::Invalid(problems)),
        }
    }

    /// Saves a definition as a version. A definition that equals the newest version, by a publisher with the same
    /// permissions, is that version.
    pub async fn save_checked(
        &self,
        workspace: WorkspaceId,
        checked: CheckedDefinition,
        options: SaveOptions,
    ) -> Result<DefinitionOutcome, Error> {
        let CheckedDefinition { name, style, definition, digest, publisher } = checked;
        let row = NewWorkflow {
            workspace,
            name: name.clone(),
            style: style.name().as_str().to_owned(),
            definition,
            digest,
            retention_days: style.retention_days().unwrap_or(RETENTION_DAYS_DEFAULT),
            created_at: self.world.clock.now(),
            publisher,
        };
        match self.world.workflows.save_workflow(row, options.activate, options.precondition).await? {
            SaveOutcome::Saved { version, is_first, .. } => {
                Ok(DefinitionOutcome::Saved { version, is_first, secrets: style.named_secrets() })
            }
            SaveOutcome::Unexpected { active } => Ok(DefinitionOutcome::Unexpected { active }),
            SaveOutcome::OtherStyle(style) => Err(Error::StyleConflict { name, style }),
        }
    }

    /// A version of a workflow; the active one if none is named. The active pointer is never cached.
    pub async fn find(&self, workspace: WorkspaceId, name: &str, version: Option<u32>) -> Result<Arc<Version>, Error> {
        match self.read(workspace, name, version).await? {
            Some(row) => self.version_from_row(workspace, row),
            None => Err(Error::WorkflowNotFound { name: name.to_owned(), version }),
        }
    }

    async fn read(
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

    fn version_from_row(&self, workspace: WorkspaceId, row: WorkflowRow) -> Result<Arc<Version>, Error> {
        match read_style(&row)? {
            StyleName::Graph | StyleName::Machine => self.find_compiled(workspace, row),
            // Its retention and the schema of its input are those of the last registration.
            StyleName::Code => {
                let workflow = Arc::new(code(&row.name, row.version));
                let input_schema = self.registered_schema(workspace, &row)?;
                Ok(Arc::new(Version { workflow, retention_days: row.retention_days, input_schema }))
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
            *digest == row.digest && *version.workflow.publisher == row.publisher.clone().unwrap_or_default()
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

    /// The version that a start uses.
    pub async fn find_to_start(&self, start: &Start) -> Result<Arc<Version>, Error> {
        self.find_named(start.workspace, &start.workflow, start.version, start.allow_unserved).await
    }

    /// The version with which a run is started.
    ///
    /// 1. A saved definition, and a version of code that a worker has registered at any time, can be started.
    /// 2. So can any other version of a code workflow of which a worker has registered one.
    /// 3. Any other name is unknown. With `allow_unserved` it is accepted as a code workflow, whose runs wait for a
    ///    worker. The name is then in use; only registrations of workers determine its newest version.
    pub(crate) async fn find_named(
        &self,
        workspace: WorkspaceId,
        name: &str,
        version: Option<u32>,
        allow_unserved: bool,
    ) -> Result<Arc<Version>, Error> {
        let missing = || Error::WorkflowNotFound { name: name.to_owned(), version };
        let found = match self.read(workspace, name, version).await? {
            Some(row) if !row.digest.is_empty() => return self.version_from_row(workspace, row),
            found => found,
        };
        // No such version exists, or only a start has named it.
        if version.is_some_and(|version| !(1..=VERSION_MAX).contains(&version)) {
            return Err(missing());
        }
        let active = match version {
            Some(_) => self.active.find(workspace, name).await?,
            None => found,
        };
        let (active, retention_days) = match active {
            Some(active) if read_style(&active)? == StyleName::Code => {
                let is_admitted =
                    allow_unserved || !active.digest.is_empty() || self.is_registered(workspace, name).await?;
                if !is_admitted {
                    return Err(missing());
                }
                (active.version, active.retention_days)
            }
            None if allow_unserved => {
                self.register_unserved(workspace, name, version.unwrap_or(1)).await.map_err(|error| match error {
                    // A graph with that name exists, and no version of it is active.
                    Error::StyleConflict { .. } => missing(),
                    error => error,
                })?;
                (1, RETENTION_DAYS_DEFAULT)
            }
            Some(_) | None => return Err(missing()),
        };
        // No worker has registered this version, so that it has no schema.
        let workflow = Arc::new(code(name, version.unwrap_or(active)));
        Ok(Arc::new(Version { workflow, retention_days, input_schema: None }))
    }

    /// Saves the name of a version of code that no worker has registered.
    async fn register_unserved(&self, workspace: WorkspaceId, name: &str, version: u32) -> Result<(), Error> {
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
        };
        self.register_as(workspace, &[served], Registration::Name).await
    }

    /// Whether a worker has registered a version of a workflow at any time, or a definition was saved.
    async fn is_registered(&self, workspace: WorkspaceId, name: &str) -> Result<bool, Error> {
        let mut before = None;
        loop {
            let page = self.world.workflows.list_versions(workspace, name, before, VERSIONS_PAGE_SIZE).await?;
            if page.iter().any(|row| !row.digest.is_empty()) {
                return Ok(true);
            }
            let Some(last) = page.last().filter(|_| page.len() == VERSIONS_PAGE_SIZE) else { return Ok(false) };
            before = Some(last.version);
        }
    }

    /// The name of a workflow that is similar to an unknown one.
    pub async fn nearest_name(&self, workspace: WorkspaceId, name: &str) -> Result<Option<String>, Error> {
        let known = self.world.workflows.list_workflows(workspace, None, SIMILAR_NAMES_MAX).await?;
        let names = known.iter().map(|workflow| workflow.name.as_str()).filter(|known| *known != name);
        Ok(graph::nearest(name, names).map(str::to_owned))
    }

    /// Saves the versions of code workflows that a worker serves.
    pub(crate) async fn register(&self, workspace: WorkspaceId, workflows: &[ServedWorkflow]) -> Result<(), Error> {
        self.register_as(workspace, workflows, Registration::Definition).await
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

    /// A version that runs have, compiled once.
    pub async fn of_version(&self, workspace: WorkspaceId, name: &str, version: u32) -> Result<Arc<Version>, Error> {
        match self.cached(workspace, name, version) {
            Some((_, version)) => Ok(version),
            None => self.find(workspace, name, Some(version)).await,
        }
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
        Ok(Arc::new(Version { workflow, retention_days: TEST_RETENTION_DAYS, input_schema }))
    }

    /// A compiled version, with its digest.
    fn cached(&self, workspace: WorkspaceId, name: &str, version: u32) -> Option<(String, Arc<Version>)> {
        let compiled = self.compiled.read().expect("no holder of the lock panics");
        compiled.get(&(workspace, name.to_owned(), version)).cloned()
    }

    /// Compiles a definition that was saved before.
    fn load(&self, name: &str, version: u32, definition: &Value) -> Result<Style, Error> {
        let style = definition::load(definition, &*self.world.handlers, &*self.world.evaluate);
        style.map_err(|problems| cannot_run(name, version, &problems))
    }

    fn compile(&self, row: WorkflowRow) -> Result<Version, Error> {
        let style = self.load(&row.name, row.version, row.definition.value())?;
        let input_schema = style.input_schema().cloned();
        let publisher = Arc::new(row.publisher.unwrap_or_default());
        let workflow = Workflow { name: row.name, version: row.version, style, is_unsaved: false, publisher };
        Ok(Version { workflow: Arc::new(workflow), retention_days: row.retention_days, input_schema })
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
    definition.into()
}

fn digest(definition: &Payload) -> String {
    Sha256::digest(definition.json().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The style of a version. A later build may have saved a style that this build does not know. The caller may try
/// again: another node may know it, or this one after its upgrade.
fn read_style(row: &WorkflowRow) -> Result<StyleName, Error> {
    StyleName::parse(&row.style).ok_or_else(|| {
        let (name, version, style) = (&row.name, row.version, &row.style);
        Error::Busy(format!(
            "{name} version {version} has the style {style:?}, which this node does not know; upgrade the node"
        ))
    })
}

/// A workflow of which the server knows only the name.
fn code(name: &str, version: u32) -> Workflow {
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

/// Words of the API's paths, which cannot be names of workflows.
const RESERVED: &[&str] = &["evaluate", "import", "rename", "validate"];
/// The beginning of the names of workflows that belong to the server.
const RESERVED_PREFIX: &str = "everstep-";

fn check_name(name: &str) -> Result<(), Error> {
    if !is_name(name) {
        let hint = "1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit";
        return Err(Error::Invalid(format!("{name:?} is not a valid name of a workflow: {hint}")));
    }
    if RESERVED.contains(&name) {
        return Err(Error::Invalid(format!(
            "{name:?} is not a valid name of a workflow: the API uses that word in its paths"
        )));
    }
    if name.starts_with(RESERVED_PREFIX) {
        return Err(Error::Invalid(format!(
            "{name:?} is not a valid name of a workflow: names that begin with {RESERVED_PREFIX:?} are reserved"
        )));
    }
    Ok(())
}
