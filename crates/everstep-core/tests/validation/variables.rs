//! The names that an expression may read are checked when a workflow is saved.

use std::time::Duration;

use everstep_core::graph::Problem;
use serde_json::{Value, json};

use super::{assert_problems, problems};
use crate::support::{definition, load, timed};

/// Asserts that a head is valid.
#[track_caller]
fn assert_sound(head: &str) {
    let found = problems(&definition(head));
    assert!(found.is_empty(), "{head}: {found:#?}");
}

/// Asserts that a head has one unknown name: its node, part of the message, part of the hint.
#[track_caller]
fn assert_unknown(head: &str, node: &str, message: &str, hint: &str) {
    let found = problems(&definition(head));
    let [problem] = found.as_slice() else { panic!("{head}: {found:#?}") };
    assert_eq!(problem.code, Some("UNKNOWN_VARIABLE"));
    assert_eq!(problem.node.as_deref(), Some(node));
    assert!(problem.message.contains(message), "{problem:#?}");
    assert!(problem.hint.as_ref().unwrap().contains(hint), "{problem:#?}");
    let definition = definition(head);
    assert!(definition.pointer(&problem.path).is_some(), "{} is no place in it", problem.path);
}

/// A line that makes `id` a transform of `source`, into the variable `id`.
fn makes(id: &str, source: &str) -> String {
    format!("\n{id}: transform {{\"config\": {{\"value\": \"{source}\"}}, \"outputVariable\": \"{id}\"}}")
}

#[test]
fn a_mistyped_variable_is_reported_with_the_nearest_name() {
    let head = |source: &str| "start -> total -> b -> end".to_owned() + &makes("total", "1") + &makes("b", source);
    assert_sound(&head("{{ctx.total + vars.total}}"));
    assert_unknown(&head("{{ctx.totl}}"), "b", "no node before this one writes `ctx.totl`", "did you mean ctx.total?");
    assert_unknown(&head("{{1 + vars.totl.x}}"), "b", "`ctx.totl`", "did you mean ctx.total?");
    assert_unknown(&head("{{ctx.weather}}"), "b", "`ctx.weather`", "known here: ctx.input, ctx.total;");
    assert_unknown(&head("{{ctx.b}}"), "b", "`ctx.b`", "node \"b\" writes it, but is not before this one");
    let twice = head("{{ctx.totl}} of {{ctx.totl}}");
    assert_unknown(&twice, "b", "`ctx.totl`", "ctx.total");
}

#[test]
fn a_problem_has_its_place() {
    let found = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "it", "type": "noop", "config": {"a": [{"b": "{{ctx.x}}"}, {"$expr": "ctx.y > 1"}]}},
            {"id": "end", "type": "end"}
        ],
        "edges": [{"source": "start", "target": "it"}, {"source": "it", "target": "end"}]
    });
    assert_problems(
        &found,
        &[
            ("it", "/nodes/1/config/a/0/b", "no node before this one writes `ctx.x`", "known here: ctx.input"),
            ("it", "/nodes/1/config/a/1/$expr", "`ctx.y`", "default()"),
        ],
    );
}

#[test]
fn a_variable_of_some_path_may_be_read() {
    let head = "start -> check -yes-> a -> join -> end\ncheck -default-> join\n\
                check: condition {\"config\": {\"branches\": [{\"id\": \"yes\", \"expression\": \"payload.x\"}]}}"
        .to_owned()
        + &makes("a", "1")
        + &makes("join", "{{ctx.a}} {{ctx.__node_a.status}} {{ctx.__node_check.output.branch}}");
    assert_sound(&head);
}

#[test]
fn a_variable_of_a_path_beside_is_not_known() {
    let head = |source: &str| {
        "start -> a -> join -> end\nstart -> b -> join".to_owned() + &makes("a", "1") + &makes("b", source)
    };
    assert_unknown(&head("{{ctx.a}}"), "b", "`ctx.a`", "node \"a\" writes it, but is not before");
    assert_unknown(&head("{{ctx.__node_a.output}}"), "b", "`ctx.__node_a`", "node \"a\" is not before");
    assert_unknown(&head("{{ctx.__node_z}}"), "b", "`ctx.__node_z`", "there is no node \"z\"");
    let after = "start -> a -> b -> end".to_owned() + &makes("a", "{{ctx.b}}") + &makes("b", "1");
    assert_unknown(&after, "a", "`ctx.b`", "is not before");
}

#[test]
fn a_handled_failure_is_in_its_variable() {
    let head = "start -> a -error-> b -> end\na -> end2".to_owned()
        + "\na: javascript {\"config\": {\"code\": \"return 1\"}}"
        + &makes("b", "{{ctx.jsResult.error.code}}");
    assert_sound(&head);
}

