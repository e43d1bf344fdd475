//! Random graphs that are valid by construction: bodies within bodies, edges from earlier nodes to later ones.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::Random;

/// A definition, with the facts that its generator knows.
pub(crate) struct Plan {
    pub(crate) definition: Value,
    pub(crate) nodes: BTreeMap<String, Planned>,
}

pub(crate) struct Planned {
    /// The loop or scope around it.
    pub(crate) owner: Option<String>,
    pub(crate) is_any: bool,
    /// Whether a handler performs it.
    pub(crate) acts: bool,
    /// Edges into it from its own body, as source and handle. The edge from the owner is `None`.
    pub(crate) incoming: Vec<Option<(String, String)>>,
    /// The handle of a completion that names none.
    pub(crate) default_handle: &'static str,
}

impl Plan {
    pub(crate) fn random(random: &mut Random) -> Self {
        let mut maker =
            Maker { random, nodes: Vec::new(), edges: Vec::new(), planned: BTreeMap::new(), seen: BTreeSet::new() };
        maker.add("start", json!({"type": "start"}), None, "output");
        maker.body(&["start".to_owned()], None, 0);
        let definition = json!({"nodes": maker.nodes, "edges": maker.edges});
        Self { definition, nodes: maker.planned }
    }
}

struct Maker<'r> {
    random: &'r mut Random,
    nodes: Vec<Value>,
    edges: Vec<Value>,
    planned: BTreeMap<String, Planned>,
    seen: BTreeSet<(String, String, String)>,
}

