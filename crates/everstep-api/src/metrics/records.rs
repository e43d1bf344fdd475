//! Ops of the data store. No label holds a namespace or a key.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use everstep_engine::AnsweredOp;
use metrics::{Counter, Histogram, Label};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::meters::{counter, histogram};

const TOTAL: &str = "everstep_records_ops_total";
const DURATION: &str = "everstep_records_op_seconds";
const BATCH: &str = "everstep_records_batch_ops";
const REDONE: &str = "everstep_records_redone_total";
const EXPIRED: &str = "everstep_records_expired_total";
/// Ops of a batch, up to the largest one.
const BATCH_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// The figures of ops.
pub(super) struct RecordMeters {
    /// By verb and outcome. There are few of both.
    answered: Mutex<BTreeMap<(&'static str, &'static str), Counter>>,
    duration: Histogram,
    batch: Histogram,
    redone: Counter,
    expired: Counter,
}

/// The buckets of the figures that are not times.
pub(super) fn set_buckets(builder: PrometheusBuilder) -> PrometheusBuilder {
    builder.set_buckets_for_metric(Matcher::Full(BATCH.to_owned()), BATCH_BUCKETS).expect("there are buckets")
}

/// The help lines.
pub(super) const COUNTERS: &[(&str, &str)] = &[
    (TOTAL, "Ops of the data store that this node has answered, by action and outcome."),
    (REDONE, "Ops that were evaluated again because another node had written to their namespace."),
    (EXPIRED, "Expired records that this node has deleted."),
];
pub(super) const HISTOGRAMS: &[(&str, &str)] =
    &[(DURATION, "From the request of an op to its answer."), (BATCH, "Ops that were applied together.")];

impl RecordMeters {
    pub(super) fn new(recorder: &PrometheusRecorder) -> Self {
        Self {
            answered: Mutex::default(),
            duration: histogram(recorder, DURATION, Vec::new()),
            batch: histogram(recorder, BATCH, Vec::new()),
            redone: counter(recorder, REDONE, Vec::new()),
            expired: counter(recorder, EXPIRED, Vec::new()),
        }
    }

    pub(super) fn count_answered(&self, recorder: &PrometheusRecorder, op: &AnsweredOp) {
        let (action, outcome) = (op.verb.as_str(), op.outcome);
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let total = answered.entry((action, outcome)).or_insert_with(|| {
            let labels = vec![Label::from_static_parts("action", action), Label::from_static_parts("outcome", outcome)];
            counter(recorder, TOTAL, labels)
        });
        total.increment(1);
        drop(answered);
        self.duration.record(op.elapsed);
    }

    pub(super) fn record_batch(&self, ops: usize, redone: usize) {
        if ops > 0 {
            self.batch.record(ops as f64);
        }
        self.redone.increment(redone as u64);
    }

    pub(super) fn count_expired(&self, records: usize) {
        self.expired.increment(records as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use everstep_core::records::Verb;
    use everstep_engine::Observe;

    use super::*;
    use crate::metrics::Meters;

    #[test]
    fn ops_are_counted_by_action_and_outcome() {
        let meters = Meters::default();
        for (verb, outcome) in [(Verb::Set, "ok"), (Verb::Set, "CONFLICT"), (Verb::Upsert, "ok"), (Verb::Set, "ok")] {
            meters.op_answered(&AnsweredOp { verb, outcome, elapsed: Duration::from_millis(3) });
        }
        meters.ops_applied(3, 2);
        meters.records_expired(7);
        let page = meters.render();
        for line in [
            "everstep_records_ops_total{action=\"store.set\",outcome=\"ok\"} 2",
            "everstep_records_ops_total{action=\"store.set\",outcome=\"CONFLICT\"} 1",
            "everstep_records_ops_total{action=\"links.upsert\",outcome=\"ok\"} 1",
            "everstep_records_op_seconds_bucket{le=\"0.001\"} 0",
            "everstep_records_op_seconds_bucket{le=\"0.005\"} 4",
            "everstep_records_batch_ops_bucket{le=\"2\"} 0",
            "everstep_records_batch_ops_bucket{le=\"4\"} 1",
            "everstep_records_redone_total 2",
            "everstep_records_expired_total 7",
        ] {
            assert!(page.lines().any(|shown| shown == line), "{line} is not in\n{page}");
        }
    }
}
