//! What is refused when a workflow is saved, and how it is told.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use everstep_core::event::{Entry, Event, Outcome};
use everstep_core::graph::Problem;
use everstep_core::input::Input;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use serde_json::{Value, json};

use super::support::{Game, compile, definition};

/// The problems of a definition, as `node path message`.
fn problems(definition: &Value) -> Vec<Problem> {
    compile(definition).err().unwrap_or_default()
}

/// Asserts that a definition has exactly these problems: `(node, path, part of the message, part of the hint)`.
#[track_caller]
fn assert_problems(definition: &Value, expected: &[(&str, &str, &str, &str)]) {
    let found = problems(definition);
    let is_told = |problem: &Problem, (node, path, message, hint): &(&str, &str, &str, &str)| {
        problem.node.as_deref().unwrap_or_default() == *node
            && problem.path == *path
            && problem.message.contains(message)
            && problem.hint.as_ref().is_some_and(|text| text.contains(hint))
    };
    for expected in expected {
        assert!(found.iter().any(|problem| is_told(problem, expected)), "{expected:?} is not among {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

/// A small valid graph with one node of one's own, `it`, between start and end.
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

/// As `around`, with the kind and config of the node.
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
fn an_unknown_type_is_told_with_the_nearest_one() {
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
fn an_unknown_handle_is_told_with_the_known_ones() {
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
            ("end", "/nodes/1", "not reached", "connect it"),
        ],
    );
    assert_problems(
        &definition("start -> end -> a"),
        &[("end", "/edges/1", "no edge leaves an end", "remove"), ("a", "/nodes/0", "not reached", "connect")],
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
            ("end", "/nodes/1", "not reached", "connect"),
        ],
    );
    let mut empty = definition("start -> end");
    add(&mut empty, "edges", json!({}));
    add(&mut empty, "edges", json!({"source": 1, "target": 2}));
    add(&mut empty, "edges", json!("start -> end"));
    assert_problems(
        &empty,
        &[
            ("", "/edges/1/source", "needs the id of the node it leaves", "such as"),
            ("", "/edges/1/target", "needs the id of the node it leads to", "such as"),
            ("", "/edges/2/source", "expected a string", "quotes"),
            ("", "/edges/2/target", "expected a string", "quotes"),
            ("", "/edges/3", "expected an object, found a string", "braces"),
        ],
    );
    let twice = definition("start -> end\nstart -output-> end");
    assert_problems(&twice, &[("start", "/edges/1", "there twice", "remove one")]);
}

#[test]
fn ids_are_unique_and_plain() {
    let mut twice = definition("start -> a -> end");
    add(&mut twice, "nodes", json!({"id": "a", "type": "noop"}));
    assert_problems(&twice, &[("a", "/nodes/3/id", "id \"a\" is there twice", "id of its own")]);
    for bad in ["", "a.b", "a[0]", "ä", "a b", &"x".repeat(101)] {
        let mut definition = definition("start -> end");
        definition["nodes"][0]["id"] = bad.into();
        definition["edges"][0]["target"] = bad.into();
        assert_problems(&definition, &[(bad, "/nodes/0/id", "cannot be a node's id", "1 to 100 letters")]);
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
            ("a", "/nodes/2", "not reached from the start", "connect it, or remove it"),
            ("b", "/nodes/3", "not reached from the start", "connect it, or remove it"),
        ],
    );
    let back = definition("start -> a -> end\na -error-> start");
    assert_problems(
        &back,
        &[
            ("a", "/edges/2", "no edge leads to a start", "loop"),
            ("a", "/nodes/0", "a cycle outside a loop: start → a → start", "repeat with a loop node"),
        ],
    );
}

#[test]
fn a_cycle_outside_a_loop_is_shown() {
    let cycle = definition("start -> a -> b -> c -> a\nc -error-> end");
    assert_problems(&cycle, &[("a", "/nodes/0", "a cycle outside a loop: b → c → a → b", "repeat with a loop node")]);
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
            "left only through its owner",
        )],
    );

    let past = definition("start -> loop1 -loop-> loop2 -loop-> a -> loop1\nloop2 -done-> loop1\nloop1 -done-> end");
    assert!(!problems(&past).is_empty());
}

#[test]
fn an_end_cannot_stand_in_a_body() {
    let found = definition("start -> loop -loop-> a -> end2\nloop -done-> end");
    assert_problems(&found, &[("end2", "/nodes/2", "an end cannot stand in the body of \"loop\"", "point back")]);
}

