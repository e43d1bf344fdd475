//! Errors of JSON that cannot be decoded. serde names Rust types in them, which the sender of the JSON does not know.

use std::fmt::Display;

/// The types in messages of serde, and the JSON that a sender knows them by.
const TYPES: &[(&str, &str)] = &[
    ("struct ", "an object"),
    ("internally tagged enum ", "an object"),
    ("adjacently tagged enum ", "an object"),
    ("unit variant ", "an object"),
    ("enum ", "a text or an object"),
    ("variant identifier", "a text"),
    ("tuple struct ", "a list"),
    ("tuple variant ", "a list"),
    ("unit struct ", "null"),
];

const NO_VARIANT: &str = "data did not match any variant of untagged enum ";

/// The text of an error of serde without the names of Rust types: `expected struct Start` becomes `expected an object`.
pub fn describe_error(error: &impl Display) -> String {
    let message = error.to_string();
    let (text, position) = message.split_at(message.rfind(" at line ").unwrap_or(message.len()));
    if text.starts_with(NO_VARIANT) {
        return format!("it has none of the accepted forms{position}");
    }
    // The text before the last comma may contain values of the sender.
    let Some((found, expected)) = text.rsplit_once(", expected ") else { return message };
    match TYPES.iter().find(|(name, _)| expected.starts_with(name)) {
        Some((_, json)) => format!("{found}, expected {json}{position}"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::SetRequest;

    #[test]
    fn a_message_names_no_rust_type() {
        let error = serde_json::from_str::<SetRequest>("null").unwrap_err();
        assert!(error.to_string().contains("struct SetRequest"), "{error}");
        let described = describe_error(&error);
        assert!(described.starts_with("invalid type: null, expected an object at line 1 column "), "{described}");
        for (message, expected) in [
            ("invalid type: null, expected struct A", "invalid type: null, expected an object"),
            ("invalid length 1, expected struct A with 2 elements", "invalid length 1, expected an object"),
            ("invalid type: map, expected tuple struct A", "invalid type: map, expected a list"),
            (
                "invalid type: integer `5`, expected internally tagged enum A at line 1 column 2",
                "invalid type: integer `5`, expected an object at line 1 column 2",
            ),
            ("invalid type: null, expected variant identifier", "invalid type: null, expected a text"),
            (
                "data did not match any variant of untagged enum A at line 3 column 4",
                "it has none of the accepted forms at line 3 column 4",
            ),
        ] {
            assert_eq!(describe_error(&message), expected);
        }
    }

    #[test]
    fn other_messages_and_values_of_the_sender_stay_unchanged() {
        for message in [
            "missing field `value` at line 1 column 2",
            "invalid type: string \"x\", expected u32 at line 1 column 3",
            "invalid type: string \"a, expected struct A\", expected u32",
            "unknown field `struct `, expected one of `a`, `b` at line 1 column 9",
        ] {
            assert_eq!(describe_error(&message), message);
        }
    }
}
