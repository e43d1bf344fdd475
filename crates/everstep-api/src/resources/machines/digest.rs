//! The digest of a request: a repeated request has the same, whatever the order of its fields.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The SHA-256 of a JSON value with sorted keys, in hexadecimal.
pub(super) fn digest(value: &Value) -> String {
    let mut hash = Sha256::new();
    update(&mut hash, value);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn update(hash: &mut Sha256, value: &Value) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            hash.update(b"{");
            for (name, value) in fields {
                hash.update(Value::from(name.as_str()).to_string());
                hash.update(b":");
                update(hash, value);
                hash.update(b",");
            }
            hash.update(b"}");
        }
        Value::Array(items) => {
            hash.update(b"[");
            for item in items {
                update(hash, item);
                hash.update(b",");
            }
            hash.update(b"]");
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => hash.update(value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digest_depends_on_the_content_and_not_on_the_order_of_fields() {
        let one: Value = serde_json::from_str(r#"{"a": [1, {"b": 2, "c": "x"}], "d": null}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"d":null,"a":[1,{"c":"x","b":2}]}"#).unwrap();
        assert_eq!(digest(&one), digest(&two));
        assert_eq!(digest(&one).len(), 64);
        for other in [json!({"a": [1, {"b": 2, "c": "y"}], "d": null}), json!({"a": [{"b": 2, "c": "x"}, 1]}), json!(1)]
        {
            assert_ne!(digest(&one), digest(&other), "{other}");
        }
        assert_ne!(digest(&json!(["a", "b"])), digest(&json!(["a,b"])));
    }
}
