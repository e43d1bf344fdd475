//! Finds the run that a command names by the beginning of its id.

use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_engine::{Clock as _, SystemClock};
use everstep_net::Method;

use crate::exit::invalid;
use crate::remote::Remote;

/// The digits of a complete id, and the minimum number of digits of a prefix.
const ID_DIGITS: usize = 32;
const ID_DIGITS_MIN: usize = 4;
/// An id begins with the time of the run in milliseconds, in this many hexadecimal digits.
const TIME_DIGITS: usize = 12;
/// A run may be created a little later than its id: a child waits for a node, and the clocks of nodes differ.
const EARLIER: Duration = Duration::from_secs(60);
const LATER: Duration = Duration::from_secs(600);
/// The maximum number of runs of that time that are read.
const RUNS_READ_MAX: usize = 10_000;
const PAGE_SIZE: usize = 500;

/// The complete id of a run. `given` is an id or the beginning of one; the server refuses anything else.
pub(super) async fn find(remote: &Remote, given: &str) -> anyhow::Result<String> {
    let Some(digits) = beginning(given) else { return Ok(given.to_owned()) };
    let (since, until) = created(&digits, SystemClock::default().wall());
    let (mut found, mut read, mut cursor) = (None::<String>, 0, None::<String>);
    loop {
        let mut query = vec![("since", since.to_string()), ("until", until.to_string())];
        query.push(("limit", PAGE_SIZE.to_string()));
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let page = remote.ask(Method::GET, &Remote::path(&["v1", "runs"], &query), None).await?;
        let runs = page["runs"].as_array().map_or(&[][..], Vec::as_slice);
        read += runs.len();
        for id in runs.iter().filter_map(|run| run["id"].as_str()).filter(|id| is_beginning(&digits, id)) {
            if let Some(other) = &found {
                return Err(invalid(format!(
                    "several run ids begin with {given}, among them {other} and {id}; give more of the id"
                )));
            }
            found = Some(id.to_owned());
        }
        cursor = page["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
        if read >= RUNS_READ_MAX {
            return Err(invalid(format!("too many runs were created at the time of {given}; give the complete id")));
        }
    }
    found.ok_or_else(|| invalid(format!("no run has an id that begins with {given}; `everstep runs` lists them")))
}

/// The digits of a prefix of an id; none for a complete id and for any other text.
fn beginning(given: &str) -> Option<String> {
    let digits: String = given.chars().filter(|character| *character != '-').collect();
    let is_short = (ID_DIGITS_MIN..ID_DIGITS).contains(&digits.len());
    let is_hexadecimal = digits.chars().all(|character| character.is_ascii_hexdigit());
    (is_short && is_hexadecimal).then(|| digits.to_lowercase())
}

fn is_beginning(digits: &str, id: &str) -> bool {
    id.chars().filter(|character| *character != '-').collect::<String>().starts_with(digits)
}

/// The times between which a run with such an id was created.
fn created(digits: &str, now: Timestamp) -> (Timestamp, Timestamp) {
    let time = |fill: char| {
        let digits = digits.chars().chain(std::iter::repeat(fill)).take(TIME_DIGITS).collect::<String>();
        Timestamp::from_millis(i64::from_str_radix(&digits, 16).unwrap_or(i64::MAX / 1_000))
    };
    let latest = now.plus(LATER);
    let earlier = i64::try_from(EARLIER.as_millis()).unwrap_or(0);
    let since = Timestamp::from_millis((time('0').min(latest).millis() - earlier).max(0));
    (since, time('f').min(latest).plus(LATER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_a_time() {
        let now = "2026-11-17T12:00:00Z".parse().unwrap();
        let id = everstep_core::ids::RunId::new(now, 7).to_string();
        for digits in 4..36 {
            let digits = beginning(&id[..digits]).unwrap();
            let (since, until) = created(&digits, now);
            assert!(since < now && now < until, "{digits}: {since} {until}");
            assert!(is_beginning(&digits, &id));
        }
        // A time far in the future is not an error.
        let (since, until) = created("ffffffff", now);
        assert!(since <= until && until < now.plus(Duration::from_secs(3_600)), "{since} {until}");
        for given in [&*id, "", "019", "order-17", &id.replace('-', "")] {
            assert_eq!(beginning(given), None, "{given}");
        }
    }
}
