//! Decides which workspaces may use `fetch` in their scripts.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_handlers::FetchPolicy;
use everstep_store::AccessStore;

use crate::error::Error;

/// The cached options are reread after this time.
const CACHE_TTL: Duration = Duration::from_secs(3);

/// Reads the option `fetch` of workspaces.
pub struct FetchOptions {
    store: Arc<dyn AccessStore>,
    cache: Mutex<Option<(Instant, Arc<HashSet<WorkspaceId>>)>>,
}

impl FetchOptions {
    pub fn new(store: Arc<dyn AccessStore>) -> Self {
        Self { store, cache: Mutex::default() }
    }

    async fn allowed(&self) -> Result<Arc<HashSet<WorkspaceId>>, Error> {
        let remembered = self.cache.lock().expect("no holder of the lock panics").clone();
        if let Some((_, allowed)) = remembered.filter(|(read_at, _)| read_at.elapsed() < CACHE_TTL) {
            return Ok(allowed);
        }
        let asked_at = Instant::now();
        let rows = self.store.workspaces().await?;
        let allowed = rows.into_iter().filter(|row| row.options.value()["fetch"] == true).map(|row| row.id);
        let allowed = Arc::new(allowed.collect::<HashSet<_>>());
        *self.cache.lock().expect("no holder of the lock panics") = Some((asked_at, Arc::clone(&allowed)));
        Ok(allowed)
    }
}

#[async_trait]
impl FetchPolicy for FetchOptions {
    async fn allows(&self, workspace: WorkspaceId) -> Result<bool, Failure> {
        Ok(self.allowed().await?.contains(&workspace))
    }
}
