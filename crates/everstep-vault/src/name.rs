//! Names of the resources of a workspace.

use crate::error::Error;

const NAME_BYTES_MAX: usize = 128;

/// A name begins with a letter or digit; letters, digits, `_`, `.` and `-` follow.
pub fn check_name(name: &str) -> Result<(), Error> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if is_plain && begins_well && name.len() <= NAME_BYTES_MAX {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "{name:?} is not a valid name: use 1 to {NAME_BYTES_MAX} letters, digits, `_`, `.` or `-`, beginning with a \
         letter or digit"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        for name in ["a", "stripe-key", "DB.password_2", "9", &"a".repeat(128)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "-a", ".a", "_a", "a b", "a/b", "é", "a\0", &"a".repeat(129)] {
            assert!(check_name(name).unwrap_err().to_string().contains("is not a valid name"), "{name}");
        }
    }
}
