//! The places where a config names secrets: `{"$secret": "name"}`.
//!
//! Only names in the saved definition count, in fields that accept a secret. The result of an expression is never used
//! as the name of a secret, so that the input of a run cannot choose a secret.

use serde_json::Value;

use super::escape;

/// The field that marks a secret's name.
pub(crate) const MARK: &str = "$secret";

/// The rule for names of secrets, as the hint of a problem.
const NAME_HINT: &str = "1 to 128 letters, digits, `_`, `-` or `.`";

/// One place where a secret is named.
pub(crate) struct Named {
    /// Relative to the value that was searched.
    pub(crate) pointer: String,
    /// The error in the name itself, and the remedy.
    pub(crate) fault: Option<(&'static str, &'static str)>,
}

/// Every place inside a value that names a secret.
pub(crate) fn find(value: &Value) -> Vec<Named> {
    let mut found = Vec::new();
    search(value, &mut String::new(), &mut found);
    found
}

fn search(value: &Value, pointer: &mut String, found: &mut Vec<Named>) {
    let length = pointer.len();
    match value {
        Value::Object(object) if object.contains_key(MARK) => {
            let name = object[MARK].as_str();
            let fault = if object.len() > 1 {
                Some(("an object that names a secret has no other field", "remove the other fields"))
            } else if !name.is_some_and(is_name) {
                Some(("this is not a valid name of a secret", NAME_HINT))
            } else {
                None
            };
            found.push(Named { pointer: pointer.clone(), fault });
        }
        Value::Object(object) => {
            for (field, value) in object {
                pointer.push('/');
                pointer.push_str(&escape(field));
                search(value, pointer, found);
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push('/');
                pointer.push_str(&index.to_string());
                search(item, pointer, found);
                pointer.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a pointer is one of the places, in which `*` matches any one part and `**` matches all that follow.
pub(crate) fn is_place(pointer: &str, places: &[String]) -> bool {
    places.iter().any(|place| {
        let (mut parts, mut wanted) = (pointer.split('/'), place.split('/'));
        loop {
            match (parts.next(), wanted.next()) {
                (None, None) | (Some(_), Some("**")) => return true,
                (Some(part), Some(want)) if want == "*" || want == part => {}
                _ => return false,
            }
        }
    })
}

fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}
