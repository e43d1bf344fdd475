//! JSON Logic: the official tests, the problems of rules, explanations, and bounds that no rule exceeds.

mod bounds;
mod explanations;
mod page;
mod parsing;
mod wild;

use std::collections::BTreeMap;

use everstep_core::graph::Problem;
use everstep_core::logic::{Error, Fuel, Rule, RuleInput, Verdict};
use serde_json::{Value, json};

pub(crate) type Variables = BTreeMap<&'static str, Value>;

pub(crate) fn parse(rule: &Value) -> Result<Rule, Vec<Problem>> {
    Rule::parse(rule, "/rule")
}

fn evaluate(rule: &Value, context: &Value) -> Result<Value, Error> {
    let rule = parse(rule).unwrap_or_else(|problems| panic!("{rule}: {problems:?}"));
    rule.evaluate(RuleInput { context, variables: &Variables::new() }, &mut Fuel::full())
}

fn judge(rule: &Value, context: &Value) -> Verdict {
    parse(rule).unwrap().judge(RuleInput { context, variables: &Variables::new() })
}

/// Whether two results are equal, numbers by their value.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_equal(one, other))
        }
        _ => one == other,
    }
}

#[test]
fn the_official_tests_pass() {
    let tests: Vec<Value> = serde_json::from_str(include_str!("logic/official/tests.json")).unwrap();
    let cases: Vec<_> = tests.iter().filter_map(Value::as_array).collect();
    assert_eq!(cases.len(), 275);
    let mut failed = Vec::new();
    for case in cases {
        let [rule, data, expected] = &case[..] else { panic!("no test: {case:?}") };
        let result = evaluate(rule, data);
        if !result.as_ref().is_ok_and(|result| is_equal(result, expected)) {
            failed.push(format!("{rule} on {data} is {result:?}, not {expected}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn values_are_compared_as_in_javascript() {
    let data = json!({"list": [1, 2], "object": {"a": 1}, "null": null, "one": [1]});
    for (rule, expected) in [
        (json!({"==": [null, 0]}), false),
        (json!({"==": [{"var": "null"}, {"var": "absent"}]}), true),
        (json!({"==": [true, "1"]}), true),
        (json!({"==": ["", 0]}), true),
        (json!({"==": [{"var": "list"}, "1,2"]}), true),
        (json!({"==": [{"var": "one"}, 1]}), true),
        (json!({"==": [{"var": "list"}, {"var": "list"}]}), true),
        (json!({"==": [[1, 2], [1, 2]]}), false),
        (json!({"==": [{"var": "object"}, "[object Object]"]}), true),
        (json!({"===": [1, 1.0]}), true),
        (json!({"===": [9_007_199_254_740_993_u64, 9_007_199_254_740_992_u64]}), false),
        (json!({"<": [9_007_199_254_740_992_u64, 9_007_199_254_740_993_u64]}), true),
        (json!({"===": [{"var": "list"}, "1,2"]}), false),
        (json!({"<": ["10", "9"]}), true),
        (json!({"<": ["10", 9]}), false),
        (json!({"<": [null, 1]}), true),
        (json!({"<": ["a", 1]}), false),
        (json!({">=": ["a", 1]}), false),
        (json!({"<=": [1, 2, 2]}), true),
        (json!({"<": ["\u{ff5e}", "😀"]}), false),
        (json!({"in": ["", ""]}), false),
        (json!({"in": [1, ["1"]]}), false),
        (json!({"in": [1, "212"]}), true),
        (json!({"in": [{"var": "object"}, [{"var": "object"}]]}), true),
        (json!({"!": {}}), false),
        (json!({"!": "0"}), false),
    ] {
        assert_eq!(evaluate(&rule, &data), Ok(json!(expected)), "{rule}");
    }
}

/// `NaN` and the infinities are null. A comparison with them is false, although the null of the data counts as 0.
#[test]
fn what_is_not_a_number_is_null_and_never_counts_as_zero() {
    for rule in [
        json!({"+": ["a", 1]}),
        json!({"/": [1, 0]}),
        json!({"/": [0, 0]}),
        json!({"%": [1, 0]}),
        json!({"max": [1, "a"]}),
        json!({"min": [1, {"var": "object"}]}),
        json!({"*": [1e300, 1e300]}),
        json!({"-": "a"}),
        json!({"-": [{"/": [1, 0]}, 1]}),
        json!({"/": [1, {"/": [1, 0]}]}),
        json!({"+": ["Infinity", 1]}),
        json!({"*": ["1e999", 1]}),
    ] {
        let data = json!({"object": {}});
        assert_eq!(evaluate(&rule, &data), Ok(Value::Null), "{rule}");
        for fails in [
            rule.clone(),
            json!({"==": [rule, 0]}),
            json!({"!=": [rule, null]}),
            json!({"!!": rule}),
            json!({"and": [true, rule]}),
            json!({"if": [rule, true, false]}),
            json!({"some": [[1], rule]}),
            json!({"<": [rule, 1000]}),
            json!({"<=": [rule, null]}),
            json!({">": [rule, -1000]}),
            json!({">=": [rule, {"var": "absent"}]}),
        ] {
            assert_eq!(judge(&fails, &data), Verdict::Fails, "{fails}");
        }
        assert_eq!(judge(&json!({"===": [rule, null]}), &data), Verdict::Holds, "{rule}");
        assert_eq!(evaluate(&json!({"cat": ["a", rule]}), &data), Ok(json!("a")), "{rule}");
    }
    assert_eq!(judge(&json!({">": ["Infinity", 1]}), &json!({})), Verdict::Fails);
}

#[test]
fn numbers_and_texts_are_made_as_in_javascript() {
    for (rule, expected) in [
        (json!({"+": ["3.5 apples", 1]}), json!(4.5)),
        (json!({"+": []}), json!(0)),
        (json!({"*": ["2"]}), json!("2")),
        (json!({"-": ["5", true]}), json!(4)),
        (json!({"cat": [1.0, null, [1, [2, null], "x"], {"a": 1, "b": 2}, true]}), json!("11,2,,x[object Object]true")),
        (json!({"cat": [1e21, " ", 0.1]}), json!("1e+21 0.1")),
        (json!({"substr": ["a😀b", 1, 2]}), json!("😀")),
        (json!({"substr": [12345, 1.9, "2"]}), json!("23")),
        (json!({"substr": ["abc", -9, -1]}), json!("ab")),
        (json!({"substr": ["abc", 1, null]}), json!("")),
        (json!({"merge": [1, [2, [3]], null]}), json!([1, 2, [3], null])),
        (json!({"%": [-7, 3]}), json!(-1)),
        (json!({"max": ["3", 2, null]}), json!(3)),
        (json!({"var": "text.length"}), json!(3)),
        (json!({"var": "list.length"}), json!(2)),
        (json!({"var": ["list.2", "none"]}), json!("none")),
        (json!({"var": {"cat": ["list", ".", 1]}}), json!("b")),
        (json!({"missing": ["text", "list.0", "empty", "x"]}), json!(["empty", "x"])),
    ] {
        let data = json!({"text": "a😀", "list": ["a", "b"], "empty": ""});
        assert_eq!(evaluate(&rule, &data), Ok(expected), "{rule}");
    }
}

#[test]
fn variables_of_the_caller_are_seen_everywhere_and_cannot_be_replaced() {
    let context =
        json!({"$user": {"id": "mallory"}, "$other": 7, "approvers": [{"$user": {"id": "eve"}, "id": "ada"}]});
    let variables = Variables::from([("$user", json!({"id": "ada", "roles": ["manager"]}))]);
    let input = RuleInput { context: &context, variables: &variables };
    for rule in [
        json!({"==": [{"var": "$user.id"}, "ada"]}),
        json!({"==": [{"var": {"cat": ["$user", ".id"]}}, "ada"]}),
        json!({"in": ["manager", {"var": "$user.roles"}]}),
        json!({"some": [{"var": "approvers"}, {"==": [{"var": "id"}, {"var": "$user.id"}]}]}),
        json!({"all": [{"var": "approvers"}, {"==": [{"var": "$user.id"}, "ada"]}]}),
        json!({"reduce": [[1], {"==": [{"var": "$user.id"}, "ada"]}, false]}),
        json!({"==": [{"missing": ["$user.id", "$user.name"]}, "$user.name"]}),
        json!({"==": [{"var": "$other"}, 7]}),
    ] {
        assert_eq!(parse(&rule).unwrap().judge(input), Verdict::Holds, "{rule}");
    }
    assert_eq!(parse(&json!({"var": "$action"})).unwrap().judge(input), Verdict::Fails);
}
