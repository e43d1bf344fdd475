//! The selection of runs: the same names in the query of a list and in the body of a bulk control.

use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::TriggerKind;
use everstep_store::RunFilter;
use serde_json::Value;
use uuid::Uuid;

use super::wire::{Filter, OneOrMany};
use crate::auth::KEY_FILTER;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::time::When;
use crate::id::is_version;
use crate::server::AppState;

/// Values of the input, or of tags, in one filter.
const FILTER_VALUES_MAX: usize = 10;
/// Characters of the id of a trigger.
const TRIGGER_ID_CHARS_MAX: usize = 255;
/// Letters of the beginning of an id: those of one minute.
const ID_LETTERS_MIN: usize = 8;

pub(crate) const STATUSES: &[&str] = &["pending", "running", "waiting", "paused", "completed", "failed", "cancelled"];

pub(crate) const STATUS: Parameter = Parameter::choices(
    "status",
    STATUSES,
    "Runs with this status; for several, repeat the parameter or separate them with commas.",
);
pub(crate) const VERSION: Parameter =
    Parameter::whole("version", 1, u32::MAX as u64, "Runs of this version of their workflow.");
pub(crate) const STATE: Parameter = Parameter::text(
    "state",
    "Runs of state machines that are in this state and have not ended. Ended runs are included if `status` names a \
     status of ended runs.",
);
pub(crate) const PARENT: Parameter = Parameter::id("parent", "Runs that this run has started.");
pub(crate) const KEY: Parameter =
    Parameter::sized(KEY_FILTER, 1, 255, "The run with this idempotency key; several if workflows use the same key.");
pub(crate) const ORIGIN: Parameter = Parameter::id("origin", "Forks of this run.");
pub(crate) const ERROR_CODE: Parameter =
    Parameter::text("errorCode", "Runs that failed, or are paused, with this code.");
pub(crate) const TRIGGER: Parameter = Parameter::pattern(
    "trigger",
    "^(event|schedule|webhook|queue):.{1,255}$",
    "Runs that a trigger has started: `event:` and the id of an event.",
);
pub(crate) const TEXT: Parameter = Parameter::sized(
    "text",
    1,
    128,
    "Runs whose ids begin with these letters, at least eight; or runs of the workflow with this name.",
);
pub(crate) const SINCE: Parameter =
    Parameter::time("since", "Created at this time or later; a day begins at midnight in UTC.");
pub(crate) const UNTIL: Parameter = Parameter::time("until", "Created before this time, or this day.");
pub(crate) const INPUT: Parameter = Parameter::family(
    "input.",
    "Runs whose input has this value at a path: `input.order.id=7`. The value matches a string, and the number, \
     boolean or null with the same text. A path that the workflow declares in `options.index` is found in an index; \
     for another path, at most 10,000 runs are examined for each request.",
);
pub(crate) const TAG_PARAMETER: Parameter =
    Parameter::family("tag.", "Runs with this value of a tag: `tag.team=blue`.");
pub(crate) const CURSOR: Parameter = Parameter::text("cursor", "`nextCursor` of the previous page, unchanged.");

/// The filter of a query. `workflow` is read if the path does not contain it.
pub(crate) fn from_query(query: &Query) -> Result<RunFilter, Problem> {
    let statuses = query.text("status").into_iter().flat_map(|words| words.split(','));
    let input = query.family("input.").map(|(path, value)| Ok((read_path("input.", path)?, value.to_owned())));
    let filter = RunFilter {
        workflow: query.text("workflow").map(str::to_owned),
        statuses: statuses.map(|word| read_status("the query parameter \"status\"", word)).collect::<Result<_, _>>()?,
        since: query.time("since")?,
        until: query.time("until")?,
        version: query.number("version").and_then(|version| u32::try_from(version).ok()),
        state: query.text("state").map(str::to_owned),
        parent: query.value("parent")?,
        origin: query.value("origin")?,
        key: query.text(KEY_FILTER).map(str::to_owned),
        error_code: query.text("errorCode").map(str::to_owned),
        trigger: query.text("trigger").map(|text| read_trigger("the query parameter \"trigger\"", text)).transpose()?,
        ids: None,
        input: input.collect::<Result<_, Problem>>()?,
        tags: query.family("tag.").map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    };
    check(filter)
}

/// The filter of a body.
pub(crate) fn from_body(filter: Filter) -> Result<RunFilter, Problem> {
    let statuses = match filter.status {
        None => Vec::new(),
        Some(OneOrMany::One(word)) => vec![word],
        Some(OneOrMany::Many(words)) => words,
    };
    let input = filter.input.into_iter().map(|(path, value)| {
        let text = match value {
            Value::String(text) => text,
            Value::Array(_) | Value::Object(_) => {
                return Err(Problem::invalid(format!("filter.input[{path:?}] must be a single value")));
            }
            plain => plain.to_string(),
        };
        Ok((read_path("filter.input.", &path)?, text))
    });
    if let Some(version) = filter.version.filter(|version| !is_version(*version)) {
        let detail = format!("filter.version: {version} is not valid; versions are from 1 to {}", i32::MAX);
        return Err(Problem::invalid(detail));
    }
    let filter = RunFilter {
        workflow: filter.workflow,
        statuses: statuses.iter().map(|word| read_status("filter.status", word)).collect::<Result<_, _>>()?,
        since: filter.since.map(|time| read_time("filter.since", &time)).transpose()?,
        until: filter.until.map(|time| read_time("filter.until", &time)).transpose()?,
        version: filter.version,
        state: filter.state,
        parent: filter.parent.map(|run| read::<RunId>("filter.parent", &run)).transpose()?,
        origin: filter.origin.map(|run| read::<RunId>("filter.origin", &run)).transpose()?,
        key: filter.key,
        error_code: filter.error_code,
        trigger: filter.trigger.map(|text| read_trigger("filter.trigger", &text)).transpose()?,
        ids: None,
        input: input.collect::<Result<_, Problem>>()?,
        tags: filter.tags.into_iter().collect(),
    };
    check(filter)
}