#[test]
fn a_loop_and_a_scope_need_a_body() {
    assert_problems(&definition("start -> loop -done-> end"), &[("loop", "/nodes/1", "has no body", "\"loop\"")]);
    assert_problems(&definition("start -> scope -> end"), &[("scope", "/nodes/1", "has no body", "\"body\"")]);
    let own = definition("start -> loop -loop-> loop\nloop -done-> end");
    assert!(problems(&own).iter().any(|problem| problem.message.contains("crosses the border")));
}

#[test]
fn bodies_do_not_overlap() {
    let torn = definition(
        "start -> loop1 -loop-> a -> c\nstart -> loop2 -loop-> b -> c\nloop1 -done-> end\nloop2 -done-> end",
    );
    let found = problems(&torn);
    let is_torn = |problem: &&Problem| problem.message == "lies in the bodies of both \"loop1\" and \"loop2\"";
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
    game.input(Input::Start { input: Payload::from(json!({"items": [1]})) });
    let step = (1..=16).map(|level| format!("loop{level}[0].")).collect::<String>() + "work";
    game.input(Input::Result { step: step.into(), attempt: 1, result: Ok(Outcome::default()), logs: vec![] });
    assert_eq!(game.state.status(), Status::Completed);
    assert_problems(&nested(17), &[("loop17", "/nodes/9", "nested deeper than 16", "workflow of their own")]);
}

#[test]
fn unknown_fields_are_refused_at_every_level() {
    let mut found = with_config(
        "condition",
        json!({
            "branches": [{"id": "yes", "lable": "Yes", "conditions": [{"leftValue": 1, "operator": "equals", "right": 1}]}],
            "fallback": "no"
        }),
    );
    found["colour"] = "red".into();
    found["options"] = json!({"retentionDay": 1});
    found["nodes"][0]["kind"] = "start".into();
    found["nodes"][0]["config"] = json!({"x": 1});
    found["nodes"][2]["config"] = json!({"outputParameters": [{"name": "a", "sourceVariable": 1, "type": "x"}]});
    found["edges"][0]["targetHandle"] = "in".into();
    add(&mut found, "nodes", json!({"id": "act", "type": "noop", "retry": {"attempts": 3}}));
    add(&mut found, "edges", json!({"source": "start", "target": "act"}));
    assert_problems(
        &found,
        &[
            ("", "/colour", "unknown field \"colour\"", "known fields"),
            ("", "/options/retentionDay", "unknown field", "did you mean \"retentionDays\"?"),
            ("start", "/nodes/0/kind", "unknown field \"kind\"", "known fields"),
            ("start", "/nodes/0/config/x", "unknown field", "takes no fields"),
            ("it", "/nodes/1/config/fallback", "unknown field", "known fields: branches"),
            ("it", "/nodes/1/config/branches/0/lable", "unknown field", "did you mean \"label\"?"),
            ("it", "/nodes/1/config/branches/0/conditions/0/right", "unknown field", "rightValue"),
            ("end", "/nodes/2/config/outputParameters/0/type", "unknown field", "known fields"),
            ("", "/edges/0/targetHandle", "unknown field", "known fields"),
            ("act", "/nodes/3/retry/attempts", "unknown field", "maxAttempts"),
        ],
    );
}

