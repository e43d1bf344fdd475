//! Workflow versions, compiled once. They are immutable, so they are kept for ever.

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

use everstep_core::graph::{self, Problem};
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_core::workflow::{Style, Workflow, is_name};
use everstep_store::{NewWorkflow, WorkflowRow};
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

/// A version with what a start needs of it.
pub struct Version {
    pub workflow: Arc<Workflow>,
    pub retention_days: u32,
}

impl Library {
    pub(crate) fn new(world: World) -> Self {
        Self { world, compiled: RwLock::default() }
    }

    /// Checks a definition and saves it as a version. The same definition again is the same version.
    pub async fn publish(
        &self,
        workspace: WorkspaceId,
        name: &str,
        definition: &Value,
    ) -> Result<Result<u32, Vec<Problem>>, Error> {
        if !is_name(name) {
            let hint = "1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit";
            return Err(Error::Invalid(format!("{name:?} cannot be a workflow's name: {hint}")));
        }
        let graph = match graph::compile(definition, &*self.world.handlers, &*self.world.evaluate) {
            Ok(graph) => graph,
            Err(problems) => return Ok(Err(problems)),
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
        let (version, _) = self.world.store.put_workflow(row, true).await?;
        Ok(Ok(version))
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

    fn cached(&self, workspace: WorkspaceId, name: &str, version: u32) -> Option<Arc<Version>> {
        let compiled = self.compiled.read().expect("no holder of the lock panics");
        compiled.get(&(workspace, name.to_owned(), version)).cloned()
    }

    fn compile(&self, row: WorkflowRow) -> Result<Version, Error> {
        let graph = graph::compile(row.definition.value(), &*self.world.handlers, &*self.world.evaluate);
        let graph = graph.map_err(|problems| {
            let first = problems.first().map(|problem| format!("{}: {}", problem.path, problem.message));
            Error::Invalid(format!(
                "this server cannot run {} version {}: {}",
                row.name,
                row.version,
                first.unwrap_or_default()
            ))
        })?;
        let workflow =
            Workflow { name: row.name, version: row.version, style: Style::Graph(graph), is_unpublished: false };
        Ok(Version { workflow: Arc::new(workflow), retention_days: row.retention_days })
    }
}
