//! What people read of what a worker sends: it is cut where it becomes too much.

use std::fmt::Write as _;

use everstep_core::limits;

/// Words for people, cut where they become too many. No database stores a NUL as text.
pub(super) fn words(mut text: String, most: usize) -> String {
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
    }
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

/// Log lines, cut where they become too many.
pub(super) fn cut_lines(lines: Vec<String>) -> Vec<String> {
    let mut room = limits::LOG_BYTES;
    let mut kept = Vec::with_capacity(lines.len());
    for line in lines {
        // A line costs a little even when it is empty.
        let size = line.len() + 4;
        if size > room {
            let mut mark = String::new();
            let _ = write!(mark, "… (the log was cut after {} KiB)", limits::LOG_BYTES / 1024);
            kept.push(words(line, room.saturating_sub(mark.len() + 16)));
            kept.push(mark);
            break;
        }
        room -= size;
        kept.push(words(line, size));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_read_is_cut() {
        let lines = cut_lines(vec!["é".repeat(1_000); 100]);
        let bytes: usize = lines.iter().map(String::len).sum();
        assert!(bytes <= limits::LOG_BYTES, "{bytes}");
        assert!(lines.last().unwrap().contains("was cut"));
        assert_eq!(cut_lines(vec!["a\0b".to_owned()]), ["a\u{fffd}b"]);
        assert_eq!(words("ééé".to_owned(), 3), "é…");
    }
}
