//! Which branch a condition takes: every operator, with every kind of value.

use everstep_core::payload::Payload;
use everstep_core::run::Input;
use everstep_core::status::Status;
use serde_json::{Value, json};

use super::support::{Game, compile};

/// The handle that a condition with these branches selects.
fn branch(config: &Value, input: &Value) -> String {
    let mut edges = vec![json!({"source": "start", "target": "check"})];
    let ids = config["branches"].as_array().unwrap().iter().map(|branch| branch["id"].as_str().unwrap());
    let default = config["defaultBranch"].as_str().unwrap_or("default");
    let mut handles: Vec<_> = ids.chain([default]).collect();
    handles.dedup();
    edges.extend(handles.iter().map(|id| json!({"source": "check", "target": "end", "sourceHandle": id})));
    let definition = json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "check", "type": "condition", "config": config},
            {"id": "end", "type": "end", "config": {"outputParameters": [
                {"name": "branch", "sourceVariable": "{{ctx.__node_check.output.branch}}"}]}},
        ],
        "edges": edges,
    });
    let mut game = Game::new(compile(&definition).unwrap());
    game.input(Input::Start { input: Payload::from(input.clone()), cause: None });
    assert_eq!(game.state.status(), Status::Completed);
    game.state.output().unwrap().value()["branch"].as_str().unwrap().to_owned()
}

/// Whether one comparison is true.
fn holds(left: &Value, operator: &str, right: &Value) -> bool {
    let config = json!({"branches": [
        {"id": "yes", "conditions": [{"leftValue": left, "operator": operator, "rightValue": right}]}]});
    branch(&config, &json!({"n": 5, "s": "five", "list": [1, "two"], "none": null, "object": {"a": 1}})) == "yes"
}

type Pairs<'a> = &'a [(Value, Value)];

