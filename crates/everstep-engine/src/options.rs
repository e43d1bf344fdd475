//! The settings of an engine.

use std::time::Duration;

use everstep_core::records::RecordLimits;

use crate::topics::SLICE_ROWS_MAX;

#[derive(Clone, Debug)]
pub struct Options {
    /// Loops that own runs. Each run belongs to one of them.
    pub shards: usize,
    /// The number of runs that the node owns at the same time; more wait in the database until a permit is free.
    pub max_active_runs: usize,
    /// Memory for the states of runs; beyond it, idle runs are parked, those with the longest wait first.
    pub max_state_bytes: usize,
    /// A run whose next timer is later than this is parked.
    pub park_after: Duration,
    /// Starts and inputs that may wait for their commit at the same time.
    pub max_pending: usize,
    /// The time for which other nodes wait for a silent node before they take its runs.
    pub node_lease: Duration,
    /// The time for which a worker may be silent before its runs go to other workers.
    pub worker_lease: Duration,
    pub sweep_every: Duration,
    /// The upper bound of the retention that a workflow or a start can request.
    pub max_retention_days: u32,
    /// The limits of the values of records.
    pub record_limits: RecordLimits,
    /// The number of days for which the changes of records and links are kept, also after the end of their run.
    pub record_history_days: u32,
    /// The number of days for which an event is kept after it was published.
    pub event_retention_days: u32,
    /// The number of days for which a dead letter is kept after its last attempt.
    pub dead_letter_days: u32,
    /// The number of rows that a slice of the fan-out of an event writes.
    pub event_slice_rows_max: usize,
    /// The time between two searches for expired records and old changes.
    pub record_sweep_every: Duration,
    /// The address at which other nodes reach this one.
    pub address: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            shards: (cores / 2).max(1),
            max_active_runs: 4_096,
            max_state_bytes: 256 * 1024 * 1024,
            park_after: Duration::from_secs(30),
            max_pending: 8_192,
            node_lease: Duration::from_secs(10),
            worker_lease: Duration::from_secs(30),
            sweep_every: Duration::from_secs(300),
            max_retention_days: 365,
            record_limits: RecordLimits::default(),
            record_history_days: 30,
            event_retention_days: 7,
            dead_letter_days: 90,
            event_slice_rows_max: SLICE_ROWS_MAX,
            record_sweep_every: Duration::from_secs(60),
            address: None,
        }
    }
}

impl Options {
    /// The number of days for which a run that requests `days` is kept: at least one.
    pub(crate) fn keep_for(&self, days: u32) -> u32 {
        days.clamp(1, self.max_retention_days.max(1))
    }

    /// The time for which tasks may be dispatched after a heartbeat was sent. It ends well before other nodes may claim
    /// their runs.
    pub(crate) fn dispatch_for(&self) -> Duration {
        self.node_lease * 7 / 10
    }
}
