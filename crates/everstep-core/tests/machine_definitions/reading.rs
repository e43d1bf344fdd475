//! How a definition of a machine is read, and the form in which it is stored.

use everstep_core::graph::Problem;
use everstep_core::machine;
use everstep_core::schema::{CheckMode, Schema};
use everstep_core::style::StyleName;
use everstep_expressions::Expressions;
use serde_json::{Value, json};

use super::whole;
use crate::support::{compile_definition, compile_machine, machine_with};

fn problems(definition: &Value) -> Vec<Problem> {
    compile_machine(definition).err().unwrap_or_default()
}

/// The codes and paths of the problems of a definition.
fn places(definition: &Value) -> Vec<(&'static str, String)> {
    problems(definition).into_iter().map(|problem| (problem.code.unwrap_or_default(), problem.path)).collect()
}

#[test]
fn a_definition_is_stored_in_canonical_form() {
    let machine = compile_machine(&whole()).unwrap();
    assert_eq!(*machine.definition(), whole(), "a canonical definition stays as it is");
    assert_eq!(machine.definition().to_string(), whole().to_string());
    assert_eq!(machine.retention_days(), Some(90));

    let loose = json!({
        "states": [
            {
                "on": {"GO": {
                    "events": [], "to": "closed", "require": {"user": "ann", "role": null}, "needs": {"comment": false},
                    "set": {}, "title": null
                }},
                "after": [], "terminal": false, "initial": true, "name": "open", "assign": [],
                "entry": [{"target": "ann", "type": "assign"}]
            },
            {"name": "closed", "terminal": true, "on": {}, "error": false}
        ],
        "context_schema": {"type": "object"},
        "version": 2
    });
    let canonical = json!({
        "version": "2",
        "contextSchema": {"type": "object"},
        "states": [
            {
                "name": "open", "initial": true,
                "on": {"GO": {"require": {"user": ["ann"]}, "to": "closed"}},
                "entry": [{"type": "assign", "target": ["ann"]}]
            },
            {"name": "closed", "terminal": true}
        ]
    });
    let stored = compile_machine(&loose).unwrap().definition().clone();
    assert_eq!(stored.to_string(), canonical.to_string());
    assert_eq!(compile_machine(&stored).unwrap().definition().to_string(), stored.to_string());
}

#[test]
fn two_names_of_the_context_schema_need_one_value() {
    let mut definition = whole();
    definition["context_schema"] = definition["contextSchema"].clone();
    assert_eq!(problems(&definition), []);
    definition["context_schema"] = json!({});
    assert_eq!(places(&definition), [("", "/context_schema".to_owned())]);
    // Faults are reported where the author wrote the schema.
    let mut definition = machine_with(&[json!({"name": "open", "initial": true, "on": {"GO": {"to": "closed"}}})]);
    definition["context_schema"] = json!({"type": "text"});
    assert_eq!(places(&definition), [("SCHEMA_INVALID", "/context_schema/type".to_owned())]);
}

#[test]
fn lists_beyond_their_limits_are_refused() {
    let go = json!({"GO": {"to": "closed"}});
    let many = |count: usize, item: &dyn Fn(usize) -> Value| (0..count).map(item).collect::<Vec<_>>();
    let with = |field: &str, value: Value| {
        let mut state = json!({"name": "open", "initial": true, "on": go});
        state[field] = value;
        machine_with(&[state])
    };
    let states = |count: usize| {
        let link =
            |n: usize| json!({"name": format!("s{n}"), "initial": n == 0, "on": {"GO": {"to": format!("s{}", n + 1)}}});
        let mut states = many(count - 1, &link);
        states.push(json!({"name": format!("s{}", count - 1), "terminal": true}));
        json!({"states": states})
    };
    let actions = |count: usize| -> Value {
        (0..count).map(|n| (format!("A{n}"), json!({"to": "closed"}))).collect::<serde_json::Map<_, _>>().into()
    };
    let timers = |count: usize| many(count, &|_| json!({"in": "1h", "to": "closed"}));
    let events = |count: usize| many(count, &|_| json!({"type": "assign", "target": "ann"}));
    let branches = |count: usize| {
        let condition = json!({"type": "json-logic", "rule": true});
        json!({"GO": {"choose": many(count, &|_| json!({"to": "closed", "condition": condition}))}})
    };
    for (fits, beyond, path) in [
        (states(200), states(201), "/states"),
        (with("on", actions(50)), with("on", actions(51)), "/states/0/on"),
        (with("after", timers(10).into()), with("after", timers(11).into()), "/states/0/after"),
        (with("entry", events(20).into()), with("entry", events(21).into()), "/states/0/entry"),
        (with("on", branches(50)), with("on", branches(51)), "/states/0/on/GO/choose"),
    ] {
        assert_eq!(problems(&fits), [], "{path}");
        assert_eq!(places(&beyond), [("", path.to_owned())]);
    }
}

