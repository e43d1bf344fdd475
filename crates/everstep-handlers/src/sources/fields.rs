//! Shared code for reading sources and queries: fields with their positions, and names.

use everstep_core::graph::Problem;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config;

/// The default of a field that is true unless it is set.
pub(super) fn yes() -> bool {
    true
}

/// The errors in the fields of an object, each with its position.
pub(super) fn check<T: DeserializeOwned + JsonSchema>(body: &Value) -> Vec<Problem> {
    let faults = config::check_exactly::<T>(body, &config::schema::<T>());
    faults.into_iter().map(|fault| Problem::at(fault.pointer, fault.message)).collect()
}

/// Whether a text is a valid name of a source, a query or a secret: letters, digits, `_`, `.` and `-`, at most 128,
/// beginning with a letter or a digit.
pub fn is_name(name: &str) -> bool {
    let is_usual = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    name.len() <= 128 && name.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && name.chars().all(is_usual)
}

/// A name as a part of a JSON pointer.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
