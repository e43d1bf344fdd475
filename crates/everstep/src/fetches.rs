//! Which workspaces let their scripts make requests: those whose options hold `"fetch": true`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use everstep_core::failure::Failure;
use everstep_core::ids::WorkspaceId;
use everstep_handlers::Fetches;
use everstep_store::Store;
use serde_json::Value;
use tokio::sync::Mutex;

/// How long an answer is believed, so that a script costs no query.
const BELIEVED: Duration = Duration::from_secs(5);

/// Asks the database, once in a while.
pub(crate) struct Stored {
    store: Arc<dyn Store>,
    known: Mutex<Option<(Instant, BTreeSet<WorkspaceId>)>>,
}

impl Stored {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, known: Mutex::default() }
    }
}

#[async_trait]
impl Fetches for Stored {
    async fn allows(&self, workspace: WorkspaceId) -> Result<bool, Failure> {
        let mut known = self.known.lock().await;
        if let Some((at, allowed)) = &*known
            && at.elapsed() < BELIEVED
        {
            return Ok(allowed.contains(&workspace));
        }
        let rows = self.store.workspaces().await.map_err(|error| {
            Failure::transient("JAVASCRIPT_ERROR", format!("whether scripts may make requests is not known: {error}"))
        })?;
        let is_allowed = |options: &Value| options.get("fetch") == Some(&Value::Bool(true));
        let allowed = rows.iter().filter(|row| is_allowed(row.options.value())).map(|row| row.id).collect();
        let (_, allowed) = known.insert((Instant::now(), allowed));
        Ok(allowed.contains(&workspace))
    }
}

/// A person's own machine: whoever runs a file there may let it make requests.
pub(crate) struct Everyone;

#[async_trait]
impl Fetches for Everyone {
    async fn allows(&self, _: WorkspaceId) -> Result<bool, Failure> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::payload::Payload;
    use everstep_store::sqlite::SqliteStore;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_workspace_allows_requests_by_its_options() {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(folder.path(), &Default::default()).unwrap());
        let asked = || Stored::new(Arc::clone(&store) as Arc<dyn Store>);
        assert_eq!(asked().allows(WorkspaceId::DEFAULT).await, Ok(false));
        for (options, is_allowed) in [(json!({"fetch": true}), true), (json!({"fetch": "true"}), false)] {
            assert!(store.set_workspace_options(WorkspaceId::DEFAULT, &Payload::from(options)).await.unwrap());
            assert_eq!(asked().allows(WorkspaceId::DEFAULT).await, Ok(is_allowed));
        }
    }
}
