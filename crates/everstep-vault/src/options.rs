//! The options of workspaces that handlers read: whether scripts may use `fetch`, and the address for mails.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_handlers::{FetchPolicy, NotifyPolicy, NotifyTarget};
use everstep_store::AccessStore;

use crate::error::Error;

/// The cached options are reread after this time.
const CACHE_TTL: Duration = Duration::from_secs(3);

type OptionsById = Arc<HashMap<WorkspaceId, Payload>>;

/// Reads the options of workspaces.
pub struct WorkspaceOptions {
    store: Arc<dyn AccessStore>,
    cache: Mutex<Option<(Instant, OptionsById)>>,
}

impl WorkspaceOptions {
    pub fn new(store: Arc<dyn AccessStore>) -> Self {
        Self { store, cache: Mutex::default() }
    }

    async fn read(&self) -> Result<OptionsById, Error> {
        let remembered = self.cache.lock().expect("no holder of the lock panics").clone();
        if let Some((_, options)) = remembered.filter(|(read_at, _)| read_at.elapsed() < CACHE_TTL) {
            return Ok(options);
        }
        self.read_again().await
    }

    async fn read_again(&self) -> Result<OptionsById, Error> {
        let asked_at = Instant::now();
        let rows = self.store.workspaces().await?;
        let options = Arc::new(rows.into_iter().map(|row| (row.id, row.options)).collect::<HashMap<_, _>>());
        *self.cache.lock().expect("no holder of the lock panics") = Some((asked_at, Arc::clone(&options)));
        Ok(options)
    }
}

#[async_trait]
impl FetchPolicy for WorkspaceOptions {
    async fn allows(&self, workspace: WorkspaceId) -> Result<bool, Failure> {
        Ok(self.read().await?.get(&workspace).is_some_and(|options| options.value()["fetch"] == true))
    }
}

#[async_trait]
impl NotifyPolicy for WorkspaceOptions {
    async fn find_target(&self, workspace: WorkspaceId) -> Result<Option<NotifyTarget>, Failure> {
        Ok(self.read().await?.get(&workspace).and_then(notify_target))
    }

    async fn reread_target(&self, workspace: WorkspaceId) -> Result<Option<NotifyTarget>, Failure> {
        Ok(self.read_again().await?.get(&workspace).and_then(notify_target))
    }
}

fn notify_target(options: &Payload) -> Option<NotifyTarget> {
    let text = |name: &str| options.value()[name].as_str().map(str::to_owned);
    Some(NotifyTarget { url: text("notifyUrl")?, secret: text("notifySecret")? })
}
