//! `store.get`.

use serde_json::json;

use super::fields;
use super::handler::{RecordKind, RecordStep};

pub(super) fn kind() -> RecordKind {
    RecordKind {
        name: "store.get",
        step: RecordStep::Get,
        title: "Get a record",
        icon: "database",
        summary: "Reads the value under a key of the data store.",
        output: "`{found, value, value_type, revision, change, expires_at}`; if no record has the key, `found` is false \
                 and the other fields are null.",
        schema: fields::object("Reads a record.", &["namespace", "key"], &[fields::namespace(), fields::key()]),
        examples: [
            ("Read where the last run stopped", json!({"namespace": "cursors", "key": "orders"})),
            (
                "Find out whether an invoice was handled",
                json!({"namespace": "invoices", "key": "{{ctx.input.invoice}}"}),
            ),
        ],
    }
}
