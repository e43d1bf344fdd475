//! Reports the end of a run to the callers that wait for it.
//!
//! A caller that waits for the end of a run receives it with the commit, and nothing is read for it: the caller of the start
//! has the row that the start has created, and other callers know the row before they wait.
//! A run that is paused, parks, or is loaded again drops the report to the caller of its start: then that caller reads the
//! row, and follows the run as any other caller.

use everstep_core::time::Timestamp;
use everstep_store::{MachinePlace, RunRow};
use tokio::sync::oneshot;

use super::active::ActiveRun;
use super::in_flight::{InFlight, Rest};
use crate::read::{FunctionEnd, MachineSnapshot};
use crate::shard::Watchers;
use crate::watch::{EndFacts, EndedRun};

/// A caller that waits, and the row that the start has created.
pub(crate) struct EndReport {
    sender: oneshot::Sender<EndedRun>,
    row: Box<RunRow>,
}

impl ActiveRun {
    /// Makes the run report its end to the caller of its start.
    pub(crate) fn report_end(&mut self, sender: oneshot::Sender<EndedRun>, row: Box<RunRow>) {
        self.end = Some(EndReport { sender, row });
    }

    /// The item in flight is durable: if the run has ended with it, the callers that wait receive the end.
    pub(super) fn report_halt(&mut self, in_flight: &InFlight, watchers: &mut Watchers) {
        if in_flight.rest == Rest::Active && !self.state.is_paused() {
            return;
        }
        let report = self.end.take();
        if in_flight.rest != Rest::Ended {
            return;
        }
        let waiting = watchers.take_ends(self.state.run);
        if report.is_none() && waiting.is_empty() {
            return;
        }
        let facts = self.end_facts(in_flight);
        for sender in waiting {
            let _ = sender.send(facts.clone());
        }
        if let Some(EndReport { sender, row }) = report {
            let _ = sender.send(facts.complete(*row));
        }
    }

    fn end_facts(&self, in_flight: &InFlight) -> EndFacts {
        let place = self.state.place_of_machine();
        EndFacts {
            status: in_flight.status,
            format: self.row_format,
            output: self.state.output().cloned(),
            error: self.state.failure().cloned(),
            ended_at: self.state.updated_at,
            place: place.map(|(state, version_no)| MachinePlace { state: state.to_owned(), version_no }),
            seq: self.state.seq,
            last: in_flight.entries.last().map(|last| last.event.clone()),
            machine: MachineSnapshot::from_state(&self.workflow, &self.state),
        }
    }
}

impl EndFacts {
    /// The run as it was when its end was written. The other columns of its row do not change while it runs.
    pub(crate) fn complete(self, row: RunRow) -> EndedRun {
        let row = RunRow {
            status: self.status,
            owner: None,
            wake_at: Timestamp::NEVER,
            format: self.format,
            output: self.output,
            error: self.error,
            ended_at: Some(self.ended_at),
            machine: self.place,
            seq: self.seq,
            ..row
        };
        let function = self.last.map(|last| FunctionEnd::from_event(&row, &last)).unwrap_or_default();
        EndedRun { row, function, machine: self.machine }
    }
}
