//! Definitions, as far as a schema can describe them: the catalogue describes the config of each kind.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A definition, in requests and responses. Older names of its fields are also accepted, so other fields are allowed.
pub(crate) enum Definition {}

impl JsonSchema for Definition {
    fn schema_name() -> Cow<'static, str> {
        "Definition".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "A graph, with `nodes` and `edges`, or a state machine, with `states`. `POST /v1/workflows/validate` reports all problems of one.",
            "properties": {
                "$schema": {"type": ["string", "null"], "description": "For editors: `GET /v1/schemas/{style}`."},
                "name": {"type": ["string", "null"], "description": "For people.", "maxLength": 200},
                "description": {"type": ["string", "null"], "description": "Its purpose.", "maxLength": 1000},
                "inputSchema": {
                    "type": ["object", "null"],
                    "description": "Of a graph: the JSON Schema (2020-12) that the input of every new run fits, at most 64 KiB.",
                },
                "trigger": {
                    "type": ["object", "null"],
                    "description": "The trigger of the workflow: `{type: \"event\", topic, match?, input?}`, or `{type: \"manual\"}`.",
                },
                "triggers": {
                    "type": ["array", "null"],
                    "description": "In place of `trigger`: at most 20 triggers.",
                    "items": {"type": "object"},
                },
                "nodes": {
                    "type": ["array", "null"],
                    "description": "Of a graph: a start, an end, and the nodes between them.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string", "description": "1 to 100 letters, digits, `_` or `-`; unique."},
                            "type": {"type": "string", "description": "One of the kinds of the catalogue."},
                            "config": {"type": "object", "description": "The config of the kind."},
                        },
                    },
                },
                "edges": {
                    "type": ["array", "null"],
                    "description": "Of a graph: the order of the nodes.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "source": {"type": "string", "description": "The id of a node."},
                            "target": {"type": "string", "description": "The id of a node."},
                            "sourceHandle": {
                                "type": ["string", "null"],
                                "description": "The handle of the source node.",
                            },
                        },
                    },
                },
                "states": {
                    "type": ["array", "null"],
                    "description": "Of a state machine: its states, of which one is initial.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string", "description": "1 to 64 letters, digits, `_` or `-`; unique."},
                            "initial": {"type": ["boolean", "null"], "description": "Whether runs begin in this state."},
                            "terminal": {"type": ["boolean", "null"], "description": "Whether runs end in this state."},
                            "on": {"type": ["object", "null"], "description": "The actions of the state, by name."},
                        },
                    },
                },
                "options": {"type": ["object", "null"]},
            },
        })
    }
}