#[test]
fn words_outside_their_choices_are_refused() {
    let node = |node: Value| around(node);
    let join = node(json!({"type": "noop", "joinMode": "some"}));
    assert_problems(&join, &[("it", "/nodes/1/joinMode", "unknown value \"some\"", "one of all, any")]);
    let join = node(json!({"type": "noop", "config": {"joinMode": "some"}}));
    assert_problems(&join, &[("it", "/nodes/1/config/joinMode", "unknown value \"some\"", "one of all, any")]);
    let handling = node(json!({"type": "noop", "errorHandling": "ignore"}));
    assert_problems(&handling, &[("it", "/nodes/1/errorHandling", "unknown value", "continue, fail_workflow")]);
    let backoff = node(json!({"type": "noop", "retry": {"backoff": "exponential"}}));
    assert_problems(&backoff, &[("it", "/nodes/1/retry/backoff", "unknown value", "one of fixed, linear, exp")]);
    let status = with_config("noop", json!({}));
    let mut status = status;
    status["nodes"][2]["config"] = json!({"status": "ok", "terminate": "yes"});
    assert_problems(
        &status,
        &[
            ("end", "/nodes/2/config/status", "unknown value \"ok\"", "one of success, error, failure"),
            ("end", "/nodes/2/config/terminate", "expected true or false, found a string", "quotes"),
        ],
    );
    let delay = with_config("delay", json!({"delayType": "random"}));
    assert_problems(
        &delay,
        &[
            ("it", "/nodes/1/config/delayType", "unknown value", "fixed, dynamic, until"),
            ("it", "/nodes/1/config/delaySeconds", "needs a length", "delayMinutes"),
        ],
    );
    let item = with_config("loop", json!({"sourceVariable": [], "onItemError": "skip"}));
    assert_problems(&item, &[("it", "/nodes/1/config/onItemError", "unknown value", "one of fail, continue")]);
    let logic = json!({"branches": [{"id": "a", "conditionLogic": "XOR", "conditions": [{"leftValue": 1, "operator": "like"}]}]});
    assert_problems(
        &with_config("condition", logic),
        &[
            ("it", "/nodes/1/config/branches/0/conditionLogic", "unknown value \"XOR\"", "one of AND, OR"),
            ("it", "/nodes/1/config/branches/0/conditions/0/operator", "unknown value \"like\"", "equals, not_equals"),
        ],
    );
}

#[test]
fn numbers_outside_their_range_are_refused() {
    for (kind, field, value) in [
        ("delay", "delayMinutes", json!(1441)),
        ("delay", "delaySeconds", json!(60)),
        ("delay", "delayMs", json!(1000)),
        ("delay", "delayMs", json!(-1)),
        ("delay", "delayMs", json!(1.5)),
        ("delay", "delayMs", json!("x")),
        ("delay", "delayMs", json!([1])),
        ("loop", "maxIterations", json!(0)),
        ("loop", "maxIterations", json!(100_001)),
        ("loop", "concurrency", json!(0)),
        ("loop", "concurrency", json!(10_001)),
        ("loop", "delayBetweenItems", json!(60_001)),
    ] {
        let mut config = if kind == "loop" { json!({"sourceVariable": []}) } else { json!({"delaySeconds": 1}) };
        config[field] = value.clone();
        let path = format!("/nodes/1/config/{field}");
        assert_problems(&with_config(kind, config), &[("it", &path, "expected a whole number from", "such as")]);
    }
    let days = with_config("delay", json!({"delayMinutes": 1440, "delaySeconds": 1}));
    assert_problems(&days, &[("it", "/nodes/1/config/delayMinutes", "at most 24 hours", "several delays")]);
    for (field, value) in [
        ("maxAttempts", json!(0)),
        ("maxAttempts", json!(21)),
        ("baseMs", json!(99)),
        ("backoffMs", json!(99)),
        ("maxMs", json!(99)),
        ("multiplier", json!(0.5)),
        ("multiplier", json!(11)),
        ("jitter", json!(1.5)),
        ("jitter", json!(true)),
    ] {
        let found = problems(&around(json!({"type": "noop", "retry": {field: value}})));
        assert_eq!(found.len(), 1, "{field} {value}: {found:#?}");
        assert!(found[0].path.starts_with("/nodes/1/retry/") && found[0].message.starts_with("expected a"));
        assert!(found[0].hint.is_some());
    }
    let timeout = around(json!({"type": "noop", "timeoutSeconds": 0}));
    assert_problems(&timeout, &[("it", "/nodes/1/timeoutSeconds", "expected a whole number", "such as 1")]);
    let mut days = definition("start -> end");
    days["options"] = json!({"retentionDays": 0});
    assert_problems(&days, &[("", "/options/retentionDays", "expected a whole number from 1 to 3650", "such as 1")]);
}

#[test]
fn numbers_may_be_written_as_text() {
    let found = with_config("delay", json!({"delayMinutes": "1", "delaySeconds": " 2 ", "delayMs": 3.0}));
    assert_eq!(problems(&found), []);
}

