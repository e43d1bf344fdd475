//! The catalogue: every kind is listed, and its description is true.

use std::path::{Path, PathBuf};

use everstep_core::graph::{self, Problem};
use everstep_core::kinds::Kinds;
use everstep_core::schema::{CheckMode, Schema};
use everstep_expressions::Expressions;
use everstep_handlers::{CatalogueEntry, catalogue, page};
use serde_json::{Map, Value, json};

use crate::registry;

fn entries() -> Vec<CatalogueEntry> {
    catalogue(&registry())
}

fn find(name: &str) -> CatalogueEntry {
    entries().into_iter().find(|entry| entry.name == name).expect("the catalogue has it")
}

/// A small graph with one node of a kind: `it`, between start and end.
pub(crate) fn around(kind: &str, config: &Value) -> Value {
    let noop = |id: &str| json!({"id": id, "type": "noop"});
    let (start, end) = (json!({"id": "start", "type": "start"}), json!({"id": "end", "type": "end"}));
    let it = json!({"id": "it", "type": kind, "config": config});
    let edge = |from: &str, to: &str, handle: &str| json!({"source": from, "target": to, "sourceHandle": handle});
    let first = json!({"source": "start", "target": "it"});
    match kind {
        "start" => json!({"nodes": [it, end], "edges": [{"source": "it", "target": "end"}]}),
        "end" => json!({"nodes": [start, it], "edges": [first]}),
        "condition" => {
            let other = config["defaultBranch"].as_str().unwrap_or("default");
            json!({"nodes": [start, it, end], "edges": [first, edge("it", "end", other)]})
        }
        "loop" => json!({
            "nodes": [start, it, noop("inside"), end],
            "edges": [first, edge("it", "inside", "loop"), edge("it", "end", "done")],
        }),
        "scope" => json!({
            "nodes": [start, it, noop("inside"), end],
            "edges": [first, edge("it", "inside", "body"), edge("it", "end", "success")],
        }),
        _ => json!({"nodes": [start, it, end], "edges": [first, {"source": "it", "target": "end"}]}),
    }
}

fn compile(definition: &Value) -> Result<(), Vec<Problem>> {
    graph::compile(definition, &registry(), &Expressions::default()).map(drop)
}

#[test]
fn every_kind_is_in_the_catalogue() {
    let names: Vec<_> = entries().into_iter().map(|entry| entry.name).collect();
    let core = ["start", "end", "condition", "transform", "delay", "wait", "publish", "workflow", "loop", "scope"];
    let acting = registry().names();
    assert_eq!(names, core.into_iter().map(str::to_owned).chain(acting).collect::<Vec<_>>());
    for needed in ["javascript", "dataQuery", "http"] {
        assert!(names.iter().any(|name| name == needed), "{needed}");
    }
    // A kind that is not in the catalogue is unknown to the compiler, too.
    let problems = compile(&around("nothing", &json!({}))).unwrap_err();
    let hint = problems[0].hint.clone().unwrap_or_default();
    for name in &names {
        assert!(hint.contains(name.as_str()), "{name} is not in {hint}");
    }
}

#[test]
fn every_entry_is_complete() {
    for entry in entries() {
        let name = &entry.name;
        for text in [&entry.title, &entry.group, &entry.icon] {
            assert!(!text.is_empty(), "{name}");
        }
        assert!(entry.summary.ends_with('.') && entry.output.ends_with('.'), "{name}");
        assert!(!entry.examples.is_empty(), "{name} has no example");
        assert_eq!((&entry.schema["type"], &entry.schema["additionalProperties"]), (&json!("object"), &json!(false)));
        for (field, property) in entry.schema["properties"].as_object().expect("it is an object") {
            assert!(property["description"].is_string(), "{name}.{field} has no description");
        }
        assert_eq!(entry.is_internal, name == "noop", "{name}");
    }
    let written = serde_json::to_value(find("http")).expect("it is data");
    assert_eq!(written["outputVariable"], "httpResponse");
    assert_eq!(written["timeout"], json!({"defaultSeconds": 30, "longestSeconds": 3600}));
    assert_eq!(written["defaults"]["method"], "GET");
    assert_eq!(written["defaults"]["acceptStatuses"], json!(["2xx"]));
    assert_eq!(written["schema"]["properties"]["auth"]["oneOf"][2]["properties"]["token"]["x-secret"], true);
}

