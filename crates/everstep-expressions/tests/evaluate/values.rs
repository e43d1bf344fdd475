//! The results of expressions.

use crate::context::{Context, lenient, resolve};
use everstep_core::evaluate::Evaluate;
use everstep_core::meter::Meter;
use everstep_expressions::Expressions;
use serde_json::{Value, json};

#[test]
fn a_string_that_is_one_expression_keeps_the_type() {
    let table = [
        // By the fast path, which only follows names.
        ("{{ctx.order.count}}", json!(3)),
        ("{{ ctx.order.total }}", json!(12.5)),
        ("{{ctx.order.lines.1.name}}", json!("ink")),
        ("{{ctx.order.lines[1].price}}", json!(5)),
        ("{{ctx.tags}}", json!(["a", "b"])),
        ("{{ctx.keys}}", json!({"z": 1, "a": 2})),
        ("{{ctx.empty}}", json!(null)),
        ("{{ctx.yes}}", json!(true)),
        ("{{ctx.one}}", json!(1.0)),
        ("{{ctx.big}}", json!(9_007_199_254_740_993_i64)),
        ("{{ctx.huge}}", json!(u64::MAX)),
        ("{{ctx['a b']}}", json!("spaced")),
        ("{{ctx.input.user.id}}", json!(7)),
        ("{{payload.user.id}}", json!(7)),
        ("{{vars.name}}", json!("Ada")),
        ("{{meta.version}}", json!(2)),
        ("{{item.sku}}", json!("X")),
        ("{{ctx.item.sku}}", json!("X")),
        ("{{index}}", json!(4)),
        ("{{ctx.__node_fetch.output.ok}}", json!(true)),
        ("{{null}}", json!(null)),
        // By the library.
        ("{{ctx.order.count + 1}}", json!(4)),
        ("{{ctx.order.count * ctx.order.total}}", json!(37.5)),
        ("{{ctx.one + 0}}", json!(1.0)),
        ("{{ctx.big + 0}}", json!(9_007_199_254_740_993_i64)),
        ("{{ctx.huge + 0}}", json!(u64::MAX)),
        ("{{ctx.order.count == 3 and ctx.yes}}", json!(true)),
        ("{{42 == '42'}}", json!(false)),
        ("{{7 / 2}}", json!(3.5)),
        ("{{7 // 2}}", json!(3)),
        ("{{ctx.tags + ['c']}}", json!(["a", "b", "c"])),
        ("{{ctx.tags[1:]}}", json!(["b"])),
        ("{{ctx.tags[-1]}}", json!("b")),
        ("{{ {'z': ctx.order.count, 'a': [1, none]} }}", json!({"z": 3, "a": [1, null]})),
        ("{{ctx.empty|default('x')}}", json!(null)),
        ("{{ctx.missing|default('x')}}", json!("x")),
        ("{{ctx.missing.deep.er|default(1)}}", json!(1)),
        ("{{ctx.order.lines[9].name|default('none')}}", json!("none")),
        ("{{(ctx.order.lines[9].name)|d('none')}}", json!("none")),
        ("{{ctx.order.lines[9].name is not defined}}", json!(true)),
        ("{{ctx.keys.q.r|default(1) + ctx.keys|length}}", json!(3)),
        ("{{ctx.empty.x|default(5)}}", json!(5)),
        ("{{ctx.name|default(ctx.missing)}}", json!("Ada")),
        ("{{'big' if ctx.order.total > 10 else 'small'}}", json!("big")),
        ("{{ctx.name|upper ~ '!'}}", json!("ADA!")),
        ("{{ctx.order.lines|length}}", json!(2)),
        ("{{ctx.order.lines|sum(attribute='price')}}", json!(7)),
        ("{{ctx.order.lines|join(', ', attribute='name')}}", json!("pen, ink")),
        ("{{ctx.keys|keys}}", json!(["z", "a"])),
        ("{{ctx.keys|values}}", json!([1, 2])),
        ("{{ctx.keys|tojson}}", json!("{\"z\":1,\"a\":2}")),
        ("{{ctx.tags|tojson}}", json!("[\"a\",\"b\"]")),
        ("{{'a,b'|split(',')}}", json!(["a", "b"])),
        ("{{' x '|trim}}", json!("x")),
        ("{{'aXbX'|replace('X', '-')}}", json!("a-b-")),
        ("{{ctx.order.total|round|int}}", json!(12)),
        ("{{'b' in ctx.tags}}", json!(true)),
        ("{{'n' is in ['n', 'm']}}", json!(true)),
        ("{{ctx.missing is defined}}", json!(false)),
        ("{{ctx.missing.deep is undefined}}", json!(true)),
        ("{{ctx[ctx.tags[0] ~ ' b']}}", json!("spaced")),
        ("{{item.sku ~ index}}", json!("X4")),
        ("{{ctx.yes and null}}", json!(null)),
    ];
    for (template, expected) in table {
        let value = resolve(template).unwrap_or_else(|failure| panic!("{template}: {failure}"));
        assert_eq!(value, expected, "{template}");
        assert_eq!(value.to_string(), expected.to_string(), "{template}");
    }
}

