//! What a worker says of its runs.
//!
//! 1. Each report is checked by itself: what is wrong with one is told of that one, and the others are taken.
//! 2. Only a report without a number that could be answered spoils the whole message.
//! 3. What is cut or mended is what people read: log lines and the words of an error. Everything else is whole or
//!    refused.

use std::borrow::Cow;
use std::collections::BTreeSet;

use everstep_core::code::{Moment, Report};
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::workflow;
use everstep_engine::Reported;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::REPORTS;
use super::retry::Retry;
use super::words::{Words, cut_lines};
use crate::problem::Problem;
use crate::wire::{Id, Json, Object};

/// Bytes of a step's name.
const STEP: usize = 256;
/// Characters of a signal's name.
const EVENT: usize = 256;
/// Bytes of an error's code, of its message and of its stack.
const CODE: usize = 128;
const MESSAGE: usize = 16 * 1024;
/// Nothing sleeps or waits longer, in milliseconds.
pub(super) const LONGEST: u64 = limits::FARTHEST_DAYS * 24 * 3_600 * 1_000;
/// The last millisecond of the year 9999.
const LAST: i64 = 253_402_300_799_999;
/// A code for an error that brings none.
const ERROR: &str = "ERROR";

/// One piece of news of a run. Which fields there are depends on its kind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerReport")]
pub(crate) struct WireReport<'a> {
    /// A number that the answer names.
    n: u64,
    #[schemars(with = "Id")]
    run: RunId,
    turn: u32,
    kind: Kind,
    /// The step's name. Of `completed`, `failed`, `sleep`, `wait` and `call`; that of `threw` is the step whose failure
    /// it was.
    #[serde(borrow)]
    #[schemars(with = "Option<String>")]
    step: Option<Text<'a>>,
    /// Of `completed` and `failed`.
    attempt: Option<u32>,
    /// Of `completed` and `returned`; `null` if it is left out.
    #[serde(borrow)]
    #[schemars(with = "Option<Json>")]
    output: Option<&'a RawValue>,
    /// Of `completed` and `failed`: lines that the step has logged.
    logs: Option<Vec<Words>>,
    /// Of `completed` and `failed`: milliseconds that the attempt took.
    took_ms: Option<f64>,
    /// Of `failed`, `threw`, `diverged` and `declined`.
    error: Option<Thrown>,
    /// Of `failed`.
    retry: Option<Retry>,
    /// Of `sleep`: milliseconds from now.
    for_ms: Option<u64>,
    /// Of `sleep`: milliseconds since 1970.
    until_ms: Option<i64>,
    /// Of `wait`: the signal's name; the step's if it is left out.
    event: Option<String>,
    /// Of `wait`: what the signal's payload must contain.
    #[serde(borrow, rename = "match")]
    #[schemars(with = "Option<Object>")]
    pattern: Option<&'a RawValue>,
    /// Of `wait` and `call`.
    timeout_ms: Option<u64>,
    /// Of `call`: the workflow of the run that it starts.
    workflow: Option<String>,
    /// Of `call`.
    version: Option<u32>,
    /// Of `call`; `{}` if it is left out.
    #[serde(borrow)]
    #[schemars(with = "Option<Json>")]
    input: Option<&'a RawValue>,
    /// Of `blocked`: the last entry that the function was told of.
    seq: Option<u64>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
enum Kind {
    Completed,
    Failed,
    Sleep,
    Wait,
    Call,
    Returned,
    Threw,
    Blocked,
    Diverged,
    Declined,
}

/// Text that is borrowed where it stands without escapes.
#[derive(Debug, Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// What user code has thrown.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WorkerError")]
struct Thrown {
    /// `ERROR` if it is left out.
    code: Option<Words>,
    message: Words,
    /// Where it was thrown. It is kept with the log lines of the attempt.
    stack: Option<Words>,
    /// Whether another attempt may help; true if it is left out. A step alone is tried again.
    retryable: Option<bool>,
}

/// What may stand in a list of reports. One that is none of a kind is refused by itself, as long as it has a number.
pub(crate) enum AnyReport {}

impl JsonSchema for AnyReport {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyWorkerReport".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let numbered = generator.subschema_for::<Numbered>();
        json_schema!({"anyOf": [generator.subschema_for::<WireReport<'static>>(), numbered]})
    }
}

/// The reports of one message, and those that are refused at once.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) taken: Vec<Reported>,
    pub(super) refused: Vec<(u64, String)>,
    /// The runs that these are about.
    at_odds: BTreeSet<RunId>,
}

impl Reports {
    /// Checks reports that could all be read.
    pub(super) fn of(sent: Vec<WireReport<'_>>) -> Result<Self, Problem> {
        check_count(sent.len())?;
        let mut reports = Self { taken: Vec::with_capacity(sent.len()), ..Self::default() };
        for report in sent {
            check_number("n", report.n)?;
            reports.add(report);
        }
        Ok(reports.sure())
    }

