//! One report of a worker: its wire form, and its checks.
//!
//! Log lines, error messages and stacks are texts for people: they are truncated and repaired. Every other value is
//! accepted unchanged or rejected.

use std::borrow::Cow;

use everstep_core::code::{Moment, Report, Since};
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics;
use everstep_core::whole;
use everstep_core::workflow;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::retry::WireRetry;
use super::text::{HumanText, truncate_lines};
use crate::http::problem::Problem;
use crate::http::schema::{Id, Json, Object};
use crate::id::is_version;

const STEP_NAME_BYTES_MAX: usize = 256;
const SIGNAL_NAME_CHARS_MAX: usize = 256;
const ERROR_CODE_BYTES_MAX: usize = 128;
/// Bytes of an error's message, and of its stack.
const ERROR_TEXT_BYTES_MAX: usize = 16 * 1024;
/// The longest sleep, timeout or backoff.
pub(super) const DURATION_MAX_MS: u64 = limits::TIMER_DAYS * 24 * 3_600 * 1_000;
/// The last millisecond of the year 9999.
const TIME_MAX_MS: i64 = 253_402_300_799_999;
/// The code of an error that has none.
const DEFAULT_ERROR_CODE: &str = "ERROR";

/// A report about a run. The kind determines which members it has.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerReport")]
pub(crate) struct WireReport<'a> {
    /// The number by which the report is answered.
    #[serde(deserialize_with = "whole::number")]
    pub(super) n: u64,
    #[schemars(with = "Id")]
    pub(super) run: RunId,
    #[serde(deserialize_with = "whole::number")]
    pub(super) turn: u32,
    kind: ReportKind,
    /// The name of the step. Of `completed`, `failed`, `sleep`, `wait`, `call` and `publish`; of `threw`, the step whose
    /// failure ended the function.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    step: Option<BorrowedText<'a>>,
    /// Of `completed` and `failed`.
    #[serde(default, deserialize_with = "whole::optional")]
    attempt: Option<u32>,
    /// Of `completed` and `returned`. Default: `null`.
    #[serde(borrow)]
    #[schemars(with = "Option<Json>")]
    output: Option<&'a RawValue>,
    /// Of `completed` and `failed`: the log lines of the attempt.
    logs: Option<Vec<HumanText>>,
    /// Of `completed` and `failed`: the duration of the attempt in milliseconds.
    took_ms: Option<f64>,
    /// Of `failed`, `threw`, `diverged` and `declined`.
    error: Option<ReportedError>,
    /// Of `failed`.
    retry: Option<WireRetry>,
    /// Of `sleep`: milliseconds from now.
    #[serde(default, deserialize_with = "whole::optional")]
    for_ms: Option<u64>,
    /// Of `sleep`: milliseconds since 1970.
    #[serde(default, deserialize_with = "whole::optional")]
    until_ms: Option<i64>,
    /// Of `wait`: the name of the signal, and the topic of the event. Default: the name of the step, for signals only.
    event: Option<String>,
    /// Of `wait`: an object that the payload of the signal, or the data of the event, must contain.
    #[serde(borrow, rename = "match")]
    #[schemars(with = "Option<Object>")]
    pattern: Option<&'a RawValue>,
    /// Of `wait` and `call`.
    #[serde(default, deserialize_with = "whole::optional")]
    timeout_ms: Option<u64>,
    /// Of `wait` with an `event`: it also receives events that were published before, from this time on.
    since: Option<WireSince>,
    /// Of `call`: the workflow to start.
    workflow: Option<String>,
    /// Of `call`.
    #[serde(default, deserialize_with = "whole::optional")]
    #[schemars(range(min = 1, max = 2_147_483_647))]
    version: Option<u32>,
    /// Of `call`. Default: `{}`.
    #[serde(borrow)]
    #[schemars(with = "Option<Json>")]
    input: Option<&'a RawValue>,
    /// Of `publish`.
    topic: Option<String>,
    /// Of `publish`: the data of the event. Default: `null`.
    #[serde(borrow)]
    #[schemars(with = "Option<Json>")]
    data: Option<&'a RawValue>,
    /// Of `publish`: the id of the event at the run. Default: the name of the step.
    #[schemars(length(min = 1, max = 255))]
    id: Option<String>,
    /// Of `publish`.
    #[schemars(length(min = 1, max = 255))]
    subject: Option<String>,
    /// Of `blocked`: the highest seq that the worker has received for the run.
    #[serde(default, deserialize_with = "whole::optional")]
    seq: Option<u64>,
    /// Of `returned` and `threw`: the steps that the function did not await, though they still run or have failed.
    #[serde(borrow)]
    #[schemars(with = "Option<Vec<String>>", length(max = 20))]
    unawaited: Option<Vec<BorrowedText<'a>>>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum ReportKind {
    Completed,
    Failed,
    Sleep,
    Wait,
    Call,
    Publish,
    Returned,
    Threw,
    Blocked,
    Diverged,
    Declined,
}

