//! The selection of dead letters, from a query or a body.

use everstep_core::dead_letter::{DeadLetterSource, DeadLetterStatus};
use everstep_core::ids::{DeadLetterId, RunId};
use everstep_store::DeadLetterFilter;

use super::wire::{Filter, SourceName};
use crate::http::openapi::Parameter;
use crate::http::page::{CURSOR_PARAMETER, LIMIT_PARAMETER};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::time::When;

pub(super) const STATUSES: &[&str] = &["dead", "queued", "delivered", "discarded"];
pub(super) const SOURCES: &[&str] = &["delivery", "start"];

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::choice("status", STATUSES, "Dead letters with this status."),
    Parameter::choice("source", SOURCES, "Dead letters of this source."),
    Parameter::sized("kind", 1, 128, "The kind of the work, such as `webhook`."),
    Parameter::sized("workflow", 1, 128, "Dead letters of runs of this workflow."),
    Parameter::id("run", "Dead letters of this run."),
    Parameter::sized("error", 1, 100, "The code of the last failed attempt, such as `HTTP_STATUS`."),
    Parameter::time("since", "Written at this time or later; a day begins at midnight in UTC."),
    Parameter::time("until", "Written before this time, or this day."),
    CURSOR_PARAMETER,
    LIMIT_PARAMETER,
];

pub(super) fn from_query(query: &Query) -> Result<DeadLetterFilter, Problem> {
    let text = |name: &str| query.text(name).map(str::to_owned);
    Ok(DeadLetterFilter {
        id: None,
        after: None,
        status: query.word("status", STATUSES)?.and_then(DeadLetterStatus::from_name),
        source: query.word("source", SOURCES)?.and_then(DeadLetterSource::from_name),
        kind: text("kind"),
        workflow: text("workflow"),
        run: query.value::<RunId>("run")?,
        error: text("error"),
        since: query.time("since")?,
        until: query.time("until")?,
    })
}

/// A selection of dead letters that are requeued or discarded: their status is `dead`. The cursor is that of the previous
/// call.
pub(super) fn from_body(filter: Filter, all: bool, cursor: Option<&str>) -> Result<DeadLetterFilter, Problem> {
    let Filter { source, kind, workflow, run, error, since, until } = filter;
    let wrong = |field: &str, why: String| Problem::invalid(format!("filter.{field}: {why}"));
    let time = |field: &str, text: Option<String>| {
        let time = text.map(|text| text.parse::<When>()).transpose();
        time.map(|time| time.map(|When(time)| time)).map_err(|why| wrong(field, why))
    };
    let sized = |field: &str, text: Option<String>, length_max: usize| {
        let is_sized = text.as_ref().is_none_or(|text| (1..=length_max).contains(&text.chars().count()));
        if is_sized { Ok(text) } else { Err(wrong(field, format!("must have 1 to {length_max} characters"))) }
    };
    let run = run.map(|run| run.parse::<RunId>()).transpose().map_err(|error| wrong("run", error.to_string()))?;
    let filter = DeadLetterFilter {
        id: None,
        after: None,
        status: None,
        source: source.map(SourceName::source),
        kind: sized("kind", kind, 128)?,
        workflow: sized("workflow", workflow, 128)?,
        run,
        error: sized("error", error, 100)?,
        since: time("since", since)?,
        until: time("until", until)?,
    };
    if filter == DeadLetterFilter::default() && !all {
        let hint = "name a workflow, an error or another field, or send \"all\": true";
        return Err(Problem::invalid("the filter is empty, so every dead letter would be selected").hint(hint));
    }
    let wrong = |_| Problem::invalid("cursor: it is not valid").hint("send nextCursor of the previous call unchanged");
    let after = cursor.map(str::parse::<DeadLetterId>).transpose().map_err(wrong)?;
    Ok(DeadLetterFilter { after, ..filter })
}
