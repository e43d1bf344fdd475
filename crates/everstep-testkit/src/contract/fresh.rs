//! A store for one test.

use std::any::Any;
use std::sync::Arc;

use everstep_store::{AccessStore, FileStore, RecordStore, ResourceStore, RunStore, Stores, TopicStore, WorkflowStore};

use super::fixtures::Tables;

/// A store without any data.
pub struct FreshStore {
    pub stores: Stores,
    /// The same database, for data that no port reads.
    pub tables: Tables,
    /// A temporary folder or database, removed after the test.
    pub guard: Box<dyn Any + Send>,
}

impl From<&FreshStore> for Stores {
    fn from(fresh: &FreshStore) -> Self {
        fresh.stores.clone()
    }
}

impl From<&FreshStore> for Arc<dyn RunStore> {
    fn from(fresh: &FreshStore) -> Self {
        Arc::clone(&fresh.stores.runs)
    }
}

impl From<&FreshStore> for (Arc<dyn RunStore>, Tables) {
    fn from(fresh: &FreshStore) -> Self {
        (Arc::clone(&fresh.stores.runs), fresh.tables.clone())
    }
}

impl From<&FreshStore> for Arc<dyn WorkflowStore> {
    fn from(fresh: &FreshStore) -> Self {
        Arc::clone(&fresh.stores.workflows)
    }
}

impl From<&FreshStore> for Arc<dyn AccessStore> {
    fn from(fresh: &FreshStore) -> Self {
        Arc::clone(&fresh.stores.access)
    }
}

impl From<&FreshStore> for Arc<dyn ResourceStore> {
    fn from(fresh: &FreshStore) -> Self {
        Arc::clone(&fresh.stores.resources)
    }
}

impl From<&FreshStore> for Arc<dyn RecordStore> {
    fn from(fresh: &FreshStore) -> Self {
        Arc::clone(&fresh.stores.records)
    }
}

impl From<&FreshStore> for Arc<dyn TopicStore> {
    fn from(fresh: &FreshStore) -> Self {
        Arc::clone(&fresh.stores.topics)
    }
}

impl From<&FreshStore> for Arc<dyn FileStore> {
    fn from(fresh: &FreshStore) -> Self {
        Arc::clone(&fresh.stores.files)
    }
}

impl From<&FreshStore> for (Stores, Tables) {
    fn from(fresh: &FreshStore) -> Self {
        (fresh.stores.clone(), fresh.tables.clone())
    }
}

/// Runs a test on several threads, so that calls run at the same time.
pub fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be started");
    runtime.block_on(test);
}
