//! One step with its values.

use everstep_core::payload::Payload;
use everstep_engine::{AttemptDetail, StepDetail as Detail};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::step::Step;
use crate::http::schema::Json;

/// A value with more bytes than this is sent only if it is requested.
const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// One step, with the values of one of its attempts. A value of more than 1 MiB is `{"$cut": bytes}`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StepDetail {
    #[serde(flatten)]
    step: Step,
    /// The config of the node, as the definition has it; null for steps of code and of state machines.
    #[schemars(with = "Json")]
    config: Value,
    /// The config as it was evaluated for the attempt, with `{"$secret": name}` in place of secrets; null for steps of
    /// code and of state machines.
    #[schemars(with = "Json")]
    input: Value,
    /// The entry that dispatched the attempt.
    dispatch_seq: Option<u64>,
    /// The entry that ended the attempt.
    end_seq: Option<u64>,
    /// The time between the dispatch and the beginning of the work, if a worker has reported it.
    queued_ms: Option<f64>,
    /// The duration of the attempt, without that time.
    took_ms: Option<f64>,
    /// The log lines of the attempt.
    logs: LogsOrCut,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum LogsOrCut {
    Lines(Vec<String>),
    Cut(Cut),
}

/// A value that is too large to be sent with others.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Cut {
    /// Its size.
    #[serde(rename = "$cut")]
    bytes: usize,
}

/// A value that is sent whole, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepPart {
    Output,
    Input,
    Logs,
}

impl StepDetail {
    pub(crate) fn from_detail(detail: Detail, whole: Option<StepPart>) -> Self {
        let Detail { mut story, attempt, config } = detail;
        let AttemptDetail { attempt: number, dispatch_seq, end_seq, dispatched_at, started_at, ended_at } =
            attempt.unwrap_or_default();
        let shown = story.attempts.iter_mut().rfind(|known| known.attempt == number);
        let logs = shown.map(|shown| std::mem::take(&mut shown.logs)).unwrap_or_default();
        for other in &mut story.attempts {
            other.logs.clear();
        }
        if number != story.attempt() {
            story.output = None;
        }
        let cut = |part: StepPart, bytes: usize| bytes > VALUE_BYTES_MAX && whole != Some(part);
        story.output = story.output.map(|output| match cut(StepPart::Output, output.size()) {
            true => Payload::from(json!({"$cut": output.size()})),
            false => output,
        });
        let (written, evaluated) = config.map_or((Value::Null, None), |config| (config.written, config.evaluated));
        let bytes: usize = logs.iter().map(String::len).sum();
        let millis = |duration: std::time::Duration| duration.as_micros() as f64 / 1_000.0;
        Self {
            step: Step::from_story(story),
            config: cut_value(written, |_| false),
            input: cut_value(evaluated.unwrap_or_default(), |bytes| !cut(StepPart::Input, bytes)),
            dispatch_seq,
            end_seq,
            queued_ms: dispatched_at.zip(started_at).map(|(dispatched, started)| millis(started.since(dispatched))),
            took_ms: started_at.or(dispatched_at).zip(ended_at).map(|(began, ended)| millis(ended.since(began))),
            logs: if cut(StepPart::Logs, bytes) { LogsOrCut::Cut(Cut { bytes }) } else { LogsOrCut::Lines(logs) },
        }
    }
}

/// A value, or its size if it is too large.
fn cut_value(value: Value, is_whole: impl Fn(usize) -> bool) -> Value {
    let bytes = value.to_string().len();
    if bytes <= VALUE_BYTES_MAX || is_whole(bytes) { value } else { json!({"$cut": bytes}) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_value_is_sent_if_it_is_requested() {
        let (small, large) = (json!("x".repeat(VALUE_BYTES_MAX - 2)), json!("x".repeat(VALUE_BYTES_MAX)));
        assert_eq!(cut_value(small.clone(), |_| false), small);
        assert_eq!(cut_value(large.clone(), |_| false), json!({"$cut": VALUE_BYTES_MAX + 2}));
        assert_eq!(cut_value(large.clone(), |_| true), large);
    }
}
