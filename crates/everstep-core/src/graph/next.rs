//! The events that follow from the state of a graph's run.
//!
//! When does a node run?
//!
//! 1. An edge is settled when its source is settled: it is live if the source completed with that handle, and dead
//!    otherwise. All edges of a skipped node are dead. The `error` edge of a failed node is live, its other edges are
//!    dead.
//! 2. A node with `joinMode: all` is decided when every edge into it is settled; with `any`, at the first live edge, or
//!    when all edges are dead. Later live edges change nothing.
//! 3. A node that is decided with a live edge is dispatched; a node that is decided without one is skipped.
//! 4. There is exactly one dispatch per activation.
//! 5. The run ends when no step is open: it is completed if it reached an end node and none with an error status, and
//!    failed otherwise. `end {terminate: true}` ends it at once.
//! 6. A failure that is not handled fails the iteration around it, or the run.
//!
//! These events depend only on settled steps, so every replay computes the same events.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::call;
use super::condition;
use super::control::DELAY_MAX;
use super::model::{Delay, Loop, Node, NodeKind, Publish, WaitSince};
use super::path::{ScopePath, StepPath};
use super::progress::Stage;
use super::repeat::Ready;
use super::run::GraphRun;
use super::scope_context::ScopeContext;
use crate::evaluate::Lookup;
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::journal::{Dispatch, Event, Outcome, TimerPurpose};
use crate::payload::Payload;
use crate::retry;
use crate::run::{Activity, Cx, State};
use crate::time::Timestamp;
use crate::topics::{self, Publication};

/// The events that follow from the state alone; empty when nothing is ready.
pub(crate) fn next(run: GraphRun<'_>, cx: Cx<'_>) -> Vec<Event> {
    let GraphRun { graph, state, progress, .. } = run;
    if let Some((step, failure)) = progress.unhandled.as_deref() {
        return vec![Event::run_failed(failure.clone(), Some(step.clone()))];
    }
    if let Some(step) = state.open.first_todo() {
        return again(run, step, cx);
    }
    if progress.ends.terminated {
        return vec![end(run)];
    }
    if let Some(step_path) = progress.agenda.first() {
        let node = graph.node(step_path.node);
        return match progress.repeats.get(step_path).and_then(|repeat| repeat.ready(node)) {
            Some(ready) => go_on(run, step_path, ready, cx),
            None => activate(run, step_path, cx),
        };
    }
    if state.open.is_empty() {
        return vec![end(run)];
    }
    Vec::new()
}

/// Sets the timer of a failed attempt, or dispatches a step again.
fn again(run: GraphRun<'_>, step: &StepKey, cx: Cx<'_>) -> Vec<Event> {
    let open = run.state.open.get(step).expect("only open steps are retried");
    let attempt = open.attempt;
    let step_path = StepPath::find(run.graph, step).expect("open steps are part of the workflow");
    if open.activity != Activity::Failed {
        return begin(run, &step_path, attempt + 1, cx);
    }
    let policy = &run.graph.node(step_path.node).retry;
    let seed = retry::seed(run.state.run.uuid().as_u128(), step.as_str(), attempt);
    let asked = u64::from(open.retry_after_ms.unwrap_or(0)).min(policy.max_ms);
    let delay = policy.delay(open.failures, seed).max(Duration::from_millis(asked));
    let why = TimerPurpose::Retry;
    vec![Event::TimerSet { step: step.clone(), attempt, due: cx.now.plus(delay), why }]
}

/// Applies rule 3 to one decided node.
fn activate(run: GraphRun<'_>, step_path: &StepPath, cx: Cx<'_>) -> Vec<Event> {
    let graph = run.graph;
    let is_live = run.progress.cell(graph, step_path).is_some_and(|cell| cell.live_in > 0);
    if !is_live && !matches!(graph.node(step_path.node).kind, NodeKind::Start) {
        return vec![Event::StepSkipped { step: step_path.key(graph) }];
    }
    begin(run, step_path, 1, cx)
}

/// Dispatches a step. A step that the core performs itself is completed at once.
fn begin(run: GraphRun<'_>, step_path: &StepPath, attempt: u32, cx: Cx<'_>) -> Vec<Event> {
    let node = run.graph.node(step_path.node);
    let step = step_path.key(run.graph);
    let context = ScopeContext::new(run, &step_path.path);
    let dispatched = |dispatch| Event::StepDispatched { step: step.clone(), attempt, dispatch };
    match perform(&node.kind, &step, attempt, run.state, &context, cx) {
        Ok(Performed::Dispatch(dispatch)) => vec![dispatched(dispatch)],
        Ok(Performed::Done(outcome)) => {
            vec![dispatched(Dispatch::Instant), Event::StepCompleted { step: step.clone(), attempt, outcome }]
        }
        Err(failure) => vec![dispatched(Dispatch::Instant), Event::failed(step.clone(), attempt, failure)],
    }
}

enum Performed {
    Dispatch(Dispatch),
    Done(Outcome),
}

