//! Random workflows that are valid by construction.

use serde_json::{Value, json};

use super::events;
use super::machines;
use super::ops;
use super::random::SeededRng;

/// An edge without a target: a node and its handle.
type Exit = (String, &'static str);

struct Maker<'a> {
    random: &'a mut SeededRng,
    nodes: Vec<Value>,
    edges: Vec<Value>,
    budget: usize,
    is_brief: bool,
    /// Whether nodes read and write records and links.
    has_records: bool,
    /// Whether nodes publish events and wait for them.
    has_events: bool,
    /// The workflows that it may call; none for one that others call.
    callees: &'a [String],
}

/// What is in the graphs of a simulation.
#[derive(Clone, Copy)]
pub(super) struct GraphOptions {
    /// Nothing lasts longer than a few seconds.
    pub(super) is_brief: bool,
    /// Nodes read and write records and links.
    pub(super) has_records: bool,
    /// Nodes publish events and wait for them.
    pub(super) has_events: bool,
}

/// The name of the workflow that others call.
pub(super) const CHILD: &str = "child";

/// A definition with up to about twenty nodes: tasks, pure nodes, delays, waits, child runs, branches, joins, loops and
/// scopes.
pub(super) fn make(random: &mut SeededRng, options: GraphOptions, callees: &[String]) -> Value {
    let budget = random.between(3, if options.is_brief { 12 } else { 20 }) as usize;
    build(Maker::new(random, options, budget, callees))
}

/// A small definition that others call. It calls no others.
pub(super) fn make_child(random: &mut SeededRng, options: GraphOptions) -> Value {
    build(Maker::new(random, options, 3, &[]))
}

fn build(mut maker: Maker<'_>) -> Value {
    let start = maker.node("start", "start", json!({}));
    let mut exits = vec![(start, "output")];
    for _ in 0..maker.random.between(1, 4) {
        let (entry, next) = maker.block(0);
        maker.connect(&exits, &entry);
        exits = next;
    }
    let end = maker.node("end", "end", json!({}));
    maker.connect(&exits, &end);
    json!({"nodes": maker.nodes, "edges": maker.edges})
}

impl<'a> Maker<'a> {
    fn new(random: &'a mut SeededRng, options: GraphOptions, budget: usize, callees: &'a [String]) -> Self {
        let GraphOptions { is_brief, has_records, has_events } = options;
        Self { random, nodes: Vec::new(), edges: Vec::new(), budget, is_brief, has_records, has_events, callees }
    }

    fn node(&mut self, stem: &str, kind: &str, config: Value) -> String {
        let id = format!("{stem}{}", self.nodes.len());
        let mut node = json!({"id": id, "type": kind});
        node["config"] = config;
        self.nodes.push(node);
        self.budget = self.budget.saturating_sub(1);
        id
    }

    fn last(&mut self) -> &mut Value {
        self.nodes.last_mut().expect("a node was just added")
    }

    fn connect(&mut self, exits: &[Exit], to: &str) {
        for (from, handle) in exits {
            self.edges.push(json!({"source": from, "target": to, "sourceHandle": handle}));
        }
    }

    /// A part of a graph with one entry.
    fn block(&mut self, depth: usize) -> (String, Vec<Exit>) {
        let choice = if self.budget == 0 || depth > 3 { self.random.below(40) } else { self.random.below(108) };
        match choice {
            0..40 if self.has_records && self.random.chance(70) => self.op(),
            0..40 => self.task(),
            100..108 if !self.callees.is_empty() => self.call(),
            40..46 if self.has_events && self.random.chance(60) => self.publish(),
            40..46 => {
                let id = self.node("make", "transform", json!({"value": {"at": "{{meta.workflow}}"}}));
                (id.clone(), vec![(id, "success")])
            }
            46..56 => self.delay(),
            56..66 => self.wait(depth),
            66..74 => self.condition(depth),
            74..86 => self.fork(depth),
            86..95 => self.repeat(depth),
            _ => self.scope(depth),
        }
    }

    fn task(&mut self) -> (String, Vec<Exit>) {
        let id = self.node("act", "act", json!({}));
        let attempts = self.random.between(1, 3);
        let is_final = self.random.chance(10);
        self.last()["retry"] = json!({"maxAttempts": attempts, "baseMs": 100, "jitter": 0.5});
        if is_final {
            self.last()["errorHandling"] = "fail_workflow".into();
        }
        let mut exits = vec![(id.clone(), "success")];
        if self.random.chance(60) {
            exits.push((id.clone(), "error"));
        }
        (id, exits)
    }

    /// A node that reads or writes records and links.
    fn op(&mut self) -> (String, Vec<Exit>) {
        let (stem, kind, config) = ops::make(self.random);
        let id = self.node(&stem, kind, config);
        let attempts = self.random.between(1, 3);
        self.last()["retry"] = json!({"maxAttempts": attempts, "baseMs": 100, "jitter": 0.5});
        if self.random.chance(40) {
            self.last()["timeoutSeconds"] = self.random.between(1, 2).into();
        }
        let mut exits = vec![(id.clone(), "success")];
        if self.random.chance(70) {
            exits.push((id.clone(), "error"));
        }
        (id, exits)
    }

