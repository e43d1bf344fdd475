//! The store contract on PostgreSQL, and the additional promises of PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use everstep_store::postgres::{self as store, Options};
use everstep_testkit::contract::FreshStore;
use everstep_testkit::contract::fixtures::Tables;
use everstep_testkit::postgres::Cluster;

mod postgres;

everstep_testkit::contract_tests!(crate::fresh);

async fn fresh() -> FreshStore {
    let database = Cluster::shared().migrated_database();
    let stores = store::open(&database.url(), &Options::default()).await.unwrap();
    FreshStore { stores, tables: Tables::Postgres(database.url()), guard: Box::new(database) }
}
