//! The store contract on SQLite, and the additional promises of SQLite.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use everstep_store::sqlite::{self as store, Options};
use everstep_testkit::contract::FreshStore;
use everstep_testkit::contract::fixtures::Tables;

mod sqlite;

everstep_testkit::contract_tests!(crate::fresh);

async fn fresh() -> FreshStore {
    let folder = tempfile::tempdir().unwrap();
    let stores = store::open(folder.path(), &Options::default()).unwrap();
    FreshStore { stores, tables: Tables::in_folder(folder.path()), guard: Box::new(folder) }
}
