//! `/v1/keys`: the API keys of a workspace.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_core::limits;
use everstep_core::time::Timestamp;
use everstep_store::{Error, KeyOutcome, KeyRow};
use uuid::Uuid;

use super::wire::{Key, Keys, MadeKey, NewKey};
use crate::auth::{self, ApiKey, Caller, Grant, Permission};
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::id;
use crate::resources::workspaces::only_for_the_default;
use crate::server::AppState;

const BODY_BYTES_MAX: usize = 16 * 1024;

pub(crate) async fn list(State(app): State<AppState>, caller: Caller, query: Query) -> Result<Json<Keys>, Problem> {
    let page = Page::read(&query);
    let after: Option<Uuid> = page.cursor()?;
    let rows = app.access.list_keys(caller.workspace).await?;
    let from = match after {
        None => 0,
        Some(id) => rows.iter().position(|row| row.id == id).map_or(rows.len(), |place| place + 1),
    };
    let (keys, next_cursor) = page.cut(rows.into_iter().skip(from), |row: &KeyRow| row.id.to_string());
    Ok(Json(Keys { keys: keys.into_iter().map(Key::from_row).collect(), next_cursor }))
}

/// Creates a key. Only this response shows it.
pub(crate) async fn make(
    State(app): State<AppState>,
    caller: Caller,
    key: IdempotencyKey,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<MadeKey>), Problem> {
    let now = app.engine.world().clock.now();
    let new = read(body.json()?, now)?;
    if let Some(more) = new.allows.permissions().iter().find(|permission| !caller.may(**permission)) {
        return Err(auth::lacks_permission(&caller, *more));
    }
    // The limit protects this server, and so the other workspaces.
    if !app.keys.is_within_default(new.rate_limit) {
        only_for_the_default(&caller, "limits above the server's own are set")?;
    }
    let (store, secret) = (&app.access, ApiKey::generate());
    let mut row = new.row(&secret, caller.workspace, now);
    let key = key.into_inner();
    if let Some(key) = &key {
        row.id = id::keyed_id("key", caller.workspace.uuid(), key);
    }
    match store.add_key_within(&row, limits::KEYS).await {
        Ok(KeyOutcome::Added) => {
            let made = MadeKey { key: Key::from_row(row), secret: Some(secret.reveal().to_owned()) };
            Ok((StatusCode::CREATED, Json(made)))
        }
        Ok(KeyOutcome::QuotaReached(count)) => match find_repeated(&app, key.as_deref(), &row).await? {
            Some(known) => Ok(known),
            None => Err(too_many(count)),
        },
        Err(error @ Error::Refused(_)) => Ok(find_repeated(&app, key.as_deref(), &row).await?.ok_or(error)?),
        Err(error) => Err(error.into()),
    }
}

/// The answer to a request whose idempotency key has created a key before.
async fn find_repeated(
    app: &AppState,
    key: Option<&str>,
    row: &KeyRow,
) -> Result<Option<(StatusCode, Json<MadeKey>)>, Problem> {
    if key.is_none() {
        return Ok(None);
    }
    let rows = app.access.list_keys(row.workspace).await?;
    let known = rows.into_iter().find(|known| known.id == row.id);
    Ok(known.map(|known| (StatusCode::OK, Json(MadeKey { key: Key::from_row(known), secret: None }))))
}

/// The refusal of another key for a workspace that has this many.
pub(crate) fn too_many(count: u64) -> Problem {
    let allowed = limits::KEYS;
    let detail =
        format!("the workspace has {count} API keys, with those of one-time links; at most {allowed} are allowed");
    let hint = "revoke keys that are no longer used: DELETE /v1/keys/{id}; a key of a one-time link counts until a day \
                after it has expired";
    Problem::new(StatusCode::CONFLICT, "QUOTA_REACHED", detail).hint(hint).with("count", count).with("quota", allowed)
}

/// Revokes a key. The last admin key stays: without it, no key could be created over HTTP.
pub(crate) async fn revoke(
    State(app): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    _: Query,
) -> Result<Json<Key>, Problem> {
    let missing = || Problem::not_found(format!("the API key {id:?} was not found"));
    let key: Uuid = id.parse().map_err(|_| missing())?;
    let (store, now) = (&app.access, app.engine.world().clock.now());
    // If two admins revoke each other's key at the same time, the second is rejected here. On two nodes both may
    // succeed; then an operator creates a key with `everstep keys create`.
    let _one_at_a_time = app.keys.revoking.lock().await;
    let rows = store.list_keys(caller.workspace).await?;
    let row = rows.iter().find(|row| row.id == key).ok_or_else(missing)?;
    let others = rows.iter().filter(|row| row.id != key);
    if is_admin(row, now) && !others.into_iter().any(|row| is_admin(row, now)) {
        let detail = "this is the last admin API key; without it, no other key could be created";
        let problem = Problem::new(StatusCode::CONFLICT, "LAST_ADMIN_KEY", detail);
        return Err(problem.hint("create another first: POST /v1/keys with {\"name\": …, \"role\": \"admin\"}"));
    }
    let revoked = store.revoke_key(caller.workspace, key, now).await?.ok_or_else(missing)?;
    app.keys.forget(&revoked.hash);
    Ok(Json(Key::from_row(revoked)))
}

/// Whether a key is valid, and an admin's. Keys of one-time links do not count: they expire within hours.
fn is_admin(row: &KeyRow, now: Timestamp) -> bool {
    row.revoked_at.is_none()
        && row.maker.is_none()
        && row.expires_at.is_none_or(|end| end > now)
        && row.permissions.iter().any(|word| word == Permission::Admin.as_str())
}

fn read(new: NewKey, now: Timestamp) -> Result<auth::NewKey, Problem> {
    let expires_at = new.expires_at.map(|text| {
        let hint = "write a time in RFC 3339, such as 2026-05-01T09:00:00Z";
        text.parse::<Timestamp>().map_err(|_| Problem::invalid(format!("expiresAt: {text:?} is not a time")).hint(hint))
    });
    let allows = Grant::from_request(new.role, new.permissions).map_err(|error| {
        Problem::invalid(error).hint("send {\"name\": …, \"role\": \"viewer\"}, or \"permissions\" with a list")
    })?;
    let new = auth::NewKey { name: new.name, allows, expires_at: expires_at.transpose()?, rate_limit: new.rate_limit };
    new.check(now).map_err(Problem::invalid)?;
    Ok(new)
}
