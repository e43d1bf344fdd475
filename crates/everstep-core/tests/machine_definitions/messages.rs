//! The messages of problems in definitions of machines, as a file: a review shows every change of a text.
//!
//! `BLESS=1 cargo test -p everstep-core machine_definitions` writes the file again; read the difference.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use everstep_core::machine::problem_code;
use serde_json::{Value, json};

use crate::support::{compile_machine, machine_with};

/// A machine of which one state, `open`, is given; `closed` is terminal.
fn with_state(state: &Value) -> Value {
    machine_with(std::slice::from_ref(state))
}

/// A machine whose only action is given.
fn with_action(action: &Value) -> Value {
    with_state(&json!({"name": "open", "initial": true, "on": {"CLOSE": action}}))
}

fn with_condition(condition: &Value) -> Value {
    with_action(&json!({"to": "closed", "condition": condition}))
}

fn with_rule(rule: &Value) -> Value {
    with_condition(&json!({"type": "json-logic", "rule": rule}))
}

fn with_event(event: &Value) -> Value {
    with_action(&json!({"to": "closed", "events": [event]}))
}

fn with_timer(timer: &Value) -> Value {
    with_state(&json!({"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed"}}, "after": [timer]}))
}

fn with_quorum(quorum: &Value) -> Value {
    with_action(&json!({"to": "closed", "quorum": quorum}))
}

fn with_schema(schema: Value, action: &Value) -> Value {
    let mut machine = with_action(action);
    machine["contextSchema"] = schema;
    machine
}

fn closed_schema() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "amount": {"type": "number"},
            "order": {"type": "object", "additionalProperties": false, "properties": {"total": {"type": "number"}}},
            "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}
        },
        "$defs": {"line": {"type": "object", "additionalProperties": false, "properties": {"price": {}}}}
    })
}

fn structure() -> Vec<Value> {
    let close = json!({"CLOSE": {"to": "closed"}});
    vec![
        json!({}),
        json!([]),
        json!({"states": "open"}),
        json!({"states": []}),
        json!({"states": [5]}),
        machine_with(&[json!({"name": "open", "on": close})]),
        machine_with(&[
            json!({"name": "open", "initial": true, "on": close}),
            json!({"name": "also", "initial": true, "on": close}),
        ]),
        machine_with(&[json!({"name": "open", "initial": true, "on": close}), json!({"name": "open", "on": close})]),
        with_action(&json!({"to": "close"})),
        with_action(&json!({"to": "archive"})),
        machine_with(&[json!({"name": "open", "initial": true, "on": close}), json!({"name": "lost", "on": close})]),
        machine_with(&[
            json!({"name": "open", "initial": true, "on": {"HOLD": {"to": "held"}, "CLOSE": {"to": "closed"}}}),
            json!({"name": "held"}),
        ]),
        machine_with(&[
            json!({"name": "open", "initial": true, "on": {"HOLD": {"to": "held"}, "CLOSE": {"to": "closed"}}}),
            json!({"name": "held", "on": {"HOLD": {"to": "held"}}}),
        ]),
        machine_with(&[
            json!({"name": "open", "initial": true, "on": {"DROP": {"to": "dropped"}, "CLOSE": {"to": "closed"}}}),
            json!({
                "name": "dropped", "terminal": true, "error": true, "on": close, "after": [{"in": "1h", "to": "open"}],
                "run": {"workflow": "audit", "done": "open"}, "show": ["a"], "assign": ["ann"], "output": 1,
                "exit": [{"type": "assign", "target": "ann"}]
            }),
        ]),
        with_state(&json!({"name": "o p", "initial": true, "on": {"1st": {"to": "closed"}}})),
        with_state(&json!({"initial": true, "on": close})),
        with_state(&json!({"name": "open", "initial": true, "on": close, "error": true, "output": {}})),
        with_state(&json!({"name": "open", "initial": true, "on": close, "colour": "red", "onTimeout": 1})),
        with_state(&json!({"name": "open", "initial": "yes", "on": [], "show": [], "assign": "ann"})),
        with_action(&json!({})),
        with_action(&json!({"to": "closed", "choose": []})),
        with_action(&json!({"choose": []})),
        with_action(&json!({"choose": [{"to": "closed"}, {"to": "closed", "when": true}, {}]})),
        with_action(&json!({"to": "closed", "message": "too much"})),
        with_action(&json!({"to": "closed", "needs": {"comment": 1, "files": 0, "folder": 1, "data": ["a..b", 5]}})),
        with_action(&json!({"to": "closed", "set": {"a b": 1, "total": "{{ctx.total +}}", "x": {"$secret": "key"}}})),
        with_action(&json!({"to": "closed", "set": {"a": "{{user.id}}", "b": "{{meta.by}}"}})),
        with_action(&json!({"to": "closed", "set": {"input": 1}, "needs": {"data": ["input.a", "input", "inputs"]}})),
        json!({
            "workflow": 5, "version": true, "description": [], "start": {}, "options": {"retentionDays": 0},
            "states": [{"name": "open", "initial": true, "terminal": true}], "trigger": {}
        }),
    ]
}