#[test]
fn a_body_sees_what_is_around_it_and_keeps_its_own() {
    let head = |body: &str, after: &str| {
        "start -> a -> loop -loop-> b -> c\nloop -done-> d -> end\n\
         loop: loop {\"config\": {\"sourceVariable\": \"{{ctx.a}}\", \"itemVariable\": \"row\"}}"
            .to_owned()
            + &makes("a", "1")
            + &makes("b", "{{row.x}}")
            + &makes("c", body)
            + &makes("d", after)
    };
    assert_sound(&head("{{ctx.a}} {{ctx.b}} {{ctx.row}} {{row}} {{index}} {{ctx.index}}", "{{ctx.loopResults}}"));
    assert_unknown(
        &head("{{item}}", "1"),
        "c",
        "`item` does not exist here",
        "one of ctx, vars, payload, meta, row, index",
    );
    assert_unknown(&head("{{ctx.loopResults}}", "1"), "c", "`ctx.loopResults`", "node \"loop\" writes it");
    assert_unknown(&head("{{ctx.__node_loop}}", "1"), "c", "`ctx.__node_loop`", "is not before");
    assert_unknown(&head("1", "{{ctx.b}}"), "d", "`ctx.b`", "is inside another body");
    assert_unknown(&head("1", "{{row}}"), "d", "`row` does not exist here", "with one of ctx, vars, payload, meta");
    assert_unknown(&head("1", "{{ctx.__node_b}}"), "d", "`ctx.__node_b`", "inside another body");
}

#[test]
fn nested_bodies_see_outwards() {
    let head = "start -> each -loop-> scope -body-> x -> scope\nscope -> each\nscope -error-> y\neach -done-> end\n\
                each: loop {\"config\": {\"sourceVariable\": [1], \"itemVariable\": \"row\"}}"
        .to_owned()
        + &makes("x", "{{row}} {{index}}")
        + &makes("y", "{{ctx.scopeResult.error.message}} {{row}}");
    assert_sound(&head);
}

#[test]
fn a_fallback_forgives_an_unknown_variable_but_not_an_unknown_root() {
    let head = |source: &str| "start -> b -> end".to_owned() + &makes("b", source);
    assert_sound(&head("{{ctx.note | default('none')}}"));
    assert_sound(&head("{{ctx.note.x if ctx.note is defined else 1}}"));
    assert_sound(&head("{{ctx[payload.key] | default(1)}}"));
    assert_unknown(&head("{{foo.bar | default(1)}}"), "b", "`foo` does not exist here", "with one of");
    assert_unknown(&head("{{ctxx.input}}"), "b", "`ctxx` does not exist here", "did you mean \"ctx\"?");
    assert_unknown(&head("{{input.x}}"), "b", "`input` does not exist here", "write ctx.input");
    assert_unknown(&head("{{meta.runID}}"), "b", "`meta` has no field \"runID\"", "one of runId");
    assert_sound(&head("{{meta.runId}} {{payload.anything}} {{ctx.input.anything}} {{payload == null}}"));
}

#[test]
fn conditions_are_checked_though_they_forgive_at_run_time() {
    let head = |test: &str| {
        format!(
            "start -> check -yes-> end\ncheck: condition {{\"config\": {{\"branches\": [{{\"id\": \"yes\", {test}}}]}}}}"
        )
    };
    let expression = |source: &str| head(&format!("\"expression\": \"{source}\""));
    let left =
        |source: &str| head(&format!("\"conditions\": [{{\"leftValue\": \"{source}\", \"operator\": \"is_empty\"}}]"));
    assert_unknown(&expression("ctx.totl > 1"), "check", "`ctx.totl`", "known here");
    assert_unknown(&left("{{ctx.totl}}"), "check", "`ctx.totl`", "known here");
    assert_unknown(&head("\"condition\": \"ctx.totl\""), "check", "`ctx.totl`", "known here");
    assert_sound(&expression("ctx.totl is defined and ctx.totl > 1"));
    assert_sound(&left("{{ctx.input.totl}}"));
}

#[test]
fn code_is_not_looked_into() {
    assert_sound("start -> a -> end\na: javascript {\"config\": {\"code\": \"return '{{ctx.missing}} {{foo}}'\"}}");
}

#[test]
fn one_fault_is_reported_once() {
    // The variables of a node of unknown type are not known; neither are the names of a loop whose config is wrong.
    let head = "start -> a -> b -> end\na: javascrip {}".to_owned() + &makes("b", "{{ctx.jsResult}}");
    assert_problems(&definition(&head), &[("a", "/nodes/0/type", "unknown node type", "javascript")]);
    let head = "start -> each -loop-> b\neach -done-> end\neach: loop {\"config\": {\"itemVariable\": \"row\"}}"
        .to_owned()
        + &makes("b", "{{row}}");
    assert_problems(&definition(&head), &[("each", "/nodes/1/config/sourceVariable", "a loop needs items", "example")]);
}

#[test]
fn other_problems_are_reported_beside_it() {
    let head =
        "start -> a -> b -> end\na: noop {\"retry\": {\"maxAttempts\": 0}}".to_owned() + &makes("b", "{{ctx.x}}");
    assert_problems(
        &definition(&head),
        &[
            ("a", "/nodes/0/retry/maxAttempts", "expected a whole number", "example"),
            ("b", "/nodes/1/config/value", "`ctx.x`", "known here"),
        ],
    );
}

