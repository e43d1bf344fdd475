//! Real servers that are killed, stopped and cut off from a real PostgreSQL: nothing is lost and nothing is done twice.
//!
//! The cost of a fault is measured and printed: `cargo test -p everstep --test faults -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod apart;
mod audit;
mod books;
mod children;
mod crowd;
mod cut;
mod dead_letters;
mod events;
mod flows;
mod kill;
mod outage;
mod pooled;
mod records;
mod rolling;
mod single;
mod stop;
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;
mod upgrade;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everstep_testkit::postgres::TestDatabase;

use crate::support::cluster::Site;
use crate::support::wait_for;

/// The node lease in these tests.
const LEASE: Duration = Duration::from_secs(2);

/// Faults run one at a time: each is measured, and none may slow another down.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A separate database, for nodes with a short lease that park runs that sleep for longer than five seconds.
fn site() -> Site<'static> {
    hasty(Site::new())
}

fn hasty(site: Site<'_>) -> Site<'_> {
    site.set("EVERSTEP_NODE_LEASE", "2s").set("EVERSTEP_PARK_AFTER", "5s")
}

fn wait_until_all_end(database: &TestDatabase<'_>) {
    let unended = "select count(*) from runs where ended_at is null";
    wait_for("every run to end", || (database.sql(unended) == ["0"]).then_some(()));
}