#[test]
fn every_example_compiles_and_fits_its_schema() {
    for entry in entries() {
        for example in &entry.examples {
            let definition = around(&entry.name, &example.config);
            let compiled = compile(&definition);
            assert!(compiled.is_ok(), "{}: {}: {compiled:#?}", entry.name, example.title);
            let schema = Schema::built_in(&entry.schema);
            let faults = schema.check(&example.config, CheckMode::Saved { raw_fields: &[] });
            assert!(faults.is_empty(), "{}: {}: {faults:?}", entry.name, example.title);
        }
        // Defaults may be written out.
        let mut config = entry.examples[0].config.clone();
        for (field, value) in entry.defaults.as_object().expect("it is an object") {
            let has_meaning = !matches!(field.as_str(), "bodyType" | "delayType");
            if has_meaning && config.get(field).is_none() {
                config[field] = value.clone();
            }
        }
        let compiled = compile(&around(&entry.name, &config));
        assert!(compiled.is_ok(), "{}: {config}: {compiled:#?}", entry.name);
    }
}

#[test]
fn handles_equal_those_of_the_compiler() {
    for entry in entries().into_iter().filter(|entry| entry.name != "end") {
        let config = match entry.name.as_str() {
            // Only an approval can be rejected.
            "wait" => json!({"approval": "a"}),
            _ => entry.examples[0].config.clone(),
        };
        let definition = around(&entry.name, &config);
        let handles = |handle: &str| {
            let mut definition = definition.clone();
            let is_body = matches!(handle, "loop" | "body");
            let target = if is_body { "inside" } else { "end" };
            let edges = definition["edges"].as_array_mut().expect("it is a list");
            edges.retain(|edge| edge["source"] != "it" || (edge["target"] != target));
            edges.push(json!({"source": "it", "target": target, "sourceHandle": handle}));
            compile(&definition).err().unwrap_or_default()
        };
        for handle in &entry.handles {
            let problems = handles(&handle.name);
            let is_known = !problems.iter().any(|problem| problem.path.ends_with("/sourceHandle"));
            assert!(is_known, "{}: {}: {problems:?}", entry.name, handle.name);
        }
        let problems = handles("nowhere");
        assert!(problems.iter().any(|problem| problem.message.contains("has no handle")), "{}", entry.name);
        // An edge without a handle is rejected exactly if there is no default.
        let mut bare = definition.clone();
        for edge in
            bare["edges"].as_array_mut().expect("it is a list").iter_mut().filter(|edge| edge["target"] == "end")
        {
            edge.as_object_mut().expect("it is one").shift_remove("sourceHandle");
        }
        assert_eq!(compile(&bare).is_ok(), entry.default_handle.is_some(), "{}", entry.name);
    }
}

#[test]
fn outputs_have_the_variable_of_the_catalogue() {
    for entry in entries().into_iter().filter(|entry| entry.name != "end") {
        let mut definition = around(&entry.name, &entry.examples[0].config);
        let variable = entry.output_variable.clone().unwrap_or("nothing".to_owned());
        let nodes = definition["nodes"].as_array_mut().expect("it is a list");
        let end = nodes.iter_mut().find(|node| node["type"] == "end").expect("there is one");
        end["config"] =
            json!({"outputParameters": [{"name": "x", "sourceVariable": format!("{{{{ctx.{variable}}}}}")}]});
        assert_eq!(compile(&definition).is_ok(), entry.output_variable.is_some(), "{}", entry.name);
    }
}

#[test]
fn retries_and_timeouts_are_rejected_as_in_the_catalogue() {
    for entry in entries() {
        let with = |field: &str, value: Value| {
            let mut definition = around(&entry.name, &entry.examples[0].config);
            let nodes = definition["nodes"].as_array_mut().expect("it is a list");
            let it = nodes.iter_mut().find(|node| node["id"] == "it").expect("it is there");
            it["config"].as_object_mut().expect("it is one").shift_remove("timeoutSeconds");
            it[field] = value;
            compile(&definition).is_ok()
        };
        assert_eq!(with("retry", json!({"maxAttempts": 2})), entry.can_retry, "{}", entry.name);
        assert_eq!(with("timeoutSeconds", json!(1)), entry.timeout.is_some(), "{}", entry.name);
        if let Some(timeout) = entry.timeout {
            assert!(with("timeoutSeconds", json!(timeout.longest_seconds)), "{}", entry.name);
            assert!(!with("timeoutSeconds", json!(timeout.longest_seconds + 1)), "{}", entry.name);
        }
    }
}

