//! Counts and measures what the engine commits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use everstep_core::dead_letter::DeadLetterSource;
use everstep_core::status::Status;
use everstep_core::story::{RunChange, RunUpdate, StepChange, Update};
use everstep_core::time::Timestamp;
use everstep_engine::{AnsweredOp, CommittedItem, EndedEvent, Observe};
use everstep_store::EventRow;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::metrics::dead_letters::{self, DeadLetterMeters};
use crate::metrics::labels::Labels;
use crate::metrics::records::{self, RecordMeters};
use crate::metrics::topics::{self, TopicMeters};
use crate::metrics::transitions::{self, AttemptOutcome, TransitionMeters};

/// The maximum number of workflows with their own series, on one node.
pub(super) const WORKFLOW_LABELS_MAX: usize = 1_000;
/// The maximum number of steps with their own series, of one workflow.
const STEP_LABELS_MAX: usize = 100;
/// The maximum number of signal names with their own series, of one workflow.
const SIGNAL_LABELS_MAX: usize = 50;
/// Covers steps of a millisecond and steps of several hours.
const BUCKETS_SECONDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0];
/// The period in which samples are put into their buckets while the page is not scraped.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);
const METADATA: Metadata<'static> = Metadata::new("everstep", Level::INFO, None);

/// The figures of one node.
pub struct Meters {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    workflows: Labels<WorkflowMeters>,
    in_flight: Labels<InFlight>,
    transitions: TransitionMeters,
    records: RecordMeters,
    topics: TopicMeters,
    dead_letters: DeadLetterMeters,
    swept: Counter,
    audit_lost: Counter,
    /// When runs in flight were counted.
    counted_at: Mutex<Option<Instant>>,
}

struct WorkflowMeters {
    name: SharedString,
    started: Counter,
    completed: Counter,
    failed: Counter,
    cancelled: Counter,
    duration: Histogram,
    steps: Labels<StepMeters>,
    signals: Labels<Counter>,
}

struct InFlight {
    label: String,
    gauge: Gauge,
}

struct StepMeters {
    duration: Histogram,
    retries: Counter,
}

impl Default for Meters {
    fn default() -> Self {
        let builder = PrometheusBuilder::new().set_buckets(BUCKETS_SECONDS).expect("there are buckets");
        let recorder = records::set_buckets(transitions::set_buckets(builder)).build_recorder();
        describe(&recorder);
        let swept = counter(&recorder, "workflow_retention_swept_total", Vec::new());
        let audit_lost = counter(&recorder, "everstep_audit_lost_total", Vec::new());
        Self {
            handle: recorder.handle(),
            transitions: TransitionMeters::new(&recorder),
            records: RecordMeters::new(&recorder),
            topics: TopicMeters::new(&recorder),
            dead_letters: DeadLetterMeters::default(),
            recorder,
            workflows: Labels::new(WORKFLOW_LABELS_MAX),
            in_flight: Labels::new(WORKFLOW_LABELS_MAX),
            swept,
            audit_lost,
            counted_at: Mutex::default(),
        }
    }
}

impl Meters {
    /// All figures, in the format of Prometheus.
    pub(crate) fn render(&self) -> String {
        self.handle.render()
    }

    /// Counts rows of the audit that will never be written.
    pub(crate) fn audit_lost(&self) -> Counter {
        self.audit_lost.clone()
    }

    /// Counts a token that was rejected, by the rule that it breaks.
    pub(crate) fn count_refused_token(&self, reason: &'static str) {
        let labels = vec![Label::from_static_parts("reason", reason)];
        counter(&self.recorder, "everstep_tokens_refused_total", labels).increment(1);
    }

    /// Counts an attempt to perform an action, when its answer is sent.
    pub(crate) fn count_transition(
        &self,
        workflow: Option<&str>,
        action: Option<&str>,
        outcome: AttemptOutcome,
        duration: Duration,
    ) {
        self.transitions.count(&self.recorder, workflow, action, outcome, duration);
    }

    /// Records the time from the arrival of an attempt to the decision of the run's owner.
    pub(crate) fn record_acquired(&self, duration: Duration) {
        self.transitions.record_acquired(duration);
    }

    /// Counts an attempt on which the owner of the run could not decide.
    pub(crate) fn count_not_acquired(&self) {
        self.transitions.count_not_acquired();
    }

    /// A figure that is read when the page is scraped.
    pub(crate) fn gauge(&self, name: &'static str) -> Gauge {
        self.recorder.register_gauge(&Key::from_static_name(name), &METADATA)
    }

