//! Reads the figures of periods.

use axum::Json;
use axum::extract::State;
use everstep_core::time::Timestamp;
use everstep_store::{RunStats, StatsQuery, minute_of};

use super::wire::{Stats, StatsBucket};
use crate::auth::Caller;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

/// The lengths of periods, in minutes.
const EVERY: &[(&str, i64)] = &[("1m", 1), ("5m", 5), ("1h", 60), ("1d", 1_440)];
const EVERY_WORDS: &[&str] = &["1m", "5m", "1h", "1d"];
const BUCKETS_MAX: i64 = 1_500;
const MINUTE_MICROS: i64 = 60_000_000;

pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter::time(
        "since",
        "The beginning of the time range; an hour before `until` by default. The period that contains it is included.",
    ),
    Parameter::time("until", "The end of the time range; now by default."),
    Parameter::choice("every", EVERY_WORDS, "The length of a period; a minute by default."),
    Parameter::text("workflow", "Figures of this workflow; of all by default."),
];

pub(crate) async fn get(State(app): State<AppState>, caller: Caller, query: Query) -> Result<Json<Stats>, Problem> {
    let word = query.word("every", EVERY_WORDS)?.unwrap_or("1m");
    let every = EVERY.iter().find(|(known, _)| *known == word).map_or(1, |(_, minutes)| *minutes);
    let now = app.engine.world().clock.now();
    let until = query.time("until")?.unwrap_or(now);
    let since = query.time("since")?.unwrap_or(Timestamp::from_micros(until.micros() - 60 * MINUTE_MICROS));
    if since >= until {
        return Err(Problem::invalid("since must be before until"));
    }
    let (begin, count) = periods(since, until, every);
    if count > BUCKETS_MAX {
        return Err(too_many(since, until, count));
    }
    let workflow = query.text("workflow").map(str::to_owned);
    if workflow.as_deref().is_some_and(|name| name.contains('\0')) {
        return Err(Problem::invalid("workflow contains a NUL character"));
    }
    let asked = StatsQuery { since: begin, until: begin + count * every, every, workflow };
    let mut found = app.engine.run_stats(caller.workspace, asked).await?.into_iter().peekable();
    let none = RunStats::default();
    let mut buckets = Vec::new();
    for number in 0..count {
        let at = Timestamp::from_micros((begin + number * every).saturating_mul(MINUTE_MICROS));
        let stats = found.next_if(|(period, _)| i64::try_from(*period) == Ok(number));
        buckets.push(StatsBucket::new(at, stats.as_ref().map_or(&none, |(_, stats)| stats)));
    }
    Ok(Json(Stats { buckets }))
}

/// The first minute of the first period, and the number of periods.
fn periods(since: Timestamp, until: Timestamp, every: i64) -> (i64, i64) {
    let begin = minute_of(since).div_euclid(every) * every;
    // The last microsecond before the end.
    let last = minute_of(Timestamp::from_micros(until.micros() - 1)).div_euclid(every) * every;
    (begin, (last - begin) / every + 1)
}

fn too_many(since: Timestamp, until: Timestamp, count: i64) -> Problem {
    let fitting = EVERY.iter().find(|(_, every)| periods(since, until, *every).1 <= BUCKETS_MAX);
    let hint = match fitting {
        Some((word, _)) => format!("the shortest period that fits is every={word}"),
        None => "figures are kept for 35 days; request a shorter time".to_owned(),
    };
    Problem::invalid(format!("the request has {count} periods, and the maximum is {BUCKETS_MAX}")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_at_full_hours_and_days() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (begin, count) = periods(at("2026-05-01T00:10:30Z"), at("2026-05-01T03:00:00Z"), 60);
        assert_eq!((begin, count), (minute_of(at("2026-05-01T00:00:00Z")), 3));
        let (_, count) = periods(at("2026-05-01T00:00:00Z"), at("2026-05-01T00:00:00.000001Z"), 1);
        assert_eq!(count, 1);
        let (_, count) = periods(at("2026-05-01T00:00:00Z"), at("2026-05-31T00:00:00Z"), 1_440);
        assert_eq!(count, 30);
    }
}