#[test]
fn unknown_variables_are_reported_beside_a_node_of_an_unknown_type() {
    let unknown_type = ("a", "/nodes/0/type", "unknown node type", "javascript");
    let head = |source: &str| definition(&("start -> a -> b -> end\na: javascrip {}".to_owned() + &makes("b", source)));
    assert_problems(
        &head("{{ctx.x}}"),
        &[unknown_type, ("b", "/nodes/1/config/value", "no node before this one writes `ctx.x`", "known here")],
    );
    // It may write the default variable of any type, and it may be meant as a loop.
    for source in ["{{ctx.jsResult}}", "{{ctx.loopResults}}", "{{item}} {{ctx.index}}", "{{ctx.input.x}}"] {
        assert_problems(&head(source), &[unknown_type]);
    }
    // It writes the variable that it names, and no default.
    let named = "start -> a -> b -> end\na: javascrip {\"outputVariable\": \"y\"}".to_owned();
    assert_problems(&definition(&(named.clone() + &makes("b", "{{ctx.y}}"))), &[unknown_type]);
    assert_problems(
        &definition(&(named + &makes("b", "{{ctx.jsResult}}"))),
        &[unknown_type, ("b", "/nodes/1/config/value", "`ctx.jsResult`", "known here")],
    );
}

#[test]
fn unknown_variables_are_reported_beside_problems_of_the_shape() {
    // An edge leads nowhere, a node has no id, and two names are unknown: one round reports all of it.
    let broken = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "a", "type": "transform", "config": {"value": "{{ctx.nowhere}} {{ctx.later}} {{ctx.unread}}"}},
            {"id": "b", "type": "transform", "outputVariable": "later", "config": {"value": "{{foo}} {{row}}"}},
            {"id": "each", "type": "loop", "config": {"sourceVariable": [1], "itemVariable": "row"}},
            {"type": "transform", "outputVariable": "unread", "config": {"value": 1}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"source": "start", "target": "a"}, {"source": "a", "target": "b"}, {"source": "b", "target": "each"},
            {"source": "each", "sourceHandle": "done", "target": "missing-node"}, {"source": "b", "target": "end"},
        ],
    });
    let found = problems(&broken);
    let unknown: Vec<_> = found
        .iter()
        .filter(|problem| problem.code == Some("UNKNOWN_VARIABLE"))
        .map(|problem| (problem.path.as_str(), problem.message.as_str()))
        .collect();
    assert_eq!(
        unknown,
        [
            ("/nodes/1/config/value", "no node before this one writes `ctx.nowhere`"),
            ("/nodes/2/config/value", "`foo` does not exist here"),
        ]
    );
    for part in ["there is no node \"missing-node\"", "a node needs an id", "has an empty body"] {
        assert!(found.iter().any(|problem| problem.message.contains(part)), "{part}: {found:#?}");
    }
}

#[test]
fn what_was_saved_before_still_loads() {
    let head = definition(&("start -> b -> end".to_owned() + &makes("b", "{{ctx.missing}} {{foo}}")));
    assert_eq!(problems(&head).len(), 2);
    assert!(load(&head).is_ok());
}

fn problems_in_time(definition: &Value) -> Vec<Problem> {
    let (found, time) = timed(|| problems(definition));
    assert!(time < Duration::from_secs(2), "{time:?}");
    found
}

#[test]
fn ten_thousand_nodes_that_read_and_write_compile_in_time() {
    let node = |i: usize, source: &str| {
        json!({"id": format!("n{i}"), "type": "transform", "outputVariable": format!("v{i}"),
               "config": {"value": source}})
    };
    let wrap = |mut nodes: Vec<Value>, edges: Vec<Value>| {
        nodes.push(json!({"id": "start", "type": "start"}));
        nodes.push(json!({"id": "end", "type": "end"}));
        json!({"nodes": nodes, "edges": edges})
    };
    let edge = |from: String, to: String| json!({"source": from, "target": to});
    const COUNT: usize = 9_998;
    let line = wrap(
        (0..COUNT).map(|i| node(i, &format!("{{{{ctx.v{}}}}}", if i == 0 { 1 } else { i - 1 }))).collect(),
        (0..=COUNT)
            .map(|i| {
                let from = i.checked_sub(1).map_or("start".to_owned(), |i| format!("n{i}"));
                edge(from, if i == COUNT { "end".to_owned() } else { format!("n{i}") })
            })
            .collect(),
    );
    // The first node reads a variable that only the second writes.
    let found = problems_in_time(&line);
    assert_eq!(found.len(), 1, "{found:#?}");
    // Every node is wrong: each reads a variable that a parallel node writes.
    let fan = wrap(
        (0..COUNT).map(|i| node(i, &format!("{{{{ctx.v{}}}}}", (i + 1) % COUNT))).collect(),
        (0..COUNT).flat_map(|i| [edge("start".into(), format!("n{i}")), edge(format!("n{i}"), "end".into())]).collect(),
    );
    assert_eq!(problems_in_time(&fan).len(), COUNT);
}
