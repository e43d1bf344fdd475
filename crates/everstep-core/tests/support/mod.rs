//! Reads and plays decision texts: a workflow, inputs, and the journal that follows.
//!
//! The head is either a graph in short form or `json:` with a definition up to the first `>` line.
//! In short form `a -> b` is an edge, `a -error-> b` one with a handle, and `a: TYPE {…}` describes a node with all
//! its fields but id and type. Nodes that are only named have the type of their name (`start`, `end2`, `loop`, …)
//! or are acting no-ops.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use everstep_core::decide::decide;
use everstep_core::evaluate::Fault;
use everstep_core::event::{Dispatch, Entry, Event, Outcome};
use everstep_core::failure::Failure;
use everstep_core::graph::{self, Problem};
use everstep_core::ids::RunId;
use everstep_core::input::{Input, Reply};
use everstep_core::kinds::{KindInfo, Kinds};
use everstep_core::law;
use everstep_core::payload::Payload;
use everstep_core::state::State;
use everstep_core::time::Timestamp;
use everstep_core::workflow::{Style, Workflow};
use everstep_expressions::Expressions;
use serde_json::{Value, json};

/// The acting kinds of the tests: `noop` takes any config, `javascript` as the product's one.
pub struct TestKinds(Vec<KindInfo>);

impl TestKinds {
    pub fn new() -> Self {
        let noop = KindInfo { name: "noop".into(), ..KindInfo::default() };
        let javascript = KindInfo {
            name: "javascript".into(),
            output_variable: Some("jsResult".into()),
            raw_fields: vec!["code".into()],
            needs_context: true,
            timeout_seconds: 30,
            ..KindInfo::default()
        };
        Self(vec![noop, javascript])
    }
}

impl Kinds for TestKinds {
    fn find(&self, name: &str) -> Option<&KindInfo> {
        self.0.iter().find(|kind| kind.name == name)
    }

    fn check(&self, name: &str, config: &Value) -> Vec<Fault> {
        let is_empty = config.get("code").and_then(Value::as_str).is_none_or(|code| code.trim().is_empty());
        if name == "javascript" && is_empty {
            return vec![Fault { pointer: "/code".into(), message: "code is empty".into() }];
        }
        Vec::new()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|kind| kind.name.clone()).collect()
    }
}

pub fn compile(definition: &Value) -> Result<Workflow, Vec<Problem>> {
    let graph = graph::compile(definition, &TestKinds::new(), &Expressions::default())?;
    Ok(Workflow { name: "test".into(), version: 1, style: Style::Graph(graph) })
}

/// Plays a decision text and returns it with the journal that was really written.
pub fn play(text: &str) -> String {
    let (head, rest) = match text.find("\n>") {
        Some(at) => text.split_at(at + 1),
        None => (text, ""),
    };
    let mut out = head.to_owned();
    let workflow = match compile(&definition(head)) {
        Ok(workflow) => workflow,
        Err(problems) => {
            for problem in problems {
                writeln!(out, "! {} {}{}", problem.path, problem.message, hint(&problem)).unwrap();
            }
            return out;
        }
    };
    let mut game = Game::new(workflow);
    for line in rest.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            writeln!(out, "> {command}").unwrap();
            game.play(command, &mut out);
        } else if line.starts_with('#') || line.is_empty() {
            writeln!(out, "{line}").unwrap();
        }
    }
    out
}

fn hint(problem: &Problem) -> String {
    problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default()
}

pub struct Game {
    pub workflow: Workflow,
    pub state: State,
    pub journal: Vec<Entry>,
    pub now: Timestamp,
    evaluate: Expressions,
}

const BEGIN: Timestamp = Timestamp::from_millis(1_000_000);

impl Game {
    pub fn new(workflow: Workflow) -> Self {
        let run = RunId::new(BEGIN, 7);
        Self { workflow, state: State::new(run), journal: Vec::new(), now: BEGIN, evaluate: Expressions::default() }
    }

    /// Decides one input and everything that follows, checking the laws after every item.
    pub fn input(&mut self, input: Input) -> (Vec<Entry>, Reply) {
        let mut written = Vec::new();
        let decision = decide(&self.workflow, &mut self.state, input, self.now, &self.evaluate);
        let mut has_more = decision.has_more;
        self.take(decision.entries, has_more, &mut written);
        while has_more {
            let decision = decide(&self.workflow, &mut self.state, Input::Settle, self.now, &self.evaluate);
            has_more = decision.has_more;
            self.take(decision.entries, has_more, &mut written);
        }
        (written, decision.reply)
    }

    fn take(&mut self, entries: Vec<Entry>, has_more: bool, written: &mut Vec<Entry>) {
        self.journal.extend(entries.clone());
        written.extend(entries);
        // Checking folds the whole journal: long ones are checked now and then.
        if self.journal.len() < 2_000 || !has_more {
            let state = law::check(self.state.run, &self.workflow, &self.journal, &self.evaluate, has_more).unwrap();
            assert_eq!(state, self.state, "the fold of the journal is the state");
        }
    }

