//! Limits the log lines of an attempt.

use everstep_core::limits::LOG_BYTES;

/// Cuts lines that together exceed the limit, with a mark at the end.
pub(crate) fn cut(lines: Vec<String>) -> Vec<String> {
    let size = |line: &String| line.len() + 1;
    if lines.iter().map(size).sum::<usize>() <= LOG_BYTES {
        return lines;
    }
    let mark = format!("… (the log was cut after {} KiB)", LOG_BYTES / 1024);
    let mut room = LOG_BYTES - size(&mark);
    let mut kept = Vec::new();
    for mut line in lines {
        if size(&line) > room {
            line.truncate(line.floor_char_boundary(room.saturating_sub(1)));
            kept.push(line);
            break;
        }
        room -= size(&line);
        kept.push(line);
    }
    kept.push(mark);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_logs_are_cut_with_a_mark() {
        assert_eq!(cut(vec!["short".to_owned()]), ["short"]);
        let lines = cut(vec!["é".repeat(LOG_BYTES)]);
        assert!(lines.iter().map(|line| line.len() + 1).sum::<usize>() <= LOG_BYTES);
        assert!(lines[1].starts_with('…'));
    }
}
