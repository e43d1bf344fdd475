//! Whether one JSON document is a superset of another.

use serde_json::Value;

use crate::payload::Payload;

/// Whether the payload of a signal, or the data of an event, matches the pattern of a wait. An empty pattern matches any
/// payload, including one that is not an object.
pub fn matches(payload: &Payload, pattern: &Payload) -> bool {
    pattern.json() == "{}" || contains(payload.value(), pattern.value())
}

/// The maximum number of values that one search compares. Each element of an array is compared with each element of the
/// other, so that two large arrays need more time than a decision has: beyond the bound, the value does not contain the
/// pattern.
const COMPARISONS_MAX: u32 = 1_000_000;

/// Whether `value` contains `pattern`: of an object every field, at any depth, and of an array every element, in any
/// order. This is the rule of PostgreSQL's `@>`.
pub fn contains(value: &Value, pattern: &Value) -> bool {
    let mut left = COMPARISONS_MAX;
    search(value, pattern, &mut left)
}

fn search(value: &Value, pattern: &Value, left: &mut u32) -> bool {
    let Some(fewer) = left.checked_sub(1) else { return false };
    *left = fewer;
    match (value, pattern) {
        (Value::Object(value), Value::Object(pattern)) => {
            pattern.iter().all(|(key, wanted)| value.get(key).is_some_and(|found| search(found, wanted, left)))
        }
        (Value::Array(value), Value::Array(pattern)) => {
            pattern.iter().all(|wanted| value.iter().take(*left as usize).any(|found| search(found, wanted, left)))
        }
        (Value::Number(value), Value::Number(pattern)) => {
            // Integers may have more digits than a floating-point number holds.
            let is_fraction = value.is_f64() || pattern.is_f64();
            value == pattern || is_fraction && value.as_f64() == pattern.as_f64()
        }
        _ => value == pattern,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_superset_contains_its_parts() {
        let value = json!({"order": {"id": 7, "tags": ["a", "b"]}, "ok": true});
        assert!(contains(&value, &json!({})));
        assert!(contains(&value, &json!({"order": {"id": 7.0}})));
        assert!(contains(&value, &json!({"order": {"tags": ["b"]}, "ok": true})));
        assert!(!contains(&value, &json!({"order": {"id": 8}})));
        assert!(!contains(&value, &json!({"missing": null})));
        assert!(!contains(&json!([1]), &json!({})));
        assert!(!contains(&json!({"id": 9_007_199_254_740_993_u64}), &json!({"id": 9_007_199_254_740_992_u64})));
    }

    #[test]
    fn a_search_ends_after_a_number_of_comparisons() {
        let items = |from: usize, count: usize| json!((from..from + count).collect::<Vec<_>>());
        assert!(contains(&items(0, 1_000), &items(500, 500)));
        assert!(!contains(&items(0, 3_000), &items(0, 3_000)), "four and a half million comparisons");
    }
}