    /// Shows the number of runs of each workflow that have not ended. Workflows that are not in `counts` have none.
    pub(crate) fn show_in_flight(&self, counts: &BTreeMap<String, i64>) {
        let mut sums: BTreeMap<String, i64> = BTreeMap::new();
        for (workflow, n) in counts {
            let shown = self.in_flight.get(workflow, |label| {
                let labels = vec![Label::new("workflow", label.to_owned())];
                let key = Key::from_parts("workflow_runs_in_flight", labels);
                InFlight { label: label.to_owned(), gauge: self.recorder.register_gauge(&key, &METADATA) }
            });
            *sums.entry(shown.label.clone()).or_default() += n;
        }
        for shown in self.in_flight.all() {
            shown.gauge.set(sums.get(&shown.label).copied().unwrap_or(0) as f64);
        }
    }

    /// Shows the number of dead letters of each source. Sources that are not in `counted` have none.
    pub(crate) fn show_dead_letters(&self, counted: &[(DeadLetterSource, u64)]) {
        for (source, count) in dead_letters::by_source(counted) {
            let labels = vec![Label::from_static_parts("source", source.as_str())];
            let key = Key::from_parts(dead_letters::DEAD, labels);
            self.recorder.register_gauge(&key, &METADATA).set(count as f64);
        }
    }

    /// Whether runs in flight were last counted longer ago than `every`. A caller that receives true must count them.
    pub(crate) fn must_count(&self, every: Duration) -> bool {
        let mut counted_at = self.counted_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = counted_at.is_none_or(|counted_at| counted_at.elapsed() >= every);
        if is_old {
            *counted_at = Some(Instant::now());
        }
        is_old
    }

    /// A count that is maintained elsewhere.
    pub(crate) fn count(&self, name: &'static str, total: u64) {
        counter(&self.recorder, name, Vec::new()).absolute(total);
    }

    /// Prevents samples from accumulating while the page is not scraped. Never ends.
    pub async fn keep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(UPKEEP_INTERVAL).await;
            self.handle.run_upkeep();
        }
    }

    fn get_workflow_meters(&self, workflow: &str) -> Arc<WorkflowMeters> {
        self.workflows.get(workflow, |name| {
            let name = SharedString::from(name.to_owned());
            let label = || Label::new("workflow", name.clone());
            let ended = |status: Status| {
                let labels = vec![label(), Label::from_static_parts("status", status.as_str())];
                counter(&self.recorder, "workflow_runs_completed_total", labels)
            };
            WorkflowMeters {
                started: counter(&self.recorder, "workflow_runs_started_total", vec![label()]),
                completed: ended(Status::Completed),
                failed: ended(Status::Failed),
                cancelled: ended(Status::Cancelled),
                duration: histogram(&self.recorder, "workflow_run_duration_seconds", vec![label()]),
                steps: Labels::new(STEP_LABELS_MAX),
                signals: Labels::new(SIGNAL_LABELS_MAX),
                name,
            }
        })
    }

    fn get_step_meters(&self, workflow: &WorkflowMeters, step: &str) -> Arc<StepMeters> {
        workflow.steps.get(step, |step| {
            let labels = || vec![Label::new("workflow", workflow.name.clone()), Label::new("step", step.to_owned())];
            StepMeters {
                duration: histogram(&self.recorder, "workflow_step_duration_seconds", labels()),
                retries: counter(&self.recorder, "workflow_step_retries_total", labels()),
            }
        })
    }
}

impl Observe for Meters {
    fn committed(&self, item: &CommittedItem<'_>) {
        if item.is_test {
            return;
        }
        let workflow = self.get_workflow_meters(item.workflow);
        for update in item.updates() {
            match update {
                Update::Run(update) if update.change == RunChange::Started => workflow.started.increment(1),
                Update::Run(update) => workflow.count_end(&update, item.started_at),
                Update::Step(update) if update.change == StepChange::RetryDue => {
                    self.get_step_meters(&workflow, &update.node).retries.increment(1);
                }
                Update::Step(update) => {
                    if let Some(duration) = update.duration() {
                        self.get_step_meters(&workflow, &update.node).duration.record(duration);
                    }
                }
            }
        }
        for (event, ..) in item.signals() {
            let signals = workflow.signals.get(event, |event| {
                let labels = vec![Label::new("workflow", workflow.name.clone()), Label::new("event", event.to_owned())];
                counter(&self.recorder, "workflow_signals_total", labels)
            });
            signals.increment(1);
        }
    }

    fn swept(&self, runs: usize) {
        self.swept.increment(runs as u64);
    }

    fn ops_applied(&self, ops: usize, redone: usize) {
        self.records.record_batch(ops, redone);
    }

    fn op_answered(&self, op: &AnsweredOp) {
        self.records.count_answered(&self.recorder, op);
    }

    fn records_expired(&self, records: usize) {
        self.records.count_expired(records);
    }

    fn events_published(&self, events: usize) {
        self.topics.count_published(events);
    }

