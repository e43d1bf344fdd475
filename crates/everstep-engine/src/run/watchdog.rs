//! Measures decisions, and reports those that take long.
//!
//! The time counts for the workspace of the run. A decision ends by its fuel, which is measured in the work of
//! expressions: a decision that is reported shows work that the fuel does not count, or a machine that is too busy.

use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::meter::Meter;
use everstep_core::time::Timestamp;

use super::active::ActiveRun;
use super::decide::Decided;
use crate::shard::Services;

/// The duration from which on a decision is reported.
const SLOW_DECISION: Duration = Duration::from_millis(50);

impl ActiveRun {
    /// Measures a decision. If it has taken long, it is reported with the last step that it wrote about.
    pub(crate) fn watch_decision(&self, begin: Timestamp, decided: &Decided, meter: &Meter, services: &mut Services) {
        let duration = services.now().since(begin);
        services.deferred.record(self.workspace, duration);
        if duration <= SLOW_DECISION {
            return;
        }
        let step = decided.entries.iter().rev().find_map(|entry| entry.event.step());
        let step = step.map_or("", |(step, _)| step.as_str());
        let (run, workflow, fuel) = (self.state().run, &self.workflow.name, meter.used());
        let milliseconds = duration.as_millis();
        tracing::warn!(%run, %workflow, step, milliseconds, fuel, "a decision took long");
        services.shared.slow_decisions.fetch_add(1, Ordering::Relaxed);
    }
}
