//! Dates and times as texts. PostgreSQL counts them from the first day of the year 2000.

use std::fmt::Write as _;

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;
/// Days from the first of March of the year 0 to the first of January 2000.
const DAYS_TO_2000: i64 = 730_425;

/// Microseconds as RFC 3339, followed by `zone`.
pub(super) fn timestamp(micros: i64, zone: &str) -> String {
    match micros {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        _ => format!("{}T{}{zone}", day(micros.div_euclid(MICROS_PER_DAY)), time(micros.rem_euclid(MICROS_PER_DAY))),
    }
}

pub(super) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        _ => day(days.into()),
    }
}

pub(super) fn time(micros: i64) -> String {
    let (seconds, fraction) = (micros / MICROS_PER_SECOND, micros % MICROS_PER_SECOND);
    let mut text = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        let _ = write!(text, ".{fraction:06}");
    }
    text
}

/// The zone is counted in seconds west of Greenwich.
pub(super) fn time_with_zone(micros: i64, west: i32) -> String {
    let sign = if west > 0 { '-' } else { '+' };
    let away = west.unsigned_abs();
    format!("{}{sign}{:02}:{:02}", time(micros), away / 3600, away / 60 % 60)
}

/// As ISO 8601: `P1Y2M3DT4H5M6.5S`.
pub(super) fn interval(micros: i64, days: i32, months: i32) -> String {
    let mut text = String::from("P");
    let mut part = |amount: i64, unit: &str| {
        if amount != 0 {
            let _ = write!(text, "{amount}{unit}");
        }
    };
    part((months / 12).into(), "Y");
    part((months % 12).into(), "M");
    part(days.into(), "D");
    if micros != 0 {
        text.push('T');
        let mut part = |amount: i64, unit: &str| {
            if amount != 0 {
                let _ = write!(text, "{amount}{unit}");
            }
        };
        part(micros / (3600 * MICROS_PER_SECOND), "H");
        part(micros / (60 * MICROS_PER_SECOND) % 60, "M");
        let (seconds, fraction) = (micros / MICROS_PER_SECOND % 60, micros % MICROS_PER_SECOND);
        if seconds != 0 || fraction != 0 {
            let sign = if micros < 0 { "-" } else { "" };
            let _ = write!(text, "{sign}{}", seconds.abs());
            if fraction != 0 {
                let _ = write!(text, ".{}", format!("{:06}", fraction.abs()).trim_end_matches('0'));
            }
            text.push('S');
        }
    }
    if text == "P" { "PT0S".to_owned() } else { text }
}

/// The date this many days after the first day of the year 2000. Years are counted from March: the leap day comes last.
fn day(days: i64) -> String {
    let days = days + DAYS_TO_2000;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if (0..=9999).contains(&year) {
        format!("{year:04}-{month:02}-{day:02}")
    } else {
        format!("{year:+07}-{month:02}-{day:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, text) in [
            (0, "2000-01-01"),
            (59, "2000-02-29"),
            (60, "2000-03-01"),
            (365, "2000-12-31"),
            (-1, "1999-12-31"),
            (-10_957, "1970-01-01"),
            (9_190, "2025-02-28"),
            (9_191, "2025-03-01"),
            (-730_119, "0001-01-01"),
            (2_921_939, "9999-12-31"),
            (2_921_940, "+010000-01-01"),
        ] {
            assert_eq!(date(days), text);
        }
        assert_eq!(date(i32::MAX), "infinity");
    }

    #[test]
    fn times_have_their_fraction_only_if_there_is_one() {
        assert_eq!(timestamp(0, "Z"), "2000-01-01T00:00:00Z");
        assert_eq!(timestamp(-1, "Z"), "1999-12-31T23:59:59.999999Z");
        assert_eq!(time_with_zone(3_600 * MICROS_PER_SECOND, -19_800), "01:00:00+05:30");
        assert_eq!(
            interval(4 * 3600 * MICROS_PER_SECOND + 5 * 60 * MICROS_PER_SECOND + 6_500_000, 3, 14),
            "P1Y2M3DT4H5M6.5S"
        );
        assert_eq!(interval(-500_000, 0, 0), "PT-0.5S");
        assert_eq!(interval(0, 0, 0), "PT0S");
    }
}
