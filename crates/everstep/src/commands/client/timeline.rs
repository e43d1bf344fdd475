//! The steps of a run on a timeline.

use std::time::Duration;

use everstep_core::time::Timestamp;
use serde_json::Value;

use crate::text;

/// Columns of the timeline.
const LINE_COLUMNS_MAX: usize = 60;
const LINE_COLUMNS_MIN: usize = 10;
/// Columns of everything before it, except the step's name.
const PREFIX_COLUMNS: usize = 52;

struct Bar {
    name: String,
    status: String,
    attempts: usize,
    seq: Option<u64>,
    begin: Option<Timestamp>,
    end: Option<Timestamp>,
    /// Lines below the step: lost attempts, and why the last attempt failed.
    notes: Vec<String>,
}

/// A line per step, within a number of columns. A step without an end lasts until now if the run has not ended, and
/// otherwise until the last known time.
pub(super) fn draw(steps: &[Value], now: Option<Timestamp>, width: usize) -> Vec<String> {
    let bars: Vec<Bar> = steps.iter().map(Bar::from_step).collect();
    let begin = bars.iter().filter_map(|bar| bar.begin).min();
    let now = now.filter(|_| bars.iter().any(|bar| bar.begin.is_some() && bar.end.is_none()));
    let last = bars.iter().flat_map(|bar| [bar.begin, bar.end]).flatten().chain(now).max();
    let (Some(begin), Some(last)) = (begin, last) else { return Vec::new() };
    let names = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0).clamp(4, 32);
    let columns = width.saturating_sub(names + PREFIX_COLUMNS).clamp(LINE_COLUMNS_MIN, LINE_COLUMNS_MAX);
    let mut lines = vec![format!(
        "\n{:<names$}  {:<9} {:>3} {:>6}  {:<12} {:>12}",
        "STEP", "STATUS", "TRY", "SEQ", "START", "DURATION"
    )];
    for bar in &bars {
        let name: String = bar.name.chars().take(names).collect();
        let (attempts, status) = (bar.attempts, &bar.status);
        let seq = bar.seq.map(|seq| seq.to_string()).unwrap_or_default();
        let line = match bar.begin {
            None => format!("{name:<names$}  {status:<9} {:>3} {seq:>6}", ""),
            Some(from) => {
                let to = bar.end.unwrap_or(last);
                let (start, duration) = (time_of_day(from), text::exact_span(to.since(from)));
                let drawn = draw_bar(begin, last, (from, to), columns, bar.end.is_some());
                format!("{name:<names$}  {status:<9} {attempts:>3} {seq:>6}  {start:<12} {duration:>12}  {drawn}")
            }
        };
        lines.push(line.trim_end().to_owned());
        lines.extend(bar.notes.iter().map(|note| format!("{:names$}  {note}", "")));
    }
    lines
}

impl Bar {
    fn from_step(step: &Value) -> Self {
        let said = |name: &str| step[name].as_str().map(text::safe).unwrap_or_default();
        let time = |name: &str| step[name].as_str().and_then(|time| time.parse().ok());
        let attempts = step["attempts"].as_array().map_or(&[][..], Vec::as_slice);
        let mut notes = lost(attempts);
        let error = attempts.last().map_or(&Value::Null, |attempt| &attempt["error"]);
        if !error.is_null() {
            notes.extend(text::safe_lines(&describe_error(error)));
        }
        Self {
            name: said("key"),
            status: said("status"),
            attempts: attempts.len(),
            seq: step["seq"].as_u64(),
            begin: time("startedAt"),
            end: time("endedAt"),
            notes,
        }
    }
}

/// An error of the server's answer, with its stack trace if it has one.
pub(super) fn describe_error(error: &Value) -> String {
    let [code, message] = [&error["code"], &error["message"]].map(|value| value.as_str().unwrap_or_default());
    let stack = error["stack"].as_str().map(|stack| format!("\n{stack}")).unwrap_or_default();
    format!("{code}: {message}{stack}")
}

