//! The parts that definitions of every style have: texts for people, and the options of the workflow.

use serde_json::{Map, Value};

use super::{Fields, Problem, name_of};
use crate::search;

/// Maximum number of characters of a name or title, which is for people.
pub(crate) const NAME_CHARS: usize = 200;
/// Maximum number of characters of a description.
pub(crate) const DESCRIPTION_CHARS: usize = 1_000;

/// Reads `options` and returns the retention in days. The search attributes are checked; the store reads them when a
/// version becomes active.
pub(crate) fn read_options(value: &Value, problems: &mut Vec<Problem>) -> Option<u32> {
    let mut fields = Fields::from_value(value, "/options", None, problems)?;
    let days = fields.number(&["retentionDays"], 1, 3_650);
    if let Some(paths) = fields.list(&["index"]) {
        check_index(paths, &mut fields);
    }
    fields.finish();
    days.map(|days| days as u32)
}

/// Reports the first path of `index` that is not valid.
fn check_index(paths: &[Value], fields: &mut Fields<'_, '_>) {
    let hint = "list up to 16 paths of the input, such as \"customer\" or \"order.id\"";
    if let Some(place) = paths.iter().position(|path| !path.is_string()) {
        let message = format!("element {place}: expected a text, found {}", name_of(&paths[place]));
        return fields.problem("index", message, hint);
    }
    if let Err((place, message)) = search::check_paths(paths.iter().filter_map(Value::as_str)) {
        let place = place.map(|place| format!("element {place}: ")).unwrap_or_default();
        fields.problem("index", format!("{place}{message}"), hint);
    }
}

/// Reports a text that is too long.
pub(crate) fn check_length(text: Option<&str>, path: &str, chars_max: usize, problems: &mut Vec<Problem>) {
    if text.is_some_and(|text| text.chars().count() > chars_max) {
        problems.push(Problem::at(path, format!("more than {chars_max} characters")).hint("shorten it"));
    }
}

/// Adds a field to the canonical form of a definition, if it has a value.
pub(crate) fn insert(object: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    if let Some(value) = value {
        object.insert(field.to_owned(), value);
    }
}