/// An operator, the pairs for which it is true, and those for which it is false.
#[test]
fn every_operator_compares_as_documented() {
    let table: &[(&str, Pairs<'_>, Pairs<'_>)] = &[
        (
            "equals",
            &[
                (json!("{{ctx.input.n}}"), json!(5)),
                (json!("{{ctx.input.n}}"), json!("5")),
                (json!(5.0), json!(5)),
                (json!("a"), json!("a")),
                (json!(true), json!("true")),
                (json!(null), json!("")),
                (json!("{{ctx.input.missing}}"), json!(null)),
                (json!({"a": 1}), json!({"a": 1})),
                (json!("n={{ctx.input.n}}"), json!("n=5")),
            ],
            &[(json!("a"), json!("A")), (json!(5), json!(6)), (json!(null), json!("null")), (json!(0), json!(""))],
        ),
        (
            "not_equals",
            &[(json!("a"), json!("b")), (json!("{{ctx.input.missing}}"), json!("x"))],
            &[(json!(5), json!("5")), (json!(null), json!(null))],
        ),
        (
            "contains",
            &[
                (json!("{{ctx.input.s}}"), json!("iv")),
                (json!("{{ctx.input.list}}"), json!("two")),
                (json!("{{ctx.input.list}}"), json!("1")),
                (json!("{{ctx.input.object}}"), json!("a")),
                (json!(12345), json!(34)),
            ],
            &[
                (json!("{{ctx.input.s}}"), json!("IV")),
                (json!("{{ctx.input.list}}"), json!("tw")),
                (json!("{{ctx.input.missing}}"), json!("a")),
                (json!("{{ctx.input.missing}}"), json!("")),
            ],
        ),
        (
            "not_contains",
            &[(json!("abc"), json!("d")), (json!("{{ctx.input.missing}}"), json!("a"))],
            &[(json!("abc"), json!("b")), (json!("{{ctx.input.list}}"), json!(1))],
        ),
        (
            "starts_with",
            &[(json!("five"), json!("fi")), (json!(123), json!(12)), (json!("x"), json!(""))],
            &[(json!("five"), json!("ve")), (json!("{{ctx.input.missing}}"), json!("a"))],
        ),
        (
            "ends_with",
            &[(json!("five"), json!("ve")), (json!(123), json!("23"))],
            &[(json!("five"), json!("fi")), (json!("{{ctx.input.missing}}"), json!("a"))],
        ),
        (
            "greater_than",
            &[
                (json!("{{ctx.input.n}}"), json!(4)),
                (json!("10"), json!("9")),
                (json!(" 10 "), json!(9.5)),
                (json!(true), json!(0)),
            ],
            &[
                (json!(5), json!(5)),
                (json!("b"), json!("a")),
                (json!("{{ctx.input.missing}}"), json!(-1)),
                (json!([9]), json!(1)),
                (json!(""), json!(-1)),
                (json!("NaN"), json!(0)),
            ],
        ),
        (
            "less_than",
            &[(json!(4), json!("5")), (json!(-1e300), json!(1e300))],
            &[(json!(5), json!(5)), (json!(null), json!(1))],
        ),
        (
            "greater_or_equal",
            &[(json!(5), json!("5.0")), (json!(6), json!(5))],
            &[(json!(4), json!(5)), (json!({}), json!(0))],
        ),
        (
            "less_or_equal",
            &[(json!(5), json!("5.0")), (json!(4), json!(5))],
            &[(json!(6), json!(5)), (json!("x"), json!(9))],
        ),
        (
            "is_empty",
            &[
                (json!("{{ctx.input.missing}}"), json!(null)),
                (json!("{{ctx.input.missing.deeper[3].x}}"), json!(null)),
                (json!("{{ctx.input.nothing}}"), json!(null)),
                (json!("{{ctx.input.none}}"), json!(null)),
                (json!(""), json!(null)),
                (json!([]), json!(null)),
                (json!({}), json!(null)),
            ],
            &[
                (json!(0), json!(null)),
                (json!(false), json!(null)),
                (json!(" "), json!(null)),
                (json!([null]), json!(null)),
            ],
        ),
        (
            "is_not_empty",
            &[(json!("{{ctx.input.s}}"), json!(null)), (json!(0), json!(null))],
            &[(json!("{{ctx.input.missing}}"), json!(null)), (json!(""), json!(null))],
        ),
        (
            "matches_regex",
            &[
                (json!("five"), json!("^f.v")),
                (json!("FIVE"), json!("(?i)five")),
                (json!(123), json!(r"^\d+$")),
                (json!("straße"), json!(r"^\w+$")),
                (json!("Ωmega"), json!(r"^\p{Greek}\p{Ll}+$")),
            ],
            &[
                (json!("five"), json!("^v")),
                (json!("five"), json!("(")),
                (json!("five"), json!("[")),
                (json!("aaaa"), json!(r"(a)\1")),
                (json!("x"), json!("((a{1000}){1000}){1000}")),
            ],
        ),
        (
            "expression",
            &[
                (json!("ctx.input.n > 4"), json!(null)),
                (json!("{{ ctx.input.n > 4 }}"), json!(null)),
                (json!("ctx.input.list"), json!("ignored")),
                (json!("ctx.input.object"), json!(null)),
            ],
            &[
                (json!("ctx.input.n > 5"), json!(null)),
                (json!("ctx.input.missing"), json!(null)),
                (json!("ctx.input.none"), json!(null)),
                (json!("''"), json!(null)),
                (json!("0"), json!(null)),
                (json!("ctx.input.missing.x.y > 3"), json!(null)),
            ],
        ),
    ];
    assert_eq!(table.len(), 14);
    for (operator, holding, failing) in table {
        for (left, right) in *holding {
            assert!(holds(left, operator, right), "{left} {operator} {right}");
        }
        for (left, right) in *failing {
            assert!(!holds(left, operator, right), "{left} {operator} {right} does not hold");
        }
    }
}

