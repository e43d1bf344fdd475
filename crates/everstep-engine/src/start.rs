//! How a run began, told to whoever started it: nothing need be read for it.

use everstep_core::journal::FORMAT;
use everstep_store::{Gate, Item, RunRow};

use crate::engine::Started;
use crate::look::Look;

/// A run as it was when its start was written.
#[derive(Clone, Debug)]
pub struct Beginning {
    pub row: RunRow,
    pub look: Look,
}

/// What became of a start. How the run began is told where that was asked for and the run was made.
pub(crate) struct Begun {
    pub(crate) started: Started,
    pub(crate) beginning: Option<Box<Beginning>>,
}

/// The row that an item makes, if it starts a run.
pub(crate) fn row_of(item: &Item) -> Option<Box<RunRow>> {
    let (Gate::Start(new), Some(projection)) = (&item.gate, &item.projection) else { return None };
    let (new, projection) = ((**new).clone(), projection.clone());
    Some(Box::new(RunRow {
        id: item.run,
        workspace: item.workspace,
        workflow: new.workflow,
        version: new.version,
        lane: new.lane,
        status: projection.status,
        owner: projection.owner,
        wake_at: projection.wake_at,
        format: FORMAT,
        key: new.key,
        input: new.input,
        output: projection.output,
        error: projection.error,
        parent: new.parent,
        origin: None,
        tags: new.tags,
        retention_days: new.retention_days,
        is_test: new.is_test,
        created_at: new.created_at,
        ended_at: projection.ended_at,
        seq: item.entries.last().map_or(0, |entry| entry.seq),
    }))
}
