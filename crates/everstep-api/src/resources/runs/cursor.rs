//! Cursors: the beginning of a page of runs, or of a journal.

use everstep_core::ids::RunId;
use everstep_core::time::Timestamp;

use crate::http::problem::Problem;
use crate::http::query::Query;

/// The seq after which a page of a journal begins.
pub(crate) fn read_seq(query: &Query) -> Result<u64, Problem> {
    let Some(text) = query.text("cursor") else { return Ok(0) };
    let seq = text.parse().ok().filter(|seq| *seq <= i64::MAX as u64);
    seq.ok_or_else(unreadable_cursor)
}

fn unreadable_cursor() -> Problem {
    Problem::invalid("the cursor is not valid").hint("send nextCursor of the previous page unchanged")
}

/// The beginning of a page, as an opaque text.
pub(crate) fn write_cursor((at, run): (Timestamp, RunId)) -> String {
    format!("{:x}-{}", at.micros(), run.uuid().simple())
}

pub(crate) fn read_cursor(text: &str) -> Result<(Timestamp, RunId), Problem> {
    let parse = || {
        let (at, run) = text.split_once('-')?;
        let at = i64::from_str_radix(at, 16).ok()?;
        Some((Timestamp::from_micros(at), run.parse().ok()?))
    };
    parse().ok_or_else(unreadable_cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back() {
        let place = (Timestamp::from_micros(1_763_251_200_000_001), RunId::new(Timestamp::EPOCH, 7));
        assert_eq!(read_cursor(&write_cursor(place)).unwrap(), place);
        for wrong in ["", "-", "1", "1-2", "x-00000000000000000000000000000001"] {
            assert!(read_cursor(wrong).is_err(), "{wrong}");
        }
    }
}
