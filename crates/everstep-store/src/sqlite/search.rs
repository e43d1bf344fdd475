//! The terms of runs, and the search attributes of workflows.

use std::collections::BTreeSet;

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::search;
use everstep_core::time::Timestamp;
use rusqlite::{Connection, named_params};

use super::queries::query;
use crate::error::Result;
use crate::item::{ForkOrigin, NewRun};
use crate::terms::{self, PriorVersions, Term};

/// Writes the terms of a new run. Most runs have none.
pub(super) fn insert_terms(tx: &Connection, workspace: WorkspaceId, run: RunId, new: &NewRun) -> rusqlite::Result<()> {
    insert(tx, workspace, run, &new.workflow, new.created_at, terms::terms_of(new))
}

/// Writes the terms of a fork.
pub(super) fn insert_fork_terms(
    tx: &Connection,
    workspace: WorkspaceId,
    run: RunId,
    origin: &ForkOrigin,
    now: Timestamp,
) -> rusqlite::Result<()> {
    insert(tx, workspace, run, &origin.workflow, now, terms::terms_of_fork(origin))
}

fn insert(
    tx: &Connection,
    workspace: WorkspaceId,
    run: RunId,
    workflow: &str,
    created_at: Timestamp,
    terms: Vec<Term>,
) -> rusqlite::Result<()> {
    for term in terms {
        tx.prepare_cached(query!("commit/2_term"))?.execute(named_params! {
            ":run": run.uuid().into_bytes(),
            ":workspace": workspace.uuid().into_bytes(),
            ":created_at": created_at.micros(),
            ":workflow": workflow,
            ":path": term.path,
            ":value": term.value,
        })?;
    }
    Ok(())
}

/// Makes the search attributes of a workflow those of its active version; none if no version is active.
pub(super) fn replace_attributes(
    tx: &Connection,
    workspace: WorkspaceId,
    name: &str,
    definition: Option<&Payload>,
    now: Timestamp,
    prior: PriorVersions,
) -> Result<()> {
    let id = workspace.uuid().into_bytes();
    let key = named_params! { ":workspace": id, ":name": name };
    let mut statement = tx.prepare_cached(query!("search_attributes/1_known"))?;
    let known: BTreeSet<String> = statement.query_map(key, |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let declared: BTreeSet<_> = definition.map(search::declared_paths).unwrap_or_default().into_iter().collect();
    for path in known.difference(&declared) {
        let params = named_params! { ":workspace": id, ":name": name, ":path": path };
        tx.prepare_cached(query!("search_attributes/2_delete"))?.execute(params)?;
    }
    let since = terms::declared_since(now, prior).micros();
    for path in declared.difference(&known) {
        let params = named_params! { ":workspace": id, ":name": name, ":path": path, ":since": since };
        tx.prepare_cached(query!("search_attributes/3_insert"))?.execute(params)?;
    }
    Ok(())
}
