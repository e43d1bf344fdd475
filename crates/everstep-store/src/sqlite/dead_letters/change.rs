//! Queues, discards and deletes dead letters.

use everstep_core::dead_letter::{DeadLetterSource, DeadLetterStatus};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::time::Timestamp;
use rusqlite::named_params;
use uuid::Uuid;

use crate::dead_letters::{DeadLetterFilter, DeadLetterRetention};
use crate::error::Result;
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
    ) -> Result<u64> {
        if !filter.selects_dead() {
            return Ok(0);
        }
        let (from, to) = filter.bounds();
        let queued = self.connection.prepare_cached(query!("dead_letters/queue_letters"))?.execute(named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":from": from.into_bytes(),
            ":to": to.into_bytes(),
            ":source": filter.source.map(DeadLetterSource::as_str),
            ":kind": filter.kind,
            ":workflow": filter.workflow,
            ":run": filter.run.map(RunId::uuid).map(Uuid::into_bytes),
            ":error": filter.error,
            ":limit": numbers::clamp_limit(limit),
            ":now": now.micros(),
        })?;
        Ok(queued as u64)
    }

    pub fn discard_letters(
        &mut self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        reason: Option<&str>,
        now: Timestamp,
        limit: usize,
    ) -> Result<u64> {
        texts::check(reason)?;
        if !filter.selects_dead() {
            return Ok(0);
        }
        let (from, to) = filter.bounds();
        let discarded =
            self.connection.prepare_cached(query!("dead_letters/discard_letters"))?.execute(named_params! {
                ":workspace": workspace.uuid().into_bytes(),
                ":from": from.into_bytes(),
                ":to": to.into_bytes(),
                ":source": filter.source.map(DeadLetterSource::as_str),
                ":kind": filter.kind,
                ":workflow": filter.workflow,
                ":run": filter.run.map(RunId::uuid).map(Uuid::into_bytes),
                ":error": filter.error,
                ":limit": numbers::clamp_limit(limit),
                ":reason": reason,
                ":now": now.micros(),
            })?;
        Ok(discarded as u64)
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
