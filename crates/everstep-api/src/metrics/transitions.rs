//! Attempts to perform actions in runs of state machines.

use std::time::Duration;

use axum::http::StatusCode;
use metrics::{Counter, Histogram, Label, SharedString};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::labels::Labels;
use super::meters::{WORKFLOW_LABELS_MAX, counter, histogram};

/// The label of a workflow or an action that is not known.
pub(crate) const UNKNOWN: &str = "unknown";
/// The maximum number of actions with their own series, of one workflow.
const ACTION_LABELS_MAX: usize = 200;
const TOTAL: &str = "workflow_transitions_total";
const DURATION: &str = "workflow_transition_duration_ms";
const ACQUIRE_DURATION: &str = "workflow_redlock_acquire_duration_ms";
const ACQUIRE_FAILURES: &str = "workflow_redlock_acquire_failures_total";
/// Milliseconds of a transition.
const DURATION_BUCKETS_MS: &[f64] = &[50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0];
/// Milliseconds until the owner of a run has decided. Most take less than a transition.
const ACQUIRE_BUCKETS_MS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1_000.0, 2_500.0, 5_000.0];

/// The outcome of an attempt, as the metrics and the log name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    Success,
    Conflict,
    Forbidden,
    ValidationError,
    SystemError,
}

impl AttemptOutcome {
    /// The outcome of an attempt by the status of its answer; an attempt without an answer has failed.
    pub(crate) fn from_status(status: Option<StatusCode>) -> Self {
        match status {
            Some(status) if status.is_success() => Self::Success,
            Some(StatusCode::CONFLICT) => Self::Conflict,
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => Self::Forbidden,
            Some(status) if status.is_client_error() => Self::ValidationError,
            Some(_) | None => Self::SystemError,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Conflict => "conflict",
            Self::Forbidden => "forbidden",
            Self::ValidationError => "validation_error",
            Self::SystemError => "system_error",
        }
    }
}

/// The figures of attempts.
pub(super) struct TransitionMeters {
    workflows: Labels<WorkflowTransitions>,
    acquired: Histogram,
    not_acquired: Counter,
}

struct WorkflowTransitions {
    name: SharedString,
    duration: Histogram,
    actions: Labels<SharedString>,
}

/// The buckets of each histogram.
pub(super) fn set_buckets(builder: PrometheusBuilder) -> PrometheusBuilder {
    let own = [(DURATION, DURATION_BUCKETS_MS), (ACQUIRE_DURATION, ACQUIRE_BUCKETS_MS)];
    own.into_iter().fold(builder, |builder, (name, buckets)| {
        builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), buckets).expect("there are buckets")
    })
}

/// The help lines.
pub(super) const COUNTERS: &[(&str, &str)] = &[
    (TOTAL, "Attempts to perform an action in a run of a state machine, by outcome."),
    (ACQUIRE_FAILURES, "Attempts that were answered with 503 because the owner of the run could not decide."),
];
pub(super) const HISTOGRAMS: &[(&str, &str)] = &[
    (DURATION, "From the arrival of an attempt to its answer, in milliseconds."),
    (ACQUIRE_DURATION, "From the arrival of an attempt to the decision of the run's owner, in milliseconds."),
];

impl TransitionMeters {
    pub(super) fn new(recorder: &PrometheusRecorder) -> Self {
        Self {
            workflows: Labels::new(WORKFLOW_LABELS_MAX),
            acquired: histogram(recorder, ACQUIRE_DURATION, Vec::new()),
            not_acquired: counter(recorder, ACQUIRE_FAILURES, Vec::new()),
        }
    }

    /// Counts an answered attempt. A workflow or an action that does not exist has the label `unknown`.
    pub(super) fn count(
        &self,
        recorder: &PrometheusRecorder,
        workflow: Option<&str>,
        action: Option<&str>,
        outcome: AttemptOutcome,
        duration: Duration,
    ) {
        let workflow = self.workflows.get(workflow.unwrap_or(UNKNOWN), |name| {
            let name = SharedString::from(name.to_owned());
            let duration = histogram(recorder, DURATION, vec![Label::new("workflow_code", name.clone())]);
            WorkflowTransitions { name, duration, actions: Labels::new(ACTION_LABELS_MAX) }
        });
        let action = workflow.actions.get(action.unwrap_or(UNKNOWN), |name| SharedString::from(name.to_owned()));
        let labels = vec![
            Label::new("workflow_code", workflow.name.clone()),
            Label::new("action", SharedString::clone(&action)),
            Label::from_static_parts("outcome", outcome.as_str()),
        ];
        counter(recorder, TOTAL, labels).increment(1);
        workflow.duration.record(duration.as_secs_f64() * 1_000.0);
    }

    pub(super) fn record_acquired(&self, duration: Duration) {
        self.acquired.record(duration.as_secs_f64() * 1_000.0);
    }

    pub(super) fn count_not_acquired(&self) {
        self.not_acquired.increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Meters;

    #[test]
    fn every_status_has_its_outcome() {
        let outcome = |status: u16| AttemptOutcome::from_status(StatusCode::from_u16(status).ok()).as_str();
        assert_eq!([outcome(200), outcome(409), outcome(403)], ["success", "conflict", "forbidden"]);
        for status in [400, 404, 413, 422] {
            assert_eq!(outcome(status), "validation_error", "{status}");
        }
        for status in [500, 503, 504, 507] {
            assert_eq!(outcome(status), "system_error", "{status}");
        }
        assert_eq!(AttemptOutcome::from_status(None), AttemptOutcome::SystemError);
    }

    #[test]
    fn durations_have_the_buckets_of_the_requirements_and_labels_are_bounded() {
        let meters = Meters::default();
        let count = |action: Option<&str>, millis| {
            let duration = Duration::from_millis(millis);
            meters.count_transition(Some("expense"), action, AttemptOutcome::Success, duration);
        };
        count(Some("APPROVE"), 60);
        count(Some("APPROVE"), 6_000);
        count(None, 1);
        let page = meters.render();
        let shows = |line: &str| page.lines().any(|shown| shown == line);
        let total = |action: &str| {
            format!("workflow_transitions_total{{workflow_code=\"expense\",action=\"{action}\",outcome=\"success\"}}")
        };
        assert!(shows(&format!("{} 2", total("APPROVE"))) && shows(&format!("{} 1", total(UNKNOWN))), "{page}");
        let prefix = "workflow_transition_duration_ms_bucket{workflow_code=\"expense\",le=\"";
        let bounds: Vec<_> = page.lines().filter_map(|line| line.strip_prefix(prefix)).collect();
        let expected =
            ["50\"} 1", "100\"} 2", "250\"} 2", "500\"} 2", "1000\"} 2", "2500\"} 2", "5000\"} 2", "+Inf\"} 3"];
        assert_eq!(bounds, expected, "{page}");
        // The buckets of other metrics are in seconds.
        meters.record_acquired(Duration::from_millis(3));
        assert!(meters.render().contains("workflow_redlock_acquire_duration_ms_bucket{le=\"5\"} 1"));
        for index in 0..2 * ACTION_LABELS_MAX {
            count(Some(&format!("A{index}")), 1);
        }
        let series = meters.render().lines().filter(|line| line.starts_with("workflow_transitions_total{")).count();
        assert_eq!(series, ACTION_LABELS_MAX + 1);
    }
}
