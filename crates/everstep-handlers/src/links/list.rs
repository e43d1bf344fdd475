//! `links.list`.

use serde_json::json;

use crate::store::{RecordKind, RecordStep, fields};

pub(super) fn kind() -> RecordKind {
    let all = [
        fields::namespace(),
        ("left_type", fields::name("The type of the side from which the links lead.")),
        ("right_type", fields::name("The type of the side to which the links lead.")),
        fields::relation("The relation of the links. Without it, links of every relation are listed."),
        fields::limit(),
        fields::cursor(),
    ];
    RecordKind {
        name: "links.list",
        step: RecordStep::ListLinks,
        title: "List links",
        icon: "list",
        summary: "Reads a page of the links of a namespace.",
        output: "`{items: [{link_id, from, to, relation, attributes}], next_cursor}`.",
        schema: fields::object("Lists links.", &["namespace"], &all),
        examples: [
            ("List the first hundred links", json!({"namespace": "mirrors"})),
            (
                "List the links from tasks",
                json!({"namespace": "mirrors", "left_type": "task", "relation": "mirrors", "limit": 200}),
            ),
        ],
    }
}
