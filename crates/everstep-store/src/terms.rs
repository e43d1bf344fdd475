//! Terms: the values by which a run is found in an index.
//!
//! A run has a term for each of its tags, and for each search attribute of its workflow that is a scalar of its input.
//! Equal values have equal terms, and so have some values that differ: a list compares the values of the runs that it
//! finds.

use std::fmt::Write;
use std::time::Duration;

use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

use crate::filter::{self, RunFilter};
use crate::item::{ForkOrigin, NewRun};
use crate::texts;

/// Bytes of a value that is stored as it is.
const VALUE_BYTES_MAX: usize = 128;
/// Whole numbers up to this one are exact as floating-point numbers.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// A start that has read the attributes of its workflow before they were changed is written within this time.
const SETTLING_TIME: Duration = Duration::from_secs(60);

/// One value of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) path: String,
    pub(crate) value: String,
}

/// The terms of a new run. Test runs are never listed and have none.
pub(crate) fn terms_of(run: &NewRun) -> Vec<Term> {
    if run.is_test { Vec::new() } else { terms_from(&run.input, &run.tags, &run.search_paths) }
}

/// The terms of a fork.
pub(crate) fn terms_of_fork(origin: &ForkOrigin) -> Vec<Term> {
    if origin.is_test { Vec::new() } else { terms_from(&origin.input, &origin.tags, &origin.search_paths) }
}

fn terms_from(input: &Payload, tags: &Payload, search_paths: &[String]) -> Vec<Term> {
    if search_paths.is_empty() && tags.json() == "{}" {
        return Vec::new();
    }
    let tags = tags.value().as_object().into_iter().flatten();
    let tags = tags.map(|(name, value)| (tag_path(name), Some(value)));
    let attributes = search_paths.iter().map(|path| {
        let names: Vec<_> = path.split('.').map(str::to_owned).collect();
        (input_path(&names), filter::find(input.value(), &names))
    });
    let terms = tags.chain(attributes).filter_map(|(path, value)| Some(Term { path, value: value_of(value?)? }));
    terms.filter(|term| !texts::has_nul(&term.path)).collect()
}

/// A condition of a filter that terms can find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sought<'a> {
    /// The search attribute, as a definition declares it; none for a tag.
    pub(crate) attribute: Option<String>,
    pub(crate) path: String,
    /// The value as a text, and as a number in its usual notation if that is another text.
    pub(crate) values: (String, Option<String>),
    pub(crate) workflow: Option<&'a str>,
}

/// The conditions of a filter that terms can find, in the order in which they are tried: a search attribute nearly
/// always has more values than a tag.
pub(crate) fn sought(filter: &RunFilter) -> Vec<Sought<'_>> {
    let workflow = filter.workflow.as_deref();
    let attributes = filter.input.iter().map(|(path, text)| Sought {
        attribute: Some(path.join(".")),
        path: input_path(path),
        values: values_of_text(text),
        workflow,
    });
    let tags = filter.tags.iter().map(|(name, text)| Sought {
        attribute: None,
        path: tag_path(name),
        values: values_of_text(text),
        workflow,
    });
    // A text with a NUL has no term.
    attributes.chain(tags).filter(|sought| !texts::has_nul(&sought.path) && !texts::has_nul(&sought.values.0)).collect()
}

/// The versions that a workflow had before the transaction that declares its search attributes.
///
/// A start reads the attributes of its workflow before its run is written. If the workflow had a version, such a start may
/// be on its way, although no run exists yet: a client may have named the version before a worker registers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PriorVersions {
    /// None, so that no run exists, or will exist, without the terms.
    Absent,
    /// One or more, deleted ones included.
    Present,
}

/// The time from which on all runs have the terms of an attribute that a workflow declares now.
pub(crate) fn declared_since(now: Timestamp, prior: PriorVersions) -> Timestamp {
    match prior {
        PriorVersions::Absent => Timestamp::from_micros(0),
        PriorVersions::Present => now.plus(SETTLING_TIME),
    }
}

fn input_path(names: &[String]) -> String {
    format!("input.{}", names.join("."))
}

fn tag_path(name: &str) -> String {
    format!("tag.{name}")
}

/// The value of a term; none for a list or an object, and for a text that not every database can store.
fn value_of(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("null".to_owned()),
        Value::Bool(is_true) => Some(is_true.to_string()),
        Value::Number(number) => Some(usual_notation(number)),
        Value::String(text) if texts::has_nul(text) => None,
        Value::String(text) => Some(shorten(text)),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// The values of the terms that a text may stand for. See [`RunFilter::input`].
fn values_of_text(text: &str) -> (String, Option<String>) {
    let plain = shorten(text);
    let number = serde_json::from_str::<Number>(text).ok().map(|number| usual_notation(&number));
    let other = number.filter(|number| *number != plain);
    (plain, other)
}

/// The same text for all numbers that are equal, in any notation.
fn usual_notation(number: &Number) -> String {
    match number.as_f64() {
        // Zero has two signs.
        Some(0.0) => "0".to_owned(),
        Some(float) if float.fract() == 0.0 && float.abs() <= EXACT_MAX => format!("{float:.0}"),
        Some(float) => format!("{float:e}"),
        None => number.to_string(),
    }
}

/// A long text is replaced with its digest.
fn shorten(text: &str) -> String {
    if text.len() <= VALUE_BYTES_MAX {
        return text.to_owned();
    }
    let mut digest = "sha256:".to_owned();
    for byte in Sha256::digest(text) {
        write!(digest, "{byte:02x}").expect("a text can be written to");
    }
    digest
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_has_the_term_of_every_value_that_it_matches() {
        for (text, values) in [
            ("42", vec![json!(42), json!(42.0), json!("42")]),
            ("4.2e1", vec![json!(42), json!(42.0), json!("4.2e1")]),
            ("-0", vec![json!(0), json!(-0.0), json!("-0")]),
            ("0.1", vec![json!(0.1), json!("0.1")]),
            ("18446744073709551615", vec![json!(u64::MAX), json!(u64::MAX as f64), json!("18446744073709551615")]),
            ("1234567890123456789", vec![json!(1_234_567_890_123_456_789_u64), json!("1234567890123456789")]),
            ("true", vec![json!(true), json!("true")]),
            ("null", vec![json!(null), json!("null")]),
            ("", vec![json!("")]),
            (&"long ".repeat(100), vec![json!("long ".repeat(100))]),
        ] {
            let (plain, other) = values_of_text(text);
            for value in values {
                let term = value_of(&value).unwrap();
                assert!(
                    term == plain || Some(&term) == other.as_ref(),
                    "{text} for {value}: {term}, {plain}, {other:?}"
                );
                assert!(term.len() <= VALUE_BYTES_MAX);
            }
        }
        for value in [json!([1]), json!({ "a": 1 }), json!("a\0b")] {
            assert_eq!(value_of(&value), None, "{value}");
        }
    }

    #[test]
    fn numbers_that_differ_a_little_have_different_terms() {
        let terms: std::collections::BTreeSet<_> =
            [json!(1), json!(1.5), json!(-1), json!(9_007_199_254_740_991_u64), json!(1e300), json!(1e-300)]
                .iter()
                .map(|value| value_of(value).unwrap())
                .collect();
        assert_eq!(terms.len(), 6);
    }
}