fn people() -> Vec<Value> {
    let close = json!({"CLOSE": {"to": "closed"}});
    let mut start = with_action(&json!({"to": "closed"}));
    start["start"] = json!({"require": {"assigned": true, "notBy": ["CLOSE"]}});
    let quorum = |need: Value| json!({"to": "closed", "quorum": {"of": ["ann", "bob", "cay"], "need": need}});
    vec![
        with_action(&json!({"to": "closed", "require": {}})),
        with_action(&json!({"to": "closed", "require": {"role": "Manager", "assigned": false, "not_by": ["@start"]}})),
        with_action(
            &json!({"to": "closed", "require": {"role": [], "user": ["", 5], "notBy": ["@begin", "OPEN", "CLOS"]}}),
        ),
        start,
        with_state(&json!({"name": "open", "initial": true, "on": close, "onStalemate": "REJECT"})),
        with_quorum(&json!({"of": ["ann"]})),
        with_quorum(&json!({"need": "ALL"})),
        with_quorum(&json!({"need": "60%"})),
        with_quorum(&json!({"need": "all", "of": ["ann"]})),
        with_quorum(&json!({"need": 0})),
        with_quorum(&json!({"need": 3, "of": ["ann", "bob", "ann"]})),
        with_quorum(&json!({"need": ["ann"], "of": []})),
        with_action(&json!({"to": "closed", "quorum": {"need": 2}, "needs": {"data": ["amount"]}})),
        with_state(&json!({
            "name": "open", "initial": true,
            "on": {"APPROVE": quorum(json!("ALL")), "REJECT": quorum(json!("MAJORITY"))}
        })),
    ]
}

