//! `store.list`.

use serde_json::json;

use super::fields;
use super::handler::{RecordKind, RecordStep};

pub(super) fn kind() -> RecordKind {
    let values = json!({
        "type": "boolean", "default": true, "description": "Whether the items contain their values.",
    });
    let all = [
        fields::namespace(),
        ("prefix", json!({"type": "string", "description": "The beginning of the keys."})),
        ("match", fields::any("The content that the values must have: an object these fields, a list these items.")),
        fields::limit(),
        fields::cursor(),
        ("values", values),
    ];
    RecordKind {
        name: "store.list",
        step: RecordStep::List,
        title: "List records",
        icon: "list",
        summary: "Reads a page of the records of a namespace, by key.",
        output: "`{items: [{key, value, value_type, revision, change, expires_at}], next_cursor}`. A page also ends at \
                 512 KiB of values or after 10,000 scanned records.",
        schema: fields::object("Lists records.", &["namespace"], &all),
        examples: [
            ("List the first hundred cursors", json!({"namespace": "cursors"})),
            (
                "List the keys of open orders of a region",
                json!({"namespace": "orders", "prefix": "eu/", "match": {"status": "open"}, "values": false}),
            ),
        ],
    }
}
