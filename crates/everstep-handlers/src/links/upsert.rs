//! `links.upsert`.

use everstep_core::records::Verb;
use serde_json::json;

use crate::store::{RecordKind, RecordStep, fields};

pub(super) fn kind() -> RecordKind {
    let mut all = vec![fields::namespace()];
    all.extend(fields::upsert());
    all.push(fields::idempotency_key());
    RecordKind {
        name: "links.upsert",
        step: RecordStep::Write(Verb::Upsert),
        title: "Write a link",
        icon: "link",
        summary: "Writes a link between two identifiers, or replaces the attributes of the link that exists.",
        output: "`{link_id, created, change}`.",
        schema: fields::object("Writes a link.", &["namespace", "from", "to"], &all),
        examples: [
            (
                "Record which task mirrors another",
                json!({
                    "namespace": "mirrors", "relation": "mirrors",
                    "from": {"type": "task", "id": "{{ctx.input.task}}"},
                    "to": {"type": "task", "id": "{{ctx.input.mirror}}"},
                }),
            ),
            (
                "Connect a customer with an account elsewhere",
                json!({
                    "namespace": "accounts",
                    "from": {"type": "customer", "id": "{{ctx.input.customer}}"},
                    "to": {"type": "billing-account", "id": "{{ctx.input.account}}"},
                    "attributes": {"since": "{{ctx.input.date}}"},
                }),
            ),
        ],
    }
}
