//! The problems that are reported when a workflow is saved, and their texts.

mod config;
mod input_schema;
mod scripts;
mod secrets;
mod size;
mod variables;

use std::collections::BTreeSet;

use everstep_core::graph::Problem;
use everstep_core::journal::Outcome;
use everstep_core::payload::Payload;
use everstep_core::run::Input;
use everstep_core::status::Status;
use serde_json::{Value, json};

use super::support::{Game, compile, definition, is_code};

/// The problems of a definition, as `node path message`.
fn problems(definition: &Value) -> Vec<Problem> {
    compile(definition).err().unwrap_or_default()
}

/// Asserts that a definition has exactly these problems: `(node, path, part of the message, part of the hint)`.
#[track_caller]
fn assert_problems(definition: &Value, expected: &[(&str, &str, &str, &str)]) {
    let found = problems(definition);
    let is_reported = |problem: &Problem, (node, path, message, hint): &(&str, &str, &str, &str)| {
        problem.node.as_deref().unwrap_or_default() == *node
            && problem.path == *path
            && problem.message.contains(message)
            && problem.hint.as_ref().is_some_and(|text| text.contains(hint))
    };
    for expected in expected {
        assert!(found.iter().any(|problem| is_reported(problem, expected)), "{expected:?} is not among {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

/// A small valid graph with one given node, `it`, between start and end.
fn around(node: Value) -> Value {
    let mut node = node;
    node["id"] = "it".into();
    json!({
        "nodes": [{"id": "start", "type": "start"}, node, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "it"}, {"source": "it", "target": "end"}]
    })
}

fn add(definition: &mut Value, list: &str, value: Value) {
    definition[list].as_array_mut().unwrap().push(value);
}

/// Like `around`, with the kind and config of the node.
fn with_config(kind: &str, config: impl Into<Value>) -> Value {
    let mut definition = around(json!({"type": kind, "config": config.into()}));
    if kind == "condition" {
        definition["edges"][1]["sourceHandle"] = "default".into();
    }
    if kind == "loop" {
        definition["edges"][1]["sourceHandle"] = "done".into();
        add(&mut definition, "nodes", json!({"id": "body", "type": "noop"}));
        add(&mut definition, "edges", json!({"source": "it", "target": "body", "sourceHandle": "loop"}));
    }
    definition
}

#[test]
fn a_graph_needs_one_start_and_an_end() {
    assert_problems(&json!({"nodes": []}), &[("", "/nodes", "no start", "start"), ("", "/nodes", "no end", "end")]);
    assert_problems(&definition("start -> a"), &[("", "/nodes", "no end node", "\"end\"")]);
    assert_problems(&definition("a -> end"), &[("", "/nodes", "no start node", "\"start\"")]);
    let two = definition("start1 -> end\nstart2 -> end");
    assert_problems(&two, &[("start2", "/nodes/2", "two start nodes", "keep one")]);
}

#[test]
fn an_unknown_type_is_reported_with_the_nearest_one() {
    let near = around(json!({"type": "javascrip"}));
    assert_problems(
        &near,
        &[("it", "/nodes/1/type", "unknown node type \"javascrip\"", "did you mean \"javascript\"")],
    );
    let far = around(json!({"type": "teleport"}));
    assert_problems(&far, &[("it", "/nodes/1/type", "unknown node type", "known types: start, end")]);
    let none = around(json!({}));
    assert_problems(&none, &[("it", "/nodes/1/type", "needs a type", "known types")]);
    let number = around(json!({"type": 5}));
    assert_problems(&number, &[("it", "/nodes/1/type", "expected a string, found a number", "quotes")]);
}

#[test]
fn an_unknown_handle_is_reported_with_the_known_ones() {
    let found = definition("start -> a -yes-> end");
    assert_problems(&found, &[("a", "/edges/1/sourceHandle", "no handle \"yes\"", "one of success, error")]);
    let branch = "start -> check -y-> end\ncheck -default-> end2\n\
                  check: condition {\"config\": {\"branches\": [{\"id\": \"yes\", \"expression\": \"true\"}]}}";
    let known = "one of error, yes, default";
    assert_problems(&definition(branch), &[("check", "/edges/1/sourceHandle", "no handle \"y\"", known)]);
    let missing = definition("start -> loop -loop-> a\nloop -> end");
    assert_problems(
        &missing,
        &[
            ("loop", "/edges/2/sourceHandle", "needs a sourceHandle", "one of loop, done, error"),
            ("end", "/nodes/1", "not reachable", "connect it"),
        ],
    );
    assert_problems(
        &definition("start -> end -> a"),
        &[("end", "/edges/1", "an edge leaves an end node", "remove"), ("a", "/nodes/0", "not reachable", "connect")],
    );
}

#[test]
fn handles_have_their_usual_names() {
    for head in [
        "start -output-> a -success-> end",
        "start -success-> a -output-> end",
        "start -> delay -> end",
        "start -> loop -loop-> a\nloop -completed-> end",
        "start -> scope -body-> a\nscope -> end",
        "start -> wait -timeout-> end\nwait -> end2",
    ] {
        assert_eq!(problems(&definition(head)), [], "{head}");
    }
}

#[test]
fn an_edge_leads_from_a_node_to_a_node() {
    let mut dangling = definition("start -> a -> end");
    dangling["edges"][1]["target"] = "endd".into();
    assert_problems(&dangling, &[("", "/edges/1/target", "there is no node \"endd\"", "did you mean \"end\"")]);
    dangling["edges"][1]["target"] = "somewhere".into();
    assert_problems(
        &dangling,
        &[
            ("", "/edges/1/target", "there is no node \"somewhere\"", "known nodes: a, end, start"),
            ("end", "/nodes/1", "not reachable", "connect"),
        ],
    );
    let mut empty = definition("start -> end");
    add(&mut empty, "edges", json!({}));
    add(&mut empty, "edges", json!({"source": 1, "target": 2}));
    add(&mut empty, "edges", json!("start -> end"));
    assert_problems(
        &empty,
        &[
            ("", "/edges/1/source", "needs the id of its source node", "example"),
            ("", "/edges/1/target", "needs the id of its target node", "example"),
            ("", "/edges/2/source", "expected a string", "quotes"),
            ("", "/edges/2/target", "expected a string", "quotes"),
            ("", "/edges/3", "expected an object, found a string", "braces"),
        ],
    );
    let twice = definition("start -> end\nstart -output-> end");
    assert_problems(&twice, &[("start", "/edges/1", "twice", "remove one")]);
}

#[test]
fn ids_are_unique_and_plain() {
    let mut twice = definition("start -> a -> end");
    add(&mut twice, "nodes", json!({"id": "a", "type": "noop"}));
    assert_problems(&twice, &[("a", "/nodes/3/id", "two nodes have the id \"a\"", "a different id")]);
    for bad in ["", "a.b", "a[0]", "ä", "a b", &"x".repeat(101)] {
        let mut definition = definition("start -> end");
        definition["nodes"][0]["id"] = bad.into();
        definition["edges"][0]["target"] = bad.into();
        assert_problems(&definition, &[(bad, "/nodes/0/id", "is not a valid id of a node", "1 to 100 letters")]);
    }
    let mut none = definition("start -> end");
    add(&mut none, "nodes", json!({"type": "noop", "colour": "red", "config": 5}));
    assert_problems(
        &none,
        &[
            ("", "/nodes/2/id", "a node needs an id", "1 to 100"),
            ("", "/nodes/2/colour", "unknown field", "known fields: id"),
        ],
    );
}

#[test]
fn every_node_is_reached_from_the_start() {
    let mut lost = definition("start -> end");
    add(&mut lost, "nodes", json!({"id": "a", "type": "noop"}));
    add(&mut lost, "nodes", json!({"id": "b", "type": "noop"}));
    add(&mut lost, "edges", json!({"source": "b", "target": "end"}));
    assert_problems(
        &lost,
        &[
            ("a", "/nodes/2", "not reachable from the start node", "connect it, or remove it"),
            ("b", "/nodes/3", "not reachable from the start node", "connect it, or remove it"),
        ],
    );
    let back = definition("start -> a -> end\na -error-> start");
    assert_problems(
        &back,
        &[
            ("a", "/edges/2", "an edge leads to the start node", "loop"),
            ("a", "/nodes/0", "a cycle outside a loop: start → a → start", "use a loop node to repeat"),
        ],
    );
}

#[test]
fn a_cycle_outside_a_loop_is_shown() {
    let cycle = definition("start -> a -> b -> c -> a\nc -error-> end");
    assert_problems(&cycle, &[("a", "/nodes/0", "a cycle outside a loop: b → c → a → b", "use a loop node to repeat")]);
    let own = definition("start -> a -> a\na -error-> end");
    assert_problems(&own, &[("a", "/nodes/0", "a cycle outside a loop: a → a", "loop node")]);
}

#[test]
fn a_body_is_left_only_through_its_loop() {
    let leaving = definition("start -> loop -loop-> a -> b\nloop -done-> b -> end");
    let found = problems(&leaving);
    assert!(found.iter().any(|problem| problem.message.contains("crosses the border of the body of \"loop\"")));
    assert!(found.iter().all(|problem| problem.hint.is_some()), "{found:#?}");

    let entering = definition("start -> loop -loop-> a -> loop\nloop -done-> end\nstart -> a");
    assert_problems(
        &entering,
        &[(
            "start",
            "/edges/4",
            "the edge from \"start\" to \"a\" crosses the border of the body of \"loop\"",
            "leaves a body only through its loop or scope",
        )],
    );

    let past = definition("start -> loop1 -loop-> loop2 -loop-> a -> loop1\nloop2 -done-> loop1\nloop1 -done-> end");
    assert!(!problems(&past).is_empty());
}

#[test]
fn an_end_cannot_be_inside_a_body() {
    let found = definition("start -> loop -loop-> a -> end2\nloop -done-> end");
    assert_problems(
        &found,
        &[("end2", "/nodes/2", "an end node cannot be inside the body of \"loop\"", "back to the loop or scope")],
    );
}

#[test]
fn a_loop_and_a_scope_need_a_body() {
    assert_problems(&definition("start -> loop -done-> end"), &[("loop", "/nodes/1", "has an empty body", "\"loop\"")]);
    assert_problems(&definition("start -> scope -> end"), &[("scope", "/nodes/1", "has an empty body", "\"body\"")]);
    let own = definition("start -> loop -loop-> loop\nloop -done-> end");
    assert!(problems(&own).iter().any(|problem| problem.message.contains("crosses the border")));
}

#[test]
fn bodies_do_not_overlap() {
    let torn = definition(
        "start -> loop1 -loop-> a -> c\nstart -> loop2 -loop-> b -> c\nloop1 -done-> end\nloop2 -done-> end",
    );
    let found = problems(&torn);
    let is_torn =
        |problem: &&Problem| problem.message == "the node belongs to the bodies of both \"loop1\" and \"loop2\"";
    let problem = found.iter().find(is_torn).unwrap();
    assert_eq!(problem.node.as_deref(), Some("c"));
    assert_eq!(problem.path, "/nodes/2");
}

#[test]
fn sixteen_loops_nest_and_seventeen_do_not() {
    let nested = |depth: usize| {
        let mut head = String::from("start -> loop1\n");
        for level in 1..depth {
            head += &format!("loop{level} -loop-> loop{}\nloop{} -done-> loop{level}\n", level + 1, level + 1);
        }
        definition(&(head + &format!("loop{depth} -loop-> work -> loop{depth}\nloop1 -done-> end\n")))
    };
    let mut game = Game::new(compile(&nested(16)).unwrap());
    game.input(Input::Start { input: Payload::from(json!({"items": [1]})), cause: None });
    let step = (1..=16).map(|level| format!("loop{level}[0].")).collect::<String>() + "work";
    game.input(Input::Result { step: step.into(), attempt: 1, result: Ok(Outcome::default()), logs: vec![] });
    assert_eq!(game.state.status(), Status::Completed);
    assert_problems(&nested(17), &[("loop17", "/nodes/9", "nested deeper than 16", "a separate workflow")]);
}

#[test]
fn ten_faults_are_reported_together() {
    let found = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "a", "type": "javascript", "config": {"code": ""}},
            {"id": "b", "type": "delay", "config": {"delaySeconds": 99}},
            {"id": "b", "type": "noop"},
            {"id": "c", "type": "htp"},
            {"id": "d", "type": "noop", "joinMode": "most"},
            {"id": "e", "type": "noop"},
            {"id": "f", "type": "noop"},
            {"id": "lost", "type": "noop"},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "a"},
            {"source": "a", "target": "b"},
            {"source": "b", "target": "c"},
            {"source": "c", "target": "d"},
            {"source": "d", "target": "e", "sourceHandle": "maybe"},
            {"source": "e", "target": "f"},
            {"source": "f", "target": "e", "sourceHandle": "error"},
            {"source": "f", "target": "endd"},
        ],
        "colour": "red",
    });
    assert_problems(
        &found,
        &[
            ("", "/colour", "unknown field", "known fields"),
            ("a", "/nodes/1/config/code", "code is empty", "catalog"),
            ("b", "/nodes/2/config/delaySeconds", "expected a whole number from 0 to 59, found 99", "example 0"),
            ("c", "/nodes/4/type", "unknown node type \"htp\"", "known types"),
            ("d", "/nodes/5/joinMode", "unknown value \"most\"", "one of all, any"),
            ("b", "/nodes/3/id", "two nodes have the id \"b\"", "a different id"),
            ("d", "/edges/4/sourceHandle", "\"d\" has no handle \"maybe\"", "one of success, error"),
            ("", "/edges/7/target", "there is no node \"endd\"", "did you mean"),
            ("e", "/nodes/6", "a cycle outside a loop: f → e → f", "loop node"),
            ("lost", "/nodes/8", "not reachable from the start node", "connect"),
        ],
    );
}

