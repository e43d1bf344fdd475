//! The measured graphs: a chain, a wide fan, and the twelve shapes of the reference system's tests.
//!
//! Tasks do nothing, so that the figures show the engine's own cost.

use serde_json::{Value, json};

/// A graph with its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) graph: fn() -> Value,
}

/// The nodes of the chains with which rates are compared.
pub(super) const CHAIN_NODES: usize = 10;

pub(super) const CHAIN: Shape = Shape { name: "chain-10", graph: || chain(CHAIN_NODES) };

/// The same chain, whose nodes increment a thousand counters in turn. The input of a run has its number, `n`.
pub(super) const COUNTING_CHAIN: Shape =
    Shape { name: "counting-chain-10", graph: || counting_chain(CHAIN_NODES, 1_000) };

pub(super) const ALL: &[Shape] = &[
    CHAIN,
    Shape { name: "fan-100", graph: || fan_in(100) },
    Shape { name: "linear", graph: || chain(3) },
    Shape { name: "fan-out", graph: || fan_out(3) },
    Shape { name: "diamond-and", graph: || diamond("all") },
    Shape { name: "diamond-or", graph: || diamond("any") },
    Shape { name: "deep-chain", graph: || chain(20) },
    Shape { name: "wide-fan-out", graph: || fan_out(10) },
    Shape { name: "wide-fan-in", graph: || fan_in(10) },
    Shape { name: "error-path", graph: error_path },
    Shape { name: "conditional", graph: conditional },
    Shape { name: "multi-diamond", graph: multi_diamond },
    Shape { name: "error-recovery", graph: error_recovery },
    Shape { name: "delay-heavy", graph: delay_heavy },
];

/// The input of every run.
pub(super) fn input() -> Value {
    json!({"amount": 150})
}

/// Tasks in sequence.
pub(super) fn chain(length: usize) -> Value {
    let mut graph = Graph::default();
    let last = (1..=length).fold("start".to_owned(), |before, n| {
        let node = graph.noop(&format!("step-{n}"));
        graph.edge(&before, &node);
        node
    });
    graph.end_after(&[&last])
}

/// A chain whose nodes each set a variable, so that the context grows with the journal.
pub(super) fn growing_chain(length: usize) -> Value {
    let mut graph = chain(length);
    for (n, node) in graph["nodes"].as_array_mut().into_iter().flatten().enumerate() {
        if node["type"] == "noop" {
            node["config"] = json!({"output": {"order": n, "state": "shipped"}});
            node["outputVariable"] = format!("order_{n}").into();
        }
    }
    graph
}

fn counting_chain(length: usize, counters: usize) -> Value {
    let mut graph = chain(length);
    for (n, node) in graph["nodes"].as_array_mut().into_iter().flatten().enumerate() {
        if node["type"] == "noop" {
            let key = format!("counter-{{{{(ctx.input.n * {length} + {n}) % {counters}}}}}");
            node["type"] = "store.increment".into();
            node["config"] = json!({"namespace": "bench", "key": key});
        }
    }
    graph
}

/// A run that ends in the item that starts it.
pub(super) fn nothing() -> Value {
    Graph::default().end_after(&["start"])
}

/// A run that sleeps until long after the measurement.
pub(super) fn sleep() -> Value {
    let mut graph = Graph::default();
    graph.node("sleep", "delay", &json!({"delayMinutes": 1_440}));
    graph.edge("start", "sleep");
    graph.end_after(&["sleep"])
}

/// Each branch has a separate end.
fn fan_out(width: usize) -> Value {
    let mut graph = Graph::default();
    for n in 1..=width {
        let (branch, end) = (graph.noop(&format!("branch-{n}")), format!("end-{n}"));
        graph.edge("start", &branch);
        graph.node(&end, "end", &json!({}));
        graph.edge(&branch, &end);
    }
    graph.finish()
}

/// All branches meet in one node.
fn fan_in(width: usize) -> Value {
    let mut graph = Graph::default();
    let join = graph.noop("join");
    for n in 1..=width {
        let branch = graph.noop(&format!("branch-{n}"));
        graph.edge("start", &branch);
        graph.edge(&branch, &join);
    }
    graph.end_after(&[&join])
}

