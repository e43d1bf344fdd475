//! Mails to people: which recipients and subjects can be sent.
//!
//! 1. A recipient and a subject become a part of a header of a mail. They contain no control character, so that no value
//!    of a context adds a header or a command.
//! 2. A recipient is one address or one name, not a list in a text.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::limits;

/// The type of the message that contains a mail, for workspaces that have an address for it.
pub const MESSAGE_TYPE: &str = "workflow.notify";
/// Characters of a recipient: the longest address of a mail.
pub const RECIPIENT_CHARS_MAX: usize = 254;
/// Characters of a subject.
pub const SUBJECT_CHARS_MAX: usize = 500;

pub const RECIPIENT_RULE: &str = "a recipient has 1 to 254 characters, without control characters and `,;<>`";
pub const SUBJECT_RULE: &str = "a subject is one line of 1 to 500 characters, without control characters";

/// The recipients in a value: a text, or a list of texts or lists. A number is a text, such as the id of a person. Absent
/// recipients are left out, and each is named once. It stops at the first recipient beyond [`limits::RECIPIENTS`], which
/// it includes. None if a part of the value is something else.
pub fn read_recipients(value: &Value) -> Option<Vec<String>> {
    let mut reader = Reader::default();
    reader.add(value)?;
    Some(reader.recipients)
}

/// The recipients that were read. A list may have hundreds of thousands of items, so the work per item does not grow with
/// the list.
#[derive(Default)]
struct Reader {
    recipients: Vec<String>,
    known: BTreeSet<String>,
}

impl Reader {
    fn add(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Null => {}
            Value::Array(list) => {
                for value in list {
                    if self.recipients.len() > limits::RECIPIENTS {
                        break;
                    }
                    self.add(value)?;
                }
            }
            Value::Number(number) => self.add_text(&number.to_string()),
            Value::String(text) => self.add_text(text),
            Value::Bool(_) | Value::Object(_) => return None,
        }
        Some(())
    }

    fn add_text(&mut self, text: &str) {
        let recipient = text.trim_matches(' ');
        if !recipient.is_empty() && !self.known.contains(recipient) {
            self.known.insert(recipient.to_owned());
            self.recipients.push(recipient.to_owned());
        }
    }
}

/// Whether a text can be a recipient.
pub fn is_recipient(text: &str) -> bool {
    is_line(text, RECIPIENT_CHARS_MAX) && !text.contains([',', ';', '<', '>'])
}

/// Whether a text can be a subject.
pub fn is_subject(text: &str) -> bool {
    is_line(text, SUBJECT_CHARS_MAX)
}

/// Whether a text is one line with content, and not longer than a number of characters.
fn is_line(text: &str, chars_max: usize) -> bool {
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    !text.trim().is_empty() && text.chars().count() <= chars_max && !text.contains(ends_line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recipients_are_read_from_texts_and_lists() {
        let read = |value: Value| read_recipients(&value);
        assert_eq!(read(json!("ann@b")), Some(vec!["ann@b".to_owned()]));
        assert_eq!(read(json!(["a", ["b", null, " "], " a ", ""])), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(read(json!(null)), Some(Vec::new()));
        assert_eq!(read(json!(["a", 7])), Some(vec!["a".to_owned(), "7".to_owned()]));
        assert_eq!(read(json!(["a", true])), None);
        assert_eq!(read(json!({"a": "b"})), None);
        let many: Vec<_> = (0..200_000).map(|number| json!([number])).collect();
        let first: Vec<_> = (0..=limits::RECIPIENTS).map(|number| number.to_string()).collect();
        assert_eq!(read(json!(many)), Some(first), "one more than the maximum");
        // A line break is not removed: the recipient is refused later.
        assert_eq!(read(json!("a\r\n")), Some(vec!["a\r\n".to_owned()]));
    }

    #[test]
    fn a_recipient_and_a_subject_are_one_line() {
        for text in ["ann@example.com", "5e4c7e1a", "ann.o'neil+x@example.com", "jürgen@example.com"] {
            assert!(is_recipient(text) && is_subject(text), "{text:?}");
        }
        for text in [
            "",
            " ",
            "a@b\r\nBcc: c@d",
            "a@b\nx",
            "a@b\rx",
            "a\0b",
            "a\u{7f}",
            "a\u{85}b",
            "a\u{2028}b",
            "a\u{2029}b",
            "a\tb",
        ] {
            assert!(!is_recipient(text) && !is_subject(text), "{text:?}");
        }
        for list in ["a@b, c@d", "a@b;c@d", "Ann <a@b>"] {
            assert!(!is_recipient(list) && is_subject(list), "{list:?}");
        }
        assert!(is_recipient(&"x".repeat(254)) && !is_recipient(&"x".repeat(255)));
        assert!(is_subject(&"ü".repeat(500)) && !is_subject(&"ü".repeat(501)));
    }
}
