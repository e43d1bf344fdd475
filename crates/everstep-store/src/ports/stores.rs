//! All ports of one open database.

use std::sync::Arc;

use super::{AccessStore, DeadLetterStore, FileStore, RecordStore, ResourceStore, RunStore, TopicStore, WorkflowStore};

/// An open database: one handle per port. Cloning it is cheap; the database is closed with the last handle.
#[derive(Clone)]
pub struct Stores {
    /// For the engine and the simulator.
    pub runs: Arc<dyn RunStore>,
    /// For the engine and the routes of workflows.
    pub workflows: Arc<dyn WorkflowStore>,
    /// For authentication, audit and administration.
    pub access: Arc<dyn AccessStore>,
    /// For the vault and the data sources.
    pub resources: Arc<dyn ResourceStore>,
    /// For the record writer, and the reads of records and links.
    pub records: Arc<dyn RecordStore>,
    /// For the event publisher, the fan-out, and the routes of events and subscriptions.
    pub topics: Arc<dyn TopicStore>,
    /// For the loop of dead letters, and their routes.
    pub dead_letters: Arc<dyn DeadLetterStore>,
    /// For the routes of files, the requests that name files, and the sweeper.
    pub files: Arc<dyn FileStore>,
}

impl Stores {
    /// The ports of a database that implements all of them.
    pub fn new<S>(store: Arc<S>) -> Self
    where
        S: RunStore + WorkflowStore + AccessStore + ResourceStore + RecordStore + TopicStore,
        S: DeadLetterStore + FileStore + 'static,
    {
        Self {
            runs: Arc::<S>::clone(&store),
            workflows: Arc::<S>::clone(&store),
            access: Arc::<S>::clone(&store),
            resources: Arc::<S>::clone(&store),
            records: Arc::<S>::clone(&store),
            topics: Arc::<S>::clone(&store),
            dead_letters: Arc::<S>::clone(&store),
            files: store,
        }
    }
}
