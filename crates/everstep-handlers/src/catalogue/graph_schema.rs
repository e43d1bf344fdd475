//! The JSON Schema (2020-12) of a graph as a file, for editors.
//!
//! It describes the current names of fields. The reader also accepts older names, null for an absent field, and a
//! number as text; the schema rejects these. Otherwise the schema accepts everything that the reader accepts, and
//! rejects what the reader rejects, as far as JSON Schema can express it. A test compares the two.

use everstep_core::limits;
use everstep_core::schema::{CheckMode, Schema};
use everstep_core::topics::{TRIGGERS_MAX, trigger_schema};
use serde_json::{Map, Value, json};

use super::catalogue;
use super::entry::{CatalogueEntry, TIMEOUT_SECONDS_MAX};
use crate::handler::Description;
use crate::registry::Registry;

/// The schema of the definitions that a server with these handlers accepts.
pub fn graph_schema(registry: &Registry) -> Value {
    let entries = catalogue(registry);
    let mut definitions = Map::new();
    definitions.insert("node".to_owned(), node(&entries));
    definitions.insert("edge".to_owned(), edge());
    definitions.insert("retry".to_owned(), retry());
    definitions.insert("expression".to_owned(), expression());
    definitions.insert("secret".to_owned(), secret());
    definitions.insert("trigger".to_owned(), trigger_schema());
    for entry in &entries {
        let handler = registry.descriptions().find(|description| description.info.name == entry.name);
        add_config(entry, handler, &mut definitions);
    }
    let of_type = |name: &str| json!({"properties": {"type": {"const": name}}, "required": ["type"]});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Everstep graph",
        "description": "A workflow as nodes and the edges between them.",
        "type": "object",
        "properties": {
            "$schema": {"type": "string", "description": "The address of this schema, for editors."},
            "name": {"type": "string", "maxLength": 200, "description": "A title for people."},
            "description": {"type": "string", "maxLength": 1000, "description": "The purpose of the workflow."},
            "inputSchema": {
                "type": "object",
                "description": "The JSON Schema (2020-12) that the input of every new run fits, at most 64 KiB.",
            },
            "trigger": {"$ref": "#/$defs/trigger", "description": "The only trigger of the workflow."},
            "triggers": {
                "type": "array", "maxItems": TRIGGERS_MAX, "items": {"$ref": "#/$defs/trigger"},
                "description": "The triggers of the workflow.",
            },
            "nodes": {
                "type": "array",
                "maxItems": limits::GRAPH_NODES,
                "items": {"$ref": "#/$defs/node"},
                "allOf": [
                    {"contains": of_type("start"), "minContains": 1, "maxContains": 1},
                    {"contains": of_type("end")},
                ],
                "description": "The steps: exactly one start, at least one end, and the nodes between them.",
            },
            "edges": {
                "type": "array",
                "items": {"$ref": "#/$defs/edge"},
                "description": "Which node follows which.",
            },
            "options": {
                "type": "object",
                "properties": {
                    "retentionDays": {
                        "type": "integer", "minimum": 1, "maximum": 3650,
                        "description": "Days for which a run is kept after its end. Default: 30.",
                    },
                    "index": {
                        "type": "array", "maxItems": limits::SEARCH_ATTRIBUTES, "uniqueItems": true,
                        "items": {"type": "string", "minLength": 1, "maxLength": limits::SEARCH_PATH_CHARS},
                        "description": "Search attributes: paths of the input, such as `customer` or `order.id`, by \
                                        which runs are found in an index.",
                    },
                },
                "additionalProperties": false,
                "description": "Options of the workflow.",
            },
        },
        "required": ["nodes"],
        "not": {"required": ["trigger", "triggers"], "description": "a definition has either `trigger` or `triggers`"},
        "additionalProperties": false,
        "$defs": definitions,
    })
}

