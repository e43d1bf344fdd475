//! Rules that need too much work, memory or depth end at their bounds, in a time that does not grow with the data.

use std::time::Duration;

use everstep_core::logic::{Fuel, RuleInput, Verdict};
use serde_json::{Value, json};

use super::{Variables, parse};
use crate::support::timed;

/// Far more than an evaluation takes in a build without optimization, and far less than a bomb would take.
const TIME_MAX: Duration = Duration::from_millis(500);

fn judge(rule: &Value, context: &Value) -> (Verdict, Fuel) {
    let rule = parse(rule).unwrap();
    let mut fuel = Fuel::full();
    let (verdict, took) = timed(|| rule.judge_with(RuleInput { context, variables: &Variables::new() }, &mut fuel));
    assert!(took < TIME_MAX, "took {took:?}");
    (verdict, fuel)
}

#[test]
fn a_bomb_ends_at_its_bound() {
    let items: Vec<_> = (0..100).collect();
    let many: Vec<_> = (0..200_000).collect();
    let context = json!({"items": items, "many": many, "text": "x".repeat(1_000_000), "words": vec!["word"; 50_000]});
    let accumulator = json!({"var": "accumulator"});
    let reduce = |rule: Value, initial: Value| json!({"reduce": [{"var": "items"}, rule, initial]});
    for rule in [
        // Memory: a text and a list that double.
        reduce(json!({"cat": [accumulator, accumulator]}), json!("xxxxxxxx")),
        reduce(json!({"merge": [accumulator, accumulator]}), json!([1, 2, 3])),
        // Depth: a list around a list, and all data of a reduce in itself.
        reduce(json!([accumulator]), json!(1)),
        reduce(json!([accumulator, accumulator]), json!(1)),
        reduce(json!({"var": ""}), json!(1)),
        // Work: loops in loops, over long lists and long texts.
        json!({"all": [{"var": "many"}, {"==": [1, 1]}]}),
        json!({"map": [{"var": "items"}, {"map": [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], {"filter": [[1, 2, 3, 4, 5, 6, 7, 8, 9, 10], {"var": ""}]}]}]}),
        json!({"in": ["nothing", {"var": "words"}]}),
        json!({"in": ["nothing", {"var": "text"}]}),
        json!({"==": [{"var": "many"}, "1"]}),
        json!({"<": [{"var": "many"}, "1"]}),
        json!({"+": [{"var": "many"}, 1]}),
        json!({"substr": [{"var": "text"}, 0, 1]}),
        json!({"missing": [{"var": "many"}]}),
        json!({"merge": [{"var": "many"}]}),
        json!({"var": {"var": "text"}}),
        json!({"var": "text.length"}),
    ] {
        assert_eq!(judge(&rule, &context).0, Verdict::TooCostly, "{rule}");
        assert_eq!(Verdict::TooCostly.code(), Some("CONDITION_TOO_COSTLY"));
        assert_eq!(parse(&rule).unwrap().explain(RuleInput { context: &context, variables: &Variables::new() }), []);
    }
}

/// The time of an evaluation follows its fuel: the cost of names, texts and literals is proportional to their
/// length.
#[test]
fn fuel_follows_the_length_of_what_is_read() {
    let name = "n".repeat(50_000);
    let context = json!({name.clone(): 1, "items": [1, 2, 3]});
    let (verdict, fuel) = judge(&json!({"var": name}), &context);
    assert_eq!(verdict, Verdict::Holds);
    assert!((780..1_000).contains(&fuel.used_operations()), "{fuel:?}");
    let (verdict, fuel) = judge(&json!({"all": [{"var": "items"}, {"!": {"var": name}}]}), &context);
    assert_eq!(verdict, Verdict::Holds);
    assert!(fuel.used_operations() < 50, "an item that is a number has no field: {fuel:?}");
    let long = "y".repeat(6_400);
    let (_, fuel) = judge(&json!({"==": [{"var": "a"}, long]}), &json!({"a": long}));
    assert_eq!((fuel.used_operations() - 100, fuel.used_bytes()), (4, 0));
    let (_, fuel) = judge(&json!({"cat": [{"var": "a"}, "!"]}), &json!({"a": long}));
    assert_eq!(fuel.used_bytes(), 6_401);
}

#[test]
fn an_ordinary_guard_uses_little() {
    let rule = json!({"and": [{">": [{"var": "amount"}, 100]}, {"in": [{"var": "country"}, ["DE", "FR"]]}]});
    let (verdict, fuel) = judge(&rule, &json!({"amount": 120, "country": "FR"}));
    assert_eq!(verdict, Verdict::Holds);
    assert!(fuel.used_operations() < 12 && fuel.used_bytes() == 0, "{fuel:?}");
}