#[test]
fn a_retry_policy_is_consistent() {
    let long = around(json!({"type": "noop", "retry": {"baseMs": 600_000}}));
    assert_problems(&long, &[("it", "/nodes/1/retry/baseMs", "more than maxMs (300000)", "raise maxMs")]);
    let fine = around(json!({"type": "noop", "retry": {"baseMs": 600_000, "maxMs": 600_000}}));
    assert_eq!(problems(&fine), []);
    let codes = around(json!({"type": "noop", "retry": {"nonRetryable": ["A", 5]}}));
    assert_problems(&codes, &[("it", "/nodes/1/retry/nonRetryable", "a list of error codes", "CARD_DECLINED")]);
    let list = around(json!({"type": "noop", "retry": {"nonRetryable": "A"}}));
    assert_problems(&list, &[("it", "/nodes/1/retry/nonRetryable", "expected an array", "brackets")]);
    let number = around(json!({"type": "noop", "retry": 3}));
    assert_problems(&number, &[("it", "/nodes/1/retry", "expected an object, found a number", "braces")]);
}

#[test]
fn what_a_kind_would_ignore_is_refused() {
    let retried = around(json!({"type": "transform", "config": {"value": 1}, "retry": {"maxAttempts": 2}}));
    assert_problems(&retried, &[("it", "/nodes/1/retry", "no meaning for a node of type \"transform\"", "act")]);
    let timed = around(json!({"type": "delay", "config": {"delayMs": 1, "timeoutSeconds": 5}}));
    assert_problems(
        &timed,
        &[("it", "/nodes/1/config/timeoutSeconds", "no meaning for a node of type \"delay\"", "act")],
    );
    let both = around(json!({"type": "noop", "outputVariable": "a", "config": {"outputVariable": "b"}}));
    assert_problems(&both, &[("it", "/nodes/1/config/outputVariable", "stands at the node too", "keep one")]);
    let names = around(json!({"type": "noop", "name": "a", "title": "b"}));
    assert_problems(&names, &[("it", "/nodes/1/title", "title and name mean the same", "keep name")]);
    let until = with_config("delay", json!({"delayType": "until", "untilTime": "x", "delaySeconds": 5, "delayMs": 0}));
    assert_problems(&until, &[("it", "/nodes/1/config/delaySeconds", "no meaning with this delayType", "remove it")]);
}

#[test]
fn kinds_check_their_own_config() {
    for code in [json!({}), json!({"code": ""}), json!({"code": "  \n"})] {
        let empty = around(json!({"type": "javascript", "config": code}));
        assert_problems(&empty, &[("it", "/nodes/1/config/code", "code is empty", "catalog")]);
    }
    let config = around(json!({"type": "transform", "config": 5}));
    assert_problems(&config, &[("it", "/nodes/1/config", "expected an object, found a number", "braces")]);
    assert_problems(
        &with_config("transform", json!({})),
        &[("it", "/nodes/1/config/value", "needs the value", "such as")],
    );
    assert_problems(
        &with_config("wait", json!({"match": 5})),
        &[
            ("it", "/nodes/1/config/event", "needs the name of the event", "such as"),
            ("it", "/nodes/1/config/match", "expected an object", "such as"),
        ],
    );
    assert_problems(
        &with_config("loop", json!({"itemVariable": "x", "indexVariable": "x"})),
        &[
            ("it", "/nodes/1/config/sourceVariable", "a loop needs its items", "such as"),
            ("it", "/nodes/1/config/indexVariable", "different names", "such as"),
        ],
    );
    assert_problems(
        &with_config("delay", json!({"delayType": "dynamic"})),
        &[("it", "/nodes/1/config/delayVariable", "needs its milliseconds", "such as")],
    );
    assert_problems(
        &with_config("delay", json!({"delayType": "until"})),
        &[("it", "/nodes/1/config/untilTime", "needs a time", "such as")],
    );
    assert_problems(
        &with_config("scope", json!({"x": 1})),
        &[
            ("it", "/nodes/1/config/x", "unknown field", "takes no fields"),
            ("it", "/nodes/1", "has no body", "\"body\""),
        ],
    );
    let mut end = definition("start -> end");
    end["nodes"][0]["config"] = json!({"outputParameters": [{}, 5, {"name": "", "sourceVariable": 1}, {"name": "a", "sourceVariable": 1}, {"name": "a", "sourceVariable": 1}]});
    assert_problems(
        &end,
        &[
            ("end", "/nodes/0/config/outputParameters/0/name", "needs a name", "such as"),
            ("end", "/nodes/0/config/outputParameters/0/sourceVariable", "needs a source", "such as"),
            ("end", "/nodes/0/config/outputParameters/1", "expected an object", "braces"),
            ("end", "/nodes/0/config/outputParameters/2/name", "needs a name", "such as"),
            ("end", "/nodes/0/config/outputParameters/4/name", "\"a\" is there twice", "name of its own"),
        ],
    );
}

