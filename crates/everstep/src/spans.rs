//! Spans of runs, steps, signals and events, sent by OTLP.
//!
//! A span is created at its end, from the journal, so that a run that sleeps for a month costs nothing and every node
//! that takes part in a run creates spans of one trace. The trace has the run's id. An event is a trace of its own.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::retry::mix;
use everstep_core::story::{RunUpdate, StepUpdate, Update};
use everstep_core::time::Timestamp;
use everstep_core::topics::TopicEvent;
use everstep_engine::{CommittedItem, Observe};
use everstep_store::{EventRow, MatchCounts};
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor};

use crate::telemetry::Tracing;

/// The time limit for sending the last spans when the server stops.
const LAST_SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends spans in batches, from a separate thread. Spans that cannot be sent in time are dropped, and this is logged.
pub(crate) struct Spans {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
}

impl Spans {
    /// Prepares the exporter.
    pub(crate) async fn start(tracing: Tracing) -> anyhow::Result<Self> {
        // The exporter's client blocks, and must not be created on a thread of the runtime.
        tokio::task::spawn_blocking(move || Self::new(&tracing)).await.context("preparing to send spans")?
    }

    fn new(tracing: &Tracing) -> anyhow::Result<Self> {
        // The exporter has its own TLS; it uses the provider of the process.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut exporter = SpanExporter::builder().with_http();
        if let Some(endpoint) = &tracing.endpoint {
            exporter = exporter.with_endpoint(endpoint.clone());
        }
        let exporter = exporter.build().context("preparing to send spans")?;
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("everstep");
        }
        processor.set_resource(&resource.build());
        let scope = InstrumentationScope::builder("everstep").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Self { processor: Arc::new(processor), scope })
    }

    /// Sends the remaining spans.
    pub(crate) fn close(&self) {
        if let Err(error) = self.processor.shutdown_with_timeout(LAST_SEND_TIMEOUT) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }

    fn end(&self, span: Span<'_>) {
        self.processor.on_end(SpanData {
            span_context: context(span.run, span.id),
            parent_span_id: span.parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: span.name.into(),
            start_time: time(span.begin),
            end_time: time(span.end),
            attributes: span.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: span.links,
            status: match span.failure {
                Some(failure) => Status::error(format!("{}: {}", failure.code, failure.message)),
                None => Status::Unset,
            },
            instrumentation_scope: self.scope.clone(),
        });
    }

    fn end_run(&self, item: &CommittedItem<'_>, update: &RunUpdate<'_>, status: &'static str) {
        let mut links = SpanLinks::default();
        if let Some(parent) = item.parent {
            let of_step = context(parent.run, step_id(parent.run, &parent.step, parent.attempt));
            links.links.push(Link::with_context(of_step));
        }
        let mut attributes = attributes(item);
        attributes.push(KeyValue::new("status", status));
        self.end(Span {
            run: item.run,
            id: run_id(item.run),
            parent: SpanId::INVALID,
            name: "workflow.run",
            begin: item.started_at,
            end: update.at,
            attributes,
            links,
            failure: update.failure,
        });
    }

    fn end_step(&self, item: &CommittedItem<'_>, update: &StepUpdate<'_>) {
        let kind = match update.kind.as_deref() {
            Some("delay" | "sleep") => "sleep",
            Some("wait") => "wait",
            _ => "run",
        };
        let mut attributes = attributes(item);
        attributes.extend([
            KeyValue::new("step.name", update.step.to_string()),
            KeyValue::new("step.kind", kind),
            KeyValue::new("step.attempt", i64::from(update.attempt)),
        ]);
        self.end(Span {
            run: item.run,
            id: step_id(item.run, &update.step, update.attempt),
            parent: run_id(item.run),
            name: "workflow.step",
            begin: update.since.unwrap_or(update.at),
            end: update.at,
            attributes,
            links: SpanLinks::default(),
            failure: update.error,
        });
    }

    fn end_signal(&self, item: &CommittedItem<'_>, event: &str, seq: u64, at: Timestamp) {
        let mut attributes = attributes(item);
        attributes.push(KeyValue::new("event", event.to_owned()));
        self.end(Span {
            run: item.run,
            id: SpanId::from(mix(low(item.run) ^ seq).max(1)),
            parent: run_id(item.run),
            name: "workflow.signal",
            begin: at,
            end: at,
            attributes,
            links: SpanLinks::default(),
            failure: None,
        });
    }

    /// The span of an event, from its publication to the end of its fan-out. Its trace has the event's id, as that of a
    /// run has the run's.
    fn end_event(&self, event: &TopicEvent, matched: MatchCounts, end: Timestamp) {
        let count = |name: &'static str, count: u64| KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX));
        let trace = RunId::from_uuid(event.id.uuid());
        self.end(Span {
            run: trace,
            id: run_id(trace),
            parent: SpanId::INVALID,
            name: "workflow.event",
            begin: event.at.min(end),
            end,
            attributes: vec![
                KeyValue::new("event.id", event.id.to_string()),
                KeyValue::new("event.topic", event.topic.clone()),
                KeyValue::new("event.source", event.source.clone()),
                count("matched.workflows", matched.workflows),
                count("matched.waits", matched.waits),
                count("matched.failed", matched.failed),
            ],
            links: SpanLinks::default(),
            failure: None,
        });
    }
}

impl Observe for Spans {
    fn event_fanned(&self, row: &EventRow) {
        if let Some(end) = row.fanned_at {
            self.end_event(&row.event, row.matched, end);
        }
    }

    fn committed(&self, item: &CommittedItem<'_>) {
        if item.is_test {
            return;
        }
        for update in item.updates() {
            match &update {
                Update::Step(update) if update.change.is_end() => self.end_step(item, update),
                Update::Step(_) => {}
                Update::Run(update) => {
                    if let Some(status) = update.change.end() {
                        self.end_run(item, update, status.as_str());
                    }
                }
            }
        }
        for (event, seq, at) in item.signals() {
            self.end_signal(item, event, seq, at);
        }
    }
}

struct Span<'a> {
    run: RunId,
    id: SpanId,
    parent: SpanId,
    name: &'static str,
    begin: Timestamp,
    end: Timestamp,
    attributes: Vec<KeyValue>,
    links: SpanLinks,
    failure: Option<&'a Failure>,
}

fn attributes(item: &CommittedItem<'_>) -> Vec<KeyValue> {
    vec![
        KeyValue::new("workflow.name", item.workflow.to_owned()),
        KeyValue::new("workflow.version", i64::from(item.version)),
        KeyValue::new("run_id", item.run.to_string()),
    ]
}

fn context(run: RunId, span: SpanId) -> SpanContext {
    let trace = TraceId::from(run.uuid().as_u128());
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
}

/// The random half of a run's id.
fn low(run: RunId) -> u64 {
    run.uuid().as_u64_pair().1
}

/// The same on every node.
fn run_id(run: RunId) -> SpanId {
    SpanId::from(low(run))
}

fn step_id(run: RunId, step: &StepKey, attempt: u32) -> SpanId {
    let begin = mix(low(run) ^ u64::from(attempt));
    let id = step.as_str().bytes().fold(begin, |id, byte| mix(id ^ u64::from(byte)));
    SpanId::from(id.max(1))
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(at.micros().max(0).cast_unsigned())
}
