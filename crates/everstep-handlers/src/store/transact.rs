//! `store.transact`.

use everstep_core::records::{TRANSACT_PARTS_MAX, Verb};
use serde_json::{Value, json};

use super::fields;
use super::handler::{RecordKind, RecordStep};

pub(super) fn kind() -> RecordKind {
    let list = |items: Value, description: &str| json!({"type": "array", "maxItems": TRANSACT_PARTS_MAX, "default": [], "items": items, "description": description});
    let all = [
        fields::namespace(),
        ("checks", list(check(), "Conditions on records, which are all evaluated before the first write.")),
        ("writes", list(write(), "Writes, which are applied in their order, all or none.")),
        fields::idempotency_key(),
    ];
    RecordKind {
        name: "store.transact",
        step: RecordStep::Write(Verb::Transact),
        title: "Write several records",
        icon: "database",
        summary: "Checks and writes several records and links of one namespace, completely or not at all.",
        output: "`{changes: [first, last], results}`: the outputs of the writes in their order; `changes` is null if \
                 nothing was changed. If a check or a write fails, the step fails and nothing is written.",
        schema: fields::object("Writes records and links together.", &["namespace"], &all),
        examples: [
            (
                "Move an amount between two accounts",
                json!({
                    "namespace": "accounts",
                    "checks": [{"key": "a", "exists": true}, {"key": "b", "exists": true}],
                    "writes": [{"increment": {"key": "a", "by": -5}}, {"increment": {"key": "b", "by": 5}}],
                }),
            ),
            (
                "Register an order and its customer together",
                json!({
                    "namespace": "orders",
                    "writes": [
                        {"set": {"key": "{{ctx.input.order}}", "value": {"status": "open"}, "if_revision": 0}},
                        {"upsert": {
                            "from": {"type": "order", "id": "{{ctx.input.order}}"},
                            "to": {"type": "customer", "id": "{{ctx.input.customer}}"},
                        }},
                    ],
                }),
            ),
        ],
    }
}

/// One condition: exactly one of its four forms.
fn check() -> Value {
    let conditions = [
        ("revision", fields::whole(0, "The revision that the record must have; 0: it must be absent.")),
        ("change", fields::whole(0, "The change that must have written the record; 0: it must be absent.")),
        ("exists", json!({"type": "boolean", "description": "Whether the record must exist."})),
        ("equals", fields::any("The value that the record must have.")),
    ];
    let mut all = vec![fields::key()];
    all.extend(conditions);
    let mut schema = fields::object("A condition on one record.", &["key"], &all);
    schema["minProperties"] = json!(2);
    schema["maxProperties"] = json!(2);
    schema
}

/// One write: exactly one of its five forms.
fn write() -> Value {
    let part = |description: &str, required: &[&str], all: Vec<(&'static str, Value)>| {
        fields::object(description, required, &all)
    };
    let forms = [
        ("set", part("Writes a record, as `store.set`.", &["key", "value"], fields::set())),
        ("delete", part("Deletes a record, as `store.delete`.", &["key"], fields::delete())),
        ("increment", part("Adds to a record, as `store.increment`.", &["key"], fields::increment())),
        ("upsert", part("Writes a link, as `links.upsert`.", &["from", "to"], fields::upsert())),
        ("unlink", part("Deletes links, as `links.delete`.", &[], fields::unlink())),
    ];
    let mut schema = fields::object("A write.", &[], &forms);
    schema["minProperties"] = json!(1);
    schema["maxProperties"] = json!(1);
    schema
}