    fn event_fanned(&self, event: &EventRow) {
        if let Some(fanned_at) = event.fanned_at {
            self.topics.record_fan_out(fanned_at.since(event.event.at));
        }
    }

    fn subscriptions_matched(&self, result: &'static str, count: usize) {
        self.topics.count_matched(&self.recorder, result, count);
    }

    fn event_ended(&self, event: &EndedEvent<'_>) {
        self.dead_letters.count_ended(&self.recorder, event.workflow, event.kind, event.outcome.as_str());
    }
}

impl WorkflowMeters {
    /// Counts the end of a run, if the update is one.
    fn count_end(&self, update: &RunUpdate<'_>, started_at: Timestamp) {
        let ended = match update.change {
            RunChange::Completed => &self.completed,
            RunChange::Failed => &self.failed,
            RunChange::Cancelled => &self.cancelled,
            RunChange::Started
            | RunChange::TurnStarted
            | RunChange::TurnLost
            | RunChange::Moved
            | RunChange::Voted
            | RunChange::Assigned
            | RunChange::Paused
            | RunChange::Resumed
            | RunChange::Retried => return,
        };
        ended.increment(1);
        self.duration.record(update.at.since(started_at));
    }
}

pub(super) fn counter(recorder: &PrometheusRecorder, name: &'static str, labels: Vec<Label>) -> Counter {
    recorder.register_counter(&Key::from_parts(name, labels), &METADATA)
}

pub(super) fn histogram(recorder: &PrometheusRecorder, name: &'static str, labels: Vec<Label>) -> Histogram {
    recorder.register_histogram(&Key::from_parts(name, labels), &METADATA)
}

/// The help lines.
fn describe(recorder: &PrometheusRecorder) {
    let counters = [
        ("workflow_runs_started_total", "Runs started on this node."),
        ("workflow_runs_completed_total", "Runs that ended on this node, by status."),
        ("workflow_step_retries_total", "Attempts that followed a failed one."),
        ("workflow_signals_total", "Signals that runs have accepted."),
        ("workflow_retention_swept_total", "Ended runs deleted because their retention has passed."),
        ("everstep_audit_lost_total", "Rows of the audit that the database rejected permanently."),
        ("everstep_tokens_refused_total", "Tokens of people that were rejected, by reason."),
        ("everstep_conflicts_total", "Items rejected because another node had written their run."),
        ("everstep_slow_decisions_total", "Decisions of this node that took more than 50 ms."),
        ("everstep_store_calls_total", "Calls to the database."),
    ];
    let others = [transitions::COUNTERS, records::COUNTERS, topics::COUNTERS, dead_letters::COUNTERS];
    for (name, about) in counters.iter().chain(others.into_iter().flatten()) {
        recorder.describe_counter(KeyName::from_const_str(name), None, (*about).into());
    }
    let gauges = [
        ("workflow_runs_in_flight", "Runs that have not ended, in the whole database."),
        ("everstep_runs_held", "Runs in this node's memory."),
        (dead_letters::DEAD, "Dead letters that are neither delivered nor discarded, in the whole database."),
        (topics::OPEN, "Events whose fan-out is not done, in the whole database."),
        ("everstep_disk_free_bytes", "Free bytes of the disk of the data folder; only with SQLite."),
        ("everstep_records_waiting", "Ops of the data store that wait for their batch on this node."),
    ];
    for (name, about) in gauges {
        recorder.describe_gauge(KeyName::from_const_str(name), None, about.into());
    }
    let histograms = [
        ("workflow_run_duration_seconds", "From a run's start to its end."),
        ("workflow_step_duration_seconds", "From a step's dispatch to its result, for each attempt."),
    ];
    for (name, about) in
        histograms.iter().chain(transitions::HISTOGRAMS).chain(records::HISTOGRAMS).chain(topics::HISTOGRAMS)
    {
        recorder.describe_histogram(KeyName::from_const_str(name), None, (*about).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_in_flight_are_summed_and_forgotten() {
        let meters = Meters::default();
        let shows = |line: &str| meters.render().lines().any(|shown| shown == line);
        let many: BTreeMap<_, _> = (0..WORKFLOW_LABELS_MAX + 2).map(|i| (format!("w{i:04}"), 3)).collect();
        meters.show_in_flight(&many);
        assert!(shows("workflow_runs_in_flight{workflow=\"w0000\"} 3"), "{}", meters.render());
        assert!(shows("workflow_runs_in_flight{workflow=\"other\"} 6"));
        meters.show_in_flight(&BTreeMap::from([("w0001".to_owned(), 1)]));
        assert!(shows("workflow_runs_in_flight{workflow=\"w0000\"} 0"));
        assert!(shows("workflow_runs_in_flight{workflow=\"w0001\"} 1"));
        assert!(shows("workflow_runs_in_flight{workflow=\"other\"} 0"));
    }
}
