//! `links.lookup`.

use serde_json::json;

use crate::store::{RecordKind, RecordStep, fields};

pub(super) fn kind() -> RecordKind {
    let direction = json!({
        "type": "string", "enum": ["forward", "reverse", "either"], "default": "forward",
        "description": "Whether links from the identifier, links to it, or both are found; forward ones first.",
    });
    let all = [
        fields::namespace(),
        ("from", fields::identifier("The identifier whose links are looked up.")),
        ("direction", direction),
        fields::relation("The relation of the links. Without it, links of every relation are found."),
        ("to_type", fields::name("The type of the far side.")),
        ("right_type", fields::name("Another name of `to_type`.")),
        fields::limit(),
        fields::cursor(),
    ];
    let mut schema = fields::object("Looks up links.", &["namespace", "from"], &all);
    schema["not"] =
        json!({"required": ["to_type", "right_type"], "description": "`to_type` and `right_type` are one field"});
    RecordKind {
        name: "links.lookup",
        step: RecordStep::Lookup,
        title: "Look up links",
        icon: "link",
        summary: "Finds the identifiers that are linked with one identifier.",
        output: "`{matches: [{link_id, type, id, relation, attributes}], next_cursor}`: the far side of each link.",
        schema,
        examples: [
            (
                "Find the tasks that mirror a task",
                json!({
                    "namespace": "mirrors", "relation": "mirrors",
                    "from": {"type": "task", "id": "{{ctx.input.task}}"},
                }),
            ),
            (
                "Find the customer of an account",
                json!({
                    "namespace": "accounts", "direction": "reverse", "to_type": "customer", "limit": 1,
                    "from": {"type": "billing-account", "id": "{{ctx.input.account}}"},
                }),
            ),
        ],
    }
}
