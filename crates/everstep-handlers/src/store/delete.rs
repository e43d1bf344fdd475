//! `store.delete`.

use everstep_core::records::Verb;
use serde_json::json;

use super::fields;
use super::handler::{RecordKind, RecordStep};

pub(super) fn kind() -> RecordKind {
    let mut all = vec![fields::namespace()];
    all.extend(fields::delete());
    all.push(fields::idempotency_key());
    RecordKind {
        name: "store.delete",
        step: RecordStep::Write(Verb::Delete),
        title: "Delete a record",
        icon: "database",
        summary: "Deletes a record of the data store.",
        output: "`{deleted}`: false if no record has the key.",
        schema: fields::object("Deletes a record.", &["namespace", "key"], &all),
        examples: [
            ("Forget a cursor", json!({"namespace": "cursors", "key": "orders"})),
            (
                "Delete a record unless it was changed since it was read",
                json!({"namespace": "drafts", "key": "{{ctx.input.id}}", "if_revision": "{{ctx.input.revision}}"}),
            ),
        ],
    }
}