#[test]
fn mixed_text_is_a_string() {
    let table = [
        ("{{ctx.order.count}} items", "3 items"),
        ("{{ctx.one}}{{ctx.empty}}|", "1.0|"),
        ("{{ctx.tags}} {{ctx.keys}}", r#"["a","b"] {"z":1,"a":2}"#),
        ("n={{ctx.order.count + 1}}, {{ctx.yes}}", "n=4, true"),
        (" {{ctx.order.count}}", " 3"),
        ("no expression: { } }}", "no expression: { } }}"),
        ("{{ '{{' }} stays", "{{ stays"),
        ("é{{ctx.name}}é", "éAdaé"),
    ];
    for (template, expected) in table {
        assert_eq!(resolve(template).unwrap(), json!(expected), "{template}");
    }
}

#[test]
fn templates_are_resolved_at_any_depth() {
    let template = json!({
        "z": {"$expr": "ctx.order.count + 1"},
        "a": ["{{ctx.name}}", 5, {"b": "Hi {{ctx.name}}"}],
        "not": {"$expr": "ctx.name", "and": 1},
    });
    let expected = json!({
        "z": 4,
        "a": ["Ada", 5, {"b": "Hi Ada"}],
        "not": {"$expr": "ctx.name", "and": 1},
    });
    let value = Expressions::new().resolve(&template, &Context::sample(), &Meter::new()).unwrap();
    assert_eq!(value.to_string(), expected.to_string());
}

#[test]
fn what_is_resolved_is_not_resolved_again() {
    let context = Context::from_variables(json!({"a": "{{ctx.b}}", "b": "secret"}));
    let expressions = Expressions::new();
    assert_eq!(expressions.resolve(&json!("{{ctx.a}}"), &context, &Meter::new()).unwrap(), json!("{{ctx.b}}"));
    assert_eq!(expressions.resolve(&json!("x {{ctx.a}}"), &context, &Meter::new()).unwrap(), json!("x {{ctx.b}}"));
}

#[test]
fn an_expression_is_written_with_or_without_braces() {
    for source in ["ctx.order.count > 2", "{{ ctx.order.count > 2 }}", "  {{ctx.order.count > 2}}  "] {
        assert_eq!(lenient(source).unwrap(), json!(true), "{source}");
    }
    assert_eq!(lenient("ctx.order.lines").unwrap().as_array().unwrap().len(), 2);
}

#[test]
fn the_whole_context_can_be_looked_at() {
    let context = Context::from_variables(json!({"a": 1, "b": 2}));
    let expressions = Expressions::new();
    assert_eq!(expressions.expression("ctx|length", &context, &Meter::new()).unwrap(), json!(3));
    assert_eq!(expressions.expression("ctx", &context, &Meter::new()).unwrap(), json!({"a": 1, "b": 2, "input": null}));
    assert_eq!(expressions.expression("vars['a'] + ctx.b", &context, &Meter::new()).unwrap(), json!(3));
}

#[test]
fn names_of_an_iteration_hide_outer_ones() {
    let mut context = Context::from_variables(json!({"row": "outer"}));
    context.locals.insert("row".into(), json!({"n": 1}));
    let expressions = Expressions::new();
    assert_eq!(expressions.resolve(&json!("{{row.n}}"), &context, &Meter::new()).unwrap(), json!(1));
    assert_eq!(expressions.resolve(&json!("{{ctx.row.n}}"), &context, &Meter::new()).unwrap(), json!(1));
    assert_eq!(expressions.resolve(&json!("{{row.n + 1}}"), &context, &Meter::new()).unwrap(), json!(2));
}

#[test]
fn a_large_value_passes_along_a_plain_path() {
    let list: Vec<Value> = (0..100_000).map(Value::from).collect();
    let context = Context::from_variables(json!({"list": list}));
    let expressions = Expressions::new();
    assert_eq!(
        expressions.resolve(&json!("{{ctx.list}}"), &context, &Meter::new()).unwrap().as_array().unwrap().len(),
        100_000
    );
    assert_eq!(expressions.expression("ctx.list|length", &context, &Meter::new()).unwrap(), json!(100_000));
}

#[test]
fn a_secret_is_carried_as_it_is_written() {
    let template = json!({"auth": {"$secret": "{{ctx.name}}"}, "user": "{{ctx.name}}"});
    let value = Expressions::new().resolve(&template, &Context::sample(), &Meter::new()).unwrap();
    assert_eq!(value, json!({"auth": {"$secret": "{{ctx.name}}"}, "user": "Ada"}));
    assert_eq!(Expressions::new().check(&json!({"$secret": "{{ctx."})), []);
}
