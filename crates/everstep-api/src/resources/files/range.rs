//! The header `Range`: the part of a file that a client wants.

use std::ops::Range;

/// The part of a file that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Whole,
    Bytes(Range<u64>),
    /// The file has no byte of the range.
    Outside,
}

/// The part that a header names. A header with several ranges, of another unit or of another form is ignored, as RFC
/// 9110 allows: the whole file is sent.
pub(super) fn read_range(header: Option<&str>, size: u64) -> Part {
    let range = header.and_then(|text| text.trim().strip_prefix("bytes=")).and_then(|text| text.split_once('-'));
    let Some((first, last)) = range.map(|(first, last)| (first.trim(), last.trim())) else { return Part::Whole };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first <= last => part(first, last.saturating_add(1), size),
        (Some(first), None) if last.is_empty() => part(first, size, size),
        // The last bytes.
        (None, Some(count)) if first.is_empty() => part(size.saturating_sub(count), size, size),
        _ => Part::Whole,
    }
}

fn part(start: u64, end: u64, size: u64) -> Part {
    if start >= size { Part::Outside } else { Part::Bytes(start..end.min(size)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_a_part_of_the_file() {
        for (header, expected) in [
            ("bytes=0-0", Part::Bytes(0..1)),
            ("bytes=2-5", Part::Bytes(2..6)),
            ("bytes=2-", Part::Bytes(2..10)),
            ("bytes=2-99999999999999999999999", Part::Bytes(2..10)),
            ("bytes=-3", Part::Bytes(7..10)),
            ("bytes=-30", Part::Bytes(0..10)),
            ("bytes=9-9", Part::Bytes(9..10)),
            ("bytes=10-", Part::Outside),
            ("bytes=99999999999999999999999-", Part::Outside),
            ("bytes=-0", Part::Outside),
        ] {
            assert_eq!(read_range(Some(header), 10), expected, "{header}");
        }
        for ignored in ["", "bytes", "bytes=", "bytes=-", "bytes=5-2", "bytes=0-1,4-5", "bytes=+1-2", "lines=0-1"] {
            assert_eq!(read_range(Some(ignored), 10), Part::Whole, "{ignored}");
        }
        assert_eq!(read_range(None, 10), Part::Whole);
    }
}
