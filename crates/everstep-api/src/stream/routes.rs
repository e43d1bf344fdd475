//! The rows of the route table.

use axum::http::Method;

use super::wire::{EndEvent, SnapshotEvent, StatusEvent};
use super::{socket, socketio, sse};
use crate::auth::Permission::View;
use crate::http::openapi::doc;
use crate::resources::runs::wire::EntryView;
use crate::routes::Table;

pub(crate) fn add(table: Table) -> Table {
    table
        .protocol(&Method::GET, "/socket.io/", socketio::open)
        .protocol(&Method::POST, "/socket.io/", socketio::hear)
        .guarded(
            View,
            Method::GET,
            "/v1/runs/{id}/events",
            doc("runs", "Follow a run")
                .about(
                    "Server-sent events: a `snapshot`, an `entry` for every entry of the journal, a `status` at each \
                     change, and an `end`. The header `Last-Event-ID` sets the beginning; 204 means that nothing will \
                     follow.",
                )
                .query(sse::PARAMETERS)
                .sends(200, "text/event-stream")
                .with_event::<SnapshotEvent>(
                    "snapshot",
                    "the run and its context; the first event, unless `after` is sent.",
                )
                .with_event::<EntryView>(
                    "entry",
                    "an entry of the journal, without values if `view=heads`; its `id` is the seq of the entry.",
                )
                .with_event::<StatusEvent>("status", "the status of the run, each time that it changes.")
                .with_event::<EndEvent>("end", "the last event; the server closes the stream.")
                .answers_nothing(204)
                .refuses(
                    429,
                    "`TOO_MANY_STREAMS`: the API key or the workspace has the maximum number of open streams.",
                ),
            sse::events,
        )
        .guarded(
            View,
            Method::GET,
            "/v1/socket",
            doc("runs", "Follow runs and the workspace")
                .about(
                    "A WebSocket for browsers, which open only a few connections to a server: one carries many runs \
                     and the changes of the workspace. Each message is a JSON object; the guide \"Live updates\" \
                     describes them. A page of another origin is rejected.",
                )
                .query(socket::PARAMETERS)
                .answers_nothing(101)
                .refuses(403, "`ORIGIN_REFUSED`: a page of another origin tried to open the socket.")
                .refuses(426, "`UPGRADE_REQUIRED`: the request is not a WebSocket upgrade.")
                .refuses(
                    429,
                    "`TOO_MANY_STREAMS`: the API key or the workspace has the maximum number of open streams.",
                ),
            socket::open,
        )
}
