//! Reads and plays decision texts: a workflow, inputs, and the journal that follows.
//!
//! The head is a graph in short form, `json:` with a definition up to the first `>` line, or `code`. In short form `a
//! -> b` is an edge, `a -error-> b` one with a handle, and `a: TYPE {…}` describes a node with all its fields except id
//! and type. Nodes that are only named have the type of their name (`start`, `end2`, `loop`, …), run a workflow
//! (`call`) or are no-op tasks. An input may have a key: `key k1 signal go`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::graph::Problem;
use everstep_core::ids::{EventId, RunId, StepKey};
use everstep_core::journal::{Cause, Dispatch, Event, Outcome, Resolution};
use everstep_core::limits;
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::task;
use everstep_core::run::{Input, OpenActivity, Parent, Reply};
use everstep_core::time::Timestamp;
use everstep_core::topics::{EventRef, Trigger, TriggerKind};
use serde_json::{Value, json};

use super::code::{code, known, payload, report};
use super::{Game, compile, people};

/// Plays a decision text and returns it with the journal that was written.
pub(crate) fn play(text: &str) -> String {
    let (head, rest) = match text.find("\n>") {
        Some(at) => text.split_at(at + 1),
        None => (text, ""),
    };
    let mut out = head.to_owned();
    let workflow = match if is_code(head) { Ok(code()) } else { compile(&definition(head)) } {
        Ok(workflow) => workflow,
        Err(problems) => {
            for problem in problems {
                writeln!(out, "! {} {}{}", problem.path, problem.message, hint(&problem)).unwrap();
            }
            return out;
        }
    };
    let mut player = Player { game: Game::new(workflow), out };
    for line in rest.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            player.say(line);
            player.play(command);
        } else if line.starts_with('#') || line.is_empty() {
            player.say(line);
        }
    }
    player.out
}

/// Whether a head describes no graph.
pub(crate) fn is_code(head: &str) -> bool {
    head.lines().any(|line| line == "code")
}

fn hint(problem: &Problem) -> String {
    problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default()
}

struct Player {
    game: Game,
    out: String,
}

impl Player {
    /// A run that is unrelated to this one, or its parent.
    const STRANGER: RunId = RunId::from_uuid(uuid::Uuid::from_u128(99));

    fn say(&mut self, line: impl std::fmt::Display) {
        writeln!(self.out, "{line}").unwrap();
    }

    fn play(&mut self, command: &str) {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        match verb {
            "status" | "why" | "context" | "output" | "open" | "version" | "task" | "known" => {
                return self.show(verb, rest);
            }
            "state" | "votes" | "assigned" | "waits" | "actions" | "evaluate" | "reads" | "history" => {
                let text = people::show(&self.game, verb, rest);
                return self.say(format_args!("  {text}"));
            }
            // Moves the clock and leaves the timers alone.
            "later" => return self.pass(rest),
            "after" => self.pass(rest),
            // `fork 4` continues from the fourth entry, as another run.
            "fork" => self.game = self.game.fork(rest.parse().unwrap()),
            _ => {}
        }
        // `key k1 cancel` is a cancellation under the key k1.
        let (key, verb, rest) = match (verb, rest.split_once(' ')) {
            ("key", Some((key, command))) => {
                let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
                (Some(key), verb, rest)
            }
            _ => (None, verb, rest),
        };
        for input in self.inputs(verb, rest) {
            let (entries, reply) = self.game.keyed(input, key);
            for entry in entries {
                let key = entry.key.as_ref().map(|key| format!(" under {key}")).unwrap_or_default();
                self.say(format_args!("{} {}{key}", entry.seq, show(&entry.event)));
            }
            for (run, message) in std::mem::take(&mut self.game.sent_inputs) {
                self.say(format_args!("  {}", self.describe_input(run, &message)));
            }
            for letter in std::mem::take(&mut self.game.dead_letters) {
                let step = letter.step.as_ref().map(StepKey::as_str).unwrap_or_default();
                let codes: Vec<_> = letter.attempts.iter().map(|attempt| attempt.code.as_str()).collect();
                self.say(format_args!("  dead letter {step} to {}: {}", letter.target, codes.join(" ")));
            }
            match reply {
                Reply::Accepted | Reply::Buffered => {}
                Reply::Applied(applied) => self.say(format_args!("  {}", people::show_applied(&applied))),
                Reply::Repeated => self.say("  repeated"),
                Reply::Ignored(why) => self.say(format_args!("  ignored: {why}")),
                reply @ Reply::Refused { .. } => self.say(format_args!("  {}", people::show_refused(&reply))),
            }
        }
    }