#[test]
fn every_problem_is_reported_at_once() {
    let mut definition = whole();
    definition["options"]["retentionDays"] = json!(0);
    definition["states"][0]["on"]["SUBMIT"]["condition"] = json!("amount > 0");
    definition["states"][0]["on"]["SUBMIT"]["choose"][1]["to"] = json!("chrge");
    definition["states"][1]["on"]["APPROVE"]["require"]["notBy"][1] = json!("SUBMITT");
    definition["states"][1]["on"]["APPROVE"]["quorum"] = json!({"need": "ALL"});
    definition["states"][3]["entry"][0]["type"] = json!("message");
    definition["states"][4]["name"] = json!("dropped");
    let expected = [
        ("", "/options/retentionDays"),
        ("CONDITION_NOT_JSON_LOGIC", "/states/0/on/SUBMIT/condition"),
        ("MACHINE_UNKNOWN_TARGET", "/states/0/on/SUBMIT/choose/1/to"),
        ("MACHINE_UNKNOWN_ACTION", "/states/1/on/APPROVE/require/notBy/1"),
        ("QUORUM_BAD_NEED", "/states/1/on/APPROVE/quorum/need"),
        ("MACHINE_UNKNOWN_TARGET", "/states/3/on/FINISH/to"),
        ("EVENT_UNKNOWN_TYPE", "/states/3/entry/0/type"),
        ("MACHINE_DUPLICATE_STATE", "/states/5/name"),
    ];
    assert_eq!(places(&definition), expected.map(|(code, path)| (code, path.to_owned())));
}

#[test]
fn names_differ_by_case() {
    let definition = machine_with(&[
        json!({"name": "Open", "initial": true, "on": {"GO": {"to": "open"}, "go": {"to": "Closed"}}}),
        json!({"name": "open", "on": {"GO": {"to": "closed"}}}),
        json!({"name": "Closed", "terminal": true}),
    ]);
    assert_eq!(problems(&definition), []);
    let machine = compile_machine(&definition).unwrap();
    assert!(machine.has_action("go") && machine.find_state("Open").is_some() && machine.find_state("OPEN").is_none());
}

#[test]
fn a_state_may_lead_to_itself_if_it_has_another_way_out() {
    let again = json!({"name": "open", "initial": true, "on": {"EDIT": {"to": "open"}}, "after": [{"in": "1d", "to": "closed"}]});
    assert_eq!(problems(&machine_with(&[again])), []);
}

#[test]
fn a_cycle_of_automatic_actions_with_a_condition_is_allowed() {
    let auto = |action: &str| json!([{"type": "auto_action", "target": action}]);
    let cycle = |condition: Value| {
        machine_with(&[
            json!({"name": "open", "initial": true, "on": {"GO": {"to": "count"}}}),
            json!({
                "name": "count", "entry": auto("NEXT"),
                "on": {"NEXT": {"to": "count", "condition": condition, "set": {"n": "{{ctx.n + 1}}"}}, "STOP": {"to": "closed"}}
            }),
        ])
    };
    assert_eq!(places(&cycle(Value::Null)), [("AUTO_LOOP", "/states/1/on/NEXT".to_owned())]);
    assert_eq!(problems(&cycle(json!({"type": "json-logic", "rule": {"<": [{"var": "n"}, 5]}}))), []);
}

