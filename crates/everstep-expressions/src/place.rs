//! Where in a text something is wrong, told so that a person finds it.

/// Characters that are shown before and after a place.
const AROUND: usize = 24;
/// Characters of a source that are shown whole.
const WHOLE: usize = 120;

/// `at character 7, near `…``, with the line where there are several. Counted in characters from 1.
pub(crate) fn told(text: &str, at: usize) -> String {
    let near = near(text, at);
    let near = if near.is_empty() { String::new() } else { format!(", near `{near}`") };
    format!("at {}{near}", position(text, at))
}

/// `at character 7, in `…``, for a source that a reader may not have before them.
pub(crate) fn told_with_source(source: &str, at: Option<usize>) -> String {
    let is_short = source.chars().nth(WHOLE).is_none();
    match at {
        Some(at) if is_short => format!(" at {}, in `{source}`", position(source, at)),
        Some(at) => format!(" at {}, in `{}`", position(source, at), near(source, at)),
        None => format!(", in `{}`", shortened(source)),
    }
}

pub(crate) fn shortened(source: &str) -> String {
    if source.chars().nth(WHOLE).is_none() {
        return source.to_owned();
    }
    source.chars().take(WHOLE).chain(['…']).collect()
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

/// The text around a place, within its line.
fn near(text: &str, at: usize) -> String {
    let (before, after) = text.split_at(text.floor_char_boundary(at));
    let before: Vec<char> = before.rsplit('\n').next().unwrap_or_default().chars().collect();
    let after: Vec<char> = after.split('\n').next().unwrap_or_default().chars().collect();
    let from = before.len().saturating_sub(AROUND);
    let to = after.len().min(AROUND);
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
    fn a_place_is_told_with_its_line_and_what_stands_there() {
        assert_eq!(told("é + !", 5), "at character 5, near `é + !`");
        assert_eq!(told("ctx.a +\n  ctx.b !", 16), "at line 2, character 9, near `ctx.b !`");
        assert_eq!(told("", 0), "at character 1");
        let long = "a + ".repeat(100);
        assert_eq!(told(&long, 200), format!("at character 201, near `…{}…`", "a + ".repeat(12)));
    }

    #[test]
    fn a_long_source_is_shown_around_the_place() {
        let long = format!("{}oops", "a + ".repeat(100));
        assert!(told_with_source(&long, Some(400)).ends_with("a + oops`"));
        assert!(told_with_source(&long, None).ends_with("…`"));
        assert_eq!(told_with_source("a + b", Some(4)), " at character 5, in `a + b`");
    }
}
