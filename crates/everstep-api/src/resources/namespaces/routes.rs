//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::wire::{Changes, EmptiedNamespace, Namespace, Namespaces, TransactRequest, Transaction};
use super::{changes, empty, list, transact};
use crate::auth::Permission::{Manage, Read};
use crate::http::openapi::{Parameter, doc};
use crate::resources::store::KEY_REUSED;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter(
            "namespaces",
            Parameter::text("namespace", "The namespace: 1 to 256 characters, percent-encoded. Spaces around it are removed."),
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/namespaces",
            doc("records", "List namespaces")
                .about("By name. A namespace without records and links is not listed.")
                .query(list::LIST_PARAMETERS)
                .answers::<Namespaces>(200),
            list::list,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/namespaces/{namespace}",
            doc("records", "Get a namespace")
                .about("A namespace exists from its first write on, also when it is empty.")
                .answers::<Namespace>(200),
            list::get,
        )
        .guarded(
            Manage,
            Method::DELETE,
            "/v1/namespaces/{namespace}",
            doc("records", "Empty a namespace")
                .about(
                    "Deletes its records and links, each with a change of its own, at most 100,000 per request; repeat the \
                     request while `more` is true. The namespace keeps its changes, and their numbers continue.",
                )
                .answers::<EmptiedNamespace>(200),
            empty::delete,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/namespaces/{namespace}/transact",
            doc("records", "Apply a transaction")
                .about(
                    "Evaluates all checks, then applies all writes to records and links of the namespace; the first failure \
                     leaves nothing written. With an `Idempotency-Key`, a repeated request returns the first response.",
                )
                .keyed()
                .takes::<TransactRequest>()
                .example(json!({
                    "checks": [{"key": "order/7", "exists": false}],
                    "writes": [
                        {"set": {"key": "order/7", "value": {"status": "open"}}},
                        {"increment": {"key": "orders"}},
                        {"upsert": {"from": {"type": "order", "id": "7"}, "to": {"type": "customer", "id": "42"}}},
                    ],
                }))
                .answers::<Transaction>(200)
                .refuses(
                    409,
                    "`CONFLICT`: a check does not hold, or a record does not have the revision of a write; `detail` names \
                     the check or the write, and `revision` is the stored one.",
                )
                .refuses(409, KEY_REUSED),
            transact::post,
        )
        .guarded(
            Read,
            Method::GET,
            "/v1/namespaces/{namespace}/changes",
            doc("records", "List changes")
                .about(
                    "Oldest first, each with its actor and its time. Changes are kept for `EVERSTEP_STORE_HISTORY_DAYS`, and \
                     while the run that made them exists.",
                )
                .query(changes::PARAMETERS)
                .answers::<Changes>(200),
            changes::list,
        )
}
