//! Checks the parts of a subscription that a caller has sent.

use axum::http::StatusCode;
use everstep_core::evaluate::Fault;
use everstep_core::payload::{self, Payload};
use everstep_core::topics::{Filter, Pattern, Subscription};
use everstep_core::workflow;
use serde_json::{Value, json};

use crate::http::problem::Problem;
use crate::id::is_version;
use crate::server::AppState;

/// Bytes of a filter, and of the template of an input.
const PART_BYTES_MAX: usize = 64 * 1024;
/// Characters of the template of a key.
const KEY_CHARS_MAX: usize = 1_024;

pub(super) fn read_pattern(text: &str) -> Result<Pattern, Problem> {
    let hint = "`*` is exactly one segment, `#` is any number of segments; in a path, # is written %23";
    Pattern::parse(text).map_err(|error| wrong("pattern", error).hint(hint))
}

pub(super) fn check_name(name: &str) -> Result<(), Problem> {
    if workflow::is_name(name) {
        return Ok(());
    }
    let hint = "a name has 1 to 128 lowercase letters, digits, - and _, and begins with a letter or a digit";
    Err(wrong("name", format!("{name:?} is not a valid name of a workflow")).hint(hint))
}

pub(super) fn check_version(version: Option<u32>) -> Result<(), Problem> {
    match version {
        Some(version) if !is_version(version) => {
            let detail = format!("{version} is not valid; versions are from 1 to {}", i32::MAX);
            Err(wrong("version", detail).hint("remove it for the active version"))
        }
        Some(_) | None => Ok(()),
    }
}

pub(super) fn read_filter(app: &AppState, filter: &Payload) -> Result<Filter, Problem> {
    check_part("filter", filter)?;
    Filter::parse(filter.value(), &*app.engine.world().evaluate).map_err(|fault| refuse("filter", vec![fault]))
}

/// Checks the expressions of the template of an input.
pub(super) fn check_input(app: &AppState, input: &Payload) -> Result<(), Problem> {
    check_part("input", input)?;
    check_template(app, "input", input.value())
}

/// Checks the expressions of the template of a key.
pub(super) fn check_key(app: &AppState, key: &str) -> Result<(), Problem> {
    if key.is_empty() || key.chars().count() > KEY_CHARS_MAX || key.contains('\0') {
        return Err(wrong("key", format!("it must have 1 to {KEY_CHARS_MAX} characters, none of them NUL")));
    }
    check_template(app, "key", &json!(key))
}

fn check_template(app: &AppState, field: &'static str, template: &Value) -> Result<(), Problem> {
    match Subscription::check_template(template, &*app.engine.world().evaluate) {
        faults if faults.is_empty() => Ok(()),
        faults => Err(refuse(field, faults)),
    }
}

fn check_part(field: &'static str, part: &Payload) -> Result<(), Problem> {
    if part.size() > PART_BYTES_MAX {
        return Err(Problem::too_large(format!("{field}: it has more than {PART_BYTES_MAX} bytes")));
    }
    payload::check(part.json()).map_err(|error| wrong(field, format!("it {error}")))?;
    if payload::has_nul(part.json()) {
        return Err(wrong(field, "it contains a NUL character, which no database stores as text"));
    }
    Ok(())
}

/// The problem of expressions, each with its path.
fn refuse(field: &'static str, faults: Vec<Fault>) -> Problem {
    let problem = |fault: &Fault| json!({"path": format!("/{field}{}", fault.pointer), "message": fault.message});
    let problems: Vec<_> = faults.iter().map(problem).collect();
    let first = faults.into_iter().next().map(|fault| fault.message).unwrap_or_default();
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", format!("{field}: {first}"))
        .hint("expressions read `event` (id, topic, source, at, data …) and `payload`, the data of the event")
        .with("problems", problems)
}

fn wrong(field: &'static str, why: impl AsRef<str>) -> Problem {
    Problem::invalid(format!("{field}: {}", why.as_ref())).with("path", field)
}
