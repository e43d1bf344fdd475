//! The ports: the methods that each consumer may call on the database.
//!
//! A port is a trait with the verbs of one subsystem. Both databases implement every port, and [`Stores`] holds one
//! handle per port, so that a consumer receives only the verbs that it needs.
//!
//! To add a port for a new subsystem (topics, files, queues, schedules):
//!
//! 1. Write the trait in a file of this folder, and its row types in a file beside [`crate::error`].
//! 2. Implement it in `sqlite/` and in `postgres/`, each in a separate file or folder with the port's name, with one
//!    query file per verb in `queries/`. The trait methods are in the file that does the work.
//! 3. Add a group with the port's name to `everstep_testkit::contract`: one test per promise of the trait.
//! 4. Add a field to [`Stores`], and a bound to [`Stores::new`].
//!
//! A new verb belongs to [`RunStore`] only if one transaction must write rows of a run and rows of the subsystem.

mod access;
mod dead_letter;
mod file;
mod record;
mod resource;
mod run;
mod stores;
mod topic;
mod workflow;

pub use access::AccessStore;
pub use dead_letter::DeadLetterStore;
pub use file::FileStore;
pub use record::RecordStore;
pub use resource::ResourceStore;
pub use run::RunStore;
pub use stores::Stores;
pub use topic::{EVENT_PAGE_BYTES, TopicStore};
pub use workflow::WorkflowStore;
