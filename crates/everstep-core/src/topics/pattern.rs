//! Patterns of topics.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::topic::{check_name, check_segment};

/// A pattern of topics: `*` is exactly one segment, `#` is any number of segments, including none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Pattern(Arc<str>);

impl Pattern {
    /// Reads a pattern; the error names the rule that it violates.
    pub fn parse(text: &str) -> Result<Self, String> {
        check_name(text, "pattern")?;
        for segment in text.split('.').filter(|segment| !is_wildcard(segment)) {
            check_segment(segment).map_err(|reason| {
                format!("{text:?} is not a valid pattern: {reason}; `*` and `#` are segments of their own")
            })?;
        }
        Ok(Self(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The segments before the first wildcard. A topic that the pattern matches has this text among its heads.
    pub fn head(&self) -> &str {
        let mut end = 0;
        for segment in self.0.split('.') {
            if is_wildcard(segment) {
                return self.0[..end].trim_end_matches('.');
            }
            end += segment.len() + 1;
        }
        &self.0
    }

    /// Whether the pattern names exactly one topic.
    pub fn is_topic(&self) -> bool {
        !self.0.split('.').any(is_wildcard)
    }

    pub fn matches(&self, topic: &str) -> bool {
        let pattern: Vec<_> = self.0.split('.').collect();
        let topic: Vec<_> = topic.split('.').collect();
        // The positions to which the scan returns when a segment does not match: the last `#`, and the topic's segment
        // after those that it has taken.
        let (mut at, mut next) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        while next < topic.len() {
            match pattern.get(at) {
                Some(&"#") => {
                    retry = Some((at, next));
                    at += 1;
                    continue;
                }
                Some(segment) if *segment == "*" || *segment == topic[next] => {
                    (at, next) = (at + 1, next + 1);
                    continue;
                }
                Some(_) | None => {}
            }
            let Some((hash, taken)) = retry else { return false };
            retry = Some((hash, taken + 1));
            (at, next) = (hash + 1, taken + 1);
        }
        pattern[at..].iter().all(|segment| *segment == "#")
    }
}

fn is_wildcard(segment: &str) -> bool {
    matches!(segment, "*" | "#")
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0.as_ref().to_owned()
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::heads;
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).unwrap()
    }

    #[test]
    fn the_head_ends_before_the_first_wildcard() {
        for (text, head) in
            [("a.b", "a.b"), ("a.*", "a"), ("a.b.#", "a.b"), ("*", ""), ("#.a", ""), ("a.*.c", "a"), ("a", "a")]
        {
            assert_eq!(pattern(text).head(), head, "{text}");
        }
    }

    #[test]
    fn wildcards_are_whole_segments() {
        for text in ["a*", "a.b#", "**", "a..b", "", "@a", "everstep.#"] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    /// The definition, without any cleverness.
    fn is_match(pattern: &[&str], topic: &[&str]) -> bool {
        match pattern {
            [] => topic.is_empty(),
            ["#", rest @ ..] => (0..=topic.len()).any(|taken| is_match(rest, &topic[taken..])),
            ["*", rest @ ..] => !topic.is_empty() && is_match(rest, &topic[1..]),
            [segment, rest @ ..] => topic.first() == Some(segment) && is_match(rest, &topic[1..]),
        }
    }

    #[test]
    fn patterns_match_as_their_definition_says() {
        fn texts(words: &[&str], segments: usize) -> Vec<String> {
            let mut all = Vec::new();
            let mut last = vec![String::new()];
            for _ in 0..segments {
                let join = |text: &String, word: &&str| {
                    if text.is_empty() { (*word).to_owned() } else { format!("{text}.{word}") }
                };
                last = last.iter().flat_map(|text| words.iter().map(move |word| join(text, word))).collect();
                all.extend(last.iter().cloned());
            }
            all
        }
        let topics = texts(&["a", "b"], 5);
        for text in texts(&["a", "b", "*", "#"], 4) {
            let pattern = pattern(&text);
            let segments: Vec<_> = text.split('.').collect();
            for topic in &topics {
                let expected = is_match(&segments, &topic.split('.').collect::<Vec<_>>());
                assert_eq!(pattern.matches(topic), expected, "{text} and {topic}");
                assert!(!expected || heads(topic).contains(&pattern.head()), "{text} is found by a head of {topic}");
            }
        }
    }
}
