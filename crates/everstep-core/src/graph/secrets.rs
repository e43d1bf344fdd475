//! Where a config names secrets: `{"$secret": "name"}`.
//!
//! Only what the saved definition itself says counts, in fields that are made for it. What an expression yields is
//! never taken for a secret's name, so that a run's input cannot ask for one.

use serde_json::Value;

use super::fields::escape;

/// The field that marks a secret's name.
pub(crate) const MARK: &str = "$secret";

/// What may be a secret's name, for the hint of a problem.
const NAME_HINT: &str = "1 to 128 letters, digits, `_`, `-` or `.`";

/// One place where a secret is named.
pub(crate) struct Named {
    /// Relative to the value that was searched.
    pub(crate) pointer: String,
    /// What is wrong with it by itself, and what to do.
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
                Some(("a secret's name stands alone", "remove the other fields"))
            } else if !name.is_some_and(is_name) {
                Some(("this cannot be a secret's name", NAME_HINT))
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

/// Whether a pointer is one of the places, in which `*` stands for any one part and `**` for all that follow.
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