/// The attempts that were lost with their process, so that the step was started again.
fn lost(attempts: &[Value]) -> Vec<String> {
    let is_lost = |pair: &&[Value]| pair[0]["status"] == "cancelled";
    let lost = attempts.windows(2).filter(is_lost);
    lost.map(|pair| {
        let at = |attempt: &Value, name: &str| text::time(attempt[name].as_str().unwrap_or_default());
        let (lost, again) = (at(&pair[0], "dispatchedAt"), at(&pair[1], "dispatchedAt"));
        format!("attempt {} of {lost} was lost; the step was started again at {again}", pair[0]["attempt"])
    })
    .collect()
}

/// The time of day to the millisecond.
fn time_of_day(time: Timestamp) -> String {
    let time = format!("{time:.3}");
    time.split_once('T').map_or(&*time, |(_, time)| time.trim_end_matches('Z')).to_owned()
}

/// The bar of a step between the first and the last time.
fn draw_bar(
    begin: Timestamp,
    last: Timestamp,
    (from, to): (Timestamp, Timestamp),
    columns: usize,
    is_over: bool,
) -> String {
    let whole = last.since(begin).max(Duration::from_micros(1)).as_secs_f64();
    let column = |time: Timestamp| {
        let part = time.since(begin).as_secs_f64() / whole;
        ((part * columns as f64) as usize).min(columns - 1)
    };
    let (from, to) = (column(from), column(to));
    let mark = if is_over { "█" } else { "▒" };
    format!("{}{}", " ".repeat(from), mark.repeat(to - from + 1))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn steps_are_drawn_at_their_times() {
        let step = |key: &str, status: &str, begin: u64, end: Option<u64>| {
            let time = |second: u64| format!("2026-01-01T00:00:{second:02}.000000Z");
            json!({
                "key": key, "status": status, "attempts": [{"attempt": 1}], "seq": 2 * end.unwrap_or(3),
                "startedAt": time(begin), "endedAt": end.map(time),
            })
        };
        let steps = [
            step("start", "completed", 0, Some(0)),
            step("fetch", "completed", 0, Some(5)),
            step("ask", "waiting", 5, None),
            json!({"key": "other", "status": "skipped", "attempts": [], "seq": 9, "startedAt": null, "endedAt": null}),
            step("end", "failed", 10, Some(10)),
        ];
        let lines = draw(&steps, None, 67);
        assert_eq!(
            lines,
            [
                "\nSTEP   STATUS    TRY    SEQ  START            DURATION",
                "start  completed   1      0  00:00:00.000         0 ms  █",
                "fetch  completed   1     10  00:00:00.000      5.000 s  ██████",
                "ask    waiting     1      6  00:00:05.000      5.000 s       ▒▒▒▒▒",
                "other  skipped            9",
                "end    failed      1     20  00:00:10.000         0 ms           █",
            ]
        );
        let now = "2026-01-01T00:00:25Z".parse().ok();
        assert_eq!(draw(&steps, now, 67)[3], "ask    waiting     1      6  00:00:05.000     20.000 s    ▒▒▒▒▒▒▒▒");
    }

    #[test]
    fn lost_attempts_and_stack_traces_have_lines_of_their_own() {
        let time = |second: u64| format!("2026-01-01T00:00:{second:02}.000000Z");
        let attempts = json!([
            {"attempt": 1, "status": "cancelled", "dispatchedAt": time(0), "endedAt": time(4)},
            {"attempt": 2, "status": "failed", "dispatchedAt": time(4), "endedAt": time(5),
                "error": {"code": "E", "message": "no\n  at f (a.ts:1)\u{1b}[2J"}},
        ]);
        let step = json!({"key": "pay", "status": "failed", "attempts": attempts, "seq": 5,
            "startedAt": time(0), "endedAt": time(5)});
        let lines = draw(&[step], None, 67);
        assert_eq!(
            lines[2..],
            [
                "      attempt 1 of 2026-01-01T00:00:00.000Z was lost; the step was started again at 2026-01-01T00:00:04.000Z",
                "      E: no",
                "        at f (a.ts:1)\\u{1b}[2J",
            ]
        );
    }
}
