//! The reports of one request or frame of a worker.
//!
//! 1. Each report is checked separately: a wrong one is rejected, and the others are accepted.
//! 2. Only a report without a number `n` fails the whole request, because it could not be answered.

use std::borrow::Cow;
use std::collections::BTreeSet;

use everstep_core::code::Report;
use everstep_core::decode::describe_error;
use everstep_core::ids::RunId;
use everstep_core::whole;
use everstep_engine::WorkerReport;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::limits::REPORTS_MAX;
use super::report::{WireReport, check_number};
use crate::http::problem::Problem;

/// An element of a list of reports, for the OpenAPI document: a report of a known kind, or any object with a number,
/// which is rejected separately.
pub(crate) enum AnyReport {}

impl JsonSchema for AnyReport {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyWorkerReport".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let numbered = generator.subschema_for::<NumberedReport>();
        json_schema!({"anyOf": [generator.subschema_for::<WireReport<'static>>(), numbered]})
    }
}

/// The reports that are accepted, and those that are rejected before they reach the engine.
#[derive(Debug, Default)]
pub(super) struct Reports {
    pub(super) accepted: Vec<WorkerReport>,
    pub(super) refused: Vec<(u64, String)>,
    /// The runs of rejected reports.
    refused_runs: BTreeSet<RunId>,
}

impl Reports {
    /// Checks reports that were all decoded.
    pub(super) fn check_all(sent: Vec<WireReport<'_>>) -> Result<Self, Problem> {
        check_count(sent.len())?;
        let mut reports = Self { accepted: Vec::with_capacity(sent.len()), ..Self::default() };
        for report in sent {
            check_number("n", report.n)?;
            reports.add(report);
        }
        Ok(reports.without_stale_blocks())
    }

    /// Decodes reports one by one, because at least one of them cannot be decoded.
    pub(super) fn decode_each(sent: Vec<&RawValue>) -> Result<Self, Problem> {
        check_count(sent.len())?;
        let mut reports = Self::default();
        for (at, raw) in sent.into_iter().enumerate() {
            match read_object::<WireReport<'_>>(raw) {
                Ok(report) => {
                    check_number("n", report.n)?;
                    reports.add(report);
                }
                Err(why) => {
                    let numbered = read_object::<NumberedReport>(raw);
                    let NumberedReport { n } = numbered.map_err(|error| {
                        Problem::invalid(format!("reports[{at}] has no number n, so it cannot be answered: {error}"))
                    })?;
                    check_number("n", n)?;
                    reports.refused.push((n, why));
                    reports.refused_runs.extend(read_object::<RunOfReport>(raw).map(|report| report.run));
                }
            }
        }
        Ok(reports.without_stale_blocks())
    }

    /// A function continues when one of its reports is rejected, so a `blocked` report in the same request is not true.
    /// With seq 0 the engine ignores it.
    fn without_stale_blocks(mut self) -> Self {
        if !self.refused_runs.is_empty() {
            for reported in self.accepted.iter_mut().filter(|reported| self.refused_runs.contains(&reported.run)) {
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
            Ok(report) => self.accepted.push(WorkerReport { n, run, turn, report }),
            Err(why) => {
                self.refused.push((n, why));
                self.refused_runs.insert(run);
            }
        }
    }
}

/// The member that every report must have.
#[derive(Deserialize, JsonSchema)]
struct NumberedReport {
    /// The number by which the report is answered.
    #[serde(deserialize_with = "whole::number")]
    n: u64,
}

/// The run of a report that cannot be decoded.
#[derive(Deserialize)]
struct RunOfReport {
    run: RunId,
}

fn check_count(count: usize) -> Result<(), Problem> {
    if count > REPORTS_MAX {
        return Err(Problem::invalid(format!("the request has {count} reports; the limit is {REPORTS_MAX}")));
    }
    Ok(())
}

/// Decodes an object. An array with the values of its members in order is rejected.
fn read_object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, String> {
    if !raw.get().starts_with('{') {
        return Err("a report is an object".to_owned());
    }
    serde_json::from_str(raw.get()).map_err(|error| describe_error(&error))
}

#[cfg(test)]
mod tests;
