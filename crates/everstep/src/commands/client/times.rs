//! Times on the command line.

use everstep_core::time::Timestamp;

use crate::config::HumanDuration;

/// A time as the server reads it. `1h` is one hour before now; the server checks all other forms.
pub(super) fn read_time(given: &str, now: Timestamp) -> String {
    match given.parse::<HumanDuration>() {
        Ok(HumanDuration(span)) => {
            let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
            Timestamp::from_millis(now.millis().saturating_sub(millis).max(0)).to_string()
        }
        Err(_) => given.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_time_before_now() {
        let now = "2026-11-17T12:00:00Z".parse().unwrap();
        assert_eq!(read_time("90m", now), "2026-11-17T10:30:00Z");
        assert_eq!(read_time("99999999d", now), "1970-01-01T00:00:00Z");
        assert_eq!(read_time("2026-01-01T00:00:00Z", now), "2026-01-01T00:00:00Z");
    }
}
