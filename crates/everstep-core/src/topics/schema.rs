//! The JSON Schema (2020-12) of the triggers in a definition, for editors.

use serde_json::{Value, json};

use super::topic::TOPIC_BYTES_MAX;

/// The schema of one trigger.
pub fn trigger_schema() -> Value {
    let input = "The template of the input of the run, over `event` and `payload`; without it, the data of the event.";
    json!({
        "type": "object",
        "properties": {
            "type": {
                "enum": ["event", "manual"],
                "description": "`event`: events of a topic start runs. `manual`: callers start runs, as they always may.",
            },
            "topic": pattern_schema("The topic, or a pattern: `*` is one segment, `#` any number of segments."),
            "eventName": pattern_schema("Another name of `topic`."),
            "match": {
                "type": "object",
                "description": "The fields that the data of the event must contain, and `$expr`, an expression over \
                                `event` and `payload`.",
            },
            "input": {"description": input},
            "payloadMapping": {"description": "Another name of `input`."},
        },
        "required": ["type"],
        "additionalProperties": false,
        "if": {"properties": {"type": {"const": "event"}}},
        "then": {"anyOf": [{"required": ["topic"]}, {"required": ["eventName"]}]},
        "else": {"maxProperties": 1},
        "description": "A trigger starts runs of the workflow while this version is the active one.",
    })
}

fn pattern_schema(description: &str) -> Value {
    let segment = r"([A-Za-z0-9_:/-]{1,64}|\*|#)";
    json!({
        "type": "string",
        "maxLength": TOPIC_BYTES_MAX,
        "pattern": format!(r"^{segment}(\.{segment}){{0,15}}$"),
        "not": {"pattern": r"^everstep(\.|$)", "description": "topics that begin with `everstep.` are reserved"},
        "description": description,
    })
}
