//! The limits of an expression.

use std::time::{Duration, Instant};

use crate::context::Context;
use everstep_core::evaluate::Evaluate;
use everstep_core::failure::code;
use everstep_core::limits::JSON_DEPTH;
use everstep_core::meter::Meter;
use everstep_expressions::Expressions;
use serde_json::{Value, json};

fn heavy() -> Context {
    let letters: Vec<Value> = (0..20_000).map(|_| json!("x".repeat(15))).collect();
    Context::from_variables(json!({"text": "x".repeat(500_000), "list": letters, "n": 99_999_999, "short": "ab"}))
}

/// Evaluates an expression that must be rejected, quickly.
fn refused(source: &str) -> String {
    let begin = Instant::now();
    let failure = Expressions::new().expression(source, &heavy(), &Meter::new()).expect_err(source);
    assert!(begin.elapsed() < Duration::from_secs(2), "{source} took {:?}", begin.elapsed());
    assert_eq!(failure.code, code::EXPRESSION_ERROR);
    failure.message
}

#[test]
fn texts_and_lists_are_never_repeated() {
    let bombs = [
        "'a' * 99999999",
        "99999999 * 'a'",
        "('a') * 99999999",
        "99999999 * ('a' ~ 'b')",
        "['a'][0] * 99999999",
        "ctx.short * ctx.n",
        "ctx.n * ctx.short",
        "ctx.n * -ctx.n * ctx.short",
        "ctx.n * ctx.short|upper",
        "ctx.n * ctx.list",
        "[0] * 99999999",
        "(ctx.n * ctx.short)|length",
        "ctx.n / 1 * ctx.short",
        "2 ** 20 * ctx.short",
        "{'a': 'b'}['a'] * ctx.n",
        "ctx.n * (ctx.short is string|upper)",
        "ctx.n * ctx.short is string|upper",
        "[ctx.short, 1]|join(*['x'])",
    ];
    for bomb in bombs {
        let message = refused(bomb);
        let is_reported = message.contains("multiplied") || message.contains('*');
        assert!(is_reported, "{bomb}: {message}");
    }
}

#[test]
fn filters_cannot_blow_a_text_up() {
    for bomb in [
        "ctx.text|replace('', ctx.text)",
        "ctx.text|replace('x', 'xxxxxxxx')",
        "ctx.list|join(ctx.text)",
        "ctx.text|split('')",
        "ctx.text|trim(ctx.text)",
        "ctx.text|tojson",
    ] {
        refused(bomb);
    }
}

#[test]
fn joining_is_bounded_by_what_is_joined() {
    let many = vec!["ctx.text"; 100];
    assert!(refused(&many.join(" ~ ")).contains("join"));
    assert!(refused(&many.join(" + ")).contains("join"));
    assert!(refused(&vec!["ctx.list"; 100].join(" + ")).contains("join"));
    assert!(
        refused(&vec!["ctx.short|replace('', 'xxxxxxxx')|replace('', 'xxxxxxxx')"; 50].join(" ~ ")).contains("join")
    );
    for few in [vec!["ctx.short"; 100].join("~"), vec!["ctx.short|lower"; 100].join("~")] {
        assert_eq!(Expressions::new().expression(&few, &heavy(), &Meter::new()).unwrap(), json!("ab".repeat(100)));
    }
    assert!(Expressions::new().expression("(ctx.list + ctx.list)|length", &heavy(), &Meter::new()).is_ok());
}

#[test]
fn a_computed_result_is_bounded() {
    assert!(refused("ctx.text ~ ''").contains("256 KiB"));
    assert!(refused("ctx.list|list + ctx.list").contains("256 KiB"));
}

#[test]
fn what_an_expression_looks_at_is_bounded() {
    let context = Context::from_variables(json!({"a": "x".repeat(600_000), "b": "x".repeat(600_000)}));
    let failure = Expressions::new().expression("ctx.a|length + ctx.b|length", &context, &Meter::new()).unwrap_err();
    assert!(failure.message.contains("`ctx.b`"), "{failure}");
}

#[test]
fn a_template_cannot_name_a_large_value_many_times() {
    let template = Value::Array(vec![json!("{{ctx.text}}"); 10_000]);
    let failure = Expressions::new().resolve(&template, &heavy(), &Meter::new()).unwrap_err();
    assert!(failure.message.contains("1024 KiB"), "{failure}");
}

#[test]
fn long_and_deep_sources_are_refused() {
    let chain = |piece: &str| piece.repeat(20_000);
    for source in [
        format!("{}1", chain("-")),
        format!("{}true", "not ".repeat(15_000)),
        format!("1{}", chain("+1")),
        format!("ctx{}", ".a[0:]".repeat(10_000)),
        format!("ctx{}", "|list".repeat(10_000)),
        format!("{}1{}", chain("("), chain(")")),
        format!("{}1{}", "[".repeat(400), "]".repeat(100)),
        format!("{}1{}", "(".repeat(250), ")".repeat(250)),
        format!("1{}", " if 1 else 1".repeat(5_000)),
        format!("'{}'|length", "x".repeat(70_000)),
    ] {
        refused(&source);
        assert!(Expressions::new().check_expression(&source).is_some());
    }
}

#[test]
fn a_long_list_of_literals_is_fine() {
    let list: Vec<String> = (0..3_000).map(|number| format!("'{number}'")).collect();
    let source = format!("'2999' in [{}]", list.join(","));
    assert_eq!(Expressions::new().expression(&source, &heavy(), &Meter::new()).unwrap(), json!(true));
}

#[test]
fn deep_values_and_templates_are_errors() {
    let nest = |levels: usize| (0..levels).fold(json!("{{ctx.n}}"), |inner, _| json!([inner]));
    let expressions = Expressions::new();
    assert!(expressions.resolve(&nest(JSON_DEPTH), &heavy(), &Meter::new()).is_ok());
    for levels in [JSON_DEPTH + 1, 500] {
        let template = nest(levels);
        assert_eq!(expressions.resolve(&template, &heavy(), &Meter::new()).unwrap_err().code, code::EXPRESSION_ERROR);
        assert_eq!(expressions.check(&template).len(), 1);
    }
    let context = Context::from_variables(json!({"deep": (0..90).fold(json!(1), |inner, _| json!([inner]))}));
    assert!(expressions.resolve(&json!([["{{ctx.deep}}"]]), &context, &Meter::new()).is_ok());
    let deeper = (0..20).fold(json!("{{ctx.deep}}"), |inner, _| json!([inner]));
    assert!(expressions.resolve(&deeper, &context, &Meter::new()).unwrap_err().message.contains("nested deeper"));
}

#[test]
fn what_panics_in_the_library_is_an_error_or_a_value() {
    let expressions = Expressions::new();
    for source in
        ["[1,2,3][0:2:-1]", "[1,2,3][::-9223372036854775807]", "'abc'[5:9:-1]", "'abc'[::-9223372036854775808]"]
    {
        let _ = expressions.expression(source, &heavy(), &Meter::new());
    }
}

#[test]
fn numbers_that_json_cannot_write_are_errors() {
    for source in ["1e308 * 10", "(1e308 * 10) - (1e308 * 10)"] {
        refused(source);
    }
    assert_eq!(Expressions::new().expression("2 ** 100", &heavy(), &Meter::new()).unwrap(), json!(2_f64.powi(100)));
}