/// Every config that differs from this one in one place.
pub(crate) fn mutations(config: &Value) -> Vec<Value> {
    let pool = [
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(59),
        json!(60),
        json!(1440),
        json!(100_000),
        json!(100_001),
        json!(-1),
        json!(1.5),
        json!(99_999_999_999_u64),
        json!(""),
        json!("x"),
        json!("A/b"),
        json!("__x"),
        json!("input"),
        json!("error"),
        json!("failure"),
        json!("dynamic"),
        json!("until"),
        json!("OR"),
        json!("expression"),
        json!("continue"),
        json!([]),
        json!([1]),
        json!({}),
        json!({"a": 1}),
    ];
    let mut found = pool.to_vec();
    match config {
        // Expressions are not examined.
        Value::Object(object) if object.contains_key("$expr") => {}
        Value::Object(object) => {
            found.push(put(object, "unheardOf", json!(1)));
            for (field, value) in object {
                let mut without = object.clone();
                without.shift_remove(field);
                found.push(Value::Object(without));
                found.extend(mutations(value).into_iter().map(|value| put(object, field, value)));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                found.extend(mutations(item).into_iter().map(|item| {
                    let mut items = items.clone();
                    items[index] = item;
                    Value::Array(items)
                }));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    found
}

fn put(object: &Map<String, Value>, field: &str, value: Value) -> Value {
    let mut object = object.clone();
    object.insert(field.to_owned(), value);
    Value::Object(object)
}

/// Whether the compiler accepts the shape of a config; errors in its expressions are ignored.
fn shape_is_sound(kind: &str, config: &Value) -> bool {
    let problems = compile(&around(kind, config)).err().unwrap_or_default();
    let is_of_config = |problem: &&Problem| problem.path.starts_with("/nodes/") && problem.path.contains("/config");
    !problems.iter().filter(is_of_config).any(|problem| problem.code != Some("UNKNOWN_VARIABLE"))
}

#[test]
fn schemas_and_the_compiler_agree() {
    // Every field of every kind occurs in one of these, so that each is changed in every way.
    let more = [
        (
            "end",
            json!({"outputParameters": [{"name": "a", "sourceVariable": 1}], "status": "error", "terminate": true}),
        ),
        (
            "condition",
            json!({
                "branches": [
                    {"id": "a", "label": "A", "conditionLogic": "OR", "conditions": [
                        {"leftValue": "ctx.input.x", "operator": "expression", "rightValue": 1},
                    ]},
                    {"id": "b", "condition": "ctx.input.x"},
                    {"id": "c", "expression": "ctx.input.x"},
                ],
                "defaultBranch": "other",
            }),
        ),
        ("delay", json!({"delayType": "fixed", "delayMinutes": 1440, "delaySeconds": 0, "delayMs": 0})),
        ("delay", json!({"delayMinutes": 1439, "delaySeconds": 59, "delayMs": 999})),
        ("delay", json!({"delayType": "dynamic", "delayVariable": 5, "delayMs": 0})),
        ("delay", json!({"delayType": "until", "untilTime": "2030-01-01T00:00:00Z", "delayMinutes": 0})),
        ("delay", json!({"delayType": "until", "untilTime": "2030-01-01T00:00:00Z", "delayVariable": 5})),
        ("wait", json!({"event": "a", "match": {"b": 1}, "timeoutSeconds": 5})),
        ("wait", json!({"approval": "a", "event": "b"})),
        ("workflow", json!({"workflow": "a", "version": 1, "input": {"b": 1}, "wait": true, "timeoutSeconds": 5})),
        (
            "loop",
            json!({
                "sourceVariable": [1], "itemVariable": "one", "indexVariable": "two", "maxIterations": 5,
                "concurrency": 2, "delayBetweenItems": 5, "onItemError": "fail",
            }),
        ),
    ];
    let core = entries().into_iter().filter(|entry| !registry().names().contains(&entry.name));
    for entry in core {
        let examples = entry.examples.iter().map(|example| example.config.clone());
        let more = more.iter().filter(|(kind, _)| *kind == entry.name).map(|(_, config)| config.clone());
        let configs: Vec<Value> = examples.chain(more).collect();
        let schema = Schema::built_in(&entry.schema);
        let mut verdicts = [0, 0];
        for config in configs.iter().flat_map(|config| mutations(config).into_iter().chain([config.clone()])) {
            if !config.is_object() {
                continue;
            }
            let faults = schema.check(&config, CheckMode::Resolved);
            let is_sound = shape_is_sound(&entry.name, &config);
            assert_eq!(faults.is_empty(), is_sound, "{}: {config}: {faults:?}", entry.name);
            verdicts[usize::from(is_sound)] += 1;
        }
        assert!(verdicts[0] > 0 && verdicts[1] > 0, "{}: {verdicts:?}", entry.name);
    }
}

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/nodes")
}

#[test]
fn the_pages_of_the_kinds_equal_the_catalogue() {
    let mut listed = Vec::new();
    for entry in entries() {
        let path = pages().join(format!("{}.md", entry.name));
        if std::env::var_os("BLESS").is_some() {
            std::fs::create_dir_all(pages()).unwrap();
            std::fs::write(&path, page(&entry)).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(written, page(&entry), "{} is out of date: write it again with BLESS=1", path.display());
        listed.push(format!("{}.md", entry.name));
    }
    for file in std::fs::read_dir(pages()).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        assert!(listed.contains(&name), "{name} is the page of no kind");
    }
}
