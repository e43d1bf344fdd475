//! The validator of JSON Schema: what it checks, what it refuses to compile, and how much work it does.

use everstep_core::schema::{CheckMode, Schema};
use serde_json::{Value, json};

use super::support::timed;

#[track_caller]
fn schema(source: &Value) -> Schema {
    Schema::for_input(source).unwrap_or_else(|faults| panic!("{source}: {faults:?}"))
}

fn fits(source: &Value, value: &Value) -> bool {
    schema(source).check_input(value).is_empty()
}

/// The faults of a value, as `pointer: message`.
fn faults(source: &Value, value: &Value) -> Vec<String> {
    let faults = schema(source).check_input(value);
    faults.into_iter().map(|fault| format!("{}: {}", fault.pointer, fault.message)).collect()
}

fn refusals(source: &Value) -> Vec<String> {
    let faults = Schema::for_input(source).err().unwrap_or_default();
    faults.into_iter().map(|fault| format!("{}: {}", fault.pointer, fault.message)).collect()
}

#[test]
fn every_keyword_accepts_and_refuses() {
    let cases = [
        (json!({"type": "integer"}), vec![json!(1), json!(3.0), json!(-1)], vec![json!(1.5), json!("1"), json!(null)]),
        (json!({"type": ["string", "null"]}), vec![json!("a"), json!(null)], vec![json!(1), json!([])]),
        (json!({"type": "boolean"}), vec![json!(true)], vec![json!(0)]),
        (json!({"enum": [1, "a", {"b": [1]}]}), vec![json!(1.0), json!("a"), json!({"b": [1]})], vec![json!(2)]),
        (json!({"const": {"a": 1, "b": 2}}), vec![json!({"b": 2.0, "a": 1})], vec![json!({"a": 1})]),
        (
            json!({"minLength": 2, "maxLength": 3}),
            vec![json!("éé"), json!("abc"), json!(1)],
            vec![json!("a"), json!("abcd")],
        ),
        (json!({"pattern": "^a\\d+$"}), vec![json!("a12"), json!(5)], vec![json!("b12"), json!("a1٢")]),
        (json!({"format": "date"}), vec![json!("2026-01-31"), json!(1)], vec![json!("31.1.2026")]),
        (json!({"minimum": 1, "maximum": 3}), vec![json!(1), json!(3.0), json!("x")], vec![json!(0.99), json!(4)]),
        (json!({"exclusiveMinimum": 1, "exclusiveMaximum": 3}), vec![json!(2)], vec![json!(1), json!(3.0)]),
        (
            json!({"maximum": 9_007_199_254_740_992_u64}),
            vec![json!(9_007_199_254_740_992_u64)],
            vec![json!(9_007_199_254_740_993_u64)],
        ),
        (json!({"multipleOf": 0.01}), vec![json!(19.99), json!(4)], vec![json!(0.005)]),
        (json!({"multipleOf": 3}), vec![json!(9), json!(-3), json!(0)], vec![json!(10)]),
        (json!({"required": ["a"]}), vec![json!({"a": null}), json!([])], vec![json!({})]),
        (
            json!({"properties": {"a": {"type": "string"}}}),
            vec![json!({"a": "x", "b": 1}), json!(1)],
            vec![json!({"a": 1})],
        ),
        (
            json!({"properties": {"a": true}, "additionalProperties": false}),
            vec![json!({"a": 1})],
            vec![json!({"b": 1})],
        ),
        (json!({"additionalProperties": {"type": "number"}}), vec![json!({"x": 1})], vec![json!({"x": "1"})]),
        (
            json!({"patternProperties": {"^x": {"type": "number"}}, "additionalProperties": false}),
            vec![json!({"x1": 1})],
            vec![json!({"x1": "a"}), json!({"y": 1})],
        ),
        (json!({"propertyNames": {"maxLength": 2}}), vec![json!({"ab": 1})], vec![json!({"abc": 1})]),
        (
            json!({"minProperties": 1, "maxProperties": 2}),
            vec![json!({"a": 1})],
            vec![json!({}), json!({"a": 1, "b": 1, "c": 1})],
        ),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            vec![json!({"a": 1, "b": 1}), json!({"b": 1})],
            vec![json!({"a": 1})],
        ),
        (json!({"dependentSchemas": {"a": {"required": ["b"]}}}), vec![json!({"c": 1})], vec![json!({"a": 1})]),
        (json!({"items": {"type": "number"}}), vec![json!([1, 2]), json!([])], vec![json!([1, "a"])]),
        (
            json!({"prefixItems": [{"type": "number"}], "items": {"type": "string"}}),
            vec![json!([1, "a"]), json!([1])],
            vec![json!(["a"]), json!([1, 2])],
        ),
        (json!({"prefixItems": [true], "items": false}), vec![json!([1]), json!([])], vec![json!([1, 2])]),
        (json!({"minItems": 2, "maxItems": 2}), vec![json!([1, 2])], vec![json!([1]), json!([1, 2, 3])]),
        (
            json!({"uniqueItems": true}),
            vec![json!([1, "1", {"a": 1}])],
            vec![json!([1, 1.0]), json!([{"a": 1, "b": 2}, {"b": 2, "a": 1}])],
        ),
        (
            json!({"contains": {"const": 1}, "minContains": 2, "maxContains": 3}),
            vec![json!([1, 1]), json!([1, 1, 1, 2])],
            vec![json!([1]), json!([1, 1, 1, 1])],
        ),
        (json!({"contains": {"const": 1}}), vec![json!([0, 1])], vec![json!([]), json!([0])]),
        (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), vec![json!(1)], vec![json!(0), json!(3)]),
        (json!({"anyOf": [{"type": "string"}, {"minimum": 5}]}), vec![json!("a"), json!(5)], vec![json!(4)]),
        (json!({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}), vec![json!(2), json!(3)], vec![json!(6), json!(1)]),
        (json!({"not": {"type": "string"}}), vec![json!(1)], vec![json!("a")]),
        (
            json!({"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"required": ["c"]}}),
            vec![json!({"a": 1, "b": 1}), json!({"c": 1})],
            vec![json!({"a": 1}), json!({})],
        ),
        (
            json!({"$ref": "#/$defs/a", "maximum": 5, "$defs": {"a": {"type": "number"}}}),
            vec![json!(5)],
            vec![json!(6), json!("a")],
        ),
        (
            json!({"properties": {"next": {"$ref": "#"}}, "additionalProperties": false}),
            vec![json!({"next": {"next": {}}})],
            vec![json!({"next": {"last": 1}})],
        ),
    ];
    for (source, good, bad) in &cases {
        for value in good {
            assert!(fits(source, value), "{source} refuses {value}: {:?}", faults(source, value));
        }
        for value in bad {
            assert!(!fits(source, value), "{source} accepts {value}");
        }
    }
}