fn perform(
    kind: &NodeKind,
    step: &StepKey,
    attempt: u32,
    state: &State,
    context: &ScopeContext<'_>,
    cx: Cx<'_>,
) -> Result<Performed, Failure> {
    let now = cx.now;
    let done = |value: Value| Ok(Performed::Done(Outcome::from_output(value)));
    match kind {
        NodeKind::Start => done(json!({"started": true, "inputReceived": state.input.value()})),
        NodeKind::End { parameters, is_error, .. } => {
            let mut output = Map::new();
            for (name, source) in parameters {
                output.insert(name.clone(), cx.resolve(source, context)?);
            }
            let status = if *is_error { "error" } else { "success" };
            done(json!({"status": status, "workflowOutput": output, "completedAt": now.to_string()}))
        }
        NodeKind::Condition { branches, default } => {
            let branch = condition::choose(branches, context, cx)?.unwrap_or(default);
            Ok(Performed::Done(Outcome::from_output(json!({"branch": branch})).by(branch)))
        }
        NodeKind::Transform { value } => done(cx.resolve(value, context)?),
        NodeKind::Delay(delay) => Ok(Performed::Dispatch(Dispatch::Delay { due: due(delay, context, cx)? })),
        NodeKind::Wait { event, pattern, timeout, since, .. } => {
            let event = cx.resolve(event, context)?;
            let Some(event) = event.as_str().filter(|event| !event.is_empty()) else {
                return Err(Failure::fatal(
                    code::INVALID_CONFIG,
                    format!("the `event` of a wait must be a name, and {event} is not"),
                ));
            };
            Ok(Performed::Dispatch(Dispatch::Wait {
                event: event.to_owned(),
                pattern: cx.resolve(pattern, context)?.into(),
                due: timeout.map(|timeout| now.plus(timeout)),
                since: since.map(|since| looks_back_to(since, state, now)),
            }))
        }
        NodeKind::Publish(config) => {
            let publication = publication(config, context, cx)?;
            topics::publish(publication, (step, attempt), state, now).map(Performed::Done)
        }
        NodeKind::Workflow(call) => {
            let child = call::child(call, step, attempt, state, context, cx)?;
            Ok(Performed::Dispatch(Dispatch::Child(child)))
        }
        NodeKind::Loop(config) => Ok(Performed::Dispatch(Dispatch::Body { items: items(config, context, cx)? })),
        NodeKind::Scope => Ok(Performed::Dispatch(Dispatch::Body { items: vec![Payload::null()] })),
        NodeKind::Task { .. } => Ok(Performed::Dispatch(Dispatch::Task)),
    }
}

/// The time from which on a wait accepts events.
fn looks_back_to(since: WaitSince, state: &State, now: Timestamp) -> Timestamp {
    match since {
        WaitSince::Start => state.started_at,
        WaitSince::Ago(length) => {
            let micros = i64::try_from(length.as_micros()).unwrap_or(i64::MAX);
            Timestamp::from_micros(now.micros().saturating_sub(micros)).max(Timestamp::EPOCH)
        }
    }
}

/// The event that a node publishes.
fn publication(config: &Publish, context: &dyn Lookup, cx: Cx<'_>) -> Result<Publication, Failure> {
    let text = |field: &str, template: &Value| match cx.resolve(template, context)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        other => {
            let message = format!("the `{field}` of a published event must be a text, and {other} is not");
            Err(Failure::fatal(code::INVALID_CONFIG, message))
        }
    };
    Ok(Publication {
        topic: text("topic", &config.topic)?,
        data: cx.resolve(&config.data, context)?.into(),
        id: config.id.as_ref().map(|id| text("id", id)).transpose()?,
        subject: config.subject.as_ref().map(|subject| text("subject", subject)).transpose()?,
    })
}

/// The items of a loop: an array as it is, no items for null, one item for any other value.
fn items(config: &Loop, context: &dyn Lookup, cx: Cx<'_>) -> Result<Vec<Payload>, Failure> {
    let items = match cx.resolve(&config.source, context)? {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        item => vec![item],
    };
    if items.len() > config.max_iterations as usize {
        return Err(Failure::fatal(
            code::TOO_MANY_ITEMS,
            format!("the loop has {} items, more than maxIterations ({})", items.len(), config.max_iterations),
        ));
    }
    Ok(items.into_iter().map(Payload::from).collect())
}

fn due(delay: &Delay, context: &dyn Lookup, cx: Cx<'_>) -> Result<Timestamp, Failure> {
    let now = cx.now;
    let invalid = |message: String| Failure::fatal(code::INVALID_CONFIG, message);
    let due = match delay {
        Delay::Fixed(length) => now.plus(*length),
        Delay::Dynamic(source) => {
            let value = cx.resolve(source, context)?;
            let millis = match &value {
                Value::Number(number) => number.as_f64(),
                Value::String(text) => text.trim().parse().ok(),
                _ => None,
            };
            let millis = millis.filter(|millis: &f64| *millis >= 0.0 && millis.is_finite());
            let millis = millis
                .ok_or_else(|| invalid(format!("delayVariable is {value}, which is not a number of milliseconds")))?;
            now.plus(Duration::from_micros((millis * 1_000.0) as u64))
        }
        Delay::Until(source) => {
            let value = cx.resolve(source, context)?;
            let time = value.as_str().and_then(|text| text.parse().ok());
            let time: Timestamp =
                time.ok_or_else(|| invalid(format!("untilTime is {value}, which is not an RFC 3339 time")))?;
            time.max(now)
        }
    };
    if due > now.plus(DELAY_MAX) {
        return Err(invalid(format!("a delay is at most 24 hours; this one would end at {due}")));
    }
    Ok(due)
}

