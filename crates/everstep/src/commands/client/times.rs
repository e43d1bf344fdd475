//! Times on the command line.

use everstep_core::time::Timestamp;

use crate::config::HumanDuration;
use crate::exit::invalid;

/// A time as the server reads it: `1h` is one hour before now. All other forms are those of the server: a time, or a
/// day.
pub(super) fn read_time(flag: &str, given: &str, now: Timestamp) -> anyhow::Result<String> {
    if let Ok(HumanDuration(span)) = given.parse() {
        let millis = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        return Ok(Timestamp::from_millis(now.millis().saturating_sub(millis).max(0)).to_string());
    }
    let is_time = |text: &str| text.parse::<Timestamp>().is_ok();
    if is_time(given) || is_time(&format!("{given}T00:00:00Z")) {
        return Ok(given.to_owned());
    }
    Err(invalid(format!(
        "{flag} is {given:?}; write 1h for one hour ago (or 90s, 15m, 7d), a time such as 2026-01-01T00:00:00Z, or a \
         day such as 2026-01-01"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_time_before_now() {
        let now = "2026-11-17T12:00:00Z".parse().unwrap();
        let read = |given: &str| read_time("--since", given, now).map_err(|error| error.to_string());
        assert_eq!(read("90m").unwrap(), "2026-11-17T10:30:00Z");
        assert_eq!(read("99999999d").unwrap(), "1970-01-01T00:00:00Z");
        for given in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00+02:00", "2026-01-01"] {
            assert_eq!(read(given).unwrap(), given);
        }
        for given in ["1x", "yesterday", "", "2026-13-01", "2026-01-01T00:00:00"] {
            let error = read(given).unwrap_err();
            assert!(error.starts_with(&format!("--since is {given:?}; write 1h for one hour ago")), "{error}");
        }
    }
}
