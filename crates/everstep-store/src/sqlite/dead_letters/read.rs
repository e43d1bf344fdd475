//! Reads and counts dead letters.

use everstep_core::dead_letter::{DeadLetterSource, DeadLetterStatus};
use everstep_core::ids::{DeadLetterId, WorkspaceId};
use rusqlite::{ToSql, named_params};

use super::rows::{FilterColumns, collect, letter_from_row};
use crate::dead_letters::{DeadLetterFilter, DeadLetterQuery, DeadLetterRow, counts_by_source};
use crate::error::Result;
use crate::sqlite::columns;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;

impl Database {
    pub fn list_letters(&self, workspace: WorkspaceId, query: &DeadLetterQuery) -> Result<Vec<DeadLetterRow>> {
        let filter = &query.filter;
        if filter.is_empty() {
            return Ok(Vec::new());
        }
        let status = filter.status.map(DeadLetterStatus::as_str);
        let with_status: [(&str, &dyn ToSql); 1] = [(":status", &status)];
        let (statement, others) = match (filter.run, status) {
            (Some(_), _) => (query!("dead_letters/list_letters/3_of_run"), &with_status[..]),
            (None, Some(_)) => (query!("dead_letters/list_letters/2_with_status"), &with_status[..]),
            (None, None) => (query!("dead_letters/list_letters/1_all"), &[][..]),
        };
        let columns = FilterColumns::new(workspace, filter, query.bounds(), query.limit);
        let mut statement = self.connection.prepare_cached(statement)?;
        let found = statement.query(&*columns.params(others))?;
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
        let statement = match filter.run {
            None => query!("dead_letters/count_letters/1_of_workspace"),
            Some(_) => query!("dead_letters/count_letters/2_of_run"),
        };
        let columns = FilterColumns::new(workspace, filter, filter.bounds(), limit);
        let mut statement = self.connection.prepare_cached(statement)?;
        Ok(statement.query_row(&*columns.params(&[]), |row| columns::seq(row, 0))?)
    }

    pub fn count_dead_letters(&self) -> Result<Vec<(DeadLetterSource, u64)>> {
        let mut statement = self.connection.prepare_cached(query!("dead_letters/count_dead_letters"))?;
        let counted = statement.query_map([], |row| Ok((row.get(0)?, columns::seq(row, 1)?)))?;
        Ok(counts_by_source(counted.collect::<rusqlite::Result<_>>()?))
    }
}
