//! Search attributes: the paths of the input by which the runs of a workflow are found in an index.
//!
//! A definition of any style declares them as `options.index`. The attributes of a workflow are those of its active
//! version; they apply to every run that is started while it is active, also to runs of other versions.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::limits;
use crate::payload::Payload;

/// The paths that a stored definition declares. Paths that this build would refuse are left out.
pub fn declared_paths(definition: &Payload) -> Vec<String> {
    // Most definitions have none; they are not parsed to find that out.
    if !definition.json().contains("\"index\"") {
        return Vec::new();
    }
    let paths = definition.value().pointer("/options/index").and_then(Value::as_array);
    let paths = paths.into_iter().flatten().filter_map(Value::as_str).filter(|path| check_path(path).is_ok());
    let paths: BTreeSet<_> = paths.map(str::to_owned).collect();
    paths.into_iter().take(limits::SEARCH_ATTRIBUTES).collect()
}

/// Checks a list of paths. An error has the place of the path, none if the list itself is wrong, and a message.
pub fn check_paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<(), (Option<usize>, String)> {
    let mut before = BTreeSet::new();
    for (place, path) in paths.into_iter().enumerate() {
        if place == limits::SEARCH_ATTRIBUTES {
            return Err((None, format!("more than {} search attributes", limits::SEARCH_ATTRIBUTES)));
        }
        check_path(path).map_err(|message| (Some(place), message))?;
        if !before.insert(path) {
            return Err((Some(place), format!("{path:?} is listed twice")));
        }
    }
    Ok(())
}

/// Checks a path: names of fields, or indexes of arrays, that are separated by dots.
fn check_path(path: &str) -> Result<(), String> {
    if path.chars().count() > limits::SEARCH_PATH_CHARS {
        return Err(format!("a path of more than {} characters", limits::SEARCH_PATH_CHARS));
    }
    let is_plain = !path.contains('\0') && path.split('.').all(|name| !name.is_empty());
    if is_plain { Ok(()) } else { Err(format!("{path:?} is not a path of the input")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_are_those_of_the_options() {
        let read = |definition| declared_paths(&Payload::from(definition));
        assert_eq!(read(json!({"options": {"index": ["order.id", "customer"]}})), ["customer", "order.id"]);
        assert_eq!(read(json!({"options": {"retentionDays": 3}})), [""; 0]);
        assert_eq!(read(json!({"nodes": [{"config": {"index": ["no"]}}]})), [""; 0]);
        // A later release may accept more.
        assert_eq!(read(json!({"options": {"index": ["a", "", "b..c", 7, "a"]}})), ["a"]);
        let many: Vec<_> = (10..40).map(|n| n.to_string()).collect();
        assert_eq!(read(json!({"options": {"index": many}})).len(), limits::SEARCH_ATTRIBUTES);
    }

    #[test]
    fn lists_of_paths_are_short_and_without_repetitions() {
        assert_eq!(check_paths(["customer", "order.id", "lines.0.sku"]), Ok(()));
        assert_eq!(check_paths(vec!["a"; 2]).unwrap_err().0, Some(1));
        for wrong in ["", ".", "a.", "a\0", &"a".repeat(limits::SEARCH_PATH_CHARS + 1)] {
            assert_eq!(check_paths(["b", wrong]).unwrap_err().0, Some(1), "{wrong:?}");
        }
        let many: Vec<_> = (0..=limits::SEARCH_ATTRIBUTES).map(|n| n.to_string()).collect();
        assert_eq!(check_paths(many.iter().map(String::as_str)).unwrap_err().0, None);
        assert_eq!(check_paths(many[1..].iter().map(String::as_str)), Ok(()));
    }
}