    fn delay(&mut self) -> (String, Vec<Exit>) {
        // Short delays stay in memory, long ones park the run.
        let config = match self.random.below(3) {
            0 => json!({"delayMs": self.random.between(0, 900)}),
            _ if self.is_brief => json!({"delaySeconds": self.random.between(1, 6)}),
            1 => json!({"delaySeconds": self.random.between(1, 25)}),
            _ => json!({"delayMinutes": self.random.between(1, 3)}),
        };
        let id = self.node("delay", "delay", config);
        (id.clone(), vec![(id, "output")])
    }

    fn wait(&mut self, depth: usize) -> (String, Vec<Exit>) {
        if self.has_events && self.random.chance(60) {
            return self.event_wait();
        }
        // A person repeats the signal; an inbox signal arrives once.
        let is_inbox_signal = depth == 0 && self.random.chance(50);
        let id = self.node("wait", "wait", json!({"event": if is_inbox_signal { "inbox" } else { "person" }}));
        let mut exits = vec![(id.clone(), "success")];
        if self.random.chance(if is_inbox_signal { 30 } else { 50 }) {
            self.last()["timeoutSeconds"] = self.random.between(1, if self.is_brief { 6 } else { 90 }).into();
            exits.push((id.clone(), "timeout"));
        }
        (id, exits)
    }

    /// A wait for a published event.
    fn event_wait(&mut self) -> (String, Vec<Exit>) {
        let config = events::wait_config(self.random);
        let id = self.node("event", "wait", config);
        let mut exits = vec![(id.clone(), "success")];
        if self.random.chance(30) {
            self.last()["timeoutSeconds"] = self.random.between(1, if self.is_brief { 6 } else { 90 }).into();
            exits.push((id.clone(), "timeout"));
        }
        (id, exits)
    }

    fn publish(&mut self) -> (String, Vec<Exit>) {
        let config = events::publish_config(self.random);
        let id = self.node("publish", "publish", config);
        (id.clone(), vec![(id, "success")])
    }

    fn call(&mut self) -> (String, Vec<Exit>) {
        let waits = self.random.chance(80);
        let callee = match self.callees {
            [only] => only,
            several => self.random.pick(several),
        };
        let mut input = machines::context();
        input["n"] = "{{ctx.input.n}}".into();
        input["items"] = json!([1, 2]);
        let id = self.node("call", "workflow", json!({"workflow": callee, "wait": waits, "input": input}));
        let attempts = self.random.between(1, 3);
        self.last()["retry"] = json!({"maxAttempts": attempts, "baseMs": 100, "jitter": 0.5});
        if waits && self.random.chance(30) {
            self.last()["timeoutSeconds"] = self.random.between(1, if self.is_brief { 6 } else { 90 }).into();
        }
        let mut exits = vec![(id.clone(), "success")];
        if self.random.chance(60) {
            exits.push((id.clone(), "error"));
        }
        (id, exits)
    }

    fn condition(&mut self, depth: usize) -> (String, Vec<Exit>) {
        let limit = self.random.between(0, 10);
        let id = self.node(
            "choose",
            "condition",
            json!({"branches": [{"id": "low", "expression": format!("ctx.input.n < {limit}")}]}),
        );
        let (low, mut exits) = self.block(depth + 1);
        self.connect(&[(id.clone(), "low")], &low);
        if self.random.chance(50) {
            let (high, more) = self.block(depth + 1);
            self.connect(&[(id.clone(), "default")], &high);
            exits.extend(more);
        } else {
            exits.push((id.clone(), "default"));
        }
        (id, exits)
    }

    fn fork(&mut self, depth: usize) -> (String, Vec<Exit>) {
        let id = self.node("fork", "transform", json!({"value": 1}));
        let mut exits = Vec::new();
        for _ in 0..self.random.between(2, 4) {
            let (entry, more) = self.block(depth + 1);
            self.connect(&[(id.clone(), "success")], &entry);
            exits.extend(more);
        }
        let kind = if self.random.chance(50) { "act" } else { "transform" };
        let config = if kind == "act" { json!({}) } else { json!({"value": 2}) };
        let join = self.node("join", kind, config);
        if self.random.chance(30) {
            self.last()["joinMode"] = "any".into();
        }
        self.connect(&exits, &join);
        (id, vec![(join, "success")])
    }

    fn repeat(&mut self, depth: usize) -> (String, Vec<Exit>) {
        let concurrency = self.random.between(1, 3);
        let policy = *self.random.pick(&["fail", "continue"]);
        let mut config = json!({
            "sourceVariable": "{{ctx.input.items}}", "concurrency": concurrency, "onItemError": policy,
        });
        if self.random.chance(20) {
            config["delayBetweenItems"] = self.random.between(1, 2_000).into();
        }
        let id = self.node("loop", "loop", config);
        let (entry, exits) = self.block(depth + 1);
        self.connect(&[(id.clone(), "loop")], &entry);
        self.connect(&exits, &id);
        let mut exits = vec![(id.clone(), "done")];
        if self.random.chance(50) {
            exits.push((id.clone(), "error"));
        }
        (id, exits)
    }

    fn scope(&mut self, depth: usize) -> (String, Vec<Exit>) {
        let id = self.node("try", "scope", json!({}));
        let (entry, exits) = self.block(depth + 1);
        self.connect(&[(id.clone(), "body")], &entry);
        self.connect(&exits, &id);
        let mut exits = vec![(id.clone(), "success")];
        if self.random.chance(80) {
            exits.push((id.clone(), "error"));
        }
        (id, exits)
    }
}