    fn play(&mut self, command: &str, out: &mut String) {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let (first, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        let json = |text: &str| -> Payload {
            if text.is_empty() { Payload::null() } else { Payload::from(serde_json::from_str::<Value>(text).unwrap()) }
        };
        let (step, attempt) = match first.split_once('#') {
            Some((step, attempt)) => (step, attempt.parse().unwrap()),
            None => (first, self.state.open().find(|open| open.step.as_str() == first).map_or(1, |open| open.attempt)),
        };
        let step = step.into();
        let inputs = match verb {
            "start" => {
                vec![Input::Start { input: if rest.is_empty() { Payload::from(json!({})) } else { json(rest) } }]
            }
            "done" => vec![Input::Result { step, attempt, result: Ok(Outcome::of(json(tail))), logs: vec![] }],
            "fail" | "fatal" => {
                let code = if tail.is_empty() { "BROKEN" } else { tail };
                let failure =
                    if verb == "fail" { Failure::transient(code, "no luck") } else { Failure::fatal(code, "no luck") };
                vec![Input::Result { step, attempt, result: Err(failure), logs: vec![] }]
            }
            "lost" => vec![Input::TaskLost { step, attempt }],
            "after" => {
                self.now = self.now.plus(Duration::from_millis(rest.parse().unwrap()));
                self.state.due(self.now).into_iter().map(|(step, attempt)| Input::Timer { step, attempt }).collect()
            }
            "signal" => vec![Input::Signal { event: first.into(), payload: json(tail) }],
            "set" => vec![Input::SetContext { values: json(rest) }],
            "pause" => vec![Input::Pause { reason: None }],
            "resume" => {
                let mut inputs = vec![Input::Resume];
                inputs
                    .extend(self.state.due(self.now).into_iter().map(|(step, attempt)| Input::Timer { step, attempt }));
                inputs
            }
            "cancel" => vec![Input::Cancel { reason: None }],
            "retry" => vec![Input::Retry],
            "settle" => vec![Input::Settle],
            "status" => {
                writeln!(out, "  {}", self.state.status()).unwrap();
                vec![]
            }
            _ => panic!("unknown command {command:?}"),
        };
        for input in inputs {
            let (entries, reply) = self.input(input);
            for entry in entries {
                writeln!(out, "{} {}", entry.seq, show(&entry.event)).unwrap();
            }
            match reply {
                Reply::Accepted => {}
                Reply::Ignored(why) => writeln!(out, "  ignored: {why}").unwrap(),
                Reply::Refused { code, .. } => writeln!(out, "  refused: {code}").unwrap(),
            }
        }
    }
}

fn show(event: &Event) -> String {
    let number = |attempt: u32| if attempt > 1 { format!(" #{attempt}") } else { String::new() };
    let after = |due: Timestamp| format!("{} ms", due.since(BEGIN).as_millis());
    match event {
        Event::RunStarted { .. } => "started".into(),
        Event::StepDispatched { step, attempt, dispatch } => {
            let what = match dispatch {
                Dispatch::Task | Dispatch::Instant => String::new(),
                Dispatch::Delay { due } => format!(" until {}", after(*due)),
                Dispatch::Wait { event, due, .. } => {
                    format!(" for {event}{}", due.map(|due| format!(" until {}", after(due))).unwrap_or_default())
                }
                Dispatch::Body { items } => format!(" over {}", items.len()),
            };
            format!("dispatched {step}{}{what}", number(*attempt))
        }
        Event::StepCompleted { step, attempt, outcome } => {
            let by = outcome.handle.as_ref().map(|handle| format!(" by {handle}")).unwrap_or_default();
            let output = outcome.output.json();
            let hidden = output == "null" || output.contains("completedAt") || output.contains("inputReceived");
            let output = if hidden || output.len() > 100 { String::new() } else { format!(" = {output}") };
            format!("completed {step}{}{by}{output}", number(*attempt))
        }
        Event::StepFailed { step, attempt, failure, .. } => {
            format!("failed {step}{} {}", number(*attempt), failure.code)
        }
        Event::StepSkipped { step } => format!("skipped {step}"),
        Event::TimerSet { step, due, .. } => format!("timer {step} at {}", after(*due)),
        Event::TimerFired { step, .. } => format!("fired {step}"),
        Event::ContextSet { values } => format!("set {}", values.json()),
        Event::RunPaused { .. } => "paused".into(),
        Event::RunResumed => "resumed".into(),
        Event::RunRetried => "retried".into(),
        Event::RunCompleted { output } => format!("run completed = {}", output.json()),
        Event::RunFailed { failure, .. } => format!("run failed {}", failure.code),
        Event::RunCancelled { .. } => "run cancelled".into(),
    }
}

/// The definition that a head describes.
pub fn definition(head: &str) -> Value {
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
        _ => ("noop", json!({})),
    };
    json!({"id": name, "type": kind, "config": config})
}
