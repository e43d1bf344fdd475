//! Reads the timers of a state and the run that it starts: `after` and `run`.

use std::time::Duration;

use serde_json::{Map, Value};

use super::Reader;
use super::values::is_template;
use crate::definition::{Fields, Problem, insert, name_of};
use crate::limits;
use crate::machine::model::{Action, After, AfterDue, AfterEffect, StateRun, TimerRepeat};
use crate::time::Timestamp;
use crate::workflow::is_name;

const DURATION_HINT: &str = "write for example \"30m\", \"4h\" or \"2d\"; the units are ms, s, m, h and d";
const TIME_HINT: &str = "write for example \"{{ctx.dueAt}}\" or \"2030-01-31T09:00:00Z\"";
const WORKFLOW_NAME_HINT: &str = "1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit";

/// The state that a timer belongs to.
#[derive(Clone, Copy)]
pub(super) struct TimerPlace<'a> {
    pub(super) state: u32,
    pub(super) actions: &'a [Action],
}

impl Reader<'_> {
    /// Reads the timers of a state, and their canonical form.
    pub(super) fn timers(&mut self, list: &[Value], path: &str, place: TimerPlace<'_>) -> (Vec<After>, Option<Value>) {
        self.check_count(list.len(), limits::STATE_TIMERS, path, "timers");
        let mut timers = Vec::new();
        let mut normal = Vec::new();
        for (number, value) in list.iter().enumerate().take(limits::STATE_TIMERS) {
            let read = self.timer(value, &format!("{path}/{number}"), place);
            let Some((timer, text)) = self.transition(read) else { continue };
            timers.push(timer);
            normal.push(text);
        }
        (timers, (!list.is_empty()).then(|| normal.into()))
    }

    fn timer(&mut self, value: &Value, path: &str, place: TimerPlace<'_>) -> Option<(After, Value)> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let delay = fields.any(&["in"]);
        let time = fields.any(&["at"]);
        let to = fields.text(&["to"]);
        let action = fields.text(&["do"]);
        let events = fields.list(&["events"]);
        let every = fields.any(&["every"]);
        let times = fields.number(&["times"], 1, u64::from(limits::TIMER_REPEATS));
        if every.is_some() && (to.is_some() || action.is_some()) {
            let hint = "remove `every`, or replace `to` and `do` by `events`";
            fields.problem("every", "a timer with `to` or `do` does not repeat", hint);
        }
        if times.is_some() && every.is_none() {
            fields.problem("times", "times has no effect without `every`", "remove it, or add every: \"1d\"");
        }
        match (delay, time) {
            (None, None) if every.is_some() => {}
            (None, None) => fields.missing(&["in", "at"], "a timer needs `in` or `at`", DURATION_HINT),
            (Some(_), Some(_)) => fields.problem("at", "a timer has either `in` or `at`", "keep one of them"),
            (Some(_), None) | (None, Some(_)) => {}
        }
        match (to, action) {
            (Some(_), Some(_)) => fields.problem("do", "a timer has either `to` or `do`", "keep one of them"),
            (None, None) if events.is_none_or(<[Value]>::is_empty) => {
                let hint = "write for example {\"in\": \"2d\", \"to\": \"escalated\"}";
                let others: &[&'static str] = if events.is_some() { &["to", "do"] } else { &["to", "do", "events"] };
                fields.missing(others, "a timer needs `to`, `do` or `events`", hint);
            }
            _ => {}
        }
        fields.finish();
        let every_read = every.and_then(|every| self.duration(every, &format!("{path}/every")));
        let times = times.and_then(|times| u32::try_from(times).ok());
        let repeat = every_read.map(|every| TimerRepeat { every, times: times.unwrap_or(limits::TIMER_REPEATS) });
        let due = match (delay, time) {
            (Some(delay), _) => self.duration(delay, &format!("{path}/in")).map(AfterDue::In),
            (None, Some(time)) => self.time(time, &format!("{path}/at")).map(AfterDue::At),
            // The first time is as long after the state was entered as each one after the one before it.
            (None, None) => every_read.map(AfterDue::In),
        };
        let (effect, states) = match (to, action) {
            (Some(to), _) => {
                let to = self.target(to, &format!("{path}/to"));
                (AfterEffect::To(to), vec![to])
            }
            (None, Some(name)) => {
                self.check_action(name, place.state, &format!("{path}/do"));
                let performed = place.actions.iter().find(|action| action.name == name);
                let branches = performed.map_or(&[][..], |action| &action.branches);
                (AfterEffect::Do(name.to_owned()), branches.iter().map(|branch| branch.to).collect())
            }
            (None, None) => (AfterEffect::None, vec![place.state]),
        };
        let (events, normal_events) = self.side_effects(events.unwrap_or_default(), &format!("{path}/events"), &states);
        let mut normal = Map::new();
        insert(&mut normal, "in", delay.cloned());
        insert(&mut normal, "at", time.cloned());
        insert(&mut normal, "to", to.map(Value::from));
        insert(&mut normal, "do", action.map(Value::from));
        insert(&mut normal, "events", normal_events);
        insert(&mut normal, "every", every.cloned());
        insert(&mut normal, "times", times.map(Value::from));
        if every.is_some() && every_read.is_none() {
            return None;
        }
        Some((After { due: due?, effect, events, repeat }, normal.into()))
    }

    fn duration(&mut self, value: &Value, path: &str) -> Option<Duration> {
        let (message, hint) = match value.as_str() {
            Some(text) if is_template(value) => {
                (format!("expected a fixed duration, found the expression {text:?}"), "compute the time in `at`")
            }
            Some(text) => match parse_duration(text) {
                Some(duration) => return Some(duration),
                None => {
                    let days = limits::TIMER_DAYS;
                    (format!("expected a duration from 1ms to {days}d, found {text:?}"), DURATION_HINT)
                }
            },
            None => (format!("expected a duration, found {}", name_of(value)), DURATION_HINT),
        };
        self.report(Problem::at(path, message).hint(hint));
        None
    }

    fn time(&mut self, value: &Value, path: &str) -> Option<Value> {
        if is_template(value) {
            self.check_template(value, path);
            return Some(value.clone());
        }
        let message = match value.as_str() {
            Some(text) if text.parse::<Timestamp>().is_ok() => return Some(value.clone()),
            Some(text) => format!("expected a time, found {text:?}"),
            None => format!("expected a time, found {}", name_of(value)),
        };
        self.report(Problem::at(path, message).hint(TIME_HINT));
        None
    }

    /// Reads the run that entering a state starts.
    pub(super) fn state_run(&mut self, value: &Value, path: &str) -> Option<(StateRun, Value)> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let workflow = fields.text(&["workflow"]);
        let version = fields.number(&["version"], 1, i32::MAX as u64);
        let input = fields.any(&["input"]);
        let save_as = fields.text(&["saveAs"]);
        let done = fields.text(&["done"]);
        let error = fields.text(&["error"]);
        match workflow {
            None => fields.missing(&["workflow"], "run needs the name of a workflow", WORKFLOW_NAME_HINT),
            Some(name) if !is_name(name) => {
                fields.problem("workflow", format!("{name:?} is not a valid name of a workflow"), WORKFLOW_NAME_HINT);
            }
            Some(_) => {}
        }
        if done.is_none() {
            let hint = "write for example \"charged\"; `error` names the state after a failed run";
            fields.missing(&["done"], "`run` needs `done`, the state after the run", hint);
        }
        fields.finish();
        if let Some(input) = input {
            self.check_template(input, &format!("{path}/input"));
        }
        if let Some(name) = save_as {
            self.check_written_field(name, &format!("{path}/saveAs"));
        }
        let target = done.map(|done| self.target(done, &format!("{path}/done")));
        let failed = error.map(|error| self.target(error, &format!("{path}/error")));
        let mut normal = Map::new();
        insert(&mut normal, "workflow", workflow.map(Value::from));
        insert(&mut normal, "version", version.map(Value::from));
        insert(&mut normal, "input", input.cloned());
        insert(&mut normal, "saveAs", save_as.map(Value::from));
        insert(&mut normal, "done", done.map(Value::from));
        insert(&mut normal, "error", error.map(Value::from));
        let run = StateRun {
            workflow: workflow?.to_owned(),
            version: version.map(|version| version as u32),
            input: input.cloned(),
            save_as: save_as.map(str::to_owned),
            done: target?,
            error: failed,
        };
        Some((run, normal.into()))
    }
}

/// A duration such as `30m`, from a millisecond to the longest timer.
fn parse_duration(text: &str) -> Option<Duration> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number: u64 = text[..text.len() - unit.len()].parse().ok()?;
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let total = number.checked_mul(millis)?;
    (1..=limits::TIMER_DAYS * 86_400_000).contains(&total).then(|| Duration::from_millis(total))
}
