//! Describes the position of an error in a text.

/// Characters that an excerpt shows before and after a position.
const EXCERPT_RADIUS_CHARS: usize = 24;
/// A source of at most this many characters is shown in full.
const SOURCE_SHOWN_CHARS_MAX: usize = 120;

/// `at character 7, near `…``, with the line if there are several. Counted in characters from 1.
pub(crate) fn describe(text: &str, at: usize) -> String {
    let near = near(text, at);
    let near = if near.is_empty() { String::new() } else { format!(", near `{near}`") };
    format!("at {}{near}", position(text, at))
}

/// `at character 7, in `…``, for a source that the reader may not see.
pub(crate) fn describe_in_source(source: &str, at: Option<usize>) -> String {
    let is_short = source.chars().nth(SOURCE_SHOWN_CHARS_MAX).is_none();
    match at {
        Some(at) if is_short => format!(" at {}, in `{source}`", position(source, at)),
        Some(at) => format!(" at {}, in `{}`", position(source, at), near(source, at)),
        None => format!(", in `{}`", shortened(source)),
    }
}

pub(crate) fn shortened(source: &str) -> String {
    if source.chars().nth(SOURCE_SHOWN_CHARS_MAX).is_none() {
        return source.to_owned();
    }
    source.chars().take(SOURCE_SHOWN_CHARS_MAX).chain(['…']).collect()
}

fn position(text: &str, at: usize) -> String {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.rsplit('\n').next().unwrap_or_default();
    let character = line.chars().count() + 1;
    if text.contains('\n') {
        return format!("line {}, character {character}", before.matches('\n').count() + 1);
    }
    format!("character {character}")
}

/// The text around a position, within its line.
fn near(text: &str, at: usize) -> String {
    let (before, after) = text.split_at(text.floor_char_boundary(at));
    let before: Vec<char> = before.rsplit('\n').next().unwrap_or_default().chars().collect();
    let after: Vec<char> = after.split('\n').next().unwrap_or_default().chars().collect();
    let from = before.len().saturating_sub(EXCERPT_RADIUS_CHARS);
    let to = after.len().min(EXCERPT_RADIUS_CHARS);
    let mut shown = String::new();
    if from > 0 {
        shown.push('…');
    }
    shown.extend(&before[from..]);
    shown.extend(&after[..to]);
    if to < after.len() {
        shown.push('…');
    }
    shown.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_described_with_its_line_and_the_text_there() {
        assert_eq!(describe("é + !", 5), "at character 5, near `é + !`");
        assert_eq!(describe("ctx.a +\n  ctx.b !", 16), "at line 2, character 9, near `ctx.b !`");
        assert_eq!(describe("", 0), "at character 1");
        let long = "a + ".repeat(100);
        assert_eq!(describe(&long, 200), format!("at character 201, near `…{}…`", "a + ".repeat(12)));
    }

    #[test]
    fn a_long_source_is_shown_around_the_position() {
        let long = format!("{}oops", "a + ".repeat(100));
        assert!(describe_in_source(&long, Some(400)).ends_with("a + oops`"));
        assert!(describe_in_source(&long, None).ends_with("…`"));
        assert_eq!(describe_in_source("a + b", Some(4)), " at character 5, in `a + b`");
    }
}