fn diamond(join: &str) -> Value {
    let mut graph = Graph::default();
    let last = graph.diamond("start", "", join);
    graph.end_after(&[&last])
}

fn multi_diamond() -> Value {
    let mut graph = Graph::default();
    let middle = graph.diamond("start", "first-", "all");
    let last = graph.diamond(&middle, "second-", "all");
    graph.end_after(&[&last])
}

/// The failing node's error edge leads to a separate end.
fn error_path() -> Value {
    let mut graph = Graph::default();
    let (fails, next) = (graph.failing("fails"), graph.noop("next"));
    graph.edge("start", &fails);
    graph.edge(&fails, &next);
    graph.node("failed", "end", &json!({}));
    graph.edge_by(&fails, "error", "failed");
    graph.end_after(&[&next])
}

/// The failing node's error edge leads back to the success path.
fn error_recovery() -> Value {
    let mut graph = Graph::default();
    let (fails, recover) = (graph.failing("fails"), graph.noop("recover"));
    graph.edge("start", &fails);
    graph.edge_by(&fails, "error", &recover);
    graph.end_after(&[&fails, &recover])
}

fn conditional() -> Value {
    let mut graph = Graph::default();
    let condition = json!({"leftValue": "{{ctx.input.amount}}", "operator": "greater_than", "rightValue": 100});
    graph.node("choose", "condition", &json!({"branches": [{"id": "large", "conditions": [condition]}]}));
    graph.edge("start", "choose");
    let (large, small) = (graph.noop("large"), graph.noop("small"));
    graph.edge_by("choose", "large", &large);
    graph.edge_by("choose", "default", &small);
    graph.end_after(&[&large, &small])
}

fn delay_heavy() -> Value {
    let mut graph = Graph::default();
    let join = graph.noop("join");
    for n in 1..=3 {
        let delay = format!("delay-{n}");
        graph.node(&delay, "delay", &json!({"delayMs": 1}));
        graph.edge("start", &delay);
        graph.edge(&delay, &join);
    }
    graph.end_after(&[&join])
}

/// A definition under construction. It begins with its start.
struct Graph {
    nodes: Vec<Value>,
    edges: Vec<Value>,
}

impl Default for Graph {
    fn default() -> Self {
        Self { nodes: vec![json!({"id": "start", "type": "start"})], edges: Vec::new() }
    }
}

impl Graph {
    fn node(&mut self, id: &str, kind: &str, config: &Value) {
        self.nodes.push(json!({"id": id, "type": kind, "config": config}));
    }

    fn noop(&mut self, id: &str) -> String {
        self.node(id, "noop", &json!({}));
        id.to_owned()
    }

    fn failing(&mut self, id: &str) -> String {
        let config = json!({"fail": "the config demands it"});
        self.nodes.push(json!({"id": id, "type": "noop", "config": config, "retry": {"maxAttempts": 1}}));
        id.to_owned()
    }

    /// Four nodes, two of them parallel. Returns the one in which they join.
    fn diamond(&mut self, before: &str, prefix: &str, join: &str) -> String {
        let [top, left, right] = ["top", "left", "right"].map(|name| self.noop(&format!("{prefix}{name}")));
        let bottom = format!("{prefix}bottom");
        self.nodes.push(json!({"id": bottom, "type": "noop", "joinMode": join}));
        for (source, target) in [(before, &top), (&top, &left), (&top, &right), (&left, &bottom), (&right, &bottom)] {
            self.edge(source, target);
        }
        bottom
    }

    fn edge(&mut self, source: &str, target: &str) {
        self.edges.push(json!({"source": source, "target": target}));
    }

    fn edge_by(&mut self, source: &str, handle: &str, target: &str) {
        self.edges.push(json!({"source": source, "sourceHandle": handle, "target": target}));
    }

    fn end_after(mut self, last: &[&str]) -> Value {
        self.node("end", "end", &json!({}));
        for node in last {
            self.edge(node, "end");
        }
        self.finish()
    }

    fn finish(self) -> Value {
        json!({"nodes": self.nodes, "edges": self.edges})
    }
}
