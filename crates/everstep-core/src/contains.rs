//! Whether one JSON document is a superset of another.

use serde_json::Value;

use crate::meter::Meter;
use crate::payload::Payload;

/// Whether the payload of a signal, or the data of an event, matches the pattern of a wait. An empty pattern matches any
/// payload, including one that is not an object.
pub fn matches(payload: &Payload, pattern: &Payload) -> bool {
    matches_within(payload, pattern, &Meter::new())
}

/// Like [`matches`], as a part of a decision: it charges the meter.
pub fn matches_within(payload: &Payload, pattern: &Payload, meter: &Meter) -> bool {
    pattern.json() == "{}" || contains_within(payload.value(), pattern.value(), meter)
}

/// The maximum number of comparisons of one search. Each element of an array is compared with each element of the other,
/// so that two large arrays need more time than a decision has: beyond the bound, the value does not contain the pattern.
const COMPARISONS_MAX: u64 = 1_000_000;
/// The fuel of one comparison.
const COMPARISON_FUEL: u64 = 20;
/// The bytes of two texts of the same length that are compared for the price of one more comparison.
const BYTES_PER_COMPARISON: usize = 64;

/// Whether `value` contains `pattern`: of an object every field, at any depth, and of an array every element, in any
/// order. This is the rule of PostgreSQL's `@>`.
pub fn contains(value: &Value, pattern: &Value) -> bool {
    contains_within(value, pattern, &Meter::new())
}

/// Like [`contains`], as a part of a decision: it charges the meter. If the present part has less fuel left than the
/// search needs, the value does not contain the pattern.
pub fn contains_within(value: &Value, pattern: &Value, meter: &Meter) -> bool {
    let comparisons = COMPARISONS_MAX.min(meter.left_for_part() / COMPARISON_FUEL);
    let mut left = comparisons;
    let is_contained = search(value, pattern, &mut left) == Some(true);
    meter.charge((comparisons - left) * COMPARISON_FUEL);
    is_contained
}

/// `None` if there are not enough comparisons left.
fn search(value: &Value, pattern: &Value, left: &mut u64) -> Option<bool> {
    spend(left, 1)?;
    match (value, pattern) {
        (Value::Object(value), Value::Object(pattern)) => {
            for (key, wanted) in pattern {
                match value.get(key) {
                    Some(found) if search(found, wanted, left)? => {}
                    Some(_) | None => return Some(false),
                }
            }
            Some(true)
        }
        (Value::Array(value), Value::Array(pattern)) => {
            for wanted in pattern {
                let mut is_found = false;
                for found in value {
                    is_found = search(found, wanted, left)?;
                    if is_found {
                        break;
                    }
                }
                if !is_found {
                    return Some(false);
                }
            }
            Some(true)
        }
        (Value::Number(value), Value::Number(pattern)) => {
            // Integers may have more digits than a floating-point number holds.
            let is_fraction = value.is_f64() || pattern.is_f64();
            Some(value == pattern || is_fraction && value.as_f64() == pattern.as_f64())
        }
        (Value::String(value), Value::String(pattern)) => {
            if value.len() != pattern.len() {
                return Some(false);
            }
            spend(left, (value.len() / BYTES_PER_COMPARISON) as u64)?;
            Some(value == pattern)
        }
        _ => Some(value == pattern),
    }
}

/// Counts comparisons; `None`, and nothing is left, if there are fewer.
fn spend(left: &mut u64, comparisons: u64) -> Option<()> {
    let rest = left.checked_sub(comparisons);
    *left = rest.unwrap_or(0);
    rest.map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits;

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
    #[test]
    fn a_search_charges_for_its_comparisons() {
        let items = |from: usize, count: usize| json!((from..from + count).collect::<Vec<_>>());
        let meter = Meter::new();
        assert!(contains_within(&json!({"a": 1}), &json!({"a": 1}), &meter));
        assert_eq!(meter.used(), 2 * COMPARISON_FUEL);
        assert!(!contains_within(&items(0, 500), &items(1_000, 1), &meter));
        assert_eq!(meter.used(), (2 + 1 + 500) * COMPARISON_FUEL);
        let meter = Meter::new();
        let texts = |last: char| json!(vec![format!("{}{last}", "x".repeat(6_399)); 100]);
        assert!(!contains_within(&texts('a'), &texts('b'), &meter));
        assert_eq!(meter.used(), (1 + 100 * 101) * COMPARISON_FUEL, "long texts cost by their bytes");
    }

    #[test]
    fn a_search_uses_no_more_than_the_part_has_left() {
        let items = |from: usize, count: usize| json!((from..from + count).collect::<Vec<_>>());
        let meter = Meter::new();
        meter.charge(limits::DECISION_FUEL - 100 * COMPARISON_FUEL);
        assert!(!contains_within(&items(0, 200), &items(150, 1), &meter));
        assert_eq!(meter.left_for_part(), 0);
        meter.begin_part();
        assert!(contains_within(&items(0, 200), &items(150, 1), &meter));
    }
}
