//! The header `Content-Disposition`: whether a browser shows a file, and the name under which it is saved.

use axum::http::HeaderValue;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that RFC 8187 allows unencoded.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How a browser treats a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// It is shown.
    Inline,
    /// It is saved.
    Attachment,
}

/// The header for a file with this name. Old clients read the name without the letters that are not ASCII.
pub(super) fn disposition(treatment: Treatment, name: &str) -> HeaderValue {
    let word = match treatment {
        Treatment::Inline => "inline",
        Treatment::Attachment => "attachment",
    };
    let is_plain = |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\' | '%') || letter == ' ';
    let plain: String = name.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    let encoded = utf8_percent_encode(name, ENCODED);
    let text = format!("{word}; filename=\"{plain}\"; filename*=UTF-8''{encoded}");
    HeaderValue::from_str(&text).expect("the name has only plain letters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_header() {
        for (name, expected) in [
            ("a b.pdf", "inline; filename=\"a b.pdf\"; filename*=UTF-8''a%20b.pdf"),
            ("für\"x\".pdf", "inline; filename=\"f_r_x_.pdf\"; filename*=UTF-8''f%C3%BCr%22x%22.pdf"),
            ("a\r\nb: c", "inline; filename=\"a__b: c\"; filename*=UTF-8''a%0D%0Ab%3A%20c"),
        ] {
            assert_eq!(disposition(Treatment::Inline, name), expected);
        }
        assert!(disposition(Treatment::Attachment, "x").to_str().unwrap().starts_with("attachment;"));
    }
}
