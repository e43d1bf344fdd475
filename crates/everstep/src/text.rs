//! Text for people: safe to show, easy to read.

use std::path::Path;
use std::time::Duration;

/// Text that came from a workflow, without characters that could command a terminal.
pub(crate) fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\t' {
            safe.extend(character.escape_default());
        } else {
            safe.push(character);
        }
    }
    safe
}

/// A path as a shell takes it for one word.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A duration in the unit that suits it.
pub(crate) fn span(duration: Duration) -> String {
    let millis = duration.as_millis();
    match duration.as_secs() {
        0 => format!("{millis} ms"),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// `1 problem`, `2 problems`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_workflows_cannot_command_a_terminal() {
        assert_eq!(safe("a\u{1b}[2Jb\r\nc\td\u{9b}é"), "a\\u{1b}[2Jb\\r\\nc\td\\u{9b}é");
    }

    #[test]
    fn a_path_is_one_word_for_a_shell() {
        let quoted = |path: &str| quoted(Path::new(path));
        assert_eq!(quoted("/var/lib/everstep/admin.key"), "/var/lib/everstep/admin.key");
        assert_eq!(quoted("/my data/it's"), r"'/my data/it'\''s'");
    }

    #[test]
    fn durations_have_the_unit_that_suits_them() {
        let spans = [5, 999, 1_500, 61_000, 7_260_000].map(|millis| span(Duration::from_millis(millis)));
        assert_eq!(spans, ["5 ms", "999 ms", "1.5 s", "1 min 1 s", "2 h 1 min"]);
    }
}
