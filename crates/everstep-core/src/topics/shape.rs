//! How the waits that an event resolves are found without reading all of them.
//!
//! The *shape* of a wait is the sorted list of the places in its match that hold a scalar outside arrays. A wait is
//! stored with a hash of its shape, and a hash of its event's name, its shape and its values. A publish reads the shapes
//! of the waits for its topic, computes the second hash from its data for each of them, and reads only the waits with
//! these hashes.
//!
//! 1. If the data contains the match of a wait, the hashes are equal. The converse does not hold: each wait that was
//!    found is compared in full.
//! 2. Numbers are hashed by the bits of their floating-point value, because `contains` compares fractions so.
//! 3. A match with very many or very long places has a shape of some of them.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::definition::escape;
use crate::payload::Payload;

/// Places of a shape.
const PLACES_MAX: usize = 32;
/// Bytes of a place in a shape.
const PLACE_BYTES_MAX: usize = 256;

/// The columns by which a wait is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitShape {
    /// The places as JSON pointers, in a JSON array.
    pub shape: String,
    pub shape_hash: i64,
    pub match_hash: i64,
}

impl WaitShape {
    /// The shape of a wait for an event whose data contains `pattern`.
    pub fn of_wait(event: &str, pattern: &Payload) -> Self {
        let mut places = Vec::new();
        let mut path = String::new();
        collect(pattern.value(), &mut path, &mut places);
        places.sort();
        places.truncate(PLACES_MAX);
        let shape = serde_json::to_string(&places).expect("places are texts");
        let values = places.iter().map(|place| pattern.value().pointer(place).unwrap_or(&Value::Null));
        let match_hash = hash_values(event, &shape, values);
        let shape_hash = hash(|hasher| hasher.update(&shape));
        Self { shape, shape_hash, match_hash }
    }
}

/// The hash of the waits with a shape that data of an event may resolve; `None` if the data lacks one of the places.
pub fn match_hash(event: &str, shape: &str, data: &Value) -> Option<i64> {
    let places: Vec<String> = serde_json::from_str(shape).ok()?;
    let values: Vec<_> = places.iter().map(|place| data.pointer(place)).collect::<Option<_>>()?;
    let are_scalars = values.iter().all(|value| !value.is_object() && !value.is_array());
    are_scalars.then(|| hash_values(event, shape, values.into_iter()))
}

fn collect(value: &Value, path: &mut String, places: &mut Vec<String>) {
    match value {
        Value::Object(fields) => collect_fields(fields, path, places),
        Value::Array(_) => {}
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => places.push(path.clone()),
    }
}

fn collect_fields(fields: &Map<String, Value>, path: &mut String, places: &mut Vec<String>) {
    for (name, value) in fields {
        let length = path.len();
        path.push('/');
        path.push_str(&escape(name));
        if path.len() <= PLACE_BYTES_MAX {
            collect(value, path, places);
        }
        path.truncate(length);
    }
}

fn hash_values<'v>(event: &str, shape: &str, values: impl Iterator<Item = &'v Value>) -> i64 {
    hash(|hasher| {
        for text in [event, shape] {
            hash_text(hasher, b't', text);
        }
        for value in values {
            match value {
                Value::Null | Value::Array(_) | Value::Object(_) => hasher.update(b"n"),
                Value::Bool(flag) => hasher.update([b'b', u8::from(*flag)]),
                Value::Number(number) => {
                    // Both zeros are equal.
                    let number = number.as_f64().unwrap_or_default() + 0.0;
                    hasher.update(b"f");
                    hasher.update(number.to_bits().to_be_bytes());
                }
                Value::String(text) => hash_text(hasher, b's', text),
            }
        }
    })
}

fn hash_text(hasher: &mut Sha256, kind: u8, text: &str) {
    hasher.update([kind]);
    hasher.update((text.len() as u64).to_be_bytes());
    hasher.update(text);
}

fn hash(write: impl FnOnce(&mut Sha256)) -> i64 {
    let mut hasher = Sha256::new();
    write(&mut hasher);
    let digest = hasher.finalize();
    i64::from_be_bytes(digest[..8].try_into().expect("a digest has 32 bytes"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(pattern: Value) -> WaitShape {
        WaitShape::of_wait("order.paid", &Payload::from(pattern))
    }

    #[test]
    fn a_shape_lists_the_places_of_scalars_outside_arrays() {
        let shape = of(json!({"b": 1, "a": {"x/y": null, "e": {}}, "list": [1, {"z": 2}]})).shape;
        assert_eq!(shape, r#"["/a/x~1y","/b"]"#);
        assert_eq!(of(json!({})).shape, "[]");
        assert_eq!(of(json!(7)).shape, r#"[""]"#);
    }

    #[test]
    fn equal_numbers_have_one_hash() {
        assert_eq!(of(json!({"n": 1})), of(json!({"n": 1.0})));
        assert_eq!(of(json!({"n": 0.0})), of(json!({"n": -0.0})));
        assert_ne!(of(json!({"n": 1})).match_hash, of(json!({"n": "1"})).match_hash);
        assert_ne!(of(json!({"n": null})).match_hash, of(json!({"n": false})).match_hash);
    }

    #[test]
    fn data_without_a_place_has_no_hash() {
        let wait = of(json!({"a": 1, "b": "x"}));
        assert_eq!(match_hash("order.paid", &wait.shape, &json!({"b": "x", "a": 1.0, "c": 2})), Some(wait.match_hash));
        assert_eq!(match_hash("order.paid", &wait.shape, &json!({"a": 1})), None);
        assert_eq!(match_hash("order.paid", &wait.shape, &json!({"a": 1, "b": {}})), None);
        assert_ne!(match_hash("order.sent", &wait.shape, &json!({"b": "x", "a": 1})), Some(wait.match_hash));
    }

    #[test]
    fn a_shape_is_bounded() {
        let many: Value = (0..1_000).map(|n| (format!("f{n}"), json!(n))).collect::<Map<_, _>>().into();
        let wait = of(many.clone());
        assert_eq!(serde_json::from_str::<Vec<String>>(&wait.shape).unwrap().len(), PLACES_MAX);
        assert_eq!(match_hash("order.paid", &wait.shape, &many), Some(wait.match_hash));
        assert_eq!(of(json!({"x".repeat(1_000): 1})).shape, "[]");
    }
}
