//! `/v1/sign-ins`: exchanges a code for a key, and revokes that key.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use everstep_core::limits;
use everstep_core::time::Timestamp;
use everstep_store::{Error, KeyOutcome, KeyRow};
use serde_json::json;

use super::wire::{SignIn, UsedCode};
use crate::audit;
use crate::auth::{self, ApiKey, Caller, KeyHolder, NAME_CHARS_MAX, Principal, SIGN_IN_LIFETIME, SignInCode};
use crate::http::body::Body;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::time::Time;
use crate::resources::keys;
use crate::server::AppState;

const BODY_BYTES_MAX: usize = 4 * 1_024;
const NEW_CODE_HINT: &str = "a code is valid for a minute, and can be used once; create another with `everstep open`";

/// Creates a key with the permissions of the key that made the code. The id of the new key is that of the code, so a
/// code creates at most one key, on any node.
pub(crate) async fn sign_in(
    State(app): State<AppState>,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<SignIn>), Problem> {
    let UsedCode { code } = body.json()?;
    let unknown = || {
        let detail = "the sign-in code is unknown or has expired, or the API key that made it is no longer valid";
        Problem::new(StatusCode::UNAUTHORIZED, "AUTH_ERROR", detail).hint(NEW_CODE_HINT)
    };
    let code: SignInCode = code.parse().map_err(|()| unknown())?;
    let now = app.engine.world().clock.now();
    let maker = app.keys.find_maker(&code, now).await?.ok_or_else(unknown)?;
    let Principal::Key(holder) = &maker.principal else { return Err(unknown()) };
    auth::count_request(&app, &maker)?;
    let secret = ApiKey::generate();
    let (row, expires_at) = row(&secret, &code, &maker, holder, now);
    match app.access.add_key_within(&row, limits::KEYS).await {
        Ok(KeyOutcome::Added) => {}
        Ok(KeyOutcome::QuotaReached(count)) => return Err(keys::too_many(count)),
        Err(Error::Refused(_)) => {
            let detail = "the sign-in code was used before";
            return Err(Problem::new(StatusCode::CONFLICT, "CODE_USED", detail).hint(NEW_CODE_HINT));
        }
        Err(error) => return Err(error.into()),
    }
    let details = json!({"status": StatusCode::CREATED.as_u16(), "key": row.id});
    audit::write_action(&app, &maker, "POST /v1/sign-ins", "/v1/sign-ins", details).await;
    let made = SignIn { key: secret.reveal().to_owned(), expires_at: Time::from_timestamp(expires_at), name: row.name };
    Ok((StatusCode::CREATED, Json(made)))
}

fn row(secret: &ApiKey, code: &SignInCode, maker: &Caller, holder: &KeyHolder, now: Timestamp) -> (KeyRow, Timestamp) {
    let end = now.plus(SIGN_IN_LIFETIME);
    let expires_at = maker.expires_at.map_or(end, |expiry| expiry.min(end));
    let name: String = format!("console: {}", holder.name).chars().take(NAME_CHARS_MAX).collect();
    let row = KeyRow {
        id: code.id,
        permissions: maker.permission_words(),
        role: holder.role.as_deref().map(str::to_owned),
        rate_limit: holder.rate_limit,
        expires_at: Some(expires_at),
        // A key of a link can make links as well: they all act as the first key.
        maker: Some(holder.actor_id()),
        ..secret.row(maker.workspace, &name, &[], now)
    };
    (row, expires_at)
}

/// Revokes the key of the request, which a one-time link has created.
pub(crate) async fn sign_out(State(app): State<AppState>, caller: Caller, _: Query) -> Result<StatusCode, Problem> {
    let Principal::Key(holder) = &caller.principal else { return Err(not_signed_in("a token of a person")) };
    if holder.maker.is_none() {
        return Err(not_signed_in("this API key").hint("revoke it with DELETE /v1/keys/{id}, or keep it"));
    }
    let now = app.engine.world().clock.now();
    if let Some(revoked) = app.access.revoke_key(caller.workspace, holder.id, now).await? {
        app.keys.forget(&revoked.hash);
    }
    Ok(StatusCode::NO_CONTENT)
}

fn not_signed_in(credential: &str) -> Problem {
    let detail = format!("{credential} was not created by a one-time link, so signing out does not revoke it");
    Problem::new(StatusCode::CONFLICT, "NOT_A_SIGN_IN", detail)
}
