//! Finds the holder of a key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use everstep_core::ids::WorkspaceId;
use everstep_store::{KeyRow, Store};
use uuid::Uuid;

use crate::auth::{Permission, Secret};
use crate::problem::Problem;

/// A revoked key stops working after this long at the latest.
const KEPT: Duration = Duration::from_secs(3);
/// Holders that are remembered at once.
const MOST: usize = 10_000;

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) key: Uuid,
    pub(crate) workspace: WorkspaceId,
    permissions: Arc<[Permission]>,
}

impl Caller {
    fn of(row: &KeyRow) -> Self {
        // A word that this build does not know allows nothing here.
        let permissions = row.permissions.iter().filter_map(|word| word.parse().ok()).collect();
        Self { key: row.id, workspace: row.workspace, permissions }
    }

    pub(crate) fn may(&self, permission: Permission) -> bool {
        self.permissions.iter().any(|held| [permission, Permission::Admin].contains(held))
    }
}

/// Handlers of guarded routes ask for the caller; the guard has put it there.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(parts.extensions.get::<Self>().expect("a guarded route has a caller").clone())
    }
}

/// The keys of a database, as far as they were asked for lately.
pub struct Keys {
    store: Arc<dyn Store>,
    seen: Mutex<HashMap<[u8; 32], (Instant, Caller)>>,
}

impl Keys {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, seen: Mutex::default() }
    }

    /// The holder of a key, unless it was revoked or never given.
    pub(crate) async fn find(&self, secret: &Secret) -> everstep_store::Result<Option<Caller>> {
        let hash = secret.hash();
        if let Some((read_at, caller)) = self.seen().get(&hash)
            && read_at.elapsed() < KEPT
        {
            return Ok(Some(caller.clone()));
        }
        let asked_at = Instant::now();
        let caller = self.store.find_key(&hash).await?.as_ref().map(Caller::of);
        let mut seen = self.seen();
        match &caller {
            Some(caller) => {
                if seen.len() >= MOST {
                    seen.retain(|_, (read_at, _)| read_at.elapsed() < KEPT);
                }
                if seen.len() < MOST {
                    seen.insert(hash, (asked_at, caller.clone()));
                }
            }
            None => _ = seen.remove(&hash),
        }
        drop(seen);
        Ok(caller)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, HashMap<[u8; 32], (Instant, Caller)>> {
        self.seen.lock().expect("no holder of the lock panics")
    }
}
