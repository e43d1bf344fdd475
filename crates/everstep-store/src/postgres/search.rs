//! The terms of runs, and the search attributes of workflows.

use std::collections::BTreeSet;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::search;
use everstep_core::time::Timestamp;
use uuid::Uuid;

use super::arrays::arrays;
use super::columns;
use super::connection::Connection;
use super::errors::StatementError;
use super::queries::{params, query};
use crate::error::Result;
use crate::item::{ForkOrigin, NewRun};
use crate::terms::{self, PriorVersions, Term};

arrays! {
    /// The terms of new runs.
    RunTerms {
        runs: "term_runs", Uuid;
        workspaces: "term_workspaces", Uuid;
        created_at: "term_created_at", i64;
        workflows: "term_workflows", &'a str;
        paths: "term_paths", String;
        values: "term_values", String;
    }
}

impl<'a> RunTerms<'a> {
    /// Adds the terms of a run. Most runs have none.
    pub(super) fn push(&mut self, workspace: WorkspaceId, run: RunId, new: &'a NewRun) {
        for term in terms::terms_of(new) {
            self.add(workspace, run, &new.workflow, new.created_at, term);
        }
    }

    /// Adds the terms of a fork.
    pub(super) fn push_fork(&mut self, workspace: WorkspaceId, run: RunId, origin: &'a ForkOrigin, now: Timestamp) {
        for term in terms::terms_of_fork(origin) {
            self.add(workspace, run, &origin.workflow, now, term);
        }
    }

    fn add(&mut self, workspace: WorkspaceId, run: RunId, workflow: &'a str, created_at: Timestamp, term: Term) {
        self.runs.push(run.uuid());
        self.workspaces.push(workspace.uuid());
        self.created_at.push(created_at.micros());
        self.workflows.push(workflow);
        self.paths.push(term.path);
        self.values.push(term.value);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

/// Makes the search attributes of a workflow those of its active version; none if no version is active. The transaction
/// holds the lock of the workflow's name.
pub(super) async fn replace_attributes(
    connection: &Connection<'_>,
    workspace: WorkspaceId,
    name: &str,
    definition: Option<&Payload>,
    now: Timestamp,
    prior: PriorVersions,
) -> Result<(), StatementError> {
    let id = workspace.uuid();
    let rows = connection.query(query!("search_attributes/1_known"), params! { "workspace": id, "name": name }).await?;
    let known = rows.iter().map(|row| columns::get(row, 0)).collect::<Result<BTreeSet<String>>>()?;
    let declared: BTreeSet<_> = definition.map(search::declared_paths).unwrap_or_default().into_iter().collect();
    if known == declared {
        return Ok(());
    }
    let removed: Vec<_> = known.difference(&declared).cloned().collect();
    let added: Vec<_> = declared.difference(&known).cloned().collect();
    let since = terms::declared_since(now, prior).micros();
    let params = params! { "workspace": id, "name": name, "removed": removed, "since": since, "added": added };
    connection.execute(query!("search_attributes/2_replace"), params).await?;
    Ok(())
}
