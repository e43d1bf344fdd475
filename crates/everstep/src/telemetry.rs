//! The engine's observers: meters, and the collector of spans.

use std::net::SocketAddr;
use std::sync::Arc;

use everstep_api::Meters;
use everstep_engine::{AnsweredOp, CommittedItem, EndedEvent, Observe};
use everstep_store::EventRow;

use crate::exit::invalid;
use crate::settings::TelemetrySettings;
use crate::spans::Spans;

/// The meaning of the settings and of the usual variables of OpenTelemetry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry {
    pub(crate) metrics_listen: Option<SocketAddr>,
    /// None if no spans are sent.
    pub(crate) tracing: Option<Tracing>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tracing {
    /// If it is not set, the variables of OpenTelemetry apply, else this machine.
    pub(crate) endpoint: Option<String>,
}

impl Telemetry {
    pub(crate) fn new(typed: &TelemetrySettings, file: &TelemetrySettings) -> anyhow::Result<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_enabled = typed.otlp_enabled.or(file.otlp_enabled).unwrap_or(false);
        let is_disabled = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let metrics_listen = typed.metrics_listen.or(file.metrics_listen);
        if !is_enabled || is_disabled {
            return Ok(Self { metrics_listen, tracing: None });
        }
        let known = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", &["http/protobuf"][..]),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", &["http/protobuf"]),
            ("OTEL_TRACES_EXPORTER", &["otlp"]),
            ("OTEL_TRACES_SAMPLER", &["always_on", "parentbased_always_on"]),
        ];
        for (name, known) in known {
            if let Some(value) = variable(name).filter(|value| !known.contains(&value.as_str())) {
                return Err(invalid(format!("{name}={value} is not supported; use {}", known.join(" or "))));
            }
        }
        let endpoint = typed.otlp_endpoint.clone().or_else(|| file.otlp_endpoint.clone());
        let endpoint = endpoint.map(|url| traces_url(&url)).transpose()?;
        Ok(Self { metrics_listen, tracing: Some(Tracing { endpoint }) })
    }
}

/// The address of a collector, with the path for spans.
fn traces_url(url: &str) -> anyhow::Result<String> {
    const TRACES_PATH: &str = "/v1/traces";
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(invalid(format!("otlp-endpoint {url:?} is not a valid address; write http://HOST:4318")));
    }
    let url = url.trim_end_matches('/');
    Ok(if url.ends_with(TRACES_PATH) { url.to_owned() } else { format!("{url}{TRACES_PATH}") })
}

/// Updates meters and, if enabled, creates spans.
pub(crate) struct Observers {
    pub(crate) meters: Arc<Meters>,
    pub(crate) spans: Option<Arc<Spans>>,
}

impl Observe for Observers {
    fn committed(&self, item: &CommittedItem<'_>) {
        self.meters.committed(item);
        if let Some(spans) = &self.spans {
            spans.committed(item);
        }
    }

    fn swept(&self, runs: usize) {
        self.meters.swept(runs);
    }

    fn ops_applied(&self, ops: usize, redone: usize) {
        self.meters.ops_applied(ops, redone);
    }

    fn op_answered(&self, op: &AnsweredOp) {
        self.meters.op_answered(op);
    }

    fn records_expired(&self, records: usize) {
        self.meters.records_expired(records);
    }

    fn events_published(&self, events: usize) {
        self.meters.events_published(events);
    }

    fn event_fanned(&self, event: &EventRow) {
        self.meters.event_fanned(event);
        if let Some(spans) = &self.spans {
            spans.event_fanned(event);
        }
    }

    fn subscriptions_matched(&self, result: &'static str, count: usize) {
        self.meters.subscriptions_matched(result, count);
    }

    fn event_ended(&self, event: &EndedEvent<'_>) {
        self.meters.event_ended(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_named_with_or_without_its_path() {
        let url_of = |url: &str| traces_url(url).ok();
        let whole = Some("http://c:4318/v1/traces".to_owned());
        assert_eq!(
            [url_of("http://c:4318"), url_of("http://c:4318/"), url_of("http://c:4318/v1/traces")],
            [whole.clone(), whole.clone(), whole]
        );
        assert_eq!(url_of("c:4318"), None);
    }
}
