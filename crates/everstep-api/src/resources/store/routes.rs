//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::wire::{AppliedIncrement, AppliedSet, IncrementRecordRequest, Record, Records, SetRecordRequest};
use super::{read, write};
use crate::auth::Permission::{Manage, Read};
use crate::http::openapi::{Parameter, doc};
use crate::routes::Table;

const RECORD: &str = "/v1/store/{namespace}/{key}";
const ETAG_ABOUT: &str = "The record's change, for `If-Match` and `If-None-Match`.";

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter(
            "store",
            Parameter::text("namespace", "The namespace: 1 to 256 characters, percent-encoded. Spaces around it are removed."),
        )
        .path_parameter(
            "{namespace}",
            Parameter::text(
                "key",
                "The key of the record: 1 to 256 characters, percent-encoded, so that `%2F` is a slash of the key. Spaces \
                 around it are removed.",
            ),
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/store/{namespace}",
            doc("records", "List records")
                .about(
                    "By key, in the order of bytes. Paging is by keyset: records that are added while you page do not \
                     shift later pages.",
                )
                .query(read::LIST_PARAMETERS)
                .answers::<Records>(200),
            read::list,
        )
        .guarded(
            Read,
            Method::GET,
            RECORD,
            doc("records", "Get a record")
                .about("The record with its author. An expired record is not found.")
                .answers::<Record>(200)
                .with_header("ETag", ETAG_ABOUT)
                .cached(),
            read::get,
        )
        .guarded(
            Manage,
            Method::PUT,
            RECORD,
            doc("records", "Set a record")
                .about(
                    "201 if the record was absent. The server applies a write once per caller and `Idempotency-Key`: a \
                     repeated request returns the first response. At most one of `If-Match`, `If-None-Match` and \
                     `ifRevision` is accepted.",
                )
                .keyed()
                .matched()
                .may_require_absence()
                .takes::<SetRecordRequest>()
                .example(json!({"value": {"status": "open"}, "ttlSeconds": 86_400}))
                .answers::<AppliedSet>(201)
                .with_header("ETag", ETAG_ABOUT)
                .answers::<AppliedSet>(200)
                .with_header("ETag", ETAG_ABOUT)
                .refuses(409, "`CONFLICT`: the record does not have the revision of `ifRevision`; `revision` is its own, or 0 if it is absent.")
                .refuses(409, KEY_REUSED),
            write::put,
        )
        .guarded(
            Manage,
            Method::DELETE,
            RECORD,
            doc("records", "Delete a record")
                .about("A later record with the same key begins with revision 1; its `change` is a new one.")
                .query(write::DELETE_PARAMETERS)
                .keyed()
                .matched()
                .answers_nothing(204)
                .refuses(409, "`CONFLICT`: the record does not have the revision of `ifRevision`; `revision` is its own, or 0 if it is absent.")
                .refuses(409, KEY_REUSED),
            write::delete,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/store/{namespace}/{key}/increment",
            doc("records", "Increment a record")
                .about(
                    "Adds to a number; an absent record begins with `initial`. Integers are exact in 64 bits, other numbers \
                     are floating point. With an `Idempotency-Key`, a repeated request adds once.",
                )
                .keyed()
                .may_take::<IncrementRecordRequest>()
                .example(json!({"by": 1, "ttlSeconds": 60}))
                .answers::<AppliedIncrement>(200)
                .with_header("ETag", ETAG_ABOUT)
                .refuses(409, KEY_REUSED)
                .refuses(422, "The value is not a number, or the sum exceeds 64 bits."),
            write::increment,
        )
}

/// Why a request with an idempotency key is rejected.
pub(crate) const KEY_REUSED: &str =
    "`IDEMPOTENCY_KEY_REUSED`: the caller has used the `Idempotency-Key` for another request.";
