//! The messages of problems in definitions, as a file: a review shows every change of a text.
//!
//! `BLESS=1 cargo test -p everstep-core messages` writes the file again; read the difference. The replies of runs are in
//! the decision texts.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::support::{compile, definition};

/// Heads of decision texts with problems of the graph.
const HEADS: &[&str] = &[
    "a -> end",
    "start -> a",
    "start -> a -> end\nstart2 -> a",
    "start -> a -> end\nend -> a",
    "start -> a -> end\na -maybe-> end",
    "start -> a -> end\nlost -> end",
    "start -> a -> b -> end\nb -error-> a",
    "start -> a -> end\na -error-> start",
    "start -> loop -done-> end",
    "start -> loop -loop-> a -> end\nloop -done-> end2",
    "start -> loop -loop-> end2\nloop -done-> end",
    "start -> loop -loop-> a -> loop -done-> end\nloop -loop-> b\nb -> end",
    "start -> a -> end\na -> end",
    "start -> loop -> end\nloop -loop-> a -> loop",
    "start -> a -> end\na: transform {\"config\": {\"value\": \"{{ctx.__node_end}}\"}}",
    "start -> a -> end\na: transform {\"config\": {\"value\": \"{{ctx.totl}} {{foo}} {{meta.x}} {{ctx.__node_z}}\"}}",
    "start -> a -> end\na: transform {\"config\": {\"value\": \"{{ctx.input |}}\"}}",
];

/// Nodes with problems of their own.
fn nodes() -> Vec<Value> {
    vec![
        json!({"type": "javascrip"}),
        json!({"type": "noop", "colour": "red"}),
        json!({"type": "noop", "title": "a", "name": "b"}),
        json!({"type": "noop", "timeoutSeconds": 0}),
        json!({"type": "noop", "joinMode": "some"}),
        json!({"type": "noop", "outputVariable": "__x"}),
        json!({"type": "noop", "retry": {"maxAttempts": 0, "baseMs": 2, "maxMs": 1}}),
        json!({"type": "noop", "position": {"$secret": "key"}}),
        json!({"type": "noop", "config": {"a": {"$secret": "key"}}}),
        json!({"type": "ask", "config": {"key": {"$secret": "a b"}, "any": {"$secret": "key", "more": 1}}}),
        json!({"type": "transform", "retry": {"maxAttempts": 2}}),
        json!({"type": "noop", "timeoutSeconds": 5, "config": {"timeoutSeconds": 6}}),
        json!({"type": "noop", "retry": {"baseMs": 500, "maxMs": 200, "nonRetryable": 5}}),
        json!({"type": "noop", "retry": {"jitter": 2}}),
        json!({"type": "transform", "config": {}}),
        json!({"type": "delay", "config": {}}),
        json!({"type": "delay", "config": {"delayMinutes": 1441, "delaySeconds": 60}}),
        json!({"type": "delay", "config": {"delayType": "until", "delaySeconds": 1}}),
        json!({"type": "delay", "config": {"delayType": "dynamic"}}),
        json!({"type": "wait", "config": {}}),
        json!({"type": "wait", "config": {"event": "a", "approval": "b", "match": 5}}),
        json!({"type": "condition", "config": {"branches": []}}),
        json!({"type": "condition", "config": {"branches": [{"id": "error"}, {"id": "a", "expression": 5}]}}),
        json!({"type": "condition", "config": {"branches": [
            {"id": "a", "expression": "ctx.input"}, {"id": "a", "expression": "ctx.input", "conditions": []},
            {"expression": "ctx.input"}, {"id": "b", "conditions": [{"left": 1}]},
        ]}}),
        json!({"type": "delay", "config": {"delayMinutes": 1440, "delaySeconds": 1}}),
        json!({"type": "workflow", "config": {}}),
        json!({"type": "workflow", "config": {"workflow": "No Name", "wait": false, "timeoutSeconds": 5}}),
        json!({"type": "loop", "config": {"itemVariable": "x", "indexVariable": "x"}}),
        json!({"type": "end", "config": {"outputParameters": [{"name": "a"}, {"name": "a", "sourceVariable": 1}, {}]}}),
    ]
}

/// A graph with one node, `it`, between start and end.
fn around(mut node: Value) -> Value {
    node["id"] = "it".into();
    json!({
        "nodes": [{"id": "start", "type": "start"}, node, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "it"}, {"source": "it", "target": "end"}]
    })
}

fn definitions() -> Vec<(String, Value)> {
    let heads = HEADS.iter().map(|head| (head.replace('\n', " ; "), definition(head)));
    let nodes = nodes().into_iter().map(|node| (node.to_string(), around(node)));
    let wholes = [
        json!({}),
        json!([]),
        json!({"nodes": [{"id": "a b", "type": "start"}, {"type": "end"}, {"id": "x"}]}),
        json!({"nodes": [{"id": "start", "type": "start"}, {"id": "start", "type": "end"}], "edges": [{"source": "x"}]}),
        json!({"nodes": [], "options": {"retentionDays": 0}, "colour": 1}),
    ];
    let wholes = wholes.into_iter().map(|whole| (whole.to_string(), whole));
    heads.chain(nodes).chain(wholes).collect()
}

#[test]
fn messages_of_problems_are_as_written() {
    let mut text = String::new();
    for (title, definition) in definitions() {
        writeln!(text, "{title}").unwrap();
        for problem in compile(&definition).err().unwrap_or_default() {
            let code = problem.code.map(|code| format!("{code} ")).unwrap_or_default();
            writeln!(text, "  {code}{}: {}", problem.path, problem.message).unwrap();
            writeln!(text, "      hint: {}", problem.hint.as_deref().unwrap_or("none")).unwrap();
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(written == text, "{} is out of date: write it again with BLESS=1\n{text}", file.display());
}
