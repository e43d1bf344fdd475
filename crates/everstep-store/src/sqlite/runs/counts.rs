//! The number of runs per workflow and status.

use everstep_core::ids::WorkspaceId;
use rusqlite::named_params;

use super::rows::count_from_row;
use super::stats;
use crate::error::Result;
use crate::rows::Counts;
use crate::sqlite::database::Database;
use crate::sqlite::queries::query;
use crate::stats::MinuteStats;
use crate::texts;

impl Database {
    pub fn add_counts(&mut self, workspace: WorkspaceId, deltas: &[Counts], minutes: &[MinuteStats]) -> Result<()> {
        texts::check(deltas.iter().map(|delta| delta.workflow.as_str()))?;
        texts::check(minutes.iter().map(|minute| minute.workflow.as_str()))?;
        let tx = self.begin()?;
        {
            let mut statement = tx.prepare_cached(query!("add_counts/1_counts"))?;
            for delta in deltas {
                statement.execute(named_params! {
                    ":workspace": workspace.uuid().into_bytes(),
                    ":workflow": delta.workflow,
                    ":status": delta.status.as_str(),
                    ":n": delta.n,
                })?;
            }
        }
        for minute in minutes {
            stats::add(&tx, workspace, minute)?;
        }
        Ok(tx.commit()?)
    }

    pub fn recount(&mut self) -> Result<()> {
        let tx = self.begin()?;
        for statement in [query!("recount/2_clear"), query!("recount/3_count")] {
            tx.prepare_cached(statement)?.execute([])?;
        }
        Ok(tx.commit()?)
    }

    pub fn counts(&self, workspace: WorkspaceId) -> Result<Vec<Counts>> {
        let mut statement = self.connection.prepare_cached(query!("counts"))?;
        let params = named_params! { ":workspace": workspace.uuid().into_bytes() };
        let counts = statement.query_map(params, count_from_row)?.collect::<rusqlite::Result<_>>()?;
        Ok(counts)
    }
}