    /// Reads reports one by one, because not all of them can be read.
    pub(super) fn pick(sent: Vec<&RawValue>) -> Result<Self, Problem> {
        check_count(sent.len())?;
        let mut reports = Self::default();
        for (at, raw) in sent.into_iter().enumerate() {
            match read_object::<WireReport<'_>>(raw) {
                Ok(report) => {
                    check_number("n", report.n)?;
                    reports.add(report);
                }
                Err(why) => {
                    let numbered = read_object::<Numbered>(raw);
                    let Numbered { n } = numbered.map_err(|error| {
                        Problem::invalid(format!("reports[{at}] has no number n to answer it by: {error}"))
                    })?;
                    check_number("n", n)?;
                    reports.refused.push((n, why));
                    reports.at_odds.extend(read_object::<About>(raw).map(|about| about.run));
                }
            }
        }
        Ok(reports.sure())
    }

    /// A function that is refused something goes on with that: it is not blocked, although it thought so.
    fn sure(mut self) -> Self {
        if !self.at_odds.is_empty() {
            for reported in self.taken.iter_mut().filter(|reported| self.at_odds.contains(&reported.run)) {
                if let Report::Blocked { seq } = &mut reported.report {
                    *seq = 0;
                }
            }
        }
        self
    }

    fn add(&mut self, report: WireReport<'_>) {
        let (n, run, turn) = (report.n, report.run, report.turn);
        match report.check() {
            Ok(report) => self.taken.push(Reported { n, run, turn, report }),
            Err(why) => {
                self.refused.push((n, why));
                self.at_odds.insert(run);
            }
        }
    }
}

/// What can be read of every report.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NumberedReport")]
struct Numbered {
    /// A number that the answer names.
    n: u64,
}

/// The run of a report that cannot be read.
#[derive(Deserialize)]
struct About {
    run: RunId,
}

/// Numbers are those that every language has.
pub(super) fn check_number(name: &str, number: u64) -> Result<(), Problem> {
    if i64::try_from(number).is_err() {
        return Err(Problem::invalid(format!("{name} is a whole number up to {}, not {number}", i64::MAX)));
    }
    Ok(())
}

fn check_count(count: usize) -> Result<(), Problem> {
    if count > REPORTS {
        return Err(Problem::invalid(format!("{count} reports are sent at once; at most {REPORTS} are taken")));
    }
    Ok(())
}

/// Reads an object: a list of its values in order is none.
fn read_object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, String> {
    if !raw.get().starts_with('{') {
        return Err("it is no object".to_owned());
    }
    serde_json::from_str(raw.get()).map_err(|error| error.to_string())
}

