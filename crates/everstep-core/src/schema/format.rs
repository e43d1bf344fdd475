//! The formats of texts that the validator checks.

use std::net::{Ipv4Addr, Ipv6Addr};

use jiff::civil;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    DateTime,
    Date,
    Email,
    Ipv4,
    Ipv6,
    Uri,
    Uuid,
}

const FORMATS: &[(&str, Format)] = &[
    ("date-time", Format::DateTime),
    ("date", Format::Date),
    ("email", Format::Email),
    ("ipv4", Format::Ipv4),
    ("ipv6", Format::Ipv6),
    ("uri", Format::Uri),
    ("uuid", Format::Uuid),
];

impl Format {
    pub(super) fn find(name: &str) -> Option<Self> {
        FORMATS.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    pub(super) fn names() -> String {
        FORMATS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn fits(self, text: &str) -> bool {
        match self {
            Self::DateTime => is_date_time(text),
            Self::Date => is_date(text),
            Self::Email => is_email(text),
            Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
            Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
            Self::Uri => is_uri(text),
            Self::Uuid => text.len() == 36 && uuid::Uuid::try_parse(text).is_ok(),
        }
    }

    /// A description of this format, for a message.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::DateTime => "a date and time with an offset, such as 2026-01-31T09:00:00Z",
            Self::Date => "a date, such as 2026-01-31",
            Self::Email => "an email address",
            Self::Ipv4 => "an IPv4 address",
            Self::Ipv6 => "an IPv6 address",
            Self::Uri => "a URI with a scheme, such as https://example.com/",
            Self::Uuid => "a UUID",
        }
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<civil::Date>().is_ok()
}

/// RFC 3339: a date, `T`, a time with seconds, and an offset.
fn is_date_time(text: &str) -> bool {
    let Some((date, rest)) = text.split_at_checked(10) else { return false };
    let Some(rest) = rest.strip_prefix(['T', 't']) else { return false };
    let time = match rest.strip_suffix(['Z', 'z']) {
        Some(time) => time,
        None => {
            let Some(at) = rest.rfind(['+', '-']) else { return false };
            let (time, offset) = rest.split_at(at);
            let parts: Vec<&str> = offset[1..].split(':').collect();
            let is_within = |part: &str, most: u8| part.len() == 2 && part.parse::<u8>().is_ok_and(|it| it <= most);
            if !matches!(parts.as_slice(), [hours, minutes] if is_within(hours, 23) && is_within(minutes, 59)) {
                return false;
            }
            time
        }
    };
    let has_shape = time.len() >= 8
        && time.bytes().enumerate().all(|(at, byte)| match at {
            2 | 5 => byte == b':',
            8 => byte == b'.',
            _ => byte.is_ascii_digit(),
        })
        && time.len() != 9;
    has_shape && is_date(date) && time[..8].parse::<civil::Time>().is_ok()
}

/// One `@` between a local part and a domain, without spaces.
fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let has_space = text.chars().any(|character| character.is_whitespace() || character.is_control());
    let is_label = |label: &str| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-');
    !local.is_empty() && !local.contains('@') && !has_space && domain.split('.').all(is_label)
}

/// A scheme, a colon, and only characters that a URI may contain (RFC 3986).
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_scheme = scheme.bytes().enumerate().all(|(at, byte)| {
        byte.is_ascii_alphabetic() || at > 0 && (byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.'))
    });
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !br#"<>"{}|\^`"#.contains(&byte);
    !scheme.is_empty() && is_scheme && rest.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_and_refuses() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "date-time",
                &["2026-01-31T09:00:00Z", "2026-01-31T09:00:00.123+02:00", "2024-02-29t23:59:59z"],
                &[
                    "2026-01-31",
                    "2026-01-31T09:00:00",
                    "2026-02-30T09:00:00Z",
                    "2026-01-31T25:00:00Z",
                    "2026-01-31T09:00Z",
                    "2026-01-31T09:00:00.Z",
                    "2026-01-31T09:00:00+2",
                    "é026-01-31T09:00:00Z",
                    "",
                ],
            ),
            ("date", &["2024-02-29"], &["2023-02-29", "2024-2-9", "20240229", "2024-02-29T00:00:00Z"]),
            ("email", &["a@example.com", "a.b+c@localhost"], &["a", "a@", "@b", "a b@c", "a@b..c", "a@@b"]),
            ("ipv4", &["127.0.0.1"], &["127.0.0", "256.0.0.1", "::1"]),
            ("ipv6", &["::1", "2001:db8::1"], &["127.0.0.1", ":::"]),
            ("uri", &["https://example.com/a?b#c", "urn:isbn:1"], &["example.com", "/a", "https://a b", "1a:b", ":a"]),
            ("uuid", &["0190f2a0-0000-7000-8000-000000000000"], &["0190f2a0", "0190f2a000007000800000000000000000"]),
        ];
        for (name, good, bad) in cases {
            let format = Format::find(name).unwrap();
            for text in *good {
                assert!(format.fits(text), "{name}: {text}");
            }
            for text in *bad {
                assert!(!format.fits(text), "{name}: {text}");
            }
        }
        assert_eq!(cases.len(), FORMATS.len());
    }
}
