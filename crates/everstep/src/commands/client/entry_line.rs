//! One entry of a journal as text.

use serde_json::Value;

use crate::text;

/// Characters of an input, an output or a payload that a line shows.
const DATA_CHARS_MAX: usize = 100;
/// Columns before the description.
const INDENT: usize = 2;

/// An entry as the server sends it: seq, time, kind, step and data. A stack trace has its own lines.
pub(super) fn draw(entry: &Value) -> String {
    let said = |name: &str| entry[name].as_str().map(text::safe).unwrap_or_default();
    let attempt = entry["attempt"].as_u64().filter(|attempt| *attempt > 1);
    let attempt = attempt.map(|attempt| format!("#{attempt}")).unwrap_or_default();
    let time = text::time(entry["at"].as_str().unwrap_or_default());
    let head = format!("{:>5}  {time}  {:<14} {}{attempt}", entry["seq"].to_string(), said("event"), said("step"));
    let mut lines = describe(&entry["data"]).into_iter();
    let first = lines.next().unwrap_or_default();
    let rest = lines.map(|line| format!("\n{:INDENT$}{line}", ""));
    format!("{}{}", format!("{head}  {first}").trim_end(), rest.collect::<String>())
}

/// The data of an entry as text. Only errors have several lines.
fn describe(data: &Value) -> Vec<String> {
    let error = if data["error"].is_null() { &data["reason"] } else { &data["error"] };
    if let Some(message) = error["message"].as_str() {
        let code = error["code"].as_str().unwrap_or_default();
        let stack = error["stack"].as_str().map(|stack| format!("\n{stack}")).unwrap_or_default();
        return text::safe_lines(&format!("{code}: {message}{stack}")).collect();
    }
    let mut words = Vec::new();
    for name in [
        "action", "from", "to", "kind", "by", "event", "handle", "worker", "why", "reason", "comment", "workflow",
        "run",
    ] {
        words.extend(data[name].as_str().map(|word| format!("{name} {}", text::safe(word))));
    }
    words.extend(data["turn"].as_u64().map(|turn| format!("turn {turn}")));
    for name in ["due", "until"] {
        words.extend(data[name].as_str().map(|time| format!("{name} {}", text::time(time))));
    }
    for name in ["match", "input", "output", "payload", "values"] {
        let value = &data[name];
        let is_shown = !value.is_null() && *value != serde_json::json!({});
        words.extend(is_shown.then(|| format!("{name} {}", excerpt(value))));
    }
    words.extend(data["items"].as_array().map(|items| text::count(items.len(), "item")));
    words.extend(data["unreadable"].as_str().map(text::safe));
    vec![words.join(", ")]
}

fn excerpt(value: &Value) -> String {
    let json = value.to_string();
    let cut = if json.chars().count() > DATA_CHARS_MAX { "…" } else { "" };
    text::safe(&json.chars().take(DATA_CHARS_MAX).collect::<String>()) + cut
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_a_line_and_a_stack_trace_has_its_own_lines() {
        let entry = |event: &str, data: Value| {
            json!({
                "seq": 7, "at": "2026-11-17T06:26:48.857074Z", "event": event, "step": "pay", "attempt": 2, "data": data,
            })
        };
        assert_eq!(
            draw(&entry("StepFailed", json!({"error": {"code": "E", "message": "no\n    at f (a.ts:1)"}}))),
            "    7  2026-11-17T06:26:48.857Z  StepFailed     pay#2  E: no\n      at f (a.ts:1)"
        );
        let wait = json!({"kind": "wait", "event": "paid", "match": {"order": 7}, "due": null});
        assert_eq!(
            draw(&entry("StepDispatched", wait)),
            r#"    7  2026-11-17T06:26:48.857Z  StepDispatched pay#2  kind wait, event paid, match {"order":7}"#
        );
        let long = draw(&entry("StepCompleted", json!({"output": "x".repeat(500)})));
        assert!(long.ends_with("x…") && long.len() < 200, "{long}");
        let start = json!({"seq": 1, "at": "2026-11-17T06:26:48Z", "event": "RunResumed", "data": {}});
        assert_eq!(draw(&start), "    1  2026-11-17T06:26:48.000Z  RunResumed");
    }
}
