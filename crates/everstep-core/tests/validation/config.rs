//! Fields, configs and templates.

use serde_json::{Value, json};

use super::{add, around, assert_problems, problems, with_config};
use crate::support::definition;

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
            ("start", "/nodes/0/config/x", "unknown field", "has no fields"),
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
            ("it", "/nodes/1/config/delaySeconds", "needs a duration", "delayMinutes"),
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
        assert_problems(&with_config(kind, config), &[("it", &path, "expected a whole number from", "example")]);
    }
    let days = with_config("delay", json!({"delayMinutes": 1440, "delaySeconds": 1}));
    assert_problems(&days, &[("it", "/nodes/1/config/delayMinutes", "at most 24 hours", "several delay nodes")]);
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
    assert_problems(&timeout, &[("it", "/nodes/1/timeoutSeconds", "expected a whole number", "example 1")]);
    let mut days = definition("start -> end");
    days["options"] = json!({"retentionDays": 0});
    assert_problems(&days, &[("", "/options/retentionDays", "expected a whole number from 1 to 3650", "example 1")]);
}

#[test]
fn numbers_may_be_written_as_text() {
    let found = with_config("delay", json!({"delayMinutes": "1", "delaySeconds": " 2 ", "delayMs": 3.0}));
    assert_eq!(problems(&found), []);
}

#[test]
fn a_retry_policy_is_consistent() {
    let long = around(json!({"type": "noop", "retry": {"baseMs": 600_000}}));
    assert_problems(&long, &[("it", "/nodes/1/retry/baseMs", "greater than maxMs (300000)", "increase maxMs")]);
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
    assert_problems(&retried, &[("it", "/nodes/1/retry", "no effect for a node of type \"transform\"", "handler")]);
    let timed = around(json!({"type": "delay", "config": {"delayMs": 1, "timeoutSeconds": 5}}));
    assert_problems(
        &timed,
        &[("it", "/nodes/1/config/timeoutSeconds", "no effect for a node of type \"delay\"", "handler")],
    );
    let both = around(json!({"type": "noop", "outputVariable": "a", "config": {"outputVariable": "b"}}));
    assert_problems(
        &both,
        &[("it", "/nodes/1/config/outputVariable", "the field is set in the node and in its config", "keep one")],
    );
    let names = around(json!({"type": "noop", "name": "a", "title": "b"}));
    assert_problems(&names, &[("it", "/nodes/1/title", "title and name are two names of one field", "keep name")]);
    let until = with_config("delay", json!({"delayType": "until", "untilTime": "x", "delaySeconds": 5, "delayMs": 0}));
    assert_problems(&until, &[("it", "/nodes/1/config/delaySeconds", "no effect with this delayType", "remove it")]);
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
        &[("it", "/nodes/1/config/value", "a transform needs a value", "example")],
    );
    assert_problems(
        &with_config("wait", json!({"match": 5})),
        &[
            ("it", "/nodes/1/config/event", "needs the name of a signal", "example"),
            ("it", "/nodes/1/config/match", "expected an object", "example"),
        ],
    );
    assert_problems(
        &with_config("wait", json!({"event": "a", "approval": "b"})),
        &[("it", "/nodes/1/config/approval", "an `event` or for an `approval`", "keep one")],
    );
    assert_problems(
        &with_config("wait", json!({"approval": ""})),
        &[("it", "/nodes/1/config/approval", "needs the name of a signal", "example")],
    );
    assert_problems(
        &with_config("loop", json!({"itemVariable": "x", "indexVariable": "x"})),
        &[
            ("it", "/nodes/1/config/sourceVariable", "a loop needs items", "example"),
            ("it", "/nodes/1/config/indexVariable", "different names", "example"),
        ],
    );
    assert_problems(
        &with_config("delay", json!({"delayType": "dynamic"})),
        &[("it", "/nodes/1/config/delayVariable", "needs an expression for its milliseconds", "example")],
    );
    assert_problems(
        &with_config("delay", json!({"delayType": "until"})),
        &[("it", "/nodes/1/config/untilTime", "needs `untilTime`", "example")],
    );
    assert_problems(
        &with_config("scope", json!({"x": 1})),
        &[
            ("it", "/nodes/1/config/x", "unknown field", "has no fields"),
            ("it", "/nodes/1", "has an empty body", "\"body\""),
        ],
    );
    let mut end = definition("start -> end");
    end["nodes"][0]["config"] = json!({"outputParameters": [{}, 5, {"name": "", "sourceVariable": 1}, {"name": "a", "sourceVariable": 1}, {"name": "a", "sourceVariable": 1}]});
    assert_problems(
        &end,
        &[
            ("end", "/nodes/0/config/outputParameters/0/name", "needs a name", "example"),
            ("end", "/nodes/0/config/outputParameters/0/sourceVariable", "needs a source", "example"),
            ("end", "/nodes/0/config/outputParameters/1", "expected an object", "braces"),
            ("end", "/nodes/0/config/outputParameters/2/name", "needs a name", "example"),
            ("end", "/nodes/0/config/outputParameters/4/name", "have the name \"a\"", "a different name"),
        ],
    );
}

