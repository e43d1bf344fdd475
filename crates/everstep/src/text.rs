//! Text for people: safe to show, easy to read.

use std::path::Path;
use std::time::Duration;

use everstep_core::time::Timestamp;

/// Text from a workflow, without characters that could control a terminal.
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

/// The lines of a text that came from a workflow, such as a stack trace, each safe to show.
pub(crate) fn safe_lines(text: &str) -> impl Iterator<Item = String> {
    text.trim_end().split('\n').map(|line| safe(line.trim_end_matches('\r')))
}

/// A text of several lines that is safe to show. All lines except the first are indented by `indent` columns.
pub(crate) fn safe_block(text: &str, indent: usize) -> String {
    safe_lines(text).collect::<Vec<_>>().join(&format!("\n{:indent$}", ""))
}

/// A path, quoted as one word for a shell.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// A duration in a suitable unit.
pub(crate) fn span(duration: Duration) -> String {
    let millis = duration.as_millis();
    match duration.as_secs() {
        0 => format!("{millis} ms"),
        1..60 => format!("{:.1} s", duration.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A duration to the millisecond.
pub(crate) fn exact_span(duration: Duration) -> String {
    match duration.as_secs() {
        1..60 => format!("{:.3} s", duration.as_secs_f64()),
        _ => span(duration),
    }
}

/// A time that a server has sent, to the millisecond.
pub(crate) fn time(text: &str) -> String {
    text.parse::<Timestamp>().map_or_else(|_| safe(text), |time| format!("{time:.3}"))
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
    fn a_stack_trace_keeps_its_line_breaks() {
        let stack = "Error: no\r\n    at f (a.ts:1)\u{1b}[2J\n";
        assert_eq!(safe_block(stack, 2), "Error: no\n      at f (a.ts:1)\\u{1b}[2J");
        assert_eq!(safe_block("", 2), "");
    }

    #[test]
    fn times_are_shown_to_the_millisecond() {
        assert_eq!(time("2026-11-17T06:26:53.857074Z"), "2026-11-17T06:26:53.857Z");
        assert_eq!(time("2026-11-17T06:26:53Z"), "2026-11-17T06:26:53.000Z");
        assert_eq!(time("soon"), "soon");
        let spans = [999, 5_003, 61_000].map(|millis| exact_span(Duration::from_millis(millis)));
        assert_eq!(spans, ["999 ms", "5.003 s", "1 min 1 s"]);
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