impl WireReport<'_> {
    /// What it says, or why it cannot be taken.
    fn check(mut self) -> Result<Report, String> {
        let report = match self.kind {
            Kind::Completed => Report::Completed {
                step: self.step()?,
                attempt: self.attempt()?,
                output: payload(self.output.take()),
                logs: cut_lines(self.logs.take().unwrap_or_default()),
                took: self.took()?,
            },
            Kind::Failed => {
                let (failure, stack) = self.error()?;
                let mut logs = self.logs.take().unwrap_or_default();
                logs.extend(stack);
                Report::Failed {
                    step: self.step()?,
                    attempt: self.attempt()?,
                    failure,
                    retry: self.retry.take().unwrap_or_default().check()?,
                    logs: cut_lines(logs),
                    took: self.took()?,
                }
            }
            Kind::Sleep => Report::Slept { step: self.step()?, until: self.until()? },
            Kind::Wait => Report::Waited {
                step: self.step()?,
                event: self.event()?,
                pattern: self.pattern()?,
                timeout_ms: self.timeout()?,
            },
            Kind::Call => Report::Called {
                step: self.step()?,
                workflow: self.workflow()?,
                version: self.version()?,
                input: self.input.take().map_or_else(empty, |raw| Payload::from_raw(raw.to_owned())),
                timeout_ms: self.timeout()?,
            },
            Kind::Returned => Report::Returned { output: payload(self.output.take()) },
            Kind::Threw => {
                let step = if self.step.is_some() { Some(self.step()?) } else { None };
                Report::Threw { failure: self.error()?.0, step }
            }
            Kind::Blocked => Report::Blocked { seq: self.seq.take().ok_or("seq is missing")? },
            Kind::Diverged => Report::Diverged { failure: self.error()?.0 },
            Kind::Declined => Report::Declined { failure: self.error()?.0 },
        };
        match self.left() {
            None => Ok(report),
            Some(name) => Err(format!("a report of this kind has no {name}")),
        }
    }

    /// A field that is there although the kind has none of it.
    fn left(&self) -> Option<&'static str> {
        let fields = [
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
            ("workflow", self.workflow.is_some()),
            ("version", self.version.is_some()),
            ("input", self.input.is_some()),
            ("seq", self.seq.is_some()),
        ];
        fields.into_iter().find(|(_, is_there)| *is_there).map(|(name, _)| name)
    }

    fn step(&mut self) -> Result<StepKey, String> {
        let Text(name) = self.step.take().ok_or("step is missing")?;
        match name.len() {
            0 => Err("step is empty; a step has a name".to_owned()),
            length if length > STEP => Err(format!("step has {length} bytes; a step's name has at most {STEP}")),
            _ if name.contains('\0') => Err("step holds a NUL character".to_owned()),
            _ => Ok(StepKey::from(&*name)),
        }
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
            millis if (0.0..=LONGEST as f64).contains(&millis) => Ok((millis * 1_000.0) as u64),
            millis => Err(format!("tookMs is {millis}; no attempt takes so long")),
        }
    }

    fn error(&mut self) -> Result<(Failure, Option<Words>), String> {
        let Thrown { code, message, stack, retryable } = self.error.take().ok_or("error is missing")?;
        let code = code.filter(|code| !code.is_empty()).map_or_else(|| ERROR.to_owned(), |code| code.cut(CODE).into());
        let failure = Failure { retryable: retryable.unwrap_or(true), ..Failure::fatal(code, message.cut(MESSAGE)) };
        Ok((failure, stack.map(|stack| stack.cut(MESSAGE))))
    }

    fn until(&mut self) -> Result<Moment, String> {
        match (self.for_ms.take(), self.until_ms.take()) {
            (Some(millis), None) if millis <= LONGEST => Ok(Moment::After(millis)),
            (Some(_), None) => Err(format!("forMs: nothing sleeps for more than {} days", limits::FARTHEST_DAYS)),
            (None, Some(millis)) if (0..=LAST).contains(&millis) => Ok(Moment::At(Timestamp::from_millis(millis))),
            (None, Some(_)) => Err("untilMs: the time is before 1970 or after 9999".to_owned()),
            (None, None) | (Some(_), Some(_)) => Err("a sleep has either forMs or untilMs".to_owned()),
        }
    }

    fn event(&mut self) -> Result<Option<String>, String> {
        let event = self.event.take();
        let is_name = |event: &String| !event.is_empty() && event.chars().count() <= EVENT && !event.contains('\0');
        if event.as_ref().is_none_or(is_name) {
            return Ok(event);
        }
        Err(format!("event has 1 to {EVENT} characters, none of them NUL"))
    }

    fn pattern(&mut self) -> Result<Payload, String> {
        let Some(raw) = self.pattern.take() else { return Ok(empty()) };
        if !raw.get().starts_with('{') {
            return Err("match is no object".to_owned());
        }
        Ok(Payload::from_raw(raw.to_owned()))
    }

    fn timeout(&mut self) -> Result<Option<u64>, String> {
        match self.timeout_ms.take() {
            Some(millis) if millis > LONGEST => {
                Err(format!("timeoutMs: nothing waits for more than {} days", limits::FARTHEST_DAYS))
            }
            timeout => Ok(timeout),
        }
    }

    fn workflow(&mut self) -> Result<String, String> {
        let name = self.workflow.take().ok_or("workflow is missing")?;
        if workflow::is_name(&name) { Ok(name) } else { Err(format!("workflow: {name:?} is no name of a workflow")) }
    }

    fn version(&mut self) -> Result<Option<u32>, String> {
        match self.version.take() {
            Some(version) if version == 0 || i32::try_from(version).is_err() => {
                Err(format!("version: versions count from 1, to {}", i32::MAX))
            }
            version => Ok(version),
        }
    }
}

fn payload(raw: Option<&RawValue>) -> Payload {
    raw.map_or_else(Payload::null, |raw| Payload::from_raw(raw.to_owned()))
}

fn empty() -> Payload {
    Payload::from(serde_json::json!({}))
}

#[cfg(test)]
mod tests;
