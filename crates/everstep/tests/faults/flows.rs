//! The workflows of the fault tests.

use serde_json::{Value, json};

use crate::support::{Client, chain};

/// A step that takes some time.
pub(crate) fn step(id: &str, millis: u64) -> Value {
    json!({"id": id, "type": "noop", "config": {"delayMs": millis}})
}

pub(crate) fn delay(id: &str, millis: u64) -> Value {
    json!({"id": id, "type": "delay", "config": {"delaySeconds": millis / 1_000, "delayMs": millis % 1_000}})
}

/// Steps in sequence.
pub(crate) fn steps(count: usize, millis: u64) -> Value {
    let steps: Vec<_> = (1..=count).map(|n| step(&format!("step-{n}"), millis)).collect();
    chain(&steps)
}

/// Sleeps, then acts.
pub(crate) fn sleeps(millis: u64) -> Value {
    chain(&[delay("sleep", millis), step("act", 10)])
}

/// Waits for `go`. No node owns it during the wait.
pub(crate) fn waits() -> Value {
    chain(&[wait(), step("act", 10)])
}

fn wait() -> Value {
    json!({"id": "wait", "type": "wait", "config": {"event": "go"}, "outputVariable": "answer"})
}

/// Waits for `go` beside a step, which keeps it in the memory of a node.
pub(crate) fn waits_at_work(millis: u64) -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"}, wait(), step("work", millis), step("act", 10),
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "wait"}, {"source": "start", "target": "work"},
            {"source": "wait", "target": "act"}, {"source": "work", "target": "act"},
            {"source": "act", "target": "end"},
        ],
    })
}

/// Calls another workflow and waits for it.
pub(crate) fn calls(workflow: &str) -> Value {
    chain(&[json!({"id": "call", "type": "workflow", "config": {"workflow": workflow}}), step("act", 10)])
}

/// Calls another workflow beside a step, which keeps it in the memory of a node.
pub(crate) fn calls_at_work(workflow: &str, millis: u64) -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"}, step("work", millis),
            {"id": "call", "type": "workflow", "config": {"workflow": workflow}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "call"}, {"source": "start", "target": "work"},
            {"source": "call", "target": "end"}, {"source": "work", "target": "end"},
        ],
    })
}

/// A fan-out with a join, javascript, and a loop whose body acts.
pub(crate) fn fans() -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "a", "type": "javascript", "config": {"code": "return 1 + 1"}, "outputVariable": "a"},
            step("b", 100), delay("c", 200),
            {"id": "join", "type": "transform", "config": {"value": {"a": "{{ctx.a}}"}}},
            {"id": "each", "type": "loop", "config": {"sourceVariable": "{{[1, 2, 3]}}"}, "outputVariable": "visits"},
            {"id": "visit", "type": "noop", "config": {"delayMs": 30, "output": 7}},
            {"id": "end", "type": "end",
             "config": {"outputParameters": [{"name": "visits", "sourceVariable": "{{ctx.visits}}"}]}},
        ],
        "edges": [
            {"source": "start", "target": "a"}, {"source": "start", "target": "b"}, {"source": "start", "target": "c"},
            {"source": "a", "target": "join"}, {"source": "b", "target": "join"}, {"source": "c", "target": "join"},
            {"source": "join", "target": "each"},
            {"source": "each", "target": "visit", "sourceHandle": "loop"}, {"source": "visit", "target": "each"},
            {"source": "each", "target": "end", "sourceHandle": "done"},
        ],
    })
}

/// The workflows of a mixed load. Each run takes about half a second and never fails.
pub(crate) const MIX: &[&str] = &["steps", "naps", "fans", "calls", "waits"];

/// Saves the workflows of [`MIX`].
pub(crate) fn publish_mix(client: &Client) {
    client.publish("steps", &steps(4, 120));
    client.publish("naps", &sleeps(500));
    client.publish("fans", &fans());
    client.publish("calls", &calls("steps"));
    client.publish("waits", &waits());
}