#[test]
fn a_closed_context_schema_knows_its_fields_through_references() {
    let schema = json!({
        "allOf": [{"$ref": "#/$defs/order"}],
        "$defs": {
            "order": {
                "type": "object", "additionalProperties": false,
                "properties": {"lines": {"type": "array", "prefixItems": [{"type": "number"}], "items": {"$ref": "#/$defs/order"}},
                    "note": {"type": "string"}, "any": {}}
            }
        }
    });
    let reads = |path: &str| {
        let condition = json!({"type": "json-logic", "rule": {"!!": {"var": path}}});
        let action = json!({"to": "closed", "condition": condition});
        let mut definition = machine_with(&[json!({"name": "open", "initial": true, "on": {"GO": action}})]);
        definition["contextSchema"] = schema.clone();
        places(&definition)
    };
    for known in ["lines", "lines.length", "lines.1.lines.1.note", "note.length", "any.thing.at.all", "$data.free", ""]
    {
        assert_eq!(reads(known), [], "{known}");
    }
    for unknown in ["line", "lines.0.note", "lines.1.nothing", "note.text", "length.x"] {
        let path = "/states/0/on/GO/condition/rule/!!/var".to_owned();
        assert_eq!(reads(unknown), [("CONDITION_UNKNOWN_FIELD", path)], "{unknown}");
    }
}

#[test]
fn an_open_context_schema_and_a_saved_definition_know_any_field() {
    let condition = json!({"type": "json-logic", "rule": {"var": "amuont"}});
    let action = json!({"to": "closed", "condition": condition, "set": {"x": "{{ctx.other}}"}});
    let mut definition = machine_with(&[json!({"name": "open", "initial": true, "on": {"GO": action}})]);
    definition["contextSchema"] = json!({"properties": {"amount": {}}});
    assert_eq!(problems(&definition), []);
    definition["contextSchema"]["additionalProperties"] = json!(false);
    assert_eq!(problems(&definition).len(), 3);
    // A build that checks less may have saved it.
    assert!(machine::load(&definition, &Expressions::default()).is_ok());
}

#[test]
fn one_entrance_decides_between_graph_and_machine() {
    let graph = json!({"nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
        "edges": [{"source": "start", "target": "end"}]});
    assert_eq!(compile_definition(&graph).unwrap().name(), StyleName::Graph);
    assert_eq!(compile_definition(&whole()).unwrap().name(), StyleName::Machine);
    assert_eq!(compile_definition(&whole()).unwrap().definition(), Some(&whole()));
    let said = |definition: Value| {
        let problems = compile_definition(&definition).unwrap_err();
        let texts =
            problems.into_iter().map(|problem| (problem.path, problem.message, problem.hint.unwrap_or_default()));
        texts.collect::<Vec<_>>()
    };
    let hint = "a graph has `nodes` and `edges`, a state machine has `states`";
    let both = json!({"nodes": graph["nodes"], "states": whole()["states"]});
    let text = |path: &str, message: &str, hint: &str| vec![(path.to_owned(), message.to_owned(), hint.to_owned())];
    assert_eq!(said(both), text("/states", "a definition has either `nodes` or `states`, not both", hint));
    assert_eq!(said(json!({})), text("", "a definition needs `nodes` or `states`", hint));
    let mistyped = json!({"state": whole()["states"]});
    assert_eq!(said(mistyped), text("", "a definition needs `nodes` or `states`", "did you mean \"states\"?"));
    assert_eq!(said(json!({"edges": []}))[0].1, "a graph needs a list of nodes");
    assert_eq!(said(json!(5))[0].1, "expected an object, found a number");
}

#[test]
fn given_values_of_an_input_fit_the_context_schema() {
    let style = compile_definition(&whole()).unwrap();
    let faults = |input: Value| {
        let faults = style.check_input(style.input_schema().map(AsRef::as_ref), &input);
        faults.into_iter().map(|fault| fault.pointer).collect::<Vec<_>>()
    };
    // A required field may be added later.
    assert_eq!(faults(json!({})), [""; 0]);
    assert_eq!(faults(Value::Null), [""; 0]);
    assert_eq!(faults(json!({"amount": 5, "more": true})), [""; 0]);
    assert_eq!(faults(json!({"amount": "5", "reviewers": "ann"})), ["/amount", "/reviewers"]);
    assert_eq!(faults(json!([1])), [""]);
    let schema = Schema::for_input(&whole()["contextSchema"]).unwrap();
    assert_eq!(schema.check(&json!({}), CheckMode::Json).len(), 1);
}
