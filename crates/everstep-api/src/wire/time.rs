//! Times as clients see them: RFC 3339, UTC, microseconds.

use everstep_core::time::Timestamp;
use serde::{Serialize, Serializer};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Time(Timestamp);

impl Time {
    pub(crate) fn of(time: Timestamp) -> Self {
        Self(time)
    }

    /// A time that may never come.
    pub(crate) fn unless_never(time: Timestamp) -> Option<Self> {
        (time != Timestamp::NEVER).then_some(Self(time))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_six_digits_and_a_z() {
        let json = |time| serde_json::to_string(&Time::of(time)).unwrap();
        assert_eq!(json(Timestamp::EPOCH), r#""1970-01-01T00:00:00.000000Z""#);
        assert_eq!(json(Timestamp::from_micros(1_500_001)), r#""1970-01-01T00:00:01.500001Z""#);
        assert!(Time::unless_never(Timestamp::NEVER).is_none());
    }
}
