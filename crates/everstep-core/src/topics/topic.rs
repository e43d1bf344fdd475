//! Names of topics.

/// Bytes of a topic, and of a pattern.
pub const TOPIC_BYTES_MAX: usize = 255;
/// Segments of a topic, and of a pattern.
pub(super) const SEGMENTS_MAX: usize = 16;
/// Bytes of one segment.
const SEGMENT_BYTES_MAX: usize = 64;

/// Rejects a name that is not valid for a topic, with the rule that it violates.
///
/// A topic has 1 to 16 segments with dots between them. Names that begin with `@` or `everstep.` are reserved.
pub fn check_topic(topic: &str) -> Result<(), String> {
    check_name(topic, "topic")?;
    for segment in topic.split('.') {
        check_segment(segment).map_err(|reason| format!("{topic:?} is not a valid topic: {reason}"))?;
    }
    Ok(())
}

/// The rules that topics and patterns share.
pub(super) fn check_name(name: &str, what: &str) -> Result<(), String> {
    if is_reserved(name) {
        return Err(format!("{name:?} is reserved: a {what} does not begin with `@` or `everstep.`"));
    }
    if name.is_empty() {
        return Err(format!("a {what} has at least one segment, such as order.paid"));
    }
    if name.len() > TOPIC_BYTES_MAX {
        return Err(format!("a {what} has at most {TOPIC_BYTES_MAX} characters"));
    }
    if name.split('.').count() > SEGMENTS_MAX {
        return Err(format!("a {what} has at most {SEGMENTS_MAX} segments"));
    }
    Ok(())
}

pub(super) fn check_segment(segment: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':' | b'/' | b'-');
    match segment {
        "" => Err("a segment is empty".to_owned()),
        _ if segment.len() > SEGMENT_BYTES_MAX => {
            Err(format!("a segment has more than {SEGMENT_BYTES_MAX} characters"))
        }
        _ if !segment.bytes().all(is_plain) => {
            Err(format!("the segment {segment:?} has characters other than letters, digits, `_`, `:`, `/` and `-`"))
        }
        _ => Ok(()),
    }
}

/// Whether the name of a topic, a signal or a wait is reserved for the server.
pub fn is_reserved(name: &str) -> bool {
    name.starts_with('@') || name.starts_with("everstep.") || name == "everstep"
}

/// The heads of all patterns that can match a topic: the empty one, and each number of its first segments.
pub fn heads(topic: &str) -> Vec<&str> {
    let dots = topic.match_indices('.').map(|(at, _)| at);
    std::iter::once(0).chain(dots).chain([topic.len()]).map(|end| &topic[..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_has_plain_segments() {
        for topic in ["a", "user.signup", "a-b_c:d/e.F9", &["s"; 16].join("."), &"x".repeat(64)] {
            assert_eq!(check_topic(topic), Ok(()), "{topic}");
        }
        let long = [&"x".repeat(63)[..]; 5].join(".");
        for topic in ["", ".", "a.", "a..b", "a b", "ä", "a.*", "#", &["s"; 17].join("."), &"x".repeat(65), &long] {
            assert!(check_topic(topic).is_err(), "{topic}");
        }
        for topic in ["@store/a", "everstep.runs", "everstep"] {
            assert!(check_topic(topic).unwrap_err().contains("reserved"), "{topic}");
        }
        assert_eq!(check_topic("everstepper.a"), Ok(()));
    }

    #[test]
    fn a_topic_has_one_head_more_than_segments() {
        assert_eq!(heads("user"), ["", "user"]);
        assert_eq!(heads("a.b.c"), ["", "a", "a.b", "a.b.c"]);
        assert_eq!(heads(&["s"; 16].join(".")).len(), 17);
    }
}
