//! The verbs of the sweeper: expired records, and changes that are no longer kept.

use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use rusqlite::named_params;

use crate::error::Result;
use crate::numbers;
use crate::records::{ExpiredRecord, RecordKey};
use crate::retention::CHANGE_POSTPONEMENT;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;

impl Database {
    pub fn expired_records(&self, now: Timestamp, limit: usize) -> Result<Vec<ExpiredRecord>> {
        let mut statement = self.connection.prepare_cached(query!("records/expired"))?;
        let params = named_params! { ":now": now.micros(), ":limit": numbers::clamp_limit(limit) };
        let expired = statement.query_map(params, |row| {
            let key = RecordKey {
                workspace: WorkspaceId::from_uuid(columns::uuid(row, 0)?),
                namespace: row.get(1)?,
                key: row.get(2)?,
            };
            Ok(ExpiredRecord { key, change: columns::seq(row, 3)? })
        })?;
        Ok(expired.collect::<rusqlite::Result<_>>()?)
    }

    pub fn sweep_changes(&mut self, now: Timestamp, limit: usize) -> Result<usize> {
        let tx = self.begin()?;
        let params = named_params! { ":now": now.micros(), ":limit": numbers::clamp_limit(limit) };
        let due: Vec<([u8; 16], String, i64, bool)> = tx
            .prepare_cached(query!("records/sweep_changes/1_due"))?
            .query_map(params, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let later = now.plus(CHANGE_POSTPONEMENT).micros();
        for (workspace, namespace, change, has_run) in &due {
            if *has_run {
                tx.prepare_cached(query!("records/sweep_changes/3_postpone"))?.execute(named_params! {
                    ":later": later, ":workspace": workspace, ":namespace": namespace, ":change": change,
                })?;
            } else {
                tx.prepare_cached(query!("records/sweep_changes/2_delete"))?.execute(named_params! {
                    ":workspace": workspace, ":namespace": namespace, ":change": change,
                })?;
            }
        }
        tx.commit()?;
        Ok(due.len())
    }
}
