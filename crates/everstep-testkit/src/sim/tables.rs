//! Tables that the simulator reads beside the ports, without a simulated wire.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_store::Wait;

use super::store::SimStore;
use crate::contract::fixtures::read_waits;

impl SimStore {
    /// Open waits for an event, oldest run first.
    pub(super) fn waits_for(&self, event: &str) -> Vec<(RunId, Wait)> {
        self.direct(|db| read_waits(db.connection(), WorkspaceId::DEFAULT, event, 1_000)).unwrap_or_default()
    }

    /// The number of changes of all namespaces.
    pub(super) fn count_changes(&self) -> usize {
        let sql = "select count(*) from store_changes";
        let count: i64 = self.direct(|db| db.connection().query_row(sql, [], |row| row.get(0))).unwrap_or_default();
        usize::try_from(count).unwrap_or_default()
    }

    /// The number of entries of all journals.
    pub(super) fn count_entries(&self) -> u64 {
        let sql = "select count(*) from journal";
        let count: i64 = self.direct(|db| db.connection().query_row(sql, [], |row| row.get(0))).unwrap_or_default();
        count.cast_unsigned()
    }
}
