//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::wire::{AppliedUpsert, DeletedLinks, Link, LinkMatches, Links, UpsertLinkRequest};
use super::{read, write};
use crate::auth::Permission::{Manage, Read};
use crate::http::openapi::{Parameter, doc};
use crate::resources::store::KEY_REUSED;
use crate::routes::Table;

const LINKS: &str = "/v1/links/{namespace}";
const LINK: &str = "/v1/links/{namespace}/{id}";

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter(
            "links",
            Parameter::text("namespace", "The namespace: 1 to 256 characters, percent-encoded. Spaces around it are removed."),
        )
        .path_parameter("{namespace}", Parameter::id("id", "The id of the link."))
        .guarded(
            Read,
            Method::GET,
            LINKS,
            doc("records", "List links")
                .about("By their two sides and their relation. Paging is by keyset.")
                .query(read::LIST_PARAMETERS)
                .answers::<Links>(200),
            read::list,
        )
        .guarded(
            Manage,
            Method::POST,
            LINKS,
            doc("records", "Upsert a link")
                .about(
                    "201 if the link is new. A link with the same sides and relation keeps its id, and its attributes are \
                     replaced. With an `Idempotency-Key`, a repeated request returns the first response.",
                )
                .keyed()
                .takes::<UpsertLinkRequest>()
                .example(json!({
                    "from": {"type": "task", "id": "42"},
                    "to": {"type": "issue", "id": "7"},
                    "relation": "mirrors",
                    "attributes": {"since": "2026-05-01"},
                }))
                .answers::<AppliedUpsert>(201)
                .with_header("Location", "The path of the link.")
                .answers::<AppliedUpsert>(200)
                .refuses(409, KEY_REUSED),
            write::post,
        )
        .guarded(
            Manage,
            Method::DELETE,
            LINKS,
            doc("records", "Delete links")
                .about("Deletes all links of one side, or between two sides, with one relation or with any; at most 10,000.")
                .query(write::DELETE_PARAMETERS)
                .keyed()
                .answers::<DeletedLinks>(200)
                .refuses(409, KEY_REUSED)
                .refuses(422, "`VALIDATION_ERROR`: more than 10,000 links would be deleted; nothing was deleted."),
            write::delete_many,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/links/{namespace}/lookup",
            doc("records", "Look up links")
                .about("The links of one identifier, each as its other side. Paging is by keyset.")
                .query(read::LOOKUP_PARAMETERS)
                .answers::<LinkMatches>(200),
            read::lookup,
        )
        .guarded(
            Read,
            Method::GET,
            LINK,
            doc("records", "Get a link").about("With its author.").answers::<Link>(200),
            read::get,
        )
        .guarded(
            Manage,
            Method::DELETE,
            LINK,
            doc("records", "Delete a link").keyed().answers_nothing(204).refuses(409, KEY_REUSED),
            write::delete,
        )
}