#[test]
fn a_condition_is_checked_branch_by_branch() {
    assert_problems(
        &with_config("condition", json!({})),
        &[("it", "/nodes/1/config/branches", "at least one branch", "example")],
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
            ("it", "/nodes/1/config/defaultBranch", "`error` is reserved for the handle of a failed node", "example"),
            ("it", &at("0/id"), "a branch needs an id", "sourceHandle"),
            ("it", &at("1/id"), "`error` is reserved for the handle of a failed node", "example"),
            ("it", &at("2/conditions"), "either `conditions` or an `expression`", "keep one"),
            ("it", &at("3/conditions"), "needs `conditions` or an `expression`", "example"),
            ("it", &at("5/id"), "have the id \"same\"", "a different id"),
            ("it", &at("5/condition"), "", "example ctx."),
            ("it", &at("6/conditions/0"), "expected an object", "braces"),
            ("it", &at("6/conditions/1/operator"), "needs an operator", "one of equals"),
            ("it", &at("6/conditions/2/leftValue"), "expected an expression as a string", "example"),
            ("it", &at("6/conditions/3/leftValue"), "", "example {{ctx."),
        ],
    );
}

#[test]
fn templates_are_checked_at_every_depth() {
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
    // A raw field is not a template.
    assert_eq!(template(json!({"kind": "javascript", "config": {"code": "return '{{ctx.a +}}'"}})), [""; 0]);
    let mut end = definition("start -> end");
    end["nodes"][0]["config"] = json!({"outputParameters": [{"name": "a", "sourceVariable": broken}]});
    assert_problems(&end, &[("end", "/nodes/0/config/outputParameters/0/sourceVariable", "", "example {{ctx.")]);
}

#[test]
fn variables_are_plain_names() {
    for bad in ["", "1x", "a-b", "__x", "input", "a.b", "ä", &"x".repeat(101)] {
        let found = around(json!({"type": "noop", "outputVariable": bad}));
        assert_problems(
            &found,
            &[("it", "/nodes/1/outputVariable", "is not a valid name of a variable", "letters, digits and `_`")],
        );
        let found = around(json!({"type": "noop", "config": {"outputVariable": bad}}));
        assert_problems(
            &found,
            &[("it", "/nodes/1/config/outputVariable", "is not a valid name of a variable", "letters")],
        );
        let found = with_config("loop", json!({"sourceVariable": [], "itemVariable": bad}));
        assert_problems(
            &found,
            &[("it", "/nodes/1/config/itemVariable", "is not a valid name of a variable", "letters")],
        );
    }
    assert_eq!(problems(&around(json!({"type": "noop", "outputVariable": "_order2"}))), []);
}

#[test]
fn a_workflow_is_called_by_its_name() {
    let config = |field: &str| format!("/nodes/1/config/{field}");
    assert_problems(
        &with_config("workflow", json!({})),
        &[("it", &config("workflow"), "needs the name of the workflow", "lowercase letters")],
    );
    for bad in ["", "Orders", "{{ctx.name}}", "-a", &"x".repeat(129)] {
        assert_problems(
            &with_config("workflow", json!({"workflow": bad})),
            &[("it", &config("workflow"), "is not a valid name of a workflow", "lowercase letters")],
        );
    }
    assert_problems(
        &with_config("workflow", json!({"workflow": 5, "version": 0, "wait": "no", "inputs": 1, "input": "{{ctx."})),
        &[
            ("it", &config("workflow"), "expected a string", "quotes"),
            ("it", &config("version"), "a whole number from 1", "example 1"),
            ("it", &config("wait"), "expected true or false", "without quotes"),
            ("it", &config("inputs"), "unknown field", "\"input\""),
            ("it", &config("input"), "", "example {{ctx."),
        ],
    );
    assert_problems(
        &with_config("workflow", json!({"workflow": "other", "input": {"a": "{{ctx.a +}}"}})),
        &[("it", &config("input/a"), "", "example {{ctx.")],
    );
    let sound = json!({"workflow": "other", "version": "3", "input": null, "wait": true, "timeoutSeconds": 5});
    assert_eq!(problems(&with_config("workflow", sound)), []);
}

#[test]
fn a_workflow_node_may_be_retried_and_timed() {
    let node = |wait: bool| {
        let config = json!({"workflow": "other", "wait": wait});
        json!({"type": "workflow", "config": config, "retry": {"maxAttempts": 2}, "timeoutSeconds": 5})
    };
    assert_eq!(problems(&around(node(true))), []);
    let expected = [("it", "/nodes/1/config/wait", "timeoutSeconds has no effect if `wait` is false", "remove")];
    assert_problems(&around(node(false)), &expected);
    let mut edges = around(json!({"type": "workflow", "config": {"workflow": "other"}}));
    edges["edges"][1]["sourceHandle"] = "timeout".into();
    assert_problems(&edges, &[("it", "/edges/1/sourceHandle", "has no handle", "success, error")]);
    let mistyped = around(json!({"type": "workflo"}));
    assert_problems(&mistyped, &[("it", "/nodes/1/type", "unknown node type", "\"workflow\"")]);
}