/// From when on a wait looks for events.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WorkerSince")]
enum WireSince {
    /// The start of the run.
    Start,
    /// Milliseconds before the report is recorded.
    AgoMs(#[serde(deserialize_with = "whole::number")] u64),
    /// Milliseconds since 1970.
    AtMs(#[serde(deserialize_with = "whole::number")] i64),
}

/// Text that is borrowed from the request unless it has escapes.
#[derive(Debug, Deserialize)]
struct BorrowedText<'a>(#[serde(borrow)] Cow<'a, str>);

/// An error that user code has thrown.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerError")]
struct ReportedError {
    /// Default: `ERROR`.
    code: Option<HumanText>,
    message: HumanText,
    /// The stack trace. That of `failed` is stored with the log lines of the attempt, and that of `threw` with the end
    /// of the run.
    stack: Option<HumanText>,
    /// Whether another attempt may succeed. Default: true. Only steps are retried.
    retryable: Option<bool>,
}

impl WireReport<'_> {
    /// The report for the engine, or the reason why it is rejected.
    pub(super) fn check(mut self) -> Result<Report, String> {
        let report = match self.kind {
            ReportKind::Completed => Report::Completed {
                step: self.step()?,
                attempt: self.attempt()?,
                output: payload_or_null(self.output.take()),
                logs: truncate_lines(self.logs.take().unwrap_or_default()),
                took: self.took()?,
            },
            ReportKind::Failed => {
                let (failure, stack) = self.error()?;
                let mut logs = self.logs.take().unwrap_or_default();
                logs.extend(stack);
                Report::Failed {
                    step: self.step()?,
                    attempt: self.attempt()?,
                    failure,
                    retry: self.retry.take().unwrap_or_default().check()?,
                    logs: truncate_lines(logs),
                    took: self.took()?,
                }
            }
            ReportKind::Sleep => Report::Slept { step: self.step()?, until: self.until()? },
            ReportKind::Wait => Report::Waited {
                since: self.since()?,
                step: self.step()?,
                event: self.event()?,
                pattern: self.pattern()?,
                timeout_ms: self.timeout()?,
            },
            ReportKind::Call => Report::Called {
                step: self.step()?,
                workflow: self.workflow()?,
                version: self.version()?,
                input: self.input.take().map_or_else(empty_object, |raw| Payload::from_raw(raw.to_owned())),
                timeout_ms: self.timeout()?,
            },
            ReportKind::Publish => Report::Published {
                step: self.step()?,
                topic: self.topic.take().ok_or("topic is missing")?,
                data: payload_or_null(self.data.take()),
                id: self.id.take(),
                subject: self.subject.take(),
            },
            ReportKind::Returned => {
                Report::Returned { output: payload_or_null(self.output.take()), unawaited: self.unawaited()? }
            }
            ReportKind::Threw => {
                let step = if self.step.is_some() { Some(self.step()?) } else { None };
                let (failure, stack) = self.error()?;
                Report::Threw { failure, step, stack: stack.map(String::from), unawaited: self.unawaited()? }
            }
            ReportKind::Blocked => Report::Blocked { seq: self.seq.take().ok_or("seq is missing")? },
            ReportKind::Diverged => Report::Diverged { failure: self.error()?.0 },
            ReportKind::Declined => Report::Declined { failure: self.error()?.0 },
        };
        match self.unused_member() {
            None => Ok(report),
            Some(name) => Err(format!("a report of this kind has no {name}")),
        }
    }