fn node(entries: &[CatalogueEntry]) -> Value {
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
    let rules: Vec<_> = entries.iter().map(of_kind).collect();
    json!({
        "type": "object",
        "properties": {
            "id": {
                "type": "string", "pattern": "^[A-Za-z0-9_-]{1,100}$",
                "description": "The name of the node; each is used once.",
            },
            "type": {"type": "string", "enum": names, "description": "The kind of the node."},
            "name": {"type": "string", "description": "A title for people."},
            "config": {"type": "object", "description": "The settings of the kind."},
            "joinMode": {
                "type": "string", "enum": ["all", "any"],
                "description": "Whether the node waits for all of its incoming edges or for the first one.",
            },
            "retry": {"$ref": "#/$defs/retry"},
            "timeoutSeconds": {
                "type": "integer", "minimum": 1, "maximum": TIMEOUT_SECONDS_MAX,
                "description": "The time limit of one attempt, in seconds.",
            },
            "errorHandling": {
                "type": "string", "enum": ["continue", "fail_workflow"], "default": "continue",
                "description": "Whether a failure follows the edge `error` or fails the run.",
            },
            "outputVariable": {
                "type": "string",
                "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,99}$",
                "not": {"pattern": "^(__|input$)", "description": "a variable does not begin with `__`, and is not `input`"},
                "description": "The variable of the context that receives the output.",
            },
            "position": {"description": "Where an editor draws the node."},
        },
        "required": ["id", "type"],
        "additionalProperties": false,
        "allOf": rules,
    })
}

/// The conditions on nodes of one kind.
fn of_kind(entry: &CatalogueEntry) -> Value {
    let mut properties = Map::new();
    properties.insert("config".to_owned(), json!({"$ref": format!("#/$defs/{}", entry.name)}));
    let timeout = match entry.timeout {
        Some(timeout) => json!({"maximum": timeout.longest_seconds}),
        None => Value::Bool(false),
    };
    properties.insert("timeoutSeconds".to_owned(), timeout);
    if !entry.can_retry {
        properties.insert("retry".to_owned(), Value::Bool(false));
    }
    let mut then = json!({"properties": properties});
    let is_config_needed = !Schema::built_in(&entry.schema).check(&json!({}), CheckMode::Resolved).is_empty();
    if is_config_needed {
        then["required"] = json!(["config"]);
    }
    json!({"if": {"properties": {"type": {"const": entry.name}}, "required": ["type"]}, "then": then})
}

fn edge() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "For editors."},
            "source": {"type": "string", "description": "The id of the node that the edge leaves."},
            "target": {"type": "string", "description": "The id of the node that the edge leads to."},
            "sourceHandle": {
                "type": "string",
                "description": "The handle by which the edge leaves, such as `success`, `error` or the id of a branch.",
            },
        },
        "required": ["source", "target"],
        "additionalProperties": false,
    })
}

fn retry() -> Value {
    let millis = |description: &str| json!({"type": "integer", "minimum": 100, "maximum": 86_400_000, "description": description});
    json!({
        "type": "object",
        "properties": {
            "maxAttempts": {
                "type": "integer", "minimum": 1, "maximum": 20, "default": 3,
                "description": "All attempts, the first included.",
            },
            "backoff": {
                "type": "string", "enum": ["fixed", "linear", "exp"], "default": "exp",
                "description": "How the delay grows from attempt to attempt.",
            },
            "baseMs": millis("The first delay, in milliseconds. Default: 1000."),
            "maxMs": millis("The longest delay, in milliseconds. Default: 300000."),
            "multiplier": {
                "type": "number", "minimum": 1, "maximum": 10, "default": 2,
                "description": "The factor of an exponential backoff.",
            },
            "jitter": {
                "type": "number", "minimum": 0, "maximum": 1, "default": 0,
                "description": "The fraction of a delay by which it varies at random.",
            },
            "nonRetryable": {
                "type": "array", "items": {"type": "string"},
                "description": "Codes of failures that are not retried.",
            },
        },
        "additionalProperties": false,
        "description": "When a failed attempt is tried again.",
    })
}

