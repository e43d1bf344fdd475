//! What is found when a workflow is saved.

use everstep_core::evaluate::{Evaluate, Fault};
use everstep_expressions::Expressions;
use serde_json::json;

fn check_expression(source: &str) -> Option<String> {
    Expressions::new().check_expression(source).map(|fault| fault.message)
}

#[test]
fn sound_expressions_have_no_fault() {
    for source in [
        "ctx.a.b.0.c",
        "{{ ctx.a }}",
        "ctx.price * ctx.count > 100 and ctx.tags is not none",
        "row.name|default('x')|upper",
        "ctx.n is divisibleby(3)",
        "ctx.n is divisibleby 3",
        "ctx.x not in [1, 2]",
        "(ctx.a if ctx.b else ctx.c)|length",
        "{'a': {'b': 1}}",
    ] {
        assert_eq!(check_expression(source), None, "{source}");
    }
}

#[test]
fn faults_tell_what_and_where() {
    let table = [
        ("ctx.a +", "unexpected end of input"),
        ("ctx.a | frobnicate", "there is no filter `frobnicate`"),
        ("ctx.a is sorted", "there is no test `sorted`"),
        ("range(10)", "`range` cannot be called"),
        ("ctx.name.upper()", "`upper` cannot be called"),
        ("ctx.a && ctx.b", "unexpected character `&`; write `and` at character 7"),
        ("ctx.größe > 1", "unexpected character `ö`"),
        ("ctx.a ? 1 : 2", "write `a if condition else b`"),
        ("'open", "never closed at character 1"),
        ("", "the expression is empty"),
        ("ctx.a * 'x'", "text cannot be multiplied at character 7"),
        ("ctx.a|__number", "there is no filter `__number`"),
        ("ctx.a[", "unexpected end of input"),
        ("ctx.a b", "unexpected"),
        ("'{{ctx.a}}' == 'x' }}", "unexpected"),
    ];
    for (source, expected) in table {
        let message = check_expression(source).unwrap_or_else(|| panic!("{source} is accepted"));
        assert!(message.contains(expected), "{source}: {message}");
        assert!(message.contains(" at character "), "{source}: {message}");
    }
}

#[test]
fn places_count_from_the_beginning_of_the_text() {
    let faults = Expressions::new().check(&json!("née {{ ctx.a * ctx.b + + 1 }}"));
    assert_eq!(faults.len(), 1);
    assert!(faults[0].message.ends_with("at character 24"), "{}", faults[0].message);
}

#[test]
fn faults_point_into_the_template() {
    let template = json!({
        "fine": "{{ctx.a}} and {{ctx.b|upper}}",
        "a/b": ["{{ctx.a", {"$expr": "ctx.a +"}, {"$expr": 5}],
        "two": "{{x|nope}} {{y|never}}",
        "text": "}} no braces {",
    });
    let faults = Expressions::new().check(&template);
    let pointers: Vec<&str> = faults.iter().map(|fault: &Fault| fault.pointer.as_str()).collect();
    assert_eq!(pointers, ["/a~1b/0", "/a~1b/1/$expr", "/a~1b/2/$expr", "/two", "/two"]);
    assert_eq!(faults[0].message, "`{{` is opened and never closed at character 1");
}

#[test]
fn unknown_roots_are_left_to_those_who_know_the_names() {
    assert_eq!(check_expression("line.price + 1"), None);
}
