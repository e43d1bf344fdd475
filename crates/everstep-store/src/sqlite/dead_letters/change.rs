//! Queues, discards and deletes dead letters.

use everstep_core::dead_letter::DeadLetterStatus;
use everstep_core::ids::{DeadLetterId, WorkspaceId};
use everstep_core::time::Timestamp;
use rusqlite::{Rows, named_params};

use super::rows::FilterColumns;
use crate::dead_letters::{ChangedLetters, DeadLetterFilter, DeadLetterRetention};
use crate::error::Result;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::{numbers, texts};

impl Database {
    pub fn queue_letters(
        &mut self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        if !filter.selects_dead() {
            return Ok(ChangedLetters::default());
        }
        let statement = match filter.run {
            None => query!("dead_letters/queue_letters/1_of_workspace"),
            Some(_) => query!("dead_letters/queue_letters/2_of_run"),
        };
        let columns = FilterColumns::new(workspace, filter, filter.bounds(), limit);
        let mut statement = self.connection.prepare_cached(statement)?;
        changed(statement.query(&*columns.params(&[(":now", &now.micros())]))?)
    }

    pub fn discard_letters(
        &mut self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        reason: Option<&str>,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        texts::check(reason)?;
        if !filter.selects_dead() {
            return Ok(ChangedLetters::default());
        }
        let statement = match filter.run {
            None => query!("dead_letters/discard_letters/1_of_workspace"),
            Some(_) => query!("dead_letters/discard_letters/2_of_run"),
        };
        let columns = FilterColumns::new(workspace, filter, filter.bounds(), limit);
        let mut statement = self.connection.prepare_cached(statement)?;
        changed(statement.query(&*columns.params(&[(":now", &now.micros()), (":reason", &reason)]))?)
    }

    pub fn sweep_letters(&mut self, retention: DeadLetterRetention, limit: usize) -> Result<usize> {
        let DeadLetterRetention { dead_before, settled_before } = retention;
        let kept = [
            (DeadLetterStatus::Dead, dead_before),
            (DeadLetterStatus::Delivered, settled_before),
            (DeadLetterStatus::Discarded, settled_before),
        ];
        let mut deleted = 0;
        for (status, before) in kept {
            let mut statement = self.connection.prepare_cached(query!("dead_letters/sweep_letters"))?;
            deleted += statement.execute(named_params! {
                ":status": status.as_str(),
                ":before": before.micros(),
                ":limit": numbers::clamp_limit(limit - deleted),
            })?;
        }
        Ok(deleted)
    }
}

/// Reads the ids that a statement returns.
fn changed(mut rows: Rows<'_>) -> Result<ChangedLetters> {
    let mut changed = ChangedLetters::default();
    while let Some(row) = rows.next()? {
        changed.count += 1;
        changed.last = changed.last.max(Some(DeadLetterId::from_uuid(columns::uuid(row, 0)?)));
    }
    Ok(changed)
}