    /// A member that reports of this kind do not have.
    fn unused_member(&self) -> Option<&'static str> {
        let members = [
            ("step", self.step.is_some()),
            ("attempt", self.attempt.is_some()),
            ("output", self.output.is_some()),
            ("logs", self.logs.is_some()),
            ("tookMs", self.took_ms.is_some()),
            ("error", self.error.is_some()),
            ("retry", self.retry.is_some()),
            ("forMs", self.for_ms.is_some()),
            ("untilMs", self.until_ms.is_some()),
            ("event", self.event.is_some()),
            ("match", self.pattern.is_some()),
            ("timeoutMs", self.timeout_ms.is_some()),
            ("since", self.since.is_some()),
            ("workflow", self.workflow.is_some()),
            ("version", self.version.is_some()),
            ("input", self.input.is_some()),
            ("topic", self.topic.is_some()),
            ("data", self.data.is_some()),
            ("id", self.id.is_some()),
            ("subject", self.subject.is_some()),
            ("seq", self.seq.is_some()),
            ("unawaited", self.unawaited.is_some()),
        ];
        members.into_iter().find(|(_, is_present)| *is_present).map(|(name, _)| name)
    }

    fn step(&mut self) -> Result<StepKey, String> {
        check_step("step", &self.step.take().ok_or("step is missing")?)
    }

    fn unawaited(&mut self) -> Result<Vec<StepKey>, String> {
        let names = self.unawaited.take().unwrap_or_default();
        if names.len() > limits::UNAWAITED_STEPS {
            return Err(format!("unawaited names {} steps; the limit is {}", names.len(), limits::UNAWAITED_STEPS));
        }
        names.iter().map(|name| check_step("unawaited: a step", name)).collect()
    }

    fn attempt(&mut self) -> Result<u32, String> {
        match self.attempt.take() {
            Some(0) => Err("attempts count from 1".to_owned()),
            Some(attempt) => Ok(attempt),
            None => Err("attempt is missing".to_owned()),
        }
    }

    /// Microseconds.
    fn took(&mut self) -> Result<u64, String> {
        match self.took_ms.take().unwrap_or(0.0) {
            millis if (0.0..=DURATION_MAX_MS as f64).contains(&millis) => Ok((millis * 1_000.0) as u64),
            millis => Err(format!("tookMs is {millis}; it must be from 0 to {DURATION_MAX_MS}")),
        }
    }

    fn error(&mut self) -> Result<(Failure, Option<HumanText>), String> {
        let ReportedError { code, message, stack, retryable } = self.error.take().ok_or("error is missing")?;
        let code = code
            .filter(|code| !code.is_empty())
            .map_or_else(|| DEFAULT_ERROR_CODE.to_owned(), |code| code.truncate(ERROR_CODE_BYTES_MAX).into());
        let failure = Failure {
            retryable: retryable.unwrap_or(true),
            ..Failure::fatal(code, message.truncate(ERROR_TEXT_BYTES_MAX))
        };
        Ok((failure, stack.map(|stack| stack.truncate(ERROR_TEXT_BYTES_MAX))))
    }

    fn until(&mut self) -> Result<Moment, String> {
        match (self.for_ms.take(), self.until_ms.take()) {
            (Some(millis), None) if millis <= DURATION_MAX_MS => Ok(Moment::After(millis)),
            (Some(_), None) => Err(format!("forMs: a sleep has at most {} days", limits::TIMER_DAYS)),
            (None, Some(millis)) if (0..=TIME_MAX_MS).contains(&millis) => {
                Ok(Moment::At(Timestamp::from_millis(millis)))
            }
            (None, Some(_)) => Err("untilMs: the time is before 1970 or after 9999".to_owned()),
            (None, None) | (Some(_), Some(_)) => Err("a sleep has either forMs or untilMs".to_owned()),
        }
    }

    fn event(&mut self) -> Result<Option<String>, String> {
        let event = self.event.take();
        let is_name = |event: &String| {
            !event.is_empty() && event.chars().count() <= SIGNAL_NAME_CHARS_MAX && !event.contains('\0')
        };
        if !event.as_ref().is_none_or(is_name) {
            return Err(format!("event has 1 to {SIGNAL_NAME_CHARS_MAX} characters, none of them NUL"));
        }
        if event.as_deref().is_some_and(topics::is_reserved) {
            return Err("event begins with @ or everstep., which is reserved for the server".to_owned());
        }
        Ok(event)
    }

    /// Reads `since`, before `event` is taken.
    fn since(&mut self) -> Result<Option<Since>, String> {
        let Some(since) = self.since.take() else { return Ok(None) };
        if self.event.is_none() {
            return Err("since needs event: only published events are kept".to_owned());
        }
        match since {
            WireSince::Start => Ok(Some(Since::Start)),
            WireSince::AgoMs(millis) if millis <= DURATION_MAX_MS => Ok(Some(Since::Ago(millis))),
            WireSince::AgoMs(_) => Err(format!("since: a wait looks back at most {} days", limits::TIMER_DAYS)),
            WireSince::AtMs(millis) if (0..=TIME_MAX_MS).contains(&millis) => {
                Ok(Some(Since::At(Timestamp::from_millis(millis))))
            }
            WireSince::AtMs(_) => Err("since: the time is before 1970 or after 9999".to_owned()),
        }
    }

    fn pattern(&mut self) -> Result<Payload, String> {
        let Some(raw) = self.pattern.take() else { return Ok(empty_object()) };
        if !raw.get().starts_with('{') {
            return Err("match is not an object".to_owned());
        }
        Ok(Payload::from_raw(raw.to_owned()))
    }

    fn timeout(&mut self) -> Result<Option<u64>, String> {
        match self.timeout_ms.take() {
            Some(millis) if millis > DURATION_MAX_MS => {
                Err(format!("timeoutMs: a timeout has at most {} days", limits::TIMER_DAYS))
            }
            timeout => Ok(timeout),
        }
    }

    fn workflow(&mut self) -> Result<String, String> {
        let name = self.workflow.take().ok_or("workflow is missing")?;
        if workflow::is_name(&name) {
            Ok(name)
        } else {
            Err(format!("workflow: {name:?} is not a valid name of a workflow"))
        }
    }

    fn version(&mut self) -> Result<Option<u32>, String> {
        match self.version.take() {
            Some(version) if !is_version(version) => {
                Err(format!("version: {version} is not valid; versions are from 1 to {}", i32::MAX))
            }
            version => Ok(version),
        }
    }
}

/// Checks the name of a step.
fn check_step(what: &str, BorrowedText(name): &BorrowedText<'_>) -> Result<StepKey, String> {
    match name.len() {
        0 => Err(format!("{what} is empty; every step has a name")),
        length if length > STEP_NAME_BYTES_MAX => {
            Err(format!("{what} has {length} bytes; the limit for the name of a step is {STEP_NAME_BYTES_MAX}"))
        }
        _ if name.contains('\0') => Err(format!("{what} contains a NUL character")),
        _ => Ok(StepKey::from(&**name)),
    }
}

fn payload_or_null(raw: Option<&RawValue>) -> Payload {
    raw.map_or_else(Payload::null, |raw| Payload::from_raw(raw.to_owned()))
}

fn empty_object() -> Payload {
    Payload::from(serde_json::json!({}))
}

/// Checks that a number fits the integer type of every SDK language and of the database.
pub(super) fn check_number(name: &str, number: u64) -> Result<(), Problem> {
    if i64::try_from(number).is_err() {
        return Err(Problem::invalid(format!("{name} must be a whole number up to {}, not {number}", i64::MAX)));
    }
    Ok(())
}