fn expression() -> Value {
    json!({
        "title": "an expression",
        "description": "A value that is computed when the step runs: text with {{ … }}, or {\"$expr\": …}.",
        "anyOf": [
            {"type": "string", "pattern": "\\{\\{"},
            {
                "type": "object",
                "properties": {"$expr": {"type": "string"}},
                "required": ["$expr"],
                "additionalProperties": false,
            },
        ],
    })
}

fn secret() -> Value {
    json!({
        "title": "the name of a secret",
        "type": "object",
        "properties": {"$secret": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$"}},
        "required": ["$secret"],
        "additionalProperties": false,
    })
}

/// Adds the config of a kind. The schemas that it refers to get names that begin with the kind's.
fn add_config(entry: &CatalogueEntry, handler: Option<&Description>, definitions: &mut Map<String, Value>) {
    let mut config = entry.schema.clone();
    let Some(keywords) = config.as_object_mut() else { return };
    keywords.shift_remove("$schema");
    let inner = keywords.shift_remove("$defs");
    let mut inner = inner.and_then(|inner| inner.as_object().cloned()).unwrap_or_default();
    // The core reads the configs of its own kinds, and their schemas already contain expressions.
    if let Some(handler) = handler {
        let rewriter = Rewriter { kind: &entry.name, inner: &inner.clone() };
        rewriter.rewrite(&mut config, &handler.info.raw_fields);
        for schema in inner.values_mut() {
            rewriter.rewrite(schema, &[]);
        }
    }
    definitions.insert(entry.name.clone(), config);
    definitions.extend(inner.into_iter().map(|(name, schema)| (format!("{}.{name}", entry.name), schema)));
}

/// Changes the schema of a config so that expressions and secrets are accepted where a saved config may have them.
struct Rewriter<'e> {
    kind: &'e str,
    /// The schemas that the config refers to, unchanged.
    inner: &'e Map<String, Value>,
}

impl Rewriter<'_> {
    fn rewrite(&self, schema: &mut Value, raw_fields: &[String]) {
        let Some(keywords) = schema.as_object_mut() else { return };
        if let Some(Value::String(reference)) = keywords.get_mut("$ref") {
            let name = reference.trim_start_matches("#/$defs/");
            *reference = format!("#/$defs/{}.{name}", self.kind);
        }
        for (field, property) in keywords.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            if !raw_fields.contains(field) {
                self.open(property);
            }
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(inner) = keywords.get_mut(keyword).filter(|inner| inner.is_object()) {
                self.open(inner);
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            for part in keywords.get_mut(keyword).and_then(Value::as_array_mut).into_iter().flatten() {
                self.rewrite(part, &[]);
            }
        }
    }

    /// Rewrites the schema of a value so that an expression is accepted in its place.
    fn open(&self, schema: &mut Value) {
        let is_secret = self.is_secret(schema);
        self.rewrite(schema, &[]);
        let Some(keywords) = schema.as_object_mut() else { return };
        let is_annotation =
            |keyword: &String| matches!(keyword.as_str(), "description" | "default" | "title" | "x-secret");
        if keywords.keys().all(is_annotation) {
            // The schema accepts any value already.
            return;
        }
        let mut outer = Map::new();
        for annotation in ["description", "default"] {
            if let Some(value) = keywords.shift_remove(annotation) {
                outer.insert(annotation.to_owned(), value);
            }
        }
        let mut shapes = vec![schema.take(), json!({"$ref": "#/$defs/expression"})];
        if is_secret {
            shapes.push(json!({"$ref": "#/$defs/secret"}));
        }
        outer.insert("anyOf".to_owned(), shapes.into());
        *schema = Value::Object(outer);
    }

    /// Whether the value may be the name of a secret.
    fn is_secret(&self, schema: &Value) -> bool {
        let target = schema["$ref"].as_str().and_then(|name| self.inner.get(name.trim_start_matches("#/$defs/")));
        let parts = schema["anyOf"].as_array().into_iter().flatten();
        schema["x-secret"] == true
            || target.is_some_and(|target| self.is_secret(target))
            || parts.into_iter().any(|part| self.is_secret(part))
    }
}