#[test]
fn a_comparison_never_fails() {
    let values = [
        json!(null),
        json!(true),
        json!(-0.0),
        json!(1e308),
        json!(u64::MAX),
        json!("text"),
        json!("{{ctx.input.missing.x}}"),
        json!("{{1 / 0}}"),
        json!("{{ctx.input.s * 3}}"),
        json!([1, [2]]),
        json!({"a": {"b": []}}),
    ];
    let operators = [
        "equals",
        "not_equals",
        "contains",
        "not_contains",
        "starts_with",
        "ends_with",
        "greater_than",
        "less_than",
        "greater_or_equal",
        "less_or_equal",
        "is_empty",
        "is_not_empty",
        "matches_regex",
    ];
    // One condition over all pairs: the run continues in every case.
    let mut branches = Vec::new();
    for operator in operators {
        for (i, left) in values.iter().enumerate() {
            for (j, right) in values.iter().enumerate() {
                let condition = json!({"leftValue": left, "operator": operator, "rightValue": right});
                let never = json!({"leftValue": 1, "operator": "equals", "rightValue": 2});
                branches.push(json!({"id": format!("{operator}{i}x{j}"), "conditions": [condition, never]}));
            }
        }
    }
    assert_eq!(branch(&json!({"branches": branches}), &json!({"s": "x"})), "default");
}

#[test]
fn branches_are_tried_in_order() {
    let config = json!({"branches": [
        {"id": "a", "label": "A", "conditions": [{"leftValue": "{{ctx.input.n}}", "operator": "greater_than", "rightValue": 10}]},
        {"id": "b", "conditions": [{"leftValue": "{{ctx.input.n}}", "operator": "greater_than", "rightValue": 1}]},
        {"id": "c", "conditions": [{"leftValue": "{{ctx.input.n}}", "operator": "greater_than", "rightValue": 0}]},
    ]});
    assert_eq!(branch(&config, &json!({"n": 11})), "a");
    assert_eq!(branch(&config, &json!({"n": 5})), "b");
    assert_eq!(branch(&config, &json!({"n": 1})), "c");
    assert_eq!(branch(&config, &json!({"n": 0})), "default");
}

#[test]
fn conditions_of_a_branch_are_joined_by_its_logic() {
    let config = |logic: Option<&str>| {
        let mut config = json!({"branches": [{"id": "yes", "conditions": [
            {"leftValue": "{{ctx.input.a}}", "operator": "equals", "rightValue": 1},
            {"leftValue": "{{ctx.input.b}}", "operator": "equals", "rightValue": 1},
        ]}]});
        if let Some(logic) = logic {
            config["branches"][0]["conditionLogic"] = logic.into();
        }
        config
    };
    for (logic, a, b, expected) in [
        (None, 1, 1, "yes"),
        (None, 1, 0, "default"),
        (Some("AND"), 0, 1, "default"),
        (Some("OR"), 0, 1, "yes"),
        (Some("OR"), 1, 0, "yes"),
        (Some("OR"), 0, 0, "default"),
    ] {
        assert_eq!(branch(&config(logic), &json!({"a": a, "b": b})), expected, "{logic:?} {a} {b}");
    }
}

#[test]
fn the_legacy_form_takes_an_expression() {
    for field in ["expression", "condition"] {
        for source in ["ctx.input.n == 5", "{{ ctx.input.n == 5 }}", "payload.n == 5"] {
            let config = json!({"branches": [{"id": "yes", field: source}]});
            assert_eq!(branch(&config, &json!({"n": 5})), "yes");
            assert_eq!(branch(&config, &json!({"n": 6})), "default");
            assert_eq!(branch(&config, &json!({})), "default");
        }
    }
}

#[test]
fn the_default_branch_may_have_another_name() {
    let config = json!({"defaultBranch": "otherwise", "branches": [{"id": "yes", "expression": "false"}]});
    assert_eq!(branch(&config, &json!({})), "otherwise");
    let config = json!({"defaultBranch": "yes", "branches": [{"id": "yes", "expression": "false"}]});
    assert_eq!(branch(&config, &json!({})), "yes");
}