/// Adds the search for a text: the beginning of an id, or the name of a workflow. A name that exists has precedence.
pub(crate) async fn with_text(
    app: &AppState,
    workspace: WorkspaceId,
    filter: RunFilter,
    text: Option<&str>,
) -> Result<RunFilter, Problem> {
    let Some(text) = text else { return Ok(filter) };
    if text.contains('\0') {
        return Err(Problem::invalid("a filter contains a NUL character, which the database cannot store"));
    }
    let is_name = app.workflows.workflow(workspace, text, None).await?.is_some();
    match id_range(text).filter(|_| !is_name) {
        Some(ids) => Ok(RunFilter { ids: Some(ids), ..filter }),
        None if filter.workflow.as_deref().is_none_or(|workflow| workflow == text) => {
            Ok(RunFilter { workflow: Some(text.to_owned()), ..filter })
        }
        // No run belongs to two workflows.
        None => Ok(RunFilter { ids: Some((Uuid::max(), Uuid::nil())), ..filter }),
    }
}

/// The ids that begin with a text of at least eight letters.
fn id_range(text: &str) -> Option<(Uuid, Uuid)> {
    let digits: String = text.chars().filter(|letter| *letter != '-').collect();
    if !(ID_LETTERS_MIN..=32).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let (least, most) = (format!("{digits:0<32}"), format!("{digits:f<32}"));
    let (least, most) = (Uuid::parse_str(&least).ok()?, Uuid::parse_str(&most).ok()?);
    // Hyphens must be at their places.
    let is_written = |id: String| id.starts_with(&text.to_ascii_lowercase());
    (is_written(least.to_string()) || is_written(least.simple().to_string())).then_some((least, most))
}

fn check(filter: RunFilter) -> Result<RunFilter, Problem> {
    for (what, count) in [("of the input", filter.input.len()), ("of tags", filter.tags.len())] {
        if count > FILTER_VALUES_MAX {
            return Err(Problem::invalid(format!(
                "a filter has at most {FILTER_VALUES_MAX} values {what}, not {count}"
            )));
        }
    }
    let texts = filter.input.iter().flat_map(|(path, value)| path.iter().chain([value]));
    let texts = texts
        .chain(filter.tags.iter().flat_map(|(name, value)| [name, value]))
        .chain(&filter.workflow)
        .chain(&filter.state)
        .chain(&filter.key)
        .chain(&filter.error_code)
        .chain(filter.trigger.iter().map(|(_, id)| id));
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err(Problem::invalid("a filter contains a NUL character, which the database cannot store"));
    }
    Ok(filter)
}

/// A kind of trigger and an id: `event:019a8a3f-…`.
fn read_trigger(what: &str, text: &str) -> Result<(TriggerKind, String), Problem> {
    let parsed = text.split_once(':').and_then(|(kind, id)| Some((TriggerKind::parse(kind)?, id)));
    let hint = "write event: and the id of an event";
    match parsed.filter(|(_, id)| (1..=TRIGGER_ID_CHARS_MAX).contains(&id.chars().count())) {
        Some((kind, id)) => Ok((kind, id.to_owned())),
        None => Err(Problem::invalid(format!("{what} is not valid: {text:?}")).hint(hint)),
    }
}

fn read_status(what: &str, word: &str) -> Result<Status, Problem> {
    read(what, word)
}

fn read_time(what: &str, text: &str) -> Result<Timestamp, Problem> {
    read::<When>(what, text).map(|When(time)| time)
}

fn read<T: std::str::FromStr<Err: std::fmt::Display>>(what: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|error| Problem::invalid(format!("{what} is not valid: {error}")))
}

fn read_path(before: &str, path: &str) -> Result<Vec<String>, Problem> {
    let parts: Vec<_> = path.split('.').map(str::to_owned).collect();
    if parts.iter().any(String::is_empty) {
        let hint = "a path consists of names separated by dots, such as input.order.id";
        return Err(Problem::invalid(format!("{before}{path} is not a valid path")).hint(hint));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_a_range() {
        let range = |text: &str| id_range(text).map(|(least, most)| (least.to_string(), most.to_string()));
        let whole = "0199a8a3-f000-7000-8000-000000000001";
        assert_eq!(range(whole), Some((whole.to_owned(), whole.to_owned())));
        let begin = Some((
            "0199a8a3-0000-0000-0000-000000000000".to_owned(),
            "0199a8a3-ffff-ffff-ffff-ffffffffffff".to_owned(),
        ));
        for text in ["0199a8a3", "0199A8A3", "0199a8a3-"] {
            assert_eq!(range(text), begin, "{text}");
        }
        for text in ["", "0199a8a", "0199-a8a3", "orders-and-more", "0199a8a3-f000-7000-8000-0000000000011"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
