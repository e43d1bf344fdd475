//! The schema of a graph's file: it agrees with the reader, and the document is what the code generates.

use std::path::{Path, PathBuf};

use everstep_core::graph::{self, Problem};
use everstep_core::schema::{CheckMode, Schema};
use everstep_expressions::Expressions;
use everstep_handlers::{catalogue, graph_schema};
use serde_json::{Value, json};

use crate::catalogue::{around, mutations};
use crate::registry;

fn schema() -> Schema {
    Schema::built_in(&graph_schema(&registry()))
}

fn problems(definition: &Value) -> Vec<Problem> {
    graph::compile(definition, &registry(), &Expressions::default()).err().unwrap_or_default()
}

const SAVED: CheckMode<'_> = CheckMode::Saved { raw_fields: &[] };

/// A definition that uses every field of the format.
fn whole() -> Value {
    json!({
        "$schema": "https://example.com/v1/schemas/graph",
        "name": "Order",
        "description": "Charges an order.",
        "inputSchema": {"type": "object", "properties": {"amount": {"type": "number"}}},
        "nodes": [
            {"id": "start", "type": "start", "position": {"x": 1, "y": 2}},
            {
                "id": "charge", "type": "http", "name": "Charge", "joinMode": "any", "errorHandling": "continue",
                "outputVariable": "charged", "timeoutSeconds": 20,
                "retry": {
                    "maxAttempts": 5, "backoff": "linear", "baseMs": 500, "maxMs": 60_000, "multiplier": 1.5,
                    "jitter": 0.2, "nonRetryable": ["HTTP_4XX"],
                },
                "config": {"url": "https://example.com/", "method": "POST"},
            },
            {"id": "child", "type": "workflow", "config": {"workflow": "audit"}, "retry": {"maxAttempts": 2}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"id": "e1", "source": "start", "target": "charge"},
            {"source": "charge", "target": "child", "sourceHandle": "success"},
            {"source": "child", "target": "end"},
        ],
        "options": {"retentionDays": 7},
    })
}

/// Whether no schema can express a problem: it is about how parts of the definition refer to each other, or about the
/// text of code, expressions and schemas.
fn is_beyond_schemas(problem: &Problem) -> bool {
    let parts = [
        "there is no node",
        "has no handle",
        "two nodes have the id",
        "two output parameters have the name",
        "occurs twice",
        "is not reachable",
        "there are two start nodes",
        "an edge leads to the start node",
        "an edge leaves an end node",
        "has an empty body",
        "a cycle outside a loop",
        "baseMs (",
        "a secret is not accepted here",
        "the host",
    ];
    let is_of_input_schema = problem.path.starts_with("/inputSchema/");
    let is_of_code = matches!(problem.code, Some("UNKNOWN_VARIABLE" | "SYNTAX_ERROR"));
    is_of_input_schema || is_of_code || parts.iter().any(|part| problem.message.contains(part))
}

#[test]
fn every_example_of_the_catalogue_fits_the_graph_schema() {
    let schema = schema();
    for entry in catalogue(&registry()) {
        for example in &entry.examples {
            let definition = around(&entry.name, &example.config);
            let faults = schema.check(&definition, CheckMode::Json);
            assert_eq!(faults, [], "{}: {}", entry.name, example.title);
            // The stored form fits too.
            let graph = graph::compile(&definition, &registry(), &Expressions::default()).unwrap();
            assert_eq!(schema.check(graph.definition(), CheckMode::Json), [], "{}", entry.name);
        }
    }
    assert_eq!(problems(&whole()), []);
    assert_eq!(schema.check(&whole(), CheckMode::Json), []);
}

#[test]
fn the_graph_schema_and_the_reader_agree() {
    let schema = schema();
    let http = catalogue(&registry()).into_iter().find(|entry| entry.name == "http").unwrap();
    let http = Schema::built_in(&http.schema);
    let mut verdicts = [0, 0];
    for definition in mutations(&whole()) {
        let faults = schema.check(&definition, CheckMode::Json);
        let problems = problems(&definition);
        if !faults.is_empty() {
            assert!(!problems.is_empty(), "the schema alone refuses {definition}: {faults:?}");
        } else {
            // No schema can express the checks of a handler beyond its own schema, such as that of a host.
            let is_of_handler = |problem: &Problem| {
                problem.path.starts_with("/nodes/1/config")
                    && http.check(&definition["nodes"][1]["config"], SAVED).is_empty()
            };
            let is_missed = |problem: &&Problem| !is_beyond_schemas(problem) && !is_of_handler(problem);
            let missed: Vec<_> = problems.iter().filter(is_missed).collect();
            assert!(missed.is_empty(), "the schema accepts {definition}: {missed:#?}");
        }
        verdicts[usize::from(faults.is_empty())] += 1;
    }
    assert!(verdicts[0] > 1_000 && verdicts[1] > 100, "{verdicts:?}");
}

#[test]
fn configs_in_the_graph_schema_are_those_of_the_catalogue() {
    let schema = schema();
    let raw_fields = ["code".to_owned()];
    for entry in catalogue(&registry()) {
        let own = Schema::built_in(&entry.schema);
        let is_of_core = registry().find_handler(&entry.name).is_none();
        let mode = if is_of_core { CheckMode::Resolved } else { CheckMode::Saved { raw_fields: &raw_fields } };
        let mut verdicts = [0, 0];
        for example in &entry.examples {
            for config in mutations(&example.config).into_iter().filter(Value::is_object) {
                let definition = around(&entry.name, &config);
                let fits = schema.check(&definition, CheckMode::Json).is_empty();
                let expected = own.check(&config, mode);
                // The reader checks the name of a secret, whatever the kind.
                let is_agreed = fits == expected.is_empty() || !fits && !problems(&definition).is_empty();
                assert!(is_agreed, "{}: {config}: {expected:?}", entry.name);
                verdicts[usize::from(fits)] += 1;
            }
        }
        assert!(verdicts[0] > 0, "{}: {verdicts:?}", entry.name);
    }
}

#[test]
fn expressions_and_secrets_fit_where_a_config_may_have_them() {
    let schema = schema();
    let fits = |kind: &str, config: Value| schema.check(&around(kind, &config), CheckMode::Json).is_empty();
    let secret = json!({"$secret": "key"});
    assert!(fits("http", json!({"url": "https://a.example/{{ctx.input.id}}", "method": {"$expr": "ctx.input.verb"}})));
    assert!(fits("http", json!({"url": "https://a.example/", "headers": {"Authorization": secret}})));
    assert!(fits("http", json!({"url": "https://a.example/", "auth": {"type": "bearer", "token": secret}})));
    assert!(fits("http", json!({"url": "https://a.example/", "body": {"deep": [secret]}})));
    assert!(fits("http", json!({"url": "https://a.example/", "followRedirects": "{{ctx.input.follow}}"})));
    assert!(!fits("http", json!({"url": "https://a.example/", "method": secret})));
    assert!(!fits("http", json!({"url": "https://a.example/", "followRedirects": "yes"})));
    // Code is literal text: an object that computes it is rejected.
    assert!(!fits("javascript", json!({"code": {"$expr": "ctx.input.code"}})));
}

fn document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/graph.schema.json")
}

#[test]
fn the_document_is_what_the_code_generates() {
    let generated = format!("{:#}\n", graph_schema(&registry()));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(document(), &generated).unwrap();
    }
    let written = std::fs::read_to_string(document()).unwrap_or_default();
    assert_eq!(written, generated, "{} is outdated: generate it with BLESS=1", document().display());
}
