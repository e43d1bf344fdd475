//! The name of a file.

use crate::limits;

/// Checks the name of a file: 1 to 255 bytes, without a path and without characters that a header or a terminal
/// interprets. The error is a clause for a message.
pub fn check_file_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("a file needs a name".to_owned());
    }
    if name.len() > limits::FILE_NAME_BYTES {
        return Err(format!("the name has {} bytes; at most {} are allowed", name.len(), limits::FILE_NAME_BYTES));
    }
    if name.contains(['/', '\\']) || matches!(name, "." | "..") {
        return Err("the name of a file contains no path".to_owned());
    }
    if name.chars().any(is_unsafe) {
        return Err("the name of a file contains no control characters".to_owned());
    }
    Ok(())
}

/// Control characters, and those that change the direction of a text: `invoice<U+202E>fdp.exe` looks like a PDF.
fn is_unsafe(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_no_path_and_no_control_characters() {
        for name in ["a", "invoice 7.pdf", "Rechnung für März.pdf", "..a", "発注書.xlsx", &"x".repeat(255)] {
            assert_eq!(check_file_name(name), Ok(()), "{name}");
        }
        let long = "ü".repeat(128);
        let bad = ["", " ", ".", "..", "a/b", "/etc/passwd", "..\\a", "a\nb", "a\0", "a\u{7f}", "a\u{202e}fdp.exe"];
        for name in bad.into_iter().chain([long.as_str()]) {
            assert!(check_file_name(name).is_err(), "{name:?}");
        }
    }
}
