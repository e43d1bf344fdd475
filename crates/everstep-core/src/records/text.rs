//! Checks of names and numbers in an input.

use super::failure::OpFailure;
use super::limits::{NAME_CHARS_MAX, PAGE_ITEMS_MAX};

/// A name without the spaces around it: 1 to 256 characters, no NUL, not `.` or `..`.
pub fn check_name(field: &str, text: &str) -> Result<String, OpFailure> {
    let name = text.trim();
    let length = name.chars().count();
    if length == 0 {
        return Err(OpFailure::invalid(format!("{field} is empty; it needs 1 to {NAME_CHARS_MAX} characters")));
    }
    if length > NAME_CHARS_MAX {
        return Err(OpFailure::invalid(format!(
            "{field} has {length} characters; at most {NAME_CHARS_MAX} are allowed"
        )));
    }
    if name.contains('\0') {
        return Err(OpFailure::invalid(format!("{field} contains a NUL character, which the database cannot store")));
    }
    if matches!(name, "." | "..") {
        return Err(OpFailure::invalid(format!(
            "{field} is {name:?}, which a URL cannot contain; choose another name"
        )));
    }
    Ok(name.to_owned())
}

/// The same check for a name that may be absent.
pub(super) fn check_optional(field: &str, text: &mut Option<String>) -> Result<(), OpFailure> {
    if let Some(text) = text {
        *text = check_name(field, text)?;
    }
    Ok(())
}

/// The number of items of a page.
pub fn check_limit(limit: usize) -> Result<(), OpFailure> {
    if (1..=PAGE_ITEMS_MAX).contains(&limit) {
        return Ok(());
    }
    Err(OpFailure::invalid(format!("limit is {limit}; it must be from 1 to {PAGE_ITEMS_MAX}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(check_name("key", "  a b\n").unwrap(), "a b");
        assert_eq!(check_name("key", &"é".repeat(256)).unwrap().chars().count(), 256);
        for (text, reason) in [
            (String::new(), "key is empty"),
            (" \t ".to_owned(), "key is empty"),
            ("x".repeat(257), "key has 257 characters; at most 256"),
            ("a\0b".to_owned(), "key contains a NUL"),
            (" .. ".to_owned(), "key is \"..\""),
            (".".to_owned(), "key is \".\""),
        ] {
            let failure = check_name("key", &text).unwrap_err();
            assert!(failure.message.starts_with(reason), "{failure}");
            assert_eq!(failure.code, "VALIDATION_ERROR");
        }
    }
}