impl Maker<'_> {
    fn add(&mut self, id: &str, node: Value, owner: Option<&str>, default_handle: &'static str) {
        let mut node = node;
        node["id"] = id.into();
        let mut is_any = node["type"] == "loop";
        if id != "start" && self.random.chance(20) {
            is_any = self.random.chance(70);
            node["joinMode"] = if is_any { "any" } else { "all" }.into();
        }
        let owner = owner.map(str::to_owned);
        let acts = node["type"] == "noop";
        self.planned.insert(id.to_owned(), Planned { owner, is_any, acts, incoming: Vec::new(), default_handle });
        self.nodes.push(node);
    }

    fn connect(&mut self, from: &str, handle: &str, to: &str) {
        if self.seen.insert((from.to_owned(), handle.to_owned(), to.to_owned())) {
            self.edges.push(json!({"source": from, "target": to, "sourceHandle": handle}));
            let owner = self.planned[to].owner.as_deref();
            let edge = (owner != Some(from)).then(|| (from.to_owned(), handle.to_owned()));
            self.planned.get_mut(to).unwrap().incoming.push(edge);
        }
    }

    /// Fills a body. The nodes in `before` may be connected to new ones.
    fn body(&mut self, before: &[String], owner: Option<&str>, depth: usize) {
        let mut before: Vec<String> = before.to_vec();
        let count = 1 + self.random.below(if depth == 0 { 7 } else { 3 });
        let mut bodies = Vec::new();
        for _ in 0..count {
            let id = self.node(owner, depth);
            self.connect_to(&id, &before, owner);
            let kind = self.nodes.last().unwrap()["type"].clone();
            if kind == "loop" || kind == "scope" {
                bodies.push(id.clone());
            }
            before.push(id);
        }
        for id in bodies {
            self.body(&[], Some(&id), depth + 1);
        }
        match owner {
            None => {
                for _ in 0..1 + self.random.below(3) {
                    let id = format!("n{}", self.nodes.len());
                    let mut config = json!({"outputParameters": [{"name": id, "sourceVariable": 1}]});
                    if self.random.chance(10) {
                        config["status"] = "error".into();
                    }
                    if self.random.chance(10) {
                        config["terminate"] = true.into();
                    }
                    self.add(&id, json!({"type": "end", "config": config}), None, "");
                    self.connect_to(&id, &before, None);
                }
            }
            Some(owner) => {
                let last = before.last().unwrap().clone();
                if self.random.chance(50) {
                    let handle = self.handle_of(&last);
                    if self.seen.insert((last.clone(), handle.clone(), owner.to_owned())) {
                        self.edges.push(json!({"source": last, "target": owner, "sourceHandle": handle}));
                    }
                }
            }
        }
    }

    /// Gives a node one to three edges from earlier nodes.
    fn connect_to(&mut self, id: &str, before: &[String], owner: Option<&str>) {
        for _ in 0..1 + self.random.below(3) {
            let from_owner = before.is_empty() || (owner.is_some() && self.random.chance(20));
            match owner.filter(|_| from_owner) {
                Some(owner) => {
                    let is_loop = self.nodes.iter().any(|node| node["id"] == owner && node["type"] == "loop");
                    self.connect(owner, if is_loop { "loop" } else { "body" }, id);
                }
                None => {
                    let from = self.random.pick(before).clone();
                    let handle = self.handle_of(&from);
                    self.connect(&from, &handle, id);
                }
            }
        }
    }

    fn handle_of(&mut self, id: &str) -> String {
        let node = self.nodes.iter().find(|node| node["id"] == id).unwrap();
        let handles: &[&str] = match node["type"].as_str().unwrap() {
            "start" | "delay" => &["output"],
            "condition" => &["yes", "default"],
            "wait" => &["success", "success", "timeout"],
            "loop" => &["done", "done", "error"],
            _ => &["success", "success", "error"],
        };
        (*self.random.pick(handles)).to_owned()
    }

    /// Adds a node of a random kind.
    fn node(&mut self, owner: Option<&str>, depth: usize) -> String {
        let id = format!("n{}", self.nodes.len());
        let (node, handle) = match self.random.below(if depth < 2 { 14 } else { 11 }) {
            0..=3 => {
                let mut node = json!({"type": "noop", "outputVariable": format!("v{}", self.random.below(3))});
                if self.random.chance(70) {
                    let backoff = *self.random.pick(&["fixed", "linear", "exp"]);
                    node["retry"] = json!({"maxAttempts": 1 + self.random.below(3), "backoff": backoff, "baseMs": 100, "jitter": 0.5});
                }
                if self.random.chance(10) {
                    node["errorHandling"] = "fail_workflow".into();
                }
                (node, "success")
            }
            4 => {
                let value = *self.random.pick(&["{{ctx.input.n}}", "{{ctx.v0}}", "{{ctx.input.n / 13}}"]);
                (json!({"type": "transform", "config": {"value": value}}), "success")
            }
            5 => {
                let test = *self.random.pick(&["true", "false", "ctx.input.n > 5", "ctx.index == 1", "ctx.v1"]);
                (json!({"type": "condition", "config": {"branches": [{"id": "yes", "expression": test}]}}), "")
            }
            6 => (json!({"type": "delay", "config": {"delayMs": self.random.below(300)}}), "output"),
            7 | 8 => {
                let mut node = json!({"type": "wait", "config": {"event": "go"}});
                if self.random.chance(50) {
                    node["timeoutSeconds"] = 1.into();
                }
                if self.random.chance(30) {
                    node["config"]["match"] = json!({"x": 1});
                }
                (node, "success")
            }
            9 | 10 => {
                let mut node =
                    json!({"type": "workflow", "config": {"workflow": "other", "input": {"n": "{{ctx.input.n}}"}}});
                if self.random.chance(20) {
                    node["config"]["wait"] = false.into();
                } else if self.random.chance(50) {
                    node["timeoutSeconds"] = 1.into();
                }
                if self.random.chance(50) {
                    node["retry"] = json!({"maxAttempts": 1 + self.random.below(3), "baseMs": 100});
                }
                (node, "success")
            }
            11 | 12 => {
                let items: Vec<_> = (0..self.random.below(4)).collect();
                let mut config = json!({"sourceVariable": items, "concurrency": 1 + self.random.below(3)});
                if self.random.chance(30) {
                    config["delayBetweenItems"] = 50.into();
                }
                if self.random.chance(40) {
                    config["onItemError"] = "continue".into();
                }
                (json!({"type": "loop", "config": config}), "done")
            }
            _ => (json!({"type": "scope"}), "success"),
        };
        self.add(&id, node, owner, handle);
        id
    }
}
