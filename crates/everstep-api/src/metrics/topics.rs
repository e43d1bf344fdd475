//! Events and their fan-out. No label holds a topic or a subscription.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, Histogram, Label};
use metrics_exporter_prometheus::PrometheusRecorder;

use super::meters::{counter, histogram};

const PUBLISHED: &str = "everstep_events_published_total";
const FAN_OUT: &str = "everstep_event_fanout_seconds";
const MATCHED: &str = "everstep_subscriptions_matched_total";
/// Events whose fan-out is not done, in the whole database.
pub(super) const OPEN: &str = "everstep_events_open";

/// The figures of events.
pub(super) struct TopicMeters {
    published: Counter,
    fan_out: Histogram,
    /// By result. There are few of them.
    matched: Mutex<BTreeMap<&'static str, Counter>>,
}

/// The help lines.
pub(super) const COUNTERS: &[(&str, &str)] = &[
    (PUBLISHED, "Events that this node has published."),
    (MATCHED, "Subscriptions and waits that events have reached on this node, by result."),
];
pub(super) const HISTOGRAMS: &[(&str, &str)] = &[(FAN_OUT, "From the publish of an event to the end of its fan-out.")];

impl TopicMeters {
    pub(super) fn new(recorder: &PrometheusRecorder) -> Self {
        Self {
            published: counter(recorder, PUBLISHED, Vec::new()),
            fan_out: histogram(recorder, FAN_OUT, Vec::new()),
            matched: Mutex::default(),
        }
    }

    pub(super) fn count_published(&self, events: usize) {
        self.published.increment(events as u64);
    }

    pub(super) fn record_fan_out(&self, elapsed: Duration) {
        self.fan_out.record(elapsed);
    }

    pub(super) fn count_matched(&self, recorder: &PrometheusRecorder, result: &'static str, count: usize) {
        let mut matched = self.matched.lock().unwrap_or_else(PoisonError::into_inner);
        let total = matched
            .entry(result)
            .or_insert_with(|| counter(recorder, MATCHED, vec![Label::from_static_parts("result", result)]));
        total.increment(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::ids::{EventId, WorkspaceId};
    use everstep_core::payload::Payload;
    use everstep_core::time::Timestamp;
    use everstep_core::topics::TopicEvent;
    use everstep_engine::Observe;
    use everstep_store::EventRow;

    use super::*;
    use crate::metrics::Meters;

    #[test]
    fn a_fan_out_is_measured_from_the_publish_of_its_event() {
        let meters = Meters::default();
        let at = Timestamp::from_micros(1_000_000);
        let event = TopicEvent {
            id: EventId::new(at, 1),
            workspace: WorkspaceId::DEFAULT,
            topic: "a.b".to_owned(),
            source: "test".to_owned(),
            event_id: "1".to_owned(),
            at,
            data: Payload::null(),
            depth: 0,
            subject: None,
            extensions: None,
            replay_of: None,
        };
        let open = EventRow::open(event);
        meters.event_fanned(&open);
        meters.event_fanned(&EventRow { fanned_at: Some(at.plus(Duration::from_secs(2))), ..open });
        let page = meters.render();
        for line in ["everstep_event_fanout_seconds_count 1", "everstep_event_fanout_seconds_sum 2"] {
            assert!(page.lines().any(|shown| shown == line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn events_are_counted_with_their_results() {
        let meters = Meters::default();
        meters.events_published(3);
        meters.subscriptions_matched("run", 2);
        meters.subscriptions_matched("failed", 1);
        meters.subscriptions_matched("run", 1);
        let page = meters.render();
        for line in [
            "everstep_events_published_total 3",
            "everstep_subscriptions_matched_total{result=\"run\"} 3",
            "everstep_subscriptions_matched_total{result=\"failed\"} 1",
        ] {
            assert!(page.lines().any(|shown| shown == line), "{line} is not in\n{page}");
        }
    }
}
