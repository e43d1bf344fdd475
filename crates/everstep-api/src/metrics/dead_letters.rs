//! Side effects by their end, and dead letters. The number of workflows with their own series is bounded.

use everstep_core::dead_letter::DeadLetterSource;
use metrics::{Label, SharedString};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::labels::Labels;
use super::meters::{WORKFLOW_LABELS_MAX, counter};
use super::transitions::UNKNOWN;

const ENDED: &str = "workflow_events_total";
/// Dead letters with the status `dead`, in the whole database.
pub(super) const DEAD: &str = "everstep_dead_letters";

/// The help lines.
pub(super) const COUNTERS: &[(&str, &str)] = &[(
    ENDED,
    "Side effects that ended on this node: delivered, dead (all attempts failed), or requeued (delivered by a requeue).",
)];

/// The figures of side effects.
pub(super) struct DeadLetterMeters {
    workflows: Labels<SharedString>,
    kinds: Labels<SharedString>,
}

/// The maximum number of kinds with their own series.
const KIND_LABELS_MAX: usize = 50;

impl Default for DeadLetterMeters {
    fn default() -> Self {
        Self { workflows: Labels::new(WORKFLOW_LABELS_MAX), kinds: Labels::new(KIND_LABELS_MAX) }
    }
}

impl DeadLetterMeters {
    pub(super) fn count_ended(
        &self,
        recorder: &PrometheusRecorder,
        workflow: Option<&str>,
        kind: &str,
        outcome: &'static str,
    ) {
        let own = |label: &str| SharedString::from(label.to_owned());
        let workflow = self.workflows.get(workflow.unwrap_or(UNKNOWN), own);
        let kind = self.kinds.get(kind, own);
        let labels = vec![
            Label::new("workflow_code", SharedString::clone(&workflow)),
            Label::new("type", SharedString::clone(&kind)),
            Label::from_static_parts("outcome", outcome),
        ];
        counter(recorder, ENDED, labels).increment(1);
    }
}

/// The number of each source, from those that a database has counted.
pub(super) fn by_source(counted: &[(DeadLetterSource, u64)]) -> impl Iterator<Item = (DeadLetterSource, u64)> {
    DeadLetterSource::ALL.into_iter().map(|source| {
        let count = counted.iter().find(|(counted, _)| *counted == source).map_or(0, |(_, count)| *count);
        (source, count)
    })
}

#[cfg(test)]
mod tests {
    use everstep_engine::{EndedEvent, EventOutcome, Observe as _};

    use super::*;
    use crate::metrics::Meters;

    #[test]
    fn side_effects_are_counted_by_workflow_kind_and_outcome() {
        let meters = Meters::default();
        let ended = |workflow, outcome| meters.event_ended(&EndedEvent { workflow, kind: "webhook", outcome });
        ended(Some("orders"), EventOutcome::Delivered);
        ended(Some("orders"), EventOutcome::Delivered);
        ended(Some("orders"), EventOutcome::Dead);
        ended(None, EventOutcome::Requeued);
        meters.show_dead_letters(&[(DeadLetterSource::Delivery, 3)]);
        let page = meters.render();
        for line in [
            "workflow_events_total{workflow_code=\"orders\",type=\"webhook\",outcome=\"delivered\"} 2",
            "workflow_events_total{workflow_code=\"orders\",type=\"webhook\",outcome=\"dead\"} 1",
            "workflow_events_total{workflow_code=\"unknown\",type=\"webhook\",outcome=\"requeued\"} 1",
            "everstep_dead_letters{source=\"delivery\"} 3",
            "everstep_dead_letters{source=\"start\"} 0",
        ] {
            assert!(page.lines().any(|shown| shown == line), "{line}\n{page}");
        }
    }
}
