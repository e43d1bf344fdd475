//! The additional promises of PostgreSQL: a shared server that may be remote, broken or busy.

mod errors;
mod faults;
mod locks;
mod open;
mod partitions;
mod plans;
mod pooled;
mod races;
mod records;
mod server;
mod tls;
mod upgrade;

use std::time::Duration;

use everstep_store::postgres::{Options, PostgresStore};
use everstep_store::{Error, Result};
use everstep_testkit::postgres::TestDatabase;
use tokio_postgres::{Client, NoTls};

async fn open(database: &TestDatabase<'_>) -> PostgresStore {
    PostgresStore::open(&database.url(), &Options::default()).await.unwrap()
}

/// The error of a database that cannot be opened.
async fn refused(url: &str) -> Error {
    match PostgresStore::open(url, &Options::default()).await {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error,
    }
}

/// A connection beside the store's own, of another client.
async fn session(database: &TestDatabase<'_>) -> Client {
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Waits until a transaction waits for a lock in a database.
async fn wait_for_a_waiter(session: &Client) {
    let waiting =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    while session.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

/// Repeats a call while the server cannot be reached, for some time.
async fn patiently<T>(mut call: impl AsyncFnMut() -> Result<T>) -> T {
    let patience = tokio::time::Instant::now() + Duration::from_secs(20);
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) if error.is_transient() && tokio::time::Instant::now() < patience => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