#[test]
fn faults_name_their_places_one_per_path() {
    let source = json!({
        "type": "object",
        "properties": {
            "amount": {"type": "number", "minimum": 1},
            "lines": {"type": "array", "items": {"type": "object", "required": ["sku"]}},
            "a/b": {"type": "string"},
        },
        "required": ["amount", "customer"],
        "allOf": [{"required": ["customer"]}],
    });
    assert_eq!(
        faults(&source, &json!({"amount": 0, "lines": [{"sku": 1}, {}, 5], "a/b": 1})),
        [
            "/amount: 0 is out of range: it must be at least 1",
            "/lines/1/sku: `sku` is missing",
            "/lines/2: expected an object, found a number",
            "/a~1b: expected a string, found a number",
            "/customer: `customer` is missing",
        ]
    );
    assert_eq!(faults(&source, &json!([])), [": expected an object, found an array"]);
}

#[test]
fn alternatives_are_explained_by_their_tag() {
    let source = json!({"oneOf": [
        {"properties": {"kind": {"const": "card"}, "number": {"type": "string"}}, "required": ["kind", "number"]},
        {"properties": {"kind": {"const": "cash"}}, "required": ["kind"]},
    ]});
    assert_eq!(faults(&source, &json!({"kind": "card"})), ["/number: `number` is missing"]);
    assert_eq!(
        faults(&source, &json!({"kind": "gold"})),
        [": expected {\"kind\": \"card\", …} or {\"kind\": \"cash\", …}"]
    );
}

