//! Writes records, by ops.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use everstep_core::records::{
    DeleteOutput, DeleteRequest, IncrementOutput, OpAction, RecordLimits, SetOutput, SetRequest,
};

use super::apply::{apply, read_output, refuse};
use super::path::RecordPath;
use super::precondition::Precondition;
use super::read::missing;
use super::wire::{
    AppliedIncrement, AppliedSet, IncrementRecordRequest, SetRecordRequest, check_ttl, check_value_type,
};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::{IdempotencyKey, IfAbsent, IfMatch, etag};
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::server::AppState;

/// Bytes of a request that sets a record: the largest value that any server allows, and the rest.
const SET_BODY_BYTES_MAX: usize = *RecordLimits::VALUE_BYTES.end() + 16 * 1024;

pub(super) const DELETE_PARAMETERS: &[Parameter] = &[Parameter::whole(
    "ifRevision",
    0,
    i64::MAX as u64,
    "The revision that the record must have; 0: it must be absent. Otherwise nothing is deleted and the response is \
     `CONFLICT`.",
)];

type Tag = [(HeaderName, HeaderValue); 1];

/// Creates or replaces a record.
pub(super) async fn put(
    State(app): State<AppState>,
    caller: Caller,
    path: RecordPath,
    key: IdempotencyKey,
    if_match: IfMatch,
    if_absent: IfAbsent,
    body: Body<SET_BODY_BYTES_MAX>,
) -> Result<(StatusCode, Tag, Json<AppliedSet>), Problem> {
    let SetRecordRequest { value, value_type, ttl_seconds, if_revision } = body.json()?;
    let precondition = Precondition::read(if_match, Some(if_absent), if_revision)?;
    check_ttl(ttl_seconds).and_then(|()| check_value_type(value_type, &value)).map_err(refuse)?;
    let request = SetRequest {
        key: path.key,
        value,
        value_type: value_type.map(Into::into),
        ttl_seconds,
        if_revision: precondition.if_revision(),
        if_change: precondition.if_change(),
    };
    let key = key.into_inner();
    let outcome = apply(&app, &caller, key.as_deref(), &path.namespace, OpAction::Set(request)).await?;
    let set: SetOutput = read_output(&outcome.map_err(|failure| precondition.refuse(failure))?)?;
    let status = if set.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [etag(set.change)], Json(AppliedSet::from_output(&set))))
}

/// Deletes a record. An absent one is not found.
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    path: RecordPath,
    query: Query,
    key: IdempotencyKey,
    if_match: IfMatch,
) -> Result<StatusCode, Problem> {
    let if_revision = query.number("ifRevision");
    let precondition = Precondition::read(if_match, None, if_revision)?;
    let request = DeleteRequest {
        key: path.key.clone(),
        if_revision: precondition.if_revision(),
        if_change: precondition.if_change(),
    };
    let key = key.into_inner();
    let outcome = apply(&app, &caller, key.as_deref(), &path.namespace, OpAction::Delete(request)).await?;
    let DeleteOutput { deleted } = read_output(&outcome.map_err(|failure| precondition.refuse(failure))?)?;
    if deleted { Ok(StatusCode::NO_CONTENT) } else { Err(missing(&path.namespace, &path.key)) }
}

/// Adds to a number, and creates the record if it is absent.
pub(super) async fn increment(
    State(app): State<AppState>,
    caller: Caller,
    path: RecordPath,
    key: IdempotencyKey,
    body: Body<{ 16 * 1024 }>,
) -> Result<(Tag, Json<AppliedIncrement>), Problem> {
    let request: IncrementRecordRequest = body.json_or_default()?;
    let request = request.into_request(path.key).map_err(refuse)?;
    let key = key.into_inner();
    let outcome = apply(&app, &caller, key.as_deref(), &path.namespace, OpAction::Increment(request)).await?;
    let incremented: IncrementOutput = read_output(&outcome.map_err(refuse)?)?;
    Ok(([etag(incremented.change)], Json(AppliedIncrement::from_output(incremented))))
}
