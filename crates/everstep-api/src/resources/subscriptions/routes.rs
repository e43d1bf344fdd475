//! The rows of the route table.

use axum::http::Method;
use serde_json::json;

use super::wire::{ChangeRequest, SubscribeRequest, Subscription, Subscriptions};
use super::{change, control, create, read};
use crate::auth::Permission::{Publish, View};
use crate::http::openapi::{Parameter, doc};
use crate::http::page::PAGE_PARAMETERS;
use crate::resources::store::KEY_REUSED;
use crate::routes::Table;

/// The form of a pattern.
pub(super) const PATTERN_FORM: &str = r"^([A-Za-z0-9_:/-]{1,64}|[*#])(\.([A-Za-z0-9_:/-]{1,64}|[*#])){0,15}$";
const ONE: &str = "/v1/subscriptions/{id}";
const OF_PATTERN: &str = "/v1/topics/{pattern}/subscriptions";
const OWNED: &str = "`OWNED_BY_WORKFLOW`: the definition of a workflow declares the subscription as a trigger.";

pub(crate) fn add(table: Table) -> Table {
    table
        .path_parameter(
            "topics",
            Parameter::pattern(
                "pattern",
                PATTERN_FORM,
                "A pattern of topics, percent-encoded: `*` is exactly one segment, and `#` (`%23`) is any number of \
                 segments, including none. `user.*` matches `user.signup`; `order.#` matches `order` and \
                 `order.paid.late`.",
            ),
        )
        .path_parameter("subscriptions", Parameter::id("id", "The subscription's id."))
        .guarded(
            Publish,
            Method::POST,
            OF_PATTERN,
            doc("events", "Create a subscription")
                .about(
                    "Each event that is published from now on, whose topic the pattern matches and that the filter \
                     accepts, starts exactly one run of the workflow. The workflow need not exist yet: an event that \
                     cannot start a run has a result with the reason. A workspace has at most 10,000 subscriptions. With \
                     an `Idempotency-Key`, a repeated request finds the same subscription, and the response is 200.",
                )
                .keyed()
                .takes::<SubscribeRequest>()
                .example(json!({"type": "workflow", "name": "onboard-user", "filter": {"plan": "pro"}}))
                .answers::<Subscription>(201)
                .with_header("Location", "The path of the subscription.")
                .answers::<Subscription>(200)
                .with_header("Location", "The path of the subscription.")
                .refuses(409, "`QUOTA_REACHED`: the workspace has 10,000 subscriptions.")
                .refuses(409, KEY_REUSED)
                .refuses(422, "`TARGET_NOT_AVAILABLE`: this server has no targets of that type."),
            create::post,
        )
        .guarded(
            View,
            Method::GET,
            OF_PATTERN,
            doc("events", "List the subscriptions of a pattern")
                .about("Those with exactly this pattern, by id.")
                .query(PAGE_PARAMETERS)
                .answers::<Subscriptions>(200),
            read::list_of_pattern,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/subscriptions",
            doc("events", "List subscriptions")
                .about("By id, including the triggers that active versions of workflows declare. Paging is by keyset.")
                .query(PAGE_PARAMETERS)
                .answers::<Subscriptions>(200),
            read::list,
        )
        .guarded(View, Method::GET, ONE, doc("events", "Get a subscription").answers::<Subscription>(200), read::get)
        .guarded(
            Publish,
            Method::PATCH,
            ONE,
            doc("events", "Change a subscription")
                .about("An absent field does not change; null removes its value.")
                .takes::<ChangeRequest>()
                .example(json!({"filter": {"plan": "pro"}, "version": null}))
                .answers::<Subscription>(200)
                .refuses(409, OWNED),
            change::patch,
        )
        .guarded(
            Publish,
            Method::DELETE,
            ONE,
            doc("events", "Delete a subscription")
                .about("Runs that it has started continue.")
                .answers_nothing(204)
                .refuses(409, OWNED),
            change::delete,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/subscriptions/{id}/pause",
            doc("events", "Pause a subscription")
                .about(
                    "It receives no events until it is resumed; those events do not reach it later. A trigger of a \
                     workflow can be paused too, and stays paused in new versions that keep it.",
                )
                .answers::<Subscription>(200),
            control::pause,
        )
        .guarded(
            Publish,
            Method::POST,
            "/v1/subscriptions/{id}/resume",
            doc("events", "Resume a subscription").answers::<Subscription>(200),
            control::resume,
        )
}
