//! `store.set`.

use everstep_core::records::Verb;
use serde_json::json;

use super::fields;
use super::handler::{RecordKind, RecordStep};

pub(super) fn kind() -> RecordKind {
    let mut all = vec![fields::namespace()];
    all.extend(fields::set());
    all.push(fields::idempotency_key());
    RecordKind {
        name: "store.set",
        step: RecordStep::Write(Verb::Set),
        title: "Set a record",
        icon: "database",
        summary: "Writes a value under a key of the data store.",
        output: "`{revision, change, created}`. If `if_revision` or `if_change` does not hold, the step fails with \
                 `CONFLICT` and nothing is written.",
        schema: fields::object("Writes a record.", &["namespace", "key", "value"], &all),
        examples: [
            (
                "Remember where to continue",
                json!({"namespace": "cursors", "key": "orders", "value": "{{ctx.input.next}}"}),
            ),
            (
                "Mark an invoice as handled, once",
                json!({
                    "namespace": "invoices", "key": "{{ctx.input.invoice}}", "value": true, "if_revision": 0,
                    "ttl_seconds": 2_592_000,
                }),
            ),
        ],
    }
}
