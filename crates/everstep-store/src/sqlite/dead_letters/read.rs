//! Reads and counts dead letters.

use everstep_core::dead_letter::{DeadLetterSource, DeadLetterStatus};
use everstep_core::ids::{DeadLetterId, RunId, WorkspaceId};
use rusqlite::named_params;
use uuid::Uuid;

use super::rows::{collect, letter_from_row};
use crate::dead_letters::{DeadLetterFilter, DeadLetterQuery, DeadLetterRow, counts_by_source};
use crate::error::Result;
use crate::numbers;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;

impl Database {
    pub fn list_letters(&self, workspace: WorkspaceId, query: &DeadLetterQuery) -> Result<Vec<DeadLetterRow>> {
        let filter = &query.filter;
        if filter.is_empty() {
            return Ok(Vec::new());
        }
        let (from, to) = query.bounds();
        let (from, to) = (from.into_bytes(), to.into_bytes());
        let workspace = workspace.uuid().into_bytes();
        let (source, status) =
            (filter.source.map(DeadLetterSource::as_str), filter.status.map(DeadLetterStatus::as_str));
        let limit = numbers::clamp_limit(query.limit);
        let mut statement;
        let found = match (filter.run, status) {
            (Some(run), status) => {
                statement = self.connection.prepare_cached(query!("dead_letters/list_letters/3_of_run"))?;
                statement.query(named_params! {
                    ":workspace": workspace, ":run": run.uuid().into_bytes(), ":from": from, ":to": to,
                    ":status": status, ":source": source, ":kind": filter.kind, ":workflow": filter.workflow,
                    ":error": filter.error, ":limit": limit,
                })?
            }
            (None, Some(status)) => {
                statement = self.connection.prepare_cached(query!("dead_letters/list_letters/2_with_status"))?;
                statement.query(named_params! {
                    ":workspace": workspace, ":status": status, ":from": from, ":to": to, ":source": source,
                    ":kind": filter.kind, ":workflow": filter.workflow, ":error": filter.error, ":limit": limit,
                })?
            }
            (None, None) => {
                statement = self.connection.prepare_cached(query!("dead_letters/list_letters/1_all"))?;
                statement.query(named_params! {
                    ":workspace": workspace, ":from": from, ":to": to, ":source": source, ":kind": filter.kind,
                    ":workflow": filter.workflow, ":error": filter.error, ":limit": limit,
                })?
            }
        };
        collect(found, usize::MAX, |_| true)
    }

    pub fn letter(&self, workspace: WorkspaceId, id: DeadLetterId) -> Result<Option<DeadLetterRow>> {
        let mut statement = self.connection.prepare_cached(query!("dead_letters/letter"))?;
        let params = named_params! { ":workspace": workspace.uuid().into_bytes(), ":id": id.uuid().into_bytes() };
        let mut found = statement.query(params)?;
        Ok(found.next()?.map(letter_from_row).transpose()?.flatten())
    }

    pub fn count_letters(&self, workspace: WorkspaceId, filter: &DeadLetterFilter, limit: usize) -> Result<u64> {
        if !filter.selects_dead() {
            return Ok(0);
        }
        let (from, to) = filter.bounds();
        let mut statement = self.connection.prepare_cached(query!("dead_letters/count_letters"))?;
        let params = named_params! {
            ":workspace": workspace.uuid().into_bytes(),
            ":from": from.into_bytes(),
            ":to": to.into_bytes(),
            ":source": filter.source.map(DeadLetterSource::as_str),
            ":kind": filter.kind,
            ":workflow": filter.workflow,
            ":run": filter.run.map(RunId::uuid).map(Uuid::into_bytes),
            ":error": filter.error,
            ":limit": numbers::clamp_limit(limit),
        };
        Ok(statement.query_row(params, |row| columns::seq(row, 0))?)
    }

    pub fn count_dead_letters(&self) -> Result<Vec<(DeadLetterSource, u64)>> {
        let mut statement = self.connection.prepare_cached(query!("dead_letters/count_dead_letters"))?;
        let counted = statement.query_map([], |row| Ok((row.get(0)?, columns::seq(row, 1)?)))?;
        Ok(counts_by_source(counted.collect::<rusqlite::Result<_>>()?))
    }
}
