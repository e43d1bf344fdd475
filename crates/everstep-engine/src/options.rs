//! What can be set about an engine.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Options {
    /// Loops that own runs. A run belongs to one of them.
    pub shards: usize,
    /// Runs held at once; more wait in the database until there is room.
    pub max_active_runs: usize,
    /// Memory for the states of idle runs; beyond it the longest idle ones are parked.
    pub max_state_bytes: usize,
    /// A run with nothing to do for this long leaves memory.
    pub park_after: Duration,
    /// Starts and inputs that may wait for their commit at once.
    pub max_pending: usize,
    /// How long others wait for a silent node before they take its runs.
    pub node_lease: Duration,
    /// How long a worker may be silent before its runs go to others.
    pub worker_lease: Duration,
    pub sweep_every: Duration,
    /// No run is kept longer than this after its end, whatever its workflow or its start asks for.
    pub max_retention_days: u32,
    /// Where other nodes reach this one.
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
            address: None,
        }
    }
}

impl Options {
    /// How many days a run is kept that asks for so many: at least one.
    pub(crate) fn keep_for(&self, days: u32) -> u32 {
        days.clamp(1, self.max_retention_days.max(1))
    }

    /// How long tasks may be dispatched after a heartbeat was sent: well before others may claim their runs.
    pub(crate) fn dispatch_for(&self) -> Duration {
        self.node_lease * 7 / 10
    }
}
