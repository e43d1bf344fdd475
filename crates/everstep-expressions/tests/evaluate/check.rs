//! Errors that are found when a workflow is saved.

use everstep_core::evaluate::{Evaluate, Fault, Reference};
use everstep_expressions::Expressions;
use serde_json::{Value, json};

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
fn faults_contain_the_reason_and_the_position() {
    let table = [
        ("ctx.a +", "unexpected end of input"),
        ("ctx.a | frobnicate", "the filter `frobnicate` does not exist"),
        ("ctx.a is sorted", "the test `sorted` does not exist"),
        ("range(10)", "`range` cannot be called"),
        ("ctx.name.upper()", "`upper` cannot be called"),
        ("ctx.a && ctx.b", "unexpected character `&`; write `and` at character 7"),
        ("ctx.größe > 1", "unexpected character `ö`"),
        ("ctx.a ? 1 : 2", "write `a if condition else b`"),
        ("'open", "has no closing quote at character 1"),
        ("", "the expression is empty"),
        ("ctx.a * 'x'", "text cannot be multiplied at character 7"),
        ("ctx.a|__number", "the filter `__number` does not exist"),
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
    assert!(
        faults[0].message.ends_with("at character 24, near `née {{ ctx.a * ctx.b + + 1 }}`"),
        "{}",
        faults[0].message
    );
    let faults = Expressions::new().check(&json!("one\ntwo {{ ctx.a\n  && ctx.b }}"));
    assert!(faults[0].message.ends_with("at line 3, character 3, near `&& ctx.b }}`"), "{}", faults[0].message);
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
    assert_eq!(faults[0].message, "`{{` has no closing `}}` at character 1, near `{{ctx.a`");
}

#[test]
fn unknown_roots_are_left_to_the_compiler() {
    assert_eq!(check_expression("line.price + 1"), None);
}

#[test]
fn an_expression_is_the_only_field_of_its_object() {
    let faults = Expressions::new().check(&json!({"a": {"$expr": "1 + 1", "b": 2}}));
    let expected =
        Fault { pointer: "/a/$expr".to_owned(), message: "`$expr` must be the only field of its object".to_owned() };
    assert_eq!(faults, [expected]);
}

/// The names that a template reads, as `pointer root.name`, with `?` if a missing one has a fallback.
fn reads(template: &Value) -> Vec<String> {
    let text = |reference: Reference| {
        let name = reference.name.map(|name| format!(".{name}")).unwrap_or_default();
        format!("{} {}{name}{}", reference.pointer, reference.root, if reference.has_fallback { "?" } else { "" })
    };
    Expressions::new().references(template).into_iter().map(text).collect()
}

#[test]
fn what_a_template_reads_is_known_beforehand() {
    let template = json!({
        "plain": "{{ctx.order.total}}",
        "mixed": "{{ctx.a}} of {{vars['b c'].d + item}}",
        "list": [{"$expr": "ctx.n > payload.limit and ctx[meta.key]"}, "no {braces}"],
        "secret": {"$secret": "{{ctx.name}}"},
        "broken": "{{ctx.a +}}",
    });
    assert_eq!(
        reads(&template),
        [
            "/plain ctx.order",
            "/mixed ctx.a",
            "/mixed vars.b c",
            "/mixed item",
            "/list/0/$expr ctx.n",
            "/list/0/$expr payload.limit",
            "/list/0/$expr ctx",
            "/list/0/$expr meta.key",
        ]
    );
}

#[test]
fn names_with_a_fallback_are_marked() {
    assert_eq!(reads(&json!("{{ctx.a | default(ctx.b)}}")), [" ctx.a?", " ctx.b"]);
    assert_eq!(reads(&json!("{{ctx.a.x if ctx.a is defined else ctx.b}}")), [" ctx.a?", " ctx.a?", " ctx.b"]);
    assert_eq!(reads(&json!("{{ctx.a is not defined or ctx.a.b > 1}}")), [" ctx.a?", " ctx.a?"]);
    assert_eq!(reads(&json!("{{(ctx.a)|d(1)}}")), [" ctx.a?"]);
    assert_eq!(reads(&json!("{{ctx.a and ctx.b|upper}}")), [" ctx.a", " ctx.b"]);
}
