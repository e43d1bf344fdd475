//! `$schema`, `inputSchema`, and the secrets that a definition names.

use everstep_core::schema::Schema;
use serde_json::{Value, json};

use super::{around, assert_problems, compile, with_config};

fn with(field: &str, value: Value) -> Value {
    let mut definition = around(json!({"type": "noop"}));
    definition[field] = value;
    definition
}

#[test]
fn the_schema_of_the_file_is_accepted_and_kept() {
    let definition = with("$schema", json!("https://everstep.example/v1/schemas/graph"));
    let workflow = compile(&definition).unwrap();
    let kept = workflow.graph().unwrap().definition();
    assert_eq!(kept["$schema"], definition["$schema"]);
    assert_problems(&with("$schema", json!(1)), &[("", "/$schema", "expected a string", "quotes")]);
}

#[test]
fn an_input_schema_is_compiled_with_the_graph() {
    let source = json!({"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]});
    let workflow = compile(&with("inputSchema", source.clone())).unwrap();
    let graph = workflow.graph().unwrap();
    assert_eq!(graph.definition()["inputSchema"], source);
    let schema: &Schema = graph.input_schema().unwrap();
    assert_eq!(schema.check_input(&json!({"amount": 1})), []);
    assert_eq!(schema.check_input(&json!({}))[0].pointer, "/amount");
    assert!(compile(&with("inputSchema", Value::Null)).unwrap().graph().unwrap().input_schema().is_none());
}

#[test]
fn a_broken_input_schema_is_refused_with_its_path() {
    let broken = json!({"properties": {"a": {"type": "text"}, "b": {"unevaluatedItems": false}}});
    assert_problems(
        &with("inputSchema", broken),
        &[
            ("", "/inputSchema/properties/a/type", "a type is one of", "JSON Schema (2020-12)"),
            ("", "/inputSchema/properties/b/unevaluatedItems", "`unevaluatedItems` is not a keyword", "2020-12"),
        ],
    );
    assert_problems(&with("inputSchema", json!("x")), &[("", "/inputSchema", "expected a JSON Schema", "2020-12")]);
    let large = json!({"description": "x".repeat(64 * 1024)});
    assert_problems(&with("inputSchema", large), &[("", "/inputSchema", "the limit is 65536", "2020-12")]);
}

#[test]
fn a_graph_lists_the_secrets_that_it_names() {
    let definition = with_config("ask", json!({"key": {"$secret": "stripe"}, "headers": {"A": {"$secret": "other"}}}));
    let workflow = compile(&definition).unwrap();
    let named = workflow.graph().unwrap().named_secrets();
    let places: Vec<_> = named.iter().map(|it| (it.name.as_str(), it.node.as_str(), it.path.as_str())).collect();
    assert_eq!(places, [("stripe", "it", "/nodes/1/config/key"), ("other", "it", "/nodes/1/config/headers/A")]);
    let warning = named[0].unknown();
    assert_eq!(
        (warning.code, warning.message.as_str()),
        (Some("UNKNOWN_SECRET"), "the workspace has no secret \"stripe\"")
    );
}
