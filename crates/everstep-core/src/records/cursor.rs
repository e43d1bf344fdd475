//! Cursors of lists in the order of one name: records by key, and namespaces by name.
//!
//! Any text can be a name. A cursor has a prefix, so that another text is rejected and not read as a name, which would
//! select a page.

use super::failure::OpFailure;
use super::text::check_name;

const PREFIX: &str = "after:";

/// The cursor of the page after a name.
pub fn write_cursor(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// The name after which a page begins. Reads what [`write_cursor`] writes.
pub fn read_cursor(text: &str) -> Result<String, OpFailure> {
    let name = text.strip_prefix(PREFIX).ok_or_else(invalid_cursor)?;
    match check_name("cursor", name) {
        Ok(checked) if checked == name => Ok(checked),
        Ok(_) | Err(_) => Err(invalid_cursor()),
    }
}

pub(super) fn invalid_cursor() -> OpFailure {
    OpFailure::invalid("cursor is not valid; send next_cursor of the previous page unchanged")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_a_name_is_none() {
        for name in ["k9", "2026/7", "after:k9", "é ?&"] {
            assert_eq!(read_cursor(&write_cursor(name)).unwrap(), name);
        }
        for text in ["", "zork", "k9", "after:", "after: k9", "after:a\0b", "After:k9"] {
            assert!(read_cursor(text).unwrap_err().message.starts_with("cursor is not valid"), "{text:?}");
        }
    }
}