/// The events that are ready at a loop or scope in progress.
fn go_on(run: GraphRun<'_>, step_path: &StepPath, ready: Ready, cx: Cx<'_>) -> Vec<Event> {
    let graph = run.graph;
    let node = graph.node(step_path.node);
    let step = step_path.key(graph);
    let attempt = run.state.open.get(&step).map_or(1, |open| open.attempt);
    let repeat = &run.progress.repeats[step_path];
    match ready {
        Ready::Fail => {
            let failure = repeat.failed.as_ref().map(|(item, failure)| fail_with(node, *item, failure));
            let failure = failure.expect("a repeat fails only after an item failed");
            vec![Event::failed(step, attempt, failure)]
        }
        Ready::Finish => {
            let results = repeat.results.iter().map(|result| result.clone().unwrap_or_default());
            let output = match node.kind {
                NodeKind::Scope => results.into_iter().next().unwrap_or_default(),
                _ => join(results),
            };
            vec![Event::StepCompleted { step, attempt, outcome: Outcome::from_output(output) }]
        }
        Ready::SetPace => {
            let pace = if let NodeKind::Loop(config) = &node.kind { config.pace } else { Duration::ZERO };
            vec![Event::TimerSet { step, attempt, due: cx.now.plus(pace), why: TimerPurpose::Pace }]
        }
        Ready::Begin => {
            // One entry node is enough: its dispatch opens the scope of the iteration, and the agenda then contains the
            // others.
            let path = step_path.path.inside(step_path.node, repeat.next);
            let entry = StepPath { path, node: graph.first_entry(node.body.expect("a repeat has a body")) };
            begin(run, &entry, 1, cx)
        }
    }
}

/// The results as one array, assembled from their JSON texts.
fn join(results: impl Iterator<Item = Payload>) -> Payload {
    let mut text = String::from("[");
    for result in results {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(result.json());
    }
    text.push(']');
    Payload::from_json(text).expect("an array of JSON texts is JSON")
}

fn fail_with(node: &Node, item: u32, failure: &Failure) -> Failure {
    match node.kind {
        NodeKind::Scope => Failure { retryable: false, ..failure.clone() },
        _ => Failure::fatal(code::ITEM_FAILED, format!("item {item} failed: {failure}")),
    }
}

fn end(run: GraphRun<'_>) -> Event {
    let ends = &run.progress.ends;
    if let Some(step) = &ends.error {
        let failure =
            Failure::fatal(code::END_ERROR, format!("the run reached the end node {step}, whose status is an error"));
        return Event::run_failed(failure, Some(step.clone()));
    }
    if ends.reached == 0 {
        let failure = Failure::fatal(code::END_NOT_REACHED, why_not_reached(run));
        return Event::run_failed(failure, None);
    }
    Event::run_completed(Payload::from(Value::Object(ends.output.clone())))
}

fn why_not_reached(run: GraphRun<'_>) -> String {
    let mut failed = Vec::new();
    let mut taken = Vec::new();
    let scope = run.progress.scopes.get(&ScopePath::default());
    for node in run.graph.nodes.iter().filter(|node| node.home == 0) {
        let Some(cell) = scope.and_then(|scope| scope.cells.get(node.slot as usize)) else { continue };
        match (&node.kind, cell.stage) {
            (_, Stage::Failed) => failed.push(node.id.as_str()),
            (NodeKind::Condition { .. }, Stage::Completed) => {
                let branch = cell.output.as_ref().and_then(|output| output.value().get("branch")?.as_str());
                taken.push(format!("{} took the handle {:?}", node.id, branch.unwrap_or_default()));
            }
            (NodeKind::Wait { is_approval, .. }, Stage::Completed) => {
                let says = |field: &str| cell.output.as_ref().and_then(|output| output.value().get(field)?.as_bool());
                taken.extend((says("timeout") == Some(true)).then(|| format!("{} timed out", node.id)));
                let is_rejected = *is_approval && says("approved") == Some(false);
                taken.extend(is_rejected.then(|| format!("{} was rejected", node.id)));
            }
            _ => {}
        }
    }
    let mut reason = "no end node was reached: every path to one was skipped".to_owned();
    if !taken.is_empty() {
        reason += &format!("; {}", taken[..taken.len().min(5)].join(", "));
    }
    if !failed.is_empty() {
        reason += &format!("; failed: {}", failed[..failed.len().min(5)].join(", "));
    }
    reason
}
