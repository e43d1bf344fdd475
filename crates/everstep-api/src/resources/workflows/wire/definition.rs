//! Definitions, as far as a schema can tell: what a kind's config must be is in the catalogue.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// A definition, sent and received alike. Older names of its fields are read as well, so it is open to others.
pub(crate) enum Definition {}

impl JsonSchema for Definition {
    fn schema_name() -> Cow<'static, str> {
        "Definition".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "A graph: nodes, and edges between them. \
                `POST /v1/workflows/validate` tells all that is wrong with one.",
            "properties": {
                "$schema": {"type": ["string", "null"], "description": "For editors: `GET /v1/schemas/graph`."},
                "name": {"type": ["string", "null"], "description": "For people.", "maxLength": 200},
                "description": {"type": ["string", "null"], "description": "What it is for.", "maxLength": 1000},
                "inputSchema": {
                    "type": ["object", "null"],
                    "description": "The JSON Schema (2020-12) that the input of every new run fits, at most 64 KiB.",
                },
                "nodes": {
                    "type": "array",
                    "description": "A start, an end, and what is between them.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string", "description": "1 to 100 letters, digits, `_` or `-`; unique."},
                            "type": {"type": "string", "description": "One of the kinds of the catalogue."},
                            "config": {"type": "object", "description": "What the kind asks for."},
                        },
                    },
                },
                "edges": {
                    "type": ["array", "null"],
                    "description": "What follows what.",
                    "items": {
                        "type": "object",
                        "properties": {
                            "source": {"type": "string", "description": "The id of a node."},
                            "target": {"type": "string", "description": "The id of a node."},
                            "sourceHandle": {
                                "type": ["string", "null"],
                                "description": "By which handle the edge leaves.",
                            },
                        },
                    },
                },
                "options": {"type": ["object", "null"]},
            },
            "required": ["nodes"],
        })
    }
}