    /// An input for another run. Runs are named by their relation to this one.
    fn describe_input(&self, run: RunId, message: &Input) -> String {
        let plain = |text: &str| text.replace(&self.game.state.run.to_string(), "R");
        match message {
            Input::Cancel { reason } => {
                let (step, attempt) = self.game.family.name(run).unwrap();
                let reason = reason.as_deref().unwrap_or_default();
                format!("to the child of {step}{}: cancel, {}", number(attempt), plain(reason))
            }
            Input::ChildEnded { result: Ok(output), .. } => format!("to the parent: completed = {}", output.json()),
            Input::ChildEnded { result: Err(failure), .. } => {
                let again = if failure.retryable { ", again" } else { "" };
                format!("to the parent: {}{again}", plain(&failure.to_string()))
            }
            other => panic!("no run sends {other:?} to another run"),
        }
    }

    fn pass(&mut self, millis: &str) {
        self.game.now = self.game.now.plus(Duration::from_millis(millis.parse().unwrap()));
    }

    fn due(&self) -> Vec<Input> {
        let due = self.game.state.due(self.game.now);
        due.into_iter().map(|(step, attempt)| Input::Timer { step, attempt }).collect()
    }

    fn inputs(&self, verb: &str, rest: &str) -> Vec<Input> {
        let (first, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        let (step, attempt) = match first.split_once('#') {
            Some((step, attempt)) => (step, attempt.parse().unwrap()),
            None => {
                let open = self.game.state.open().find(|open| open.step.as_str() == first);
                (first, open.map_or(1, |open| open.attempt))
            }
        };
        let step = step.into();
        let child = self.game.family.find(&step, attempt).unwrap_or(Self::STRANGER);
        vec![match verb {
            "start" if first == "as" => {
                // The parent waits for `start as child {…}` and not for `start as stray {…}`; `deep` has the maximum
                // number of ancestors.
                let (role, input) = tail.split_once(' ').unwrap_or((tail, "{}"));
                let (waits, depth) = (role != "stray", if role == "deep" { limits::CHILD_DEPTH } else { 1 });
                let parent = Parent { run: Self::STRANGER, step: "call".into(), attempt: 1, waits, depth };
                Input::Start { input: read(input), cause: Some(parent.into()) }
            }
            // `start by ann {…}` names the starter.
            "start" if first == "by" => {
                let (who, input) = tail.split_once(' ').unwrap_or((tail, "{}"));
                Input::Start { input: read(input), cause: Some(people::actor(who).into()) }
            }
            // `start on 31 {…}` is a start by an event of that depth.
            "start" if first == "on" => {
                let (depth, input) = tail.split_once(' ').unwrap_or((tail, "{}"));
                let trigger = Trigger {
                    kind: TriggerKind::Event,
                    id: "e1".into(),
                    topic: Some("user.signup".into()),
                    subscription: None,
                    source: Some("shop".into()),
                    depth: depth.parse().unwrap(),
                    scheduled_for: None,
                };
                Input::Start {
                    input: read(input),
                    cause: Some(Cause { trigger: Some(trigger.into()), ..Cause::default() }),
                }
            }
            "start" if rest.is_empty() => Input::Start { input: Payload::from(json!({})), cause: None },
            "start" => Input::Start { input: read(rest), cause: None },
            "done" => {
                let outcome = match tail.strip_prefix("by ") {
                    Some(tail) => {
                        let (handle, output) = tail.split_once(' ').unwrap_or((tail, ""));
                        Outcome::from_output(read(output)).by(handle)
                    }
                    None => Outcome::from_output(read(tail)),
                };
                Input::Result { step, attempt, result: Ok(outcome), logs: vec![] }
            }
            "fail" | "fatal" => {
                let code = if tail.is_empty() { "BROKEN" } else { tail };
                let failure =
                    if verb == "fail" { Failure::transient(code, "no luck") } else { Failure::fatal(code, "no luck") };
                Input::Result { step, attempt, result: Err(failure), logs: vec![] }
            }
            "ended" => Input::ChildEnded { step, attempt, child, result: Ok(read(tail)) },
            "broke" | "died" => {
                let code = if tail.is_empty() { "BROKEN" } else { tail };
                let failure =
                    if verb == "broke" { Failure::transient(code, "no luck") } else { Failure::fatal(code, "no luck") };
                Input::ChildEnded { step, attempt, child, result: Err(failure) }
            }
            "stranger" => Input::ChildEnded { step, attempt, child: Self::STRANGER, result: Ok(read(tail)) },
            "there" => Input::ChildStarted { step, attempt, child },
            "lost" => Input::TaskLost { step, attempt },
            "timer" => Input::Timer { step, attempt },
            "after" => return self.due(),
            "signal" => Input::Signal { event: first.into(), payload: read(tail) },
            // `event 7 order.paid {…}` is the event with the number 7.
            "event" => {
                let (topic, data) = tail.split_once(' ').unwrap_or((tail, ""));
                let id = EventId::new(Game::BEGIN, first.parse().unwrap());
                let event = EventRef { id, topic: topic.into(), source: "shop".into(), at: self.game.now };
                Input::Event { event, data: read(data) }
            }
            "buffered" => Input::BufferedSignal { event: first.into(), payload: read(tail) },
            "turn" => Input::BeginTurn { worker: first.into() },
            "lose" => Input::LoseTurn { turn: first.parse().unwrap() },
            "report" => Input::Report { turn: first.parse().unwrap(), report: Box::new(report(tail)) },
            "act" => Input::Transition(Box::new(people::act(&self.game, first, tail))),
            "assign" => Input::Assign(Box::new(people::assignment(first, tail))),
            "set" => Input::SetContext { values: read(rest) },
            "pause" => Input::Pause { reason: None },
            "resume" => return std::iter::once(Input::Resume).chain(self.due()).collect(),
            "cancel" => Input::Cancel { reason: None },
            "retry" => Input::Retry,
            "broken" => Input::Fail { failure: Failure::fatal("STORE_REFUSED", "no luck") },
            "settle" | "fork" => Input::Settle,
            _ => panic!("unknown command {verb:?}"),
        }]
    }

    /// Shows a part of the state.
    fn show(&mut self, verb: &str, rest: &str) {
        let Game { workflow, state, evaluate, .. } = &self.game;
        let text = match verb {
            "status" if rest.is_empty() => state.status().to_string(),
            "status" => state.step_status(workflow, &rest.into()).map_or("none".into(), |status| status.to_string()),
            "why" => state.failure().map_or("nothing".into(), ToString::to_string),
            "context" => state.context(workflow).json().to_owned(),
            "output" => state.output().map_or("none".into(), |output| output.json().to_owned()),
            "version" => state.seq.to_string(),
            "known" => known(state),
            "open" => {
                let open = state.open().map(|open| match open.activity {
                    OpenActivity::Task => format!("{} #{}", open.step, open.attempt),
                    OpenActivity::Wait { event, .. } => format!("{} for {event}", open.step),
                    OpenActivity::Child(child) => format!("{} #{} runs {}", open.step, open.attempt, child.workflow),
                    OpenActivity::Delay { .. }
                    | OpenActivity::Backoff { .. }
                    | OpenActivity::Body { .. }
                    | OpenActivity::Soon => open.step.to_string(),
                });
                open.collect::<Vec<_>>().join(", ")
            }
            _ => match task::describe(workflow, state, &rest.into(), evaluate, &Meter::new()) {
                Ok(task) => format!("{} {} {}", task.kind, task.config, task.context.json()),
                Err(failure) => failure.to_string(),
            },
        };
        self.say(format_args!("  {text}"));
    }
}

fn read(text: &str) -> Payload {
    if text.is_empty() { Payload::null() } else { payload(text) }
}

fn number(attempt: u32) -> String {
    if attempt > 1 { format!(" #{attempt}") } else { String::new() }
}

/// A time before or after the beginning of the game.
fn looks_back(since: Timestamp) -> String {
    format!("{} ms", since.millis() - Game::BEGIN.millis())
}

fn show(event: &Event) -> String {
    let after = |due: Timestamp| format!("{} ms", due.since(Game::BEGIN).as_millis());
    match event {
        Event::RunStarted { .. } => "started".into(),
        Event::StepDispatched { step, attempt, dispatch } => {
            let what = match dispatch {
                Dispatch::Task | Dispatch::Instant => String::new(),
                Dispatch::Publish => " to publish".into(),
                Dispatch::Delay { due } => format!(" until {}", after(*due)),
                Dispatch::Wait { event, pattern, due, since } => {
                    let until = due.map(|due| format!(" until {}", after(due))).unwrap_or_default();
                    let since = since.map(|since| format!(" since {}", looks_back(since))).unwrap_or_default();
                    format!(" for {event} {}{until}{since}", pattern.json())
                }
                Dispatch::Child(child) => {
                    let verb = if child.waits { "runs" } else { "starts" };
                    let version = child.version.map(|version| format!(" {version}")).unwrap_or_default();
                    let until = child.due.map(|due| format!(" until {}", after(due))).unwrap_or_default();
                    let input = if child.input.size() > 100 { "…" } else { child.input.json() };
                    format!(" {verb} {}{version} {input}{until}", child.workflow)
                }
                Dispatch::Body { items } => format!(" over {}", items.len()),
                Dispatch::Delivery(delivery) => {
                    let config = delivery.config.value();
                    let payload = &config["delivery"]["data"]["payload"];
                    match delivery.is_task() {
                        true => format!(" to {} with {}", config["target"], config.get("template").unwrap_or(payload)),
                        false => format!(" starts {} {}", config["workflow"], config["input"]),
                    }
                }
            };
            format!("dispatched {step}{}{what}", number(*attempt))
        }
        Event::StepCompleted { step, attempt, outcome } => {
            let by = outcome.handle.as_ref().map(|handle| format!(" by {handle}")).unwrap_or_default();
            let output = outcome.output.json();
            let hidden =
                output == "null" || ["completedAt", "inputReceived", "runId"].iter().any(|w| output.contains(w));
            let output = if hidden || output.len() > 100 { String::new() } else { format!(" = {output}") };
            let event = outcome.event.as_ref().map(|event| format!(" of {}", event.topic)).unwrap_or_default();
            let published = outcome.published.as_ref().map(|published| {
                let id = published.id.as_ref().map(|id| format!(" as {id}")).unwrap_or_default();
                format!(" publishes {} {}{id}", published.topic, published.data.json())
            });
            let output = if published.is_some() { String::new() } else { output };
            format!("completed {step}{}{by}{output}{event}{}", number(*attempt), published.unwrap_or_default())
        }
        Event::StepFailed { step, attempt, failure, .. } => {
            format!("failed {step}{} {}", number(*attempt), failure.code)
        }
        Event::StepSkipped { step } => format!("skipped {step}"),
        Event::TimerSet { step, attempt, due, why } => {
            format!("timer {step}{} at {} to {}", number(*attempt), after(*due), why.as_str())
        }
        Event::TimerFired { step, attempt } => format!("fired {step}{}", number(*attempt)),
        Event::WaitOpened { step, event, pattern, due, since, .. } => {
            let event = event.as_ref().map(|event| format!(" for {event}")).unwrap_or_default();
            let until = due.map(|due| format!(" until {}", after(due))).unwrap_or_default();
            let since = since.map(|since| format!(" since {}", looks_back(since))).unwrap_or_default();
            format!("waits {step}{event} {}{until}{since}", pattern.json())
        }
        Event::WaitResolved { step, by, .. } => match by {
            Resolution::Signal { event, payload, buffered } => {
                let kept = buffered.map(|seq| format!(" kept at {seq}")).unwrap_or_default();
                format!("resolved {step} by {event} {}{kept}", payload.json())
            }
            Resolution::Timeout => format!("resolved {step} by timeout"),
            Resolution::Event { event, data } => {
                format!("resolved {step} by the event {} {}", event.topic, data.json())
            }
        },
        Event::SignalBuffered { event, payload, .. } => format!("buffered {event} {}", payload.json()),
        Event::TurnStarted { turn, worker } => format!("turn {turn} at {worker}"),
        Event::TurnLost { turn } => format!("lost turn {turn}"),
        Event::TransitionApplied(applied) => people::show_transition(applied),
        Event::VoteCast(vote) => people::show_vote(vote),
        Event::Assigned(assigned) => people::show_assigned(assigned),
        Event::ContextSet { values } => format!("set {}", values.json()),
        Event::RunPaused { .. } => "paused".into(),
        Event::RunResumed => "resumed".into(),
        Event::RunRetried => "retried".into(),
        Event::RunCompleted { output, unawaited } => {
            format!("run completed = {}{}", output.json(), not_awaited(unawaited))
        }
        Event::RunFailed { failure, step, stack, unawaited } => {
            let at = step.as_ref().map(|step| format!(" at {step}")).unwrap_or_default();
            let stack = if stack.is_some() { " with a stack" } else { "" };
            format!("run failed {}{at}{stack}{}", failure.code, not_awaited(unawaited))
        }
        Event::RunCancelled { .. } => "run cancelled".into(),
    }
}

fn not_awaited(steps: &[StepKey]) -> String {
    if steps.is_empty() {
        return String::new();
    }
    format!(" without awaiting {}", steps.iter().map(StepKey::as_str).collect::<Vec<_>>().join(", "))
}

/// The definition that a head describes.
pub(crate) fn definition(head: &str) -> Value {
    if let Some(at) = head.find("json:") {
        return serde_json::from_str(&head[at + 5..]).unwrap();
    }
    let mut nodes = BTreeMap::<String, Value>::new();
    let mut edges = Vec::new();
    for line in head.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_edge = words.get(1).is_some_and(|word| word.starts_with('-') && word.ends_with("->"));
        if is_edge {
            for window in words.windows(3).step_by(2) {
                let [from, arrow, to] = window else { continue };
                let handle = arrow.strip_suffix("->").unwrap_or(arrow).trim_start_matches('-');
                for name in [from, to] {
                    nodes.entry((*name).to_owned()).or_insert_with(|| by_name(name));
                }
                let mut edge = json!({"source": from, "target": to});
                if !handle.is_empty() {
                    edge["sourceHandle"] = handle.into();
                }
                edges.push(edge);
            }
        } else if let Some((id, text)) = line.split_once(':') {
            let (kind, fields) = text.trim().split_once(' ').unwrap_or((text.trim(), "{}"));
            let mut node: Value = serde_json::from_str(fields).unwrap();
            node["id"] = id.into();
            node["type"] = kind.into();
            nodes.insert(id.to_owned(), node);
        } else {
            panic!("neither an edge nor a node: {line:?}");
        }
    }
    json!({"nodes": nodes.into_values().collect::<Vec<_>>(), "edges": edges})
}

fn by_name(name: &str) -> Value {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let (kind, config) = match stem {
        "start" | "end" | "scope" => (stem, json!({})),
        "loop" => (stem, json!({"sourceVariable": "{{ctx.input.items}}"})),
        "delay" => (stem, json!({"delaySeconds": 5})),
        "wait" => (stem, json!({"event": "go"})),
        "call" => ("workflow", json!({"workflow": "other"})),
        _ => ("noop", json!({})),
    };
    json!({"id": name, "type": kind, "config": config})
}
