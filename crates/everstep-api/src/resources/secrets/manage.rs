//! `/v1/secrets`: secrets that steps may use.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use everstep_vault::{Error, SecretInfo};

use super::wire::{NewSecret, Secret, Secrets};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::page::Page;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

/// Bytes of a request: each byte of a secret may be written as six.
const BODY_BYTES_MAX: usize = 6 * everstep_vault::SECRET_BYTES_MAX + 1_024;

/// Names and times, never values.
pub(crate) async fn list(State(app): State<AppState>, caller: Caller, query: Query) -> Result<Json<Secrets>, Problem> {
    let page = Page::read(&query);
    let after: Option<String> = page.cursor()?;
    let rows = app.vault.list(caller.workspace, after.as_deref(), page.limit + 1).await?;
    let (rows, next_cursor) = page.cut(rows, |info: &SecretInfo| info.name.clone());
    Ok(Json(Secrets { secrets: rows.into_iter().map(Secret::from_info).collect(), next_cursor }))
}

pub(crate) async fn set(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, Json<Secret>), Problem> {
    let NewSecret { value } = body.json()?;
    let now = app.engine.world().clock.now();
    let (info, is_new) = app.vault.put(caller.workspace, &name, &value, now).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(Secret::from_info(info))))
}

pub(crate) async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    _: Query,
) -> Result<StatusCode, Problem> {
    app.vault.delete(caller.workspace, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (code, detail) = (error.code(), error.to_string());
        match error {
            Error::NotFound(_) => Self::not_found(detail),
            Error::Invalid(_) => Self::invalid(detail),
            Error::NoKey | Error::OtherKey { .. } | Error::Broken(_) => Self::new(StatusCode::CONFLICT, code, detail),
            Error::Store(error) => error.into(),
        }
    }
}