#[test]
fn keywords_that_are_not_checked_are_refused_by_name() {
    for keyword in ["unevaluatedProperties", "$anchor", "$dynamicRef", "contentEncoding", "x-secret", "nullable"] {
        let found = refusals(&json!({"properties": {"a": {keyword: true}}}));
        let expected = format!("/properties/a/{keyword}: `{keyword}` is not a keyword that this server checks");
        assert_eq!(found, [expected]);
    }
    let found = refusals(&json!({"properties": {"a": {"format": "hostname"}}, "definitions": {}, "tpye": "object"}));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].starts_with("/definitions: `definitions` is called `$defs`"), "{found:?}");
    assert!(found[1].starts_with("/properties/a/format: \"hostname\" is not a format"), "{found:?}");
    assert!(found[2].starts_with("/tpye: `tpye` is not a keyword"), "{found:?}");
    // Annotations are for readers and editors.
    schema(&json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/order",
        "title": "Order", "description": "d", "default": {}, "examples": [], "deprecated": true, "readOnly": true,
        "writeOnly": true, "$comment": "c", "x-widget": "form",
    }));
    let draft = refusals(&json!({"$schema": "http://json-schema.org/draft-07/schema#"}));
    assert!(draft[0].starts_with("/$schema: this server checks JSON Schema 2020-12"), "{draft:?}");
}

#[test]
fn a_broken_schema_is_refused_with_the_path_of_the_error() {
    let cases = [
        (json!(true), ": expected a JSON Schema as an object"),
        (json!({"type": "text"}), "/type: a type is one of null"),
        (json!({"type": []}), "/type: a type is one of null"),
        (json!({"properties": {"a": 1}}), "/properties/a: expected a schema, found a number"),
        (json!({"properties": []}), "/properties: expected an object"),
        (json!({"required": "a"}), "/required: expected a list of names"),
        (json!({"minimum": "1"}), "/minimum: expected a number"),
        (json!({"minLength": -1}), "/minLength: expected a whole number"),
        (json!({"multipleOf": 0}), "/multipleOf: expected a number above 0"),
        (json!({"pattern": "(?=a)"}), "/pattern: not a regular expression"),
        (json!({"patternProperties": {"[": {}}}), "/patternProperties/[: not a regular expression"),
        (json!({"items": [{}]}), "/items: expected a schema; a list of schemas is `prefixItems`"),
        (json!({"then": {}}), "/then: `then` has no meaning without `if`"),
        (json!({"minContains": 1}), "/minContains: `minContains` has no meaning without `contains`"),
        (json!({"anyOf": []}), "/anyOf: the list is empty"),
        (json!({"$ref": "#/$defs/a"}), "/$ref: the schema has nothing at #/$defs/a"),
        (json!({"$ref": "https://example.com/a"}), "/$ref: a reference is a JSON pointer in the same schema"),
        (json!({"$ref": "#"}), ": the schema refers to itself"),
        (
            json!({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
            "/$defs/a: the schema refers",
        ),
        (json!({"description": "x".repeat(65_536)}), ": the schema has 65"),
    ];
    for (source, expected) in cases {
        let found = refusals(&source);
        assert!(found.first().is_some_and(|found| found.starts_with(expected)), "{expected}: {found:?}");
    }
}

#[test]
fn the_work_of_a_check_is_bounded() {
    // Each definition tries the next one twice: 2^40 checks without a bound.
    let mut definitions = serde_json::Map::new();
    for level in 0..40 {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({"oneOf": [next.clone(), next]}));
    }
    definitions.insert("d40".to_owned(), json!({"type": "string"}));
    let bomb = schema(&json!({"$ref": "#/$defs/d0", "$defs": definitions}));
    let (found, time) = timed(|| bomb.check_input(&json!(1)));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.contains("too many steps"), "{found:?}");
    assert!(time.as_secs() < 5, "{time:?}");
    // A chain of references that is longer than any stack.
    let mut definitions = serde_json::Map::new();
    for level in 0..1_500 {
        definitions.insert(format!("d{level}"), json!({"$ref": format!("#/$defs/d{}", level + 1)}));
    }
    definitions.insert("d1500".to_owned(), json!(true));
    let chain = schema(&json!({"$ref": "#/$defs/d0", "$defs": definitions}));
    assert!(chain.check_input(&json!(1))[0].message.contains("too many steps"));
    // A large input that is all wrong is reported in part.
    let numbers = schema(&json!({"items": {"type": "number"}}));
    let wrong = Value::from(vec!["x"; 100_000]);
    assert_eq!(numbers.check_input(&wrong).len(), 100);
    let (found, time) = timed(|| numbers.check_input(&Value::from(vec![1; 500_000])));
    assert!(found.is_empty() && time.as_secs() < 2, "{time:?}");
}

