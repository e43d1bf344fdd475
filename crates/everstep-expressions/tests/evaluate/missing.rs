//! Names without a value.

use crate::context::{Context, lenient, message, resolve};
use everstep_core::evaluate::Evaluate;
use everstep_core::failure::code;
use everstep_core::meter::Meter;
use everstep_expressions::Expressions;
use serde_json::json;

#[test]
fn an_undefined_name_is_an_error_that_names_the_path() {
    let table = [
        ("{{ctx.order.missing}}", "`ctx.order.missing` is undefined"),
        ("{{ctx.nowhere.at.all}}", "`ctx.nowhere.at.all` is undefined"),
        ("{{missing}}", "`missing` is undefined"),
        ("{{ctx.order.lines[9].name}}", "`ctx.order.lines[9].name` is undefined"),
        ("total: {{ctx.order.sum}}", "`ctx.order.sum` is undefined"),
        ("{{ctx.order.sum + 1}}", "`ctx.order.sum` is undefined"),
        ("{{ctx.order.sum == 1}}", "`ctx.order.sum` is undefined"),
        ("{{ctx.nowhere.name|upper}}", "`ctx.nowhere.name` is undefined"),
        ("{{[ctx.order.sum]}}", "`ctx.order.sum` is undefined"),
        ("{{ctx.nowhere * 2}}", "`ctx.nowhere` is undefined"),
    ];
    for (template, expected) in table {
        let failure = resolve(template).unwrap_err();
        assert_eq!(failure.code, code::EXPRESSION_ERROR);
        assert!(!failure.retryable);
        assert!(failure.message.starts_with(expected), "{template}: {}", failure.message);
    }
}

#[test]
fn a_failure_contains_its_position_in_the_expression() {
    assert_eq!(message("{{1 + ctx.order.sum}}"), "`ctx.order.sum` is undefined at character 5, in `1 + ctx.order.sum`");
    let wrong = message("{{ 1 + 2 * (ctx.name + 1) }}");
    assert!(wrong.contains(" at character ") && wrong.ends_with(", in `1 + 2 * (ctx.name + 1)`"), "{wrong}");
    let lines = message("{{ctx.name ~\n  ctx.order.sum}}");
    assert!(lines.starts_with("`ctx.order.sum` is undefined at line 2, character 3, in "), "{lines}");
}

#[test]
fn an_undefined_item_of_a_computed_list_is_an_error() {
    assert!(message("{{(ctx.tags + ['c'])[7]}}").contains("undefined"));
    assert!(message("{{ctx.tags[7 - 1] ~ 'x' + 1}}").contains("x"), "a value in text");
    assert!(message("{{[ctx.tags[7 - 1]]}}").contains("undefined"));
}

#[test]
fn a_chosen_branch_alone_must_be_defined() {
    assert_eq!(resolve("{{ctx.name if ctx.yes else ctx.missing}}").unwrap(), json!("Ada"));
    assert_eq!(
        message("{{ctx.missing if ctx.yes else 1}}"),
        "`ctx.missing` is undefined at character 1, in `ctx.missing if ctx.yes else 1`"
    );
    assert_eq!(resolve("{{ctx.missing is defined and ctx.missing.x > 1}}").unwrap(), json!(false));
}

#[test]
fn leniently_an_undefined_name_is_null() {
    let sources = [
        "ctx.missing",
        "ctx.missing.deep.er",
        "missing.at.all",
        "ctx.order.lines[9].name",
        "ctx.missing + 1",
        "ctx.missing.deep * 3",
        "ctx.missing|round",
        "ctx.tags[8 + 1].name.first",
        "ctx.tags[8 + 1].name + 1",
    ];
    for source in sources {
        assert_eq!(lenient(source).unwrap(), json!(null), "{source}");
    }
    assert_eq!(lenient("ctx.missing == 1").unwrap(), json!(false));
    assert_eq!(lenient("ctx.missing.deep or 'x'").unwrap(), json!("x"));
    assert_eq!(lenient("ctx.missing|default(3)").unwrap(), json!(3));
    assert_eq!(lenient("not ctx.missing").unwrap(), json!(true));
}

#[test]
fn lenient_templates_have_nulls_and_empty_texts() {
    let template = json!({"a": "{{ctx.missing.x}}", "b": "[{{ctx.missing}}]", "c": "{{[ctx.missing, 1]}}"});
    let value = Expressions::new().resolve_lenient(&template, &Context::sample(), &Meter::new()).unwrap();
    assert_eq!(value, json!({"a": null, "b": "[]", "c": [null, 1]}));
}

#[test]
fn leniently_a_wrong_type_is_still_an_error() {
    assert!(lenient("ctx.name + 1").is_err());
}
