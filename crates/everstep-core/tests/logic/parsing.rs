//! Rules that are rejected when a definition is saved, and the paths that a rule reads.

use everstep_core::graph::Problem;
use everstep_core::logic::Rule;
use serde_json::{Value, json};

use super::parse;

fn problems(condition: &Value) -> Vec<Problem> {
    Rule::from_condition(condition, "/condition").unwrap_err()
}

fn rule(rule: &Value) -> Value {
    json!({"type": "json-logic", "rule": rule})
}

#[test]
fn a_condition_that_is_no_json_logic_is_refused() {
    for (condition, path) in [
        (json!("amount > 100"), "/condition"),
        (json!(true), "/condition"),
        (json!([{"==": [1, 1]}]), "/condition"),
        (json!({">": [{"var": "amount"}, 100]}), "/condition"),
        (json!({"type": "javascript", "rule": {"==": [1, 1]}}), "/condition/type"),
        (json!({"rule": {"==": [1, 1]}}), "/condition/type"),
        (json!({"type": "json-logic"}), "/condition/rule"),
        (rule(&json!("amount > 100")), "/condition/rule"),
        (rule(&json!(1)), "/condition/rule"),
        (rule(&json!([])), "/condition/rule"),
        (rule(&json!({})), "/condition/rule"),
        (rule(&json!({">": [1, 2], "<": [1, 2]})), "/condition/rule"),
        (rule(&json!({"or": [false, {"var": "a", "b": 1}]})), "/condition/rule/or/1"),
        (rule(&json!({">": [1, 2, 3]})), "/condition/rule/>"),
        (rule(&json!({"and": [{"/": 1}]})), "/condition/rule/and/0/~1"),
        (rule(&json!({"map": {"var": "list"}})), "/condition/rule/map"),
    ] {
        let problems = problems(&condition);
        assert_eq!(problems.len(), 1, "{condition}: {problems:?}");
        assert_eq!((problems[0].code, &*problems[0].path), (Some("CONDITION_NOT_JSON_LOGIC"), path), "{condition}");
        assert!(problems[0].hint.is_some(), "{condition}");
    }
    assert!(Rule::from_condition(&rule(&json!(true)), "").is_ok());
    assert!(Rule::from_condition(&rule(&json!({"==": [1, 1]})), "").is_ok());
}

#[test]
fn an_unknown_operator_is_refused_with_the_nearest_one() {
    let found = problems(&rule(&json!({"and": [{"misssing": ["a"]}, {"=>": [1, 2]}, {"frobnicate": 1}]})));
    let reported: Vec<_> =
        found.iter().map(|problem| (problem.code, &*problem.path, problem.hint.as_deref().unwrap())).collect();
    let unknown = Some("CONDITION_UNKNOWN_OPERATOR");
    assert_eq!(reported[0], (unknown, "/condition/rule/and/0", "did you mean \"missing\"?"));
    assert_eq!((reported[1].0, reported[1].1), (unknown, "/condition/rule/and/1"));
    assert_eq!((reported[2].0, reported[2].1), (unknown, "/condition/rule/and/2"));
    assert!(reported[2].2.starts_with("known operators: var missing"), "{reported:?}");
    assert_eq!(reported.len(), 3);
}

#[test]
fn an_unknown_field_of_a_condition_is_refused() {
    let found = problems(&json!({"type": "json-logic", "rule": {"==": [1, 1]}, "rul": 1, "note": 2}));
    let reported: Vec<_> = found.iter().map(|problem| (&*problem.path, problem.hint.as_deref().unwrap())).collect();
    assert_eq!(
        reported,
        [("/condition/rul", "did you mean \"rule\"?"), ("/condition/note", "a condition has the fields type and rule")]
    );
}

#[test]
fn a_rule_that_is_too_large_is_refused() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |rule, _| json!({"!": [rule]}));
    assert!(parse(&nested(32)).is_ok());
    let large = json!({"in": ["x", vec!["0123456789"; 6_000]]});
    for rule in [nested(33), nested(60), large] {
        let found = parse(&rule).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].code, Some("CONDITION_TOO_LARGE"));
    }
    assert!(parse(&json!({"in": ["x", vec!["0123456789"; 5_000]]})).is_ok());
}

#[test]
fn problems_without_end_are_cut() {
    let found = parse(&json!(vec![json!({"nope": 1}); 5_000])).unwrap_err();
    assert!((10..=100).contains(&found.len()), "{}", found.len());
}

#[test]
fn the_paths_that_a_rule_reads_are_known() {
    let rule = json!({"and": [
        {"var": "order.total"},
        {">": [{"var": ["limit", {"var": "fallback"}]}, 1]},
        {"some": [{"var": "lines"}, {"==": [{"var": "owner"}, {"var": "$user.id"}]}]},
        {"reduce": [{"var": "scores"}, {"var": "accumulator"}, {"var": "initial"}]},
        {"missing": ["reason", "amount"]},
        {"missing": [["reason2"]]},
        {"missing_some": [1, ["email", "phone"]]},
        {"var": {"var": "which"}},
        {"var": ""},
        {"var": 3},
    ]});
    let parsed = parse(&rule).unwrap();
    let read: Vec<_> = parsed.references().iter().map(|reference| (&*reference.path, &*reference.pointer)).collect();
    assert_eq!(
        read,
        [
            ("order.total", "/rule/and/0/var"),
            ("fallback", "/rule/and/1/>/0/var/1/var"),
            ("limit", "/rule/and/1/>/0/var/0"),
            ("lines", "/rule/and/2/some/0/var"),
            ("$user.id", "/rule/and/2/some/1/==/1/var"),
            ("scores", "/rule/and/3/reduce/0/var"),
            ("initial", "/rule/and/3/reduce/2/var"),
            ("reason", "/rule/and/4/missing/0"),
            ("amount", "/rule/and/4/missing/1"),
            ("reason2", "/rule/and/5/missing/0/0"),
            ("email", "/rule/and/6/missing_some/1/0"),
            ("phone", "/rule/and/6/missing_some/1/1"),
            ("which", "/rule/and/7/var/var"),
            ("3", "/rule/and/9/var"),
        ]
    );
    for reference in parsed.references() {
        let pointer = reference.pointer.strip_prefix("/rule").unwrap();
        let found = rule.pointer(pointer).unwrap();
        assert!(found == &json!(reference.path) || found == &json!(3), "{pointer}: {found}");
    }
}
