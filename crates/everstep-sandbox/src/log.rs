//! The lines that a script writes to the console.

use std::sync::{Arc, Mutex, PoisonError};

use crate::LOG_BYTES_MAX;

/// A log that a script shares with its caller: the lines of a stuck script can still be read.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Lines>>);

#[derive(Default)]
struct Lines {
    lines: Vec<String>,
    bytes: usize,
    is_cut: bool,
}

impl Log {
    pub(crate) fn write(&self, line: &str) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.is_cut {
            return;
        }
        // The limit includes the mark, whether it is needed or not.
        let mark = format!("… (the log was cut after {} KiB)", LOG_BYTES_MAX / 1024);
        let room = LOG_BYTES_MAX - mark.len() - 1 - log.bytes;
        if line.len() < room {
            log.bytes += line.len() + 1;
            log.lines.push(line.to_owned());
            return;
        }
        log.is_cut = true;
        let end = line.floor_char_boundary(room.saturating_sub(1));
        if end > 0 {
            log.lines.push(line[..end].to_owned());
        }
        log.lines.push(mark);
    }

    pub(crate) fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_log_is_cut_with_a_mark() {
        let log = Log::default();
        for _ in 0..10_000 {
            log.write("é0123456789");
        }
        log.write("late");
        let lines = log.take_lines();
        let bytes: usize = lines.iter().map(|line| line.len() + 1).sum();
        assert!(bytes > LOG_BYTES_MAX - 100 && bytes <= LOG_BYTES_MAX, "{bytes}");
        assert!(lines.last().unwrap().starts_with('…'));
    }
}
