//! The store contract on SQLite, and what only SQLite promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use everstep_store::sqlite::{Options, SqliteStore};
use everstep_testkit::contract::Fresh;

mod sqlite;

everstep_testkit::contract_tests!(crate::fresh);

async fn fresh() -> Fresh {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), &Options::default()).unwrap();
    Fresh { store: Arc::new(store), guard: Box::new(folder) }
}
