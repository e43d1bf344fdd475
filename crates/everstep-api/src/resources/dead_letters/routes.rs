//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::wire::{BulkDiscard, BulkRequeue, BulkResult, DeadLetter, DeadLetterDetail, DeadLetters, DiscardRequest};
use super::{bulk, control, filter, read};
use crate::auth::Permission::{Manage, View};
use crate::http::openapi::{Parameter, doc};
use crate::routes::Table;

const NOT_DEAD: &str = "`DEAD_LETTER_NOT_DEAD`: the dead letter has another status, which `deadLetterStatus` names.";

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter("dead-letters", Parameter::id("id", "The dead letter's id."))
        .guarded(
            View,
            Method::GET,
            "/v1/dead-letters",
            doc("dead letters", "List dead letters")
                .about(
                    "Newest first, without their configs. Paging is by keyset. Dead ones are kept for \
                     `EVERSTEP_DEAD_LETTER_DAYS`, delivered and discarded ones for 7 days, also if their run is deleted.",
                )
                .query(filter::PARAMETERS)
                .answers::<DeadLetters>(200),
            read::list,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/dead-letters/{id}",
            doc("dead letters", "Get a dead letter")
                .about("With the config as it was decided. The config contains the names of secrets, and no secret.")
                .answers::<DeadLetterDetail>(200),
            read::get,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/dead-letters/{id}/requeue",
            doc("dead letters", "Requeue a dead letter")
                .about(
                    "A node performs the work again, up to three times, with the same config and the same `deliveryId`, \
                     and adds the attempts. The status is then `delivered` or `dead`. 202 also if it is queued already.",
                )
                .answers::<DeadLetter>(202)
                .refuses(409, NOT_DEAD),
            control::requeue,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/dead-letters/{id}/discard",
            doc("dead letters", "Discard a dead letter")
                .about("It is kept for 7 days, and cannot be requeued.")
                .may_take::<DiscardRequest>()
                .example(json!({"reason": "the order was cancelled by phone"}))
                .answers::<DeadLetter>(200)
                .refuses(409, NOT_DEAD),
            control::discard,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/dead-letters/requeue",
            doc("dead letters", "Requeue dead letters")
                .about(
                    "Requeues the dead letters with the status `dead` that the filter selects, oldest first, at most \
                     10,000; with `nextCursor` as `cursor` another call continues. With `dryRun` they are counted only.",
                )
                .takes::<BulkRequeue>()
                .example(json!({"filter": {"workflow": "document-approval", "error": "HTTP_STATUS"}, "dryRun": true}))
                .answers::<BulkResult>(200),
            bulk::requeue,
        )
        .guarded(
            Manage,
            Method::POST,
            "/v1/dead-letters/discard",
            doc("dead letters", "Discard dead letters")
                .about(
                    "Discards the dead letters with the status `dead` that the filter selects, oldest first, at most \
                     10,000; with `nextCursor` as `cursor` another call continues. With `dryRun` they are counted only.",
                )
                .takes::<BulkDiscard>()
                .example(json!({"filter": {"until": "2026-05-01"}, "reason": "older than the last release"}))
                .answers::<BulkResult>(200),
            bulk::discard,
        )
}
