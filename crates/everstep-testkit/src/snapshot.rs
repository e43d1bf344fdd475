//! Texts that tests compare with files, so that a review shows every change of a message.

use std::fs;
use std::path::Path;

/// Compares a text with a file. With `BLESS=1` the file is written first; review the difference.
///
/// # Panics
/// If they differ, with the first line that does.
#[track_caller]
pub fn check(file: &Path, text: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(file, text).unwrap_or_else(|error| panic!("{} cannot be written: {error}", file.display()));
    }
    let written = fs::read_to_string(file).unwrap_or_default();
    let mut lines = (1..).zip(written.lines().zip(text.lines()));
    if let Some((line, (old, new))) = lines.find(|(_, (old, new))| old != new) {
        panic!("{}:{line} is out of date: write it again with BLESS=1\n  file: {old}\n  now:  {new}", file.display());
    }
    assert!(written == text, "{} is out of date: write it again with BLESS=1", file.display());
}
