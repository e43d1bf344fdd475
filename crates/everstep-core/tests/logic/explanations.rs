//! Why a rule does not hold.

use everstep_core::logic::RuleInput;
use serde_json::{Value, json};

use super::{Variables, parse};

fn explain(rule: &Value, context: &Value) -> Value {
    let variables = Variables::from([("$user", json!({"id": "ada"}))]);
    let explanations = parse(rule).unwrap().explain(RuleInput { context, variables: &variables });
    serde_json::to_value(explanations).unwrap()
}

#[test]
fn the_innermost_false_parts_are_shown_with_their_values() {
    let context =
        json!({"amount": 120, "signed": false, "country": "DE", "manager": {"id": "bob"}, "lines": [{"ok": true}]});
    for (rule, expected) in [
        (
            json!({"and": [{"<": [{"var": "amount"}, 100]}, {"==": [{"var": "country"}, "DE"]}, {"var": "signed"}]}),
            json!([
                {"rule": {"<": [{"var": "amount"}, 100]}, "values": {"amount": 120}},
                {"rule": {"var": "signed"}, "values": {"signed": false}},
            ]),
        ),
        (
            json!({"or": [{">": [{"var": "amount"}, {"var": ["limit", 500]}]}, {"!!": [{"var": "signed"}]}]}),
            json!([
                {"rule": {">": [{"var": "amount"}, {"var": ["limit", 500]}]}, "values": {"amount": 120, "limit": 500}},
                {"rule": {"var": "signed"}, "values": {"signed": false}},
            ]),
        ),
        (
            json!({"!": [{"in": [{"var": "country"}, ["DE", "FR"]]}]}),
            json!([{"rule": {"!": {"in": [{"var": "country"}, ["DE", "FR"]]}}, "values": {"country": "DE"}}]),
        ),
        (
            json!({"if": [{">": [{"var": "amount"}, 100]}, {"==": [{"var": "manager.id"}, {"var": "$user.id"}]}, true]}),
            json!([{
                "rule": {"==": [{"var": "manager.id"}, {"var": "$user.id"}]},
                "values": {"manager.id": "bob", "$user.id": "ada"},
            }]),
        ),
        (
            json!({"if": [{"<": [{"var": "amount"}, 100]}, true, {"var": "signed"}, true, false]}),
            json!([
                {"rule": {"<": [{"var": "amount"}, 100]}, "values": {"amount": 120}},
                {"rule": {"var": "signed"}, "values": {"signed": false}},
            ]),
        ),
        (
            json!({"?:": [{"var": "amount"}, false, true]}),
            json!([{"rule": {"if": [{"var": "amount"}, false, true]}, "values": {"amount": 120}}]),
        ),
        (
            json!({"all": [{"var": "lines"}, {"==": [{"var": "by"}, {"var": "$user.id"}]}]}),
            json!([{
                "rule": {"all": [{"var": "lines"}, {"==": [{"var": "by"}, {"var": "$user.id"}]}]},
                "values": {"lines": [{"ok": true}], "$user.id": "ada"},
            }]),
        ),
        (
            json!({"var": [{"cat": ["manager", ".name"]}]}),
            json!([{"rule": {"var": {"cat": ["manager", ".name"]}}, "values": {"manager.name": null}}]),
        ),
        (json!(false), json!([{"rule": false, "values": {}}])),
        (json!({">": [{"var": "amount"}, 100]}), json!([])),
    ] {
        assert_eq!(explain(&rule, &context), expected, "{rule}");
    }
}

#[test]
fn long_values_and_long_explanations_are_cut() {
    let context = json!({"list": vec!["é"; 500_000], "text": "x".repeat(300)});
    let found = explain(&json!({"and": [{"==": [{"var": "text"}, 1]}, {"==": [{"var": "list.length"}, 1]}]}), &context);
    assert_eq!(found[0]["values"]["text"], json!(format!("\"{}…", "x".repeat(255))));
    assert_eq!(found[1]["values"]["list.length"], json!(500_000));
    let found = explain(&json!({"in": ["x", {"substr": [{"var": "text"}, 0, 0]}]}), &context);
    assert_eq!(found.as_array().unwrap().len(), 1);
    let found = explain(&json!({"some": [{"var": "list"}, {"==": [1, 1]}]}), &json!({"list": []}));
    assert_eq!(found[0]["values"], json!({"list": []}));
    let many = json!({"or": vec![json!({"var": "absent"}); 100]});
    assert_eq!(explain(&many, &context).as_array().unwrap().len(), 16);
    let cut = explain(&json!({"!": {"var": "list"}}), &context)[0]["values"]["list"].clone();
    let cut = cut.as_str().unwrap();
    assert!(cut.starts_with("[\"é\",\"é\"") && cut.ends_with('…') && cut.len() < 300, "{cut}");
}
