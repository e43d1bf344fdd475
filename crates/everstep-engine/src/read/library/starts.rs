//! The version with which a run is started.

use std::sync::Arc;

use everstep_core::graph;
use everstep_core::ids::WorkspaceId;
use everstep_core::style::StyleName;

use super::definitions::RETENTION_DAYS_DEFAULT;
use super::registrations::VERSION_MAX;
use super::versions::{Library, Version, code, read_style};
use crate::error::Error;
use crate::start::Start;

/// Versions that are read at once.
const VERSIONS_PAGE_SIZE: usize = 500;
/// Names among which a similar one is searched.
const SIMILAR_NAMES_MAX: usize = 1_000;

impl Library {
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
        let search_paths = active.as_ref().map(|active| active.search_paths.clone().into()).unwrap_or_default();
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
        Ok(Arc::new(Version { workflow, retention_days, input_schema: None, search_paths, is_deleted: false }))
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
}