#[test]
fn a_condition_is_checked_branch_by_branch() {
    assert_problems(
        &with_config("condition", json!({})),
        &[("it", "/nodes/1/config/branches", "at least one branch", "such as")],
    );
    let found = with_config(
        "condition",
        json!({"defaultBranch": "error", "branches": [
            {"conditions": []},
            {"id": "error", "expression": "true"},
            {"id": "both", "expression": "true", "conditions": []},
            {"id": "none"},
            {"id": "same", "expression": "true"},
            {"id": "same", "condition": "{{ctx.x > }}"},
            {"id": "c", "conditions": [5, {"leftValue": 1}, {"leftValue": 5, "operator": "expression"}, {"leftValue": "{{ctx.", "operator": "equals"}]},
        ]}),
    );
    let at = |path: &str| format!("/nodes/1/config/branches/{path}");
    assert_problems(
        &found,
        &[
            ("it", "/nodes/1/config/defaultBranch", "`error` is the handle of a failed node", "such as"),
            ("it", &at("0/id"), "a branch needs an id", "sourceHandle"),
            ("it", &at("1/id"), "`error` is the handle of a failed node", "such as"),
            ("it", &at("2/conditions"), "either `conditions` or an `expression`", "keep one"),
            ("it", &at("3/conditions"), "needs `conditions` or an `expression`", "such as"),
            ("it", &at("5/id"), "\"same\" is there twice", "id of its own"),
            ("it", &at("5/expression"), "", "such as ctx."),
            ("it", &at("6/conditions/0"), "expected an object", "braces"),
            ("it", &at("6/conditions/1/operator"), "needs an operator", "one of equals"),
            ("it", &at("6/conditions/2/leftValue"), "expected an expression as text", "such as"),
            ("it", &at("6/conditions/3/leftValue"), "", "such as {{ctx."),
        ],
    );
}

#[test]
fn templates_are_checked_wherever_they_stand() {
    let broken = "{{ctx.a +}}";
    let template = |config: Value| -> Vec<String> {
        let kind = config["kind"].as_str().unwrap().to_owned();
        let found = problems(&with_config(&kind, config["config"].clone()));
        assert!(
            found.iter().all(|problem| problem.node.as_deref() == Some("it") && problem.hint.is_some()),
            "{found:#?}"
        );
        found.into_iter().map(|problem| problem.path.replace("/nodes/1/config", "")).collect()
    };
    assert_eq!(template(json!({"kind": "noop", "config": {"a": [broken, {"b": broken}]}})), ["/a/0", "/a/1/b"]);
    assert_eq!(template(json!({"kind": "noop", "config": {"a": {"$expr": "1 +"}}})), ["/a/$expr"]);
    assert_eq!(template(json!({"kind": "transform", "config": {"value": {"x": broken}}})), ["/value/x"]);
    assert_eq!(
        template(json!({"kind": "wait", "config": {"event": broken, "match": {"a": broken}}})),
        ["/event", "/match/a"]
    );
    assert_eq!(
        template(json!({"kind": "delay", "config": {"delayType": "dynamic", "delayVariable": broken}})),
        ["/delayVariable"]
    );
    assert_eq!(
        template(json!({"kind": "delay", "config": {"delayType": "until", "untilTime": broken}})),
        ["/untilTime"]
    );
    assert_eq!(template(json!({"kind": "loop", "config": {"sourceVariable": broken}})), ["/sourceVariable"]);
    // What a kind takes as written is not a template.
    assert_eq!(template(json!({"kind": "javascript", "config": {"code": "return '{{ctx.a +}}'"}})), [""; 0]);
    let mut end = definition("start -> end");
    end["nodes"][0]["config"] = json!({"outputParameters": [{"name": "a", "sourceVariable": broken}]});
    assert_problems(&end, &[("end", "/nodes/0/config/outputParameters/0/sourceVariable", "", "such as {{ctx.")]);
}

#[test]
fn variables_are_plain_names() {
    for bad in ["", "1x", "a-b", "__x", "input", "a.b", "ä", &"x".repeat(101)] {
        let found = around(json!({"type": "noop", "outputVariable": bad}));
        assert_problems(
            &found,
            &[("it", "/nodes/1/outputVariable", "cannot be a variable", "letters, digits and `_`")],
        );
        let found = around(json!({"type": "noop", "config": {"outputVariable": bad}}));
        assert_problems(&found, &[("it", "/nodes/1/config/outputVariable", "cannot be a variable", "letters")]);
        let found = with_config("loop", json!({"sourceVariable": [], "itemVariable": bad}));
        assert_problems(&found, &[("it", "/nodes/1/config/itemVariable", "cannot be a variable", "letters")]);
    }
    assert_eq!(problems(&around(json!({"type": "noop", "outputVariable": "_order2"}))), []);
}

