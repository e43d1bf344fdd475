//! `/v1/tickets`: what a browser shows where it cannot send a key.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use crate::auth::Caller;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::Served;
use crate::wire::{Ticket, Time};

/// Makes a ticket that opens live routes in place of the caller's key, for a minute.
pub(crate) async fn make(
    State(served): State<Served>,
    caller: Caller,
    _: Query,
) -> Result<(StatusCode, Json<Ticket>), Problem> {
    let ticket = served.keys.make_ticket(&caller, served.engine.world().clock.now()).await?;
    let made = Ticket { ticket: ticket.reveal(), expires_at: Time::of(ticket.ends_at) };
    Ok((StatusCode::CREATED, Json(made)))
}
