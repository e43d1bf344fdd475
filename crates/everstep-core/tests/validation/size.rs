//! Large definitions, valid and invalid ones.

use std::time::Duration;

use everstep_core::journal::{Entry, Event, Outcome};
use everstep_core::payload::Payload;
use everstep_core::run::Input;
use everstep_core::status::Status;
use serde_json::{Value, json};

use super::{around, assert_problems, problems};
use crate::support::{Game, compile, definition, timed};

#[test]
fn ten_thousand_nodes_in_a_line_compile_and_run() {
    let ids: Vec<_> = (0..9_998).map(|i| format!("n{i}")).collect();
    let chain = definition(&format!("start -> {} -> end", ids.join(" -> ")));
    let (workflow, time) = timed(|| compile(&chain).unwrap());
    assert!(time < Duration::from_secs(5), "{time:?}");
    let mut game = Game::new(workflow);
    let ((), time) = timed(|| run_to_the_end(&mut game));
    assert_eq!(game.state.status(), Status::Completed);
    assert_eq!(game.state.seq, 20_002);
    assert!(time < Duration::from_secs(20), "{time:?}");
}

#[test]
fn ten_thousand_nodes_side_by_side_compile_and_run() {
    let fan: String = (0..9_997).map(|i| format!("start -> n{i} -> join\n")).collect();
    let (workflow, time) = timed(|| compile(&definition(&(fan + "join -> end"))).unwrap());
    assert!(time < Duration::from_secs(5), "{time:?}");
    let mut game = Game::new(workflow);
    let ((), time) = timed(|| run_to_the_end(&mut game));
    assert_eq!(game.state.status(), Status::Completed);
    assert_eq!(game.state.seq, 20_002);
    assert!(time < Duration::from_secs(20), "{time:?}");
}

#[test]
fn a_large_definition_that_is_all_wrong_is_refused_in_time() {
    let node = |i: usize, kind: &str| json!({"id": format!("n{i}"), "type": kind, "config": {"sourceVariable": []}});
    let check = |definition: &Value| {
        let (found, time) = timed(|| problems(definition));
        assert!(!found.is_empty());
        assert!(time < Duration::from_secs(10), "{time:?}");
        assert!(found.len() < 60_000, "{}", found.len());
    };
    // Every edge leads to a node that does not exist.
    let nodes: Vec<_> = (0..10_000).map(|i| json!({"id": format!("node{i}"), "type": "noop"})).collect();
    let edges: Vec<_> = (0..10_000).map(|i| json!({"source": format!("nood{i}"), "target": "nowhere"})).collect();
    check(&json!({"nodes": nodes, "edges": edges}));
    // One cycle of all nodes.
    let edges: Vec<_> = (0..10_000)
        .map(|i| json!({"source": format!("node{i}"), "target": format!("node{}", (i + 1) % 10_000)}))
        .collect();
    check(&json!({"nodes": nodes, "edges": edges}));
    // A thousand loops over the same nine thousand nodes.
    let nodes: Vec<_> = (0..10_000).map(|i| node(i, if i < 1_000 { "loop" } else { "noop" })).collect();
    let mut edges: Vec<_> =
        (0..1_000).map(|i| json!({"source": format!("n{i}"), "target": "n1000", "sourceHandle": "loop"})).collect();
    edges.extend((1_000..9_999).map(|i| json!({"source": format!("n{i}"), "target": format!("n{}", i + 1)})));
    check(&json!({"nodes": nodes, "edges": edges}));
}

#[test]
fn a_definition_is_an_object_of_bounded_size() {
    for value in [json!(null), json!(5), json!("x"), json!([])] {
        let found = problems(&value);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "");
        assert!(found[0].message.starts_with("expected an object") && found[0].hint.is_some());
    }
    assert_problems(&json!({}), &[("", "/nodes", "a graph needs a list of nodes", "example")]);
    assert_problems(&json!({"nodes": {}}), &[("", "/nodes", "expected an array, found an object", "brackets")]);
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let found = around(json!({"type": "noop", "config": {"x": deep}}));
    assert_problems(&found, &[("", "", "nested deeper than 100 levels", "flatten")]);
    let nodes: Vec<_> = (0..10_001).map(|i| json!({"id": format!("n{i}"), "type": "noop"})).collect();
    assert_problems(&json!({"nodes": nodes}), &[("", "/nodes", "the graph has 10001 nodes, more than 10000", "split")]);
}

/// Performs every task as soon as it is dispatched.
fn run_to_the_end(game: &mut Game) {
    let mut todo: Vec<Entry> = game.input(Input::Start { input: Payload::from(json!({})), cause: None }).0;
    while !todo.is_empty() {
        let mut next = Vec::new();
        for entry in todo {
            let Event::StepDispatched { step, attempt, .. } = entry.event else { continue };
            if !game.state.has_open_task(&step, attempt) {
                continue;
            }
            let result = Ok(Outcome::default());
            next.extend(game.input(Input::Result { step, attempt, result, logs: vec![] }).0);
        }
        todo = next;
    }
}