#[test]
fn ten_faults_are_told_at_once() {
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
            ("b", "/nodes/2/config/delaySeconds", "expected a whole number from 0 to 59, found 99", "such as 0"),
            ("c", "/nodes/4/type", "unknown node type \"htp\"", "known types"),
            ("d", "/nodes/5/joinMode", "unknown value \"most\"", "one of all, any"),
            ("b", "/nodes/3/id", "id \"b\" is there twice", "id of its own"),
            ("d", "/edges/4/sourceHandle", "\"d\" has no handle \"maybe\"", "one of success, error"),
            ("", "/edges/7/target", "there is no node \"endd\"", "did you mean"),
            ("e", "/nodes/6", "a cycle outside a loop: f → e → f", "loop node"),
            ("lost", "/nodes/8", "not reached from the start", "connect"),
        ],
    );
}

#[test]
fn a_fault_does_not_beget_others() {
    // The condition inside the body is broken: its edges still tell which nodes the body has.
    let found = definition(
        "start -> loop -loop-> a -> check -yes-> b -> c -> loop\na -error-> c\nloop -done-> end\n\
         check: condition {\"config\": {\"branches\": []}}",
    );
    assert_problems(&found, &[("check", "/nodes/3/config/branches", "at least one branch", "such as")]);
    let loop_ = definition("start -> loop -loop-> a -> loop\nloop -done-> end\nloop: loop {\"config\": {}}");
    assert_problems(&loop_, &[("loop", "/nodes/2/config/sourceVariable", "needs its items", "such as")]);
    let handle = definition("start -> loop -lop-> a -> loop\nloop -done-> end");
    assert_problems(&handle, &[("loop", "/edges/1/sourceHandle", "no handle \"lop\"", "one of loop")]);
}

#[test]
fn a_definition_is_an_object_of_bounded_size() {
    for value in [json!(null), json!(5), json!("x"), json!([])] {
        let found = problems(&value);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "");
        assert!(found[0].message.starts_with("expected an object") && found[0].hint.is_some());
    }
    assert_problems(&json!({}), &[("", "/nodes", "a graph needs a list of nodes", "such as")]);
    assert_problems(&json!({"nodes": {}}), &[("", "/nodes", "expected an array, found an object", "brackets")]);
    let mut deep = json!(1);
    for _ in 0..200 {
        deep = json!([deep]);
    }
    let found = around(json!({"type": "noop", "config": {"x": deep}}));
    assert_problems(&found, &[("", "", "nested deeper than 100 levels", "flatten")]);
    let nodes: Vec<_> = (0..10_001).map(|i| json!({"id": format!("n{i}"), "type": "noop"})).collect();
    assert_problems(&json!({"nodes": nodes}), &[("", "/nodes", "10001 nodes are more than 10000", "split")]);
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
    assert_eq!(workflow.graph().retention_days(), Some(7));
    assert_eq!(
        *workflow.graph().definition(),
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
    let again = compile(workflow.graph().definition()).unwrap();
    assert_eq!(again.graph().definition(), workflow.graph().definition());
    assert_eq!(again.graph().definition().to_string(), workflow.graph().definition().to_string());
}

#[test]
fn every_text_s_definition_compiles_again_to_itself() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions");
    let mut seen = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let head = &text[..text.find("\n>").unwrap() + 1];
        let once = compile(&definition(head)).unwrap().graph().definition().clone();
        let twice = compile(&once).unwrap().graph().definition().clone();
        assert_eq!(once.to_string(), twice.to_string());
        seen.insert(once.to_string());
    }
    assert!(seen.len() > 50);
}

/// The time that something takes.
#[expect(clippy::disallowed_methods, reason = "a test may look at the clock")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let result = work();
    (result, begin.elapsed())
}

/// Performs every task as soon as it is dispatched.
fn run_to_the_end(game: &mut Game) {
    let mut todo: Vec<Entry> = game.input(Input::Start { input: Payload::from(json!({})) }).0;
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
    // Every edge leads nowhere.
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
