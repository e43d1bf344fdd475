//! `POST /v1/sign-in-codes`: makes the code of a one-time link.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::wire::MadeCode;
use crate::auth::{Caller, Principal};
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::http::time::Time;
use crate::resources::tickets::Empty;
use crate::server::AppState;

const BODY_BYTES_MAX: usize = 1_024;

pub(crate) async fn make(
    State(app): State<AppState>,
    caller: Caller,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<MadeCode>), Problem> {
    // The request has no parameters.
    let Empty {} = body.json_or_default()?;
    let Principal::Key(holder) = &caller.principal else {
        let detail = "a sign-in code is made with an API key; a key would not act as the person of this token";
        let problem = Problem::new(StatusCode::FORBIDDEN, "PERMISSION_DENIED", detail);
        return Err(problem.hint("a person signs in to the console with the token of the identity provider"));
    };
    let code = app.keys.make_code(&caller, holder, app.engine.world().clock.now()).await?;
    let made = MadeCode { code: code.reveal(), expires_at: Time::from_timestamp(code.ends_at) };
    Ok((StatusCode::CREATED, Json(made)))
}
