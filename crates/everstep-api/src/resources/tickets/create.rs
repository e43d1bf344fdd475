//! `/v1/tickets`: credentials of browsers, which cannot send headers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::wire::{Empty, Ticket};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::http::time::Time;
use crate::server::AppState;

const BODY_BYTES_MAX: usize = 1_024;

/// Creates a ticket for live routes, valid for a minute, instead of the caller's API key.
pub(crate) async fn make(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<Ticket>), Problem> {
    // The request has no parameters.
    let Empty {} = body.json_or_default()?;
    let ticket = app.keys.make_ticket(&caller, app.engine.world().clock.now()).await?;
    let made = Ticket { ticket: ticket.reveal(), expires_at: Time::from_timestamp(ticket.ends_at) };
    Ok((StatusCode::CREATED, Json(made)))
}