fn effects() -> Vec<Value> {
    let auto = |action: &str| json!([{"type": "auto_action", "target": action}]);
    vec![
        with_timer(&json!({})),
        with_timer(&json!({"in": "2 days", "every": "1h", "times": 3, "to": "closed"})),
        with_timer(&json!({"in": "{{ctx.hours}}h", "at": "soon", "to": "closed", "do": "CLOSE"})),
        with_timer(&json!({"at": "soon", "do": "CLOS"})),
        with_timer(&json!({"at": 5, "to": "closed"})),
        with_timer(&json!({"in": 5, "to": "closed"})),
        with_timer(&json!({"in": "0s", "to": "closed"})),
        with_event(&json!({})),
        with_event(&json!({"type": "webhook"})),
        with_event(&json!({"type": "webhook", "target": "erp.example.com"})),
        with_event(&json!({"type": "webhook", "target": 7, "timeoutSeconds": 61, "template": {}})),
        with_event(&json!({"type": "webhook", "target": "https://example.com/", "secret": "whsec_abc"})),
        with_event(&json!({
            "type": "webhook", "target": "https://example.com/", "headers": {"webhook-id": "1", "x": null},
        })),
        with_event(&json!({"type": "webhook", "target": "https://{{ctx.host}}/", "headers": {"x": {"$secret": "a"}}})),
        with_event(&json!({"type": "webhook", "target": "https://example.com/", "payload": {"x": {"$secret": "a"}}})),
        with_event(&json!({"type": "webhook", "target": "https://example.com/", "retry": {"maxAttempts": 21}})),
        with_event(&json!({"type": "workflow", "target": "Not a name", "secret": {"$secret": "a"}})),
        with_event(&json!({"type": "notify"})),
        with_event(&json!({"type": "notify", "target": "ann", "template": "t"})),
        with_event(&json!({"type": "notify", "target": [], "template": {}})),
        with_event(&json!({
            "type": "notify", "target": ["a@b, c@d", 7, "a@b\r\nBcc: c@d"], "secret": {"$secret": "a"}, "payload": {},
            "template": {"subject": "one\r\ntwo", "text": 5, "html": "<p>"},
        })),
        with_event(&json!({
            "type": "notify", "target": "{{ctx.x +}}",
            "template": {"subject": "{{user.id}}", "text": {"$secret": "a"}},
        })),
        with_event(&json!({"type": "asign", "target": "ann"})),
        with_event(&json!({"type": "assign", "payload": {}, "template": "t"})),
        with_event(&json!({"type": "assign", "target": []})),
        with_event(&json!({"type": "auto_action", "target": "OPEN", "payload": 5})),
        with_event(&json!({"type": "auto_action", "target": "{{ctx.next}}"})),
        with_action(&json!({
            "to": "closed",
            "events": [{"id": "a b", "type": "assign", "target": "ann"}, {"id": "x", "type": "assign", "target": "ann"},
                {"id": "x", "type": "assign", "target": "bob"}]
        })),
        with_state(
            &json!({"name": "open", "initial": true, "run": {"workflow": "No Name", "version": 0, "saveAs": "1"}}),
        ),
        machine_with(&[
            json!({"name": "open", "initial": true, "on": {"GO": {"to": "next"}, "CLOSE": {"to": "closed"}}}),
            json!({"name": "next", "entry": auto("BACK"), "on": {"BACK": {"to": "third", "events": auto("AGAIN")}}}),
            json!({"name": "third", "on": {"AGAIN": {"to": "next"}}}),
        ]),
    ]
}

fn conditions() -> Vec<Value> {
    let line = json!({"and": [{"var": "lines.0.price"}, {"var": "lines.length"}, {"var": "lines.0.cost"}]});
    vec![
        with_condition(&json!("amount > 5")),
        with_condition(&json!({"type": "javascript", "rule": "true"})),
        with_condition(&json!({">": [{"var": "amount"}, 5]})),
        with_rule(&json!({"greater": [{"var": "amount"}, 5]})),
        with_rule(&json!({"var": "x".repeat(70_000)})),
        with_rule(&json!({"and": [{"var": "$usr.id"}, {"var": "$user.email"}, {"var": "$user.id"}]})),
        with_schema(
            closed_schema(),
            &json!({"to": "closed", "condition": {"type": "json-logic", "rule": {">": [{"var": "amuont"}, {"var": "order.sum"}]}}}),
        ),
        with_schema(closed_schema(), &json!({"to": "closed", "condition": {"type": "json-logic", "rule": line}})),
        with_schema(
            closed_schema(),
            &json!({"to": "closed", "set": {"sum": "{{ctx.amont}}"}, "needs": {"data": ["order.totl"]}}),
        ),
        with_schema(json!("object"), &json!({"to": "closed"})),
        with_schema(json!({"type": "text", "properties": {"a": {"nullable": true}}}), &json!({"to": "closed"})),
    ]
}

#[test]
fn messages_of_problems_of_machines_are_as_written() {
    let mut text = String::new();
    let mut codes = BTreeSet::new();
    for definition in [structure(), people(), effects(), conditions()].into_iter().flatten() {
        let title: String = definition.to_string().chars().take(600).collect();
        writeln!(text, "{title}").unwrap();
        let problems = compile_machine(&definition).err().unwrap_or_default();
        assert!(!problems.is_empty(), "{definition} has no problem");
        for problem in problems {
            codes.extend(problem.code);
            let code = problem.code.map(|code| format!("{code} ")).unwrap_or_default();
            writeln!(text, "  {code}{}: {}", problem.path, problem.message).unwrap();
            writeln!(text, "      hint: {}", problem.hint.as_deref().unwrap_or("none")).unwrap();
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machine_definitions/messages.txt");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(written == text, "{} is out of date: write it again with BLESS=1\n{text}", file.display());
    let missing: Vec<_> = problem_code::ALL.iter().filter(|code| !codes.contains(*code)).collect();
    assert!(missing.is_empty(), "no definition of this test has {missing:?}");
}
