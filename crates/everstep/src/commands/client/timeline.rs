//! The steps of a run on a line of time.

use std::time::Duration;

use everstep_core::time::Timestamp;
use serde_json::Value;

use crate::text;

/// Columns of the line of time.
const LINE_COLUMNS_MAX: usize = 60;
const LINE_COLUMNS_MIN: usize = 10;
/// Columns of everything before it, besides the step's name.
const PREFIX_COLUMNS: usize = 32;

struct Bar {
    name: String,
    status: String,
    attempts: usize,
    begin: Option<Timestamp>,
    end: Option<Timestamp>,
    note: String,
}

/// A line per step, within so many columns. A step without an end goes on until now, where the run does, else to the
/// last time that is known.
pub(super) fn draw(steps: &[Value], now: Option<Timestamp>, width: usize) -> Vec<String> {
    let bars: Vec<Bar> = steps.iter().map(Bar::from_step).collect();
    let begin = bars.iter().filter_map(|bar| bar.begin).min();
    let now = now.filter(|_| bars.iter().any(|bar| bar.begin.is_some() && bar.end.is_none()));
    let last = bars.iter().flat_map(|bar| [bar.begin, bar.end]).flatten().chain(now).max();
    let (Some(begin), Some(last)) = (begin, last) else { return Vec::new() };
    let names = bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0).clamp(4, 32);
    let columns = width.saturating_sub(names + PREFIX_COLUMNS).clamp(LINE_COLUMNS_MIN, LINE_COLUMNS_MAX);
    let mut lines = vec![format!("\n{:<names$}  {:<9} {:>3} {:>12}", "STEP", "STATUS", "TRY", "DURATION")];
    for bar in &bars {
        let name: String = bar.name.chars().take(names).collect();
        let (attempts, status) = (bar.attempts, &bar.status);
        let mut line = match bar.begin {
            None => format!("{name:<names$}  {status:<9}"),
            Some(from) => {
                let to = bar.end.unwrap_or(last);
                let duration = text::span(to.since(from));
                let drawn = draw_bar(begin, last, (from, to), columns, bar.end.is_some());
                format!("{name:<names$}  {status:<9} {attempts:>3} {duration:>12}  {drawn}")
            }
        };
        if !bar.note.is_empty() {
            line = format!("{}\n{:names$}  {}", line.trim_end(), "", bar.note);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

impl Bar {
    fn from_step(step: &Value) -> Self {
        let said = |name: &str| step[name].as_str().map(text::safe).unwrap_or_default();
        let time = |name: &str| step[name].as_str().and_then(|time| time.parse().ok());
        let attempts = step["attempts"].as_array().map_or(&[][..], Vec::as_slice);
        let error = attempts.last().map_or(&Value::Null, |attempt| &attempt["error"]);
        let note = match error["code"].as_str() {
            Some(code) => {
                format!("{}: {}", text::safe(code), text::safe(error["message"].as_str().unwrap_or_default()))
            }
            None => String::new(),
        };
        Self {
            name: said("key"),
            status: said("status"),
            attempts: attempts.len(),
            begin: time("startedAt"),
            end: time("endedAt"),
            note,
        }
    }
}

/// Where a step lies between the first and the last time.
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
    fn steps_stand_where_they_were() {
        let step = |key: &str, status: &str, begin: u64, end: Option<u64>| {
            let time = |second: u64| format!("2026-01-01T00:00:{second:02}.000000Z");
            json!({
                "key": key, "status": status, "attempts": [{"attempt": 1}],
                "startedAt": time(begin), "endedAt": end.map(time),
            })
        };
        let steps = [
            step("start", "completed", 0, Some(0)),
            step("fetch", "completed", 0, Some(5)),
            step("ask", "waiting", 5, None),
            json!({"key": "other", "status": "skipped", "attempts": [], "startedAt": null, "endedAt": null}),
            step("end", "failed", 10, Some(10)),
        ];
        let lines = draw(&steps, None, 47);
        assert_eq!(
            lines,
            [
                "\nSTEP   STATUS    TRY     DURATION",
                "start  completed   1         0 ms  █",
                "fetch  completed   1        5.0 s  ██████",
                "ask    waiting     1        5.0 s       ▒▒▒▒▒",
                "other  skipped",
                "end    failed      1         0 ms           █",
            ]
        );
        let now = "2026-01-01T00:00:25Z".parse().ok();
        assert_eq!(draw(&steps, now, 47)[3], "ask    waiting     1       20.0 s    ▒▒▒▒▒▒▒▒");
    }
}