/// A decision checks the context of a state machine, on the loop that owns the runs of all workspaces.
#[test]
fn the_work_of_a_check_of_a_context_is_bounded_more_strictly() {
    let binary = |bytes: usize| Value::from("01".repeat(bytes / 2));
    let choices: Vec<_> = (0..4_000).map(|n| format!("choice {n}")).collect();
    let alternatives = vec![json!({"$ref": "#/$defs/one"}); 200];
    let one_of_many = json!({"items": {"anyOf": alternatives}, "$defs": {"one": {"const": "x".repeat(5_000)}}});
    let hostile = [
        // A thousand states, which a text can all keep alive.
        (json!({"items": {"pattern": "^[01]*1[01]{500}$"}}), Value::from(vec![binary(20_000); 50])),
        (json!({"patternProperties": {"^[01]*1[01]{500}$": true}}), json!({"01".repeat(50_000): 1})),
        (json!({"items": {"enum": choices}}), Value::from(vec!["no choice"; 50_000])),
        (one_of_many, Value::from(vec![format!("{}y", "x".repeat(4_999)); 100])),
        (json!({"uniqueItems": true}), Value::from((0..1_000_000).collect::<Vec<_>>())),
        (json!({"items": {"minLength": 1}}), Value::from(vec!["x".repeat(100_000); 50])),
        (json!({"items": {"type": "number"}}), Value::from(vec![1; 1_000_000])),
    ];
    for (source, value) in hostile {
        let schema = schema(&source);
        let (found, time) = timed(|| schema.check_context(&value, CheckMode::Json));
        let message = found.first().map(|fault| fault.message.as_str());
        assert!(message.is_some_and(|message| message.contains("too many steps")), "{source}: {found:?}");
        assert!(time.as_millis() < 500, "{source}: {time:?}");
    }
    // An order with a thousand lines.
    let line = json!({
        "type": "object",
        "properties": {
            "article": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"}, "unit": {"enum": ["piece", "metre", "hour"]},
            "price": {"type": "number", "minimum": 0}, "title": {"type": "string", "maxLength": 100},
        },
        "required": ["article", "price"],
    });
    let order = schema(&json!({"properties": {"lines": {"type": "array", "items": line, "maxItems": 1_000}}}));
    let line = json!({"article": "AB-1234", "unit": "piece", "price": 9.5, "title": "Kabel"});
    assert_eq!(order.check_context(&json!({"lines": vec![line; 1_000]}), CheckMode::Json), []);
}

#[test]
fn the_deepest_input_is_checked() {
    let tree = schema(&json!({
        "$defs": {"tree": {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}},
        "$ref": "#/$defs/tree",
    }));
    let deep = |end: Value| (0..98).fold(end, |inner, _| json!({"next": inner}));
    assert_eq!(tree.check_input(&deep(Value::Null)), []);
    assert_ne!(tree.check_input(&deep(json!(1))), []);
}
