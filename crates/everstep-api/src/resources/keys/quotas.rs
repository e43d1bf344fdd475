//! The bounds of a workspace, and how much of them is used.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use everstep_core::ids::WorkspaceId;
use everstep_core::limits;

use super::wire::Quota;
use crate::http::problem::Problem;
use crate::server::AppState;

/// A count that is older than this is read again: a count reads as many rows as the workspace has.
const COUNT_TTL: Duration = Duration::from_secs(5);
/// Workspaces in memory; those with old counts are removed first.
const WORKSPACES_MAX: usize = 10_000;

/// The recently counted rows of workspaces.
#[derive(Default)]
pub struct Quotas(Mutex<HashMap<WorkspaceId, (Instant, Counted)>>);

#[derive(Clone, Copy)]
struct Counted {
    workflows: u64,
    keys: u64,
}

impl Quotas {
    fn counted(&self) -> MutexGuard<'_, HashMap<WorkspaceId, (Instant, Counted)>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// The bounds of a workspace.
pub(super) async fn list(app: &AppState, workspace: WorkspaceId) -> Result<Vec<Quota>, Problem> {
    let Counted { workflows, keys } = count(app, workspace).await?;
    let (streams, streams_max) = app.hub.streams_of(workspace);
    Ok(vec![
        Quota { name: "workflows", used: workflows, max: limits::WORKFLOWS as u64, setting: None },
        Quota { name: "keys", used: keys, max: limits::KEYS as u64, setting: None },
        Quota { name: "streams", used: streams as u64, max: streams_max as u64, setting: Some("EVERSTEP_MAX_STREAMS") },
    ])
}

async fn count(app: &AppState, workspace: WorkspaceId) -> Result<Counted, Problem> {
    let known = app.quotas.counted().get(&workspace).copied();
    if let Some((_, counted)) = known.filter(|(read_at, _)| read_at.elapsed() < COUNT_TTL) {
        return Ok(counted);
    }
    let workflows = app.workflows.count_workflows(workspace).await?;
    let keys = app.access.count_keys(workspace, app.engine.world().clock.now()).await?;
    let counted = Counted { workflows, keys };
    let mut known = app.quotas.counted();
    if known.len() >= WORKSPACES_MAX {
        known.retain(|_, (read_at, _)| read_at.elapsed() < COUNT_TTL);
    }
    known.insert(workspace, (Instant::now(), counted));
    Ok(counted)
}
