//! `store.list_namespaces`.

use everstep_core::records::NamespaceFilter;
use serde_json::json;

use super::fields;
use super::handler::{RecordKind, RecordStep};

pub(super) fn kind() -> RecordKind {
    RecordKind {
        name: "store.list_namespaces",
        step: RecordStep::ListNamespaces(NamespaceFilter::Records),
        title: "List namespaces of records",
        icon: "list",
        summary: "Reads a page of the namespaces that contain records, by name.",
        output: "`{namespaces: [{namespace, key_count}], next_cursor}`. An expired record counts until it is deleted.",
        schema: fields::object("Lists namespaces.", &[], &[fields::limit(), fields::cursor()]),
        examples: [
            ("List the first hundred namespaces", json!({})),
            ("List the next ten", json!({"limit": 10, "cursor": "{{ctx.input.cursor}}"})),
        ],
    }
}
