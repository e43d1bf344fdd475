//! Times in the API: RFC 3339, UTC, microseconds.

use std::borrow::Cow;
use std::str::FromStr;

use everstep_core::time::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::http::schema::Moment;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(Timestamp);

impl Time {
    pub(crate) fn from_timestamp(time: Timestamp) -> Self {
        Self(time)
    }

    /// A time, or none for a time that is never reached.
    pub(crate) fn unless_never(time: Timestamp) -> Option<Self> {
        (time != Timestamp::NEVER).then_some(Self(time))
    }
}

/// A time in a filter: a time, or a day, which begins at midnight in UTC.
pub(crate) struct When(pub(crate) Timestamp);

impl FromStr for When {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_day = text.len() == "2026-05-01".len();
        let time = if is_day { format!("{text}T00:00:00Z").parse() } else { text.parse() };
        time.map(Self).map_err(|_| {
            format!("{text:?} is neither a time, such as 2026-05-01T09:00:00Z, nor a day, such as 2026-05-01")
        })
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0))
    }
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Moment::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits_and_a_z() {
        let json = |time| serde_json::to_string(&Time::from_timestamp(time)).unwrap();
        assert_eq!(json(Timestamp::EPOCH), r#""1970-01-01T00:00:00.000000Z""#);
        assert_eq!(json(Timestamp::from_micros(1_500_001)), r#""1970-01-01T00:00:01.500001Z""#);
        assert!(Time::unless_never(Timestamp::NEVER).is_none());
    }

    #[test]
    fn a_day_begins_at_midnight() {
        let read = |text: &str| text.parse::<When>().map(|When(time)| time.to_string());
        assert_eq!(read("2026-05-01").unwrap(), "2026-05-01T00:00:00Z");
        assert_eq!(read("2026-05-01T02:00:00+02:00").unwrap(), "2026-05-01T00:00:00Z");
        for wrong in ["2026-13-01", "2026-05-1", "yesterday!", "2026-05-01T02:00:00", ""] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
