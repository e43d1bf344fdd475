//! `links.delete`.

use everstep_core::records::Verb;
use serde_json::json;

use crate::store::{RecordKind, RecordStep, fields};

pub(super) fn kind() -> RecordKind {
    let mut all = vec![fields::namespace()];
    all.extend(fields::unlink());
    all.push(fields::idempotency_key());
    let mut schema = fields::object("Deletes links.", &["namespace"], &all);
    schema["anyOf"] = json!([{"required": ["from"]}, {"required": ["to"]}]);
    RecordKind {
        name: "links.delete",
        step: RecordStep::Write(Verb::Unlink),
        title: "Delete links",
        icon: "link",
        summary: "Deletes the links with these sides and this relation.",
        output: "`{deleted_count}`. If more than 10,000 links match, the step fails and none is deleted.",
        schema,
        examples: [
            (
                "Delete one link",
                json!({
                    "namespace": "mirrors", "relation": "mirrors",
                    "from": {"type": "task", "id": "{{ctx.input.task}}"},
                    "to": {"type": "task", "id": "{{ctx.input.mirror}}"},
                }),
            ),
            (
                "Delete all links to a customer",
                json!({"namespace": "accounts", "to": {"type": "customer", "id": "{{ctx.input.customer}}"}}),
            ),
        ],
    }
}