#[test]
fn a_fault_does_not_beget_others() {
    // The condition inside the body is invalid: its edges still show which nodes the body contains.
    let found = definition(
        "start -> loop -loop-> a -> check -yes-> b -> c -> loop\na -error-> c\nloop -done-> end\n\
         check: condition {\"config\": {\"branches\": []}}",
    );
    assert_problems(&found, &[("check", "/nodes/3/config/branches", "at least one branch", "example")]);
    let loop_ = definition("start -> loop -loop-> a -> loop\nloop -done-> end\nloop: loop {\"config\": {}}");
    assert_problems(&loop_, &[("loop", "/nodes/2/config/sourceVariable", "needs items", "example")]);
    let handle = definition("start -> loop -lop-> a -> loop\nloop -done-> end");
    assert_problems(&handle, &[("loop", "/edges/1/sourceHandle", "no handle \"lop\"", "one of loop")]);
}

#[test]
fn the_seeds_spelling_is_read_as_ours() {
    let seeds = json!({
        "title": "orders",
        "nodes": [
            {"nodeID": "s", "nodeType": "start", "nodeConfig": null, "position": {"x": 1, "y": 2}},
            {"nodeID": "j", "nodeType": "javascript", "title": "Price", "nodeConfig": {
                "code": "1", "outputVariable": "price", "errorHandling": "fail_workflow", "timeoutSeconds": "5"}},
            {"nodeID": "k", "nodeType": "noop", "nodeConfig": {"joinMode": "any", "errorHandling": "continue"}},
            {"nodeID": "e", "nodeType": "end"},
        ],
        "edges": [
            {"edgeID": "1", "upstreamNodeID": "s", "downstreamNodeID": "j", "sourceHandle": null},
            {"edgeID": "2", "upstreamNodeID": "j", "downstreamNodeID": "k", "sourceHandle": "success"},
            {"edgeID": "3", "upstreamNodeID": "k", "downstreamNodeID": "e"},
        ],
        "workflowOptions": {"retentionDays": 7},
    });
    let workflow = compile(&seeds).unwrap();
    assert_eq!(workflow.graph().unwrap().retention_days(), Some(7));
    assert_eq!(
        *workflow.graph().unwrap().definition(),
        json!({
            "name": "orders",
            "nodes": [
                {"id": "s", "type": "start", "config": {}, "position": {"x": 1, "y": 2}},
                {"id": "j", "type": "javascript", "name": "Price", "config": {"code": "1"}, "timeoutSeconds": 5,
                 "errorHandling": "fail_workflow", "outputVariable": "price"},
                {"id": "k", "type": "noop", "config": {}, "joinMode": "any"},
                {"id": "e", "type": "end", "config": {}},
            ],
            "edges": [
                {"id": "1", "source": "s", "target": "j"},
                {"id": "2", "source": "j", "target": "k", "sourceHandle": "success"},
                {"id": "3", "source": "k", "target": "e"},
            ],
            "options": {"retentionDays": 7},
        })
    );
    let again = compile(workflow.graph().unwrap().definition()).unwrap();
    assert_eq!(again.graph().unwrap().definition(), workflow.graph().unwrap().definition());
    assert_eq!(again.graph().unwrap().definition().to_string(), workflow.graph().unwrap().definition().to_string());
}

#[test]
fn every_text_s_definition_compiles_again_to_itself() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions");
    let mut seen = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let head = &text[..text.find("\n>").unwrap() + 1];
        if is_code(head) {
            continue;
        }
        let once = compile(&definition(head)).unwrap().graph().unwrap().definition().clone();
        let twice = compile(&once).unwrap().graph().unwrap().definition().clone();
        assert_eq!(once.to_string(), twice.to_string());
        seen.insert(once.to_string());
    }
    assert!(seen.len() > 50);
}
