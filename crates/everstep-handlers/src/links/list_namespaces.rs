//! `links.list_namespaces`.

use everstep_core::records::NamespaceFilter;
use serde_json::json;

use crate::store::{RecordKind, RecordStep, fields};

pub(super) fn kind() -> RecordKind {
    RecordKind {
        name: "links.list_namespaces",
        step: RecordStep::ListNamespaces(NamespaceFilter::Links),
        title: "List namespaces of links",
        icon: "list",
        summary: "Reads a page of the namespaces that contain links, by name.",
        output: "`{namespaces: [{namespace, link_count}], next_cursor}`.",
        schema: fields::object("Lists namespaces.", &[], &[fields::limit(), fields::cursor()]),
        examples: [
            ("List the first hundred namespaces", json!({})),
            ("List the next ten", json!({"limit": 10, "cursor": "{{ctx.input.cursor}}"})),
        ],
    }
}
