//! The store contract on PostgreSQL, and what only PostgreSQL promises.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use everstep_store::postgres::{Options, PostgresStore};
use everstep_testkit::contract::Fresh;
use everstep_testkit::postgres::Cluster;

mod postgres;

everstep_testkit::contract_tests!(crate::fresh);

async fn fresh() -> Fresh {
    let database = Cluster::shared().database();
    let store = PostgresStore::open(&database.url(), &Options::default()).await.unwrap();
    Fresh { store: Arc::new(store), guard: Box::new(database) }
}
