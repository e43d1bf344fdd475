//! Writes links, by ops.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use everstep_core::records::{ATTRIBUTES_BYTES_MAX, Identifier, OpAction, UnlinkOutput, UnlinkRequest, UpsertOutput};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::read::{missing, name};
use super::wire::{AppliedUpsert, DeletedLinks, UpsertLinkRequest};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::openapi::Parameter;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::resources::store::{LinkPath, NamespacePath, apply, check_namespace, read_output, refuse};
use crate::server::AppState;

/// Bytes of a request: the attributes, the two sides and the rest.
const BODY_BYTES_MAX: usize = ATTRIBUTES_BYTES_MAX + 64 * 1024;

pub(super) const DELETE_PARAMETERS: &[Parameter] = &[
    Parameter::text("fromType", "The type of the identifier from which the links lead; with `fromId`."),
    Parameter::text("fromId", "The id of that identifier."),
    Parameter::text("toType", "The type of the identifier to which the links lead; with `toId`."),
    Parameter::text("toId", "The id of that identifier."),
    Parameter::text("relation", "Links with this relation."),
];

/// Creates a link, or replaces its attributes.
pub(super) async fn post(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    key: IdempotencyKey,
    body: Body<BODY_BYTES_MAX>,
) -> Result<(StatusCode, HeaderMap, Json<AppliedUpsert>), Problem> {
    let request: UpsertLinkRequest = body.json()?;
    let key = key.into_inner();
    let outcome = apply(&app, &caller, key.as_deref(), &namespace, OpAction::Upsert(request.into_core())).await?;
    let upserted: UpsertOutput = read_output(&outcome.map_err(refuse)?)?;
    let mut headers = HeaderMap::new();
    if upserted.created {
        let namespace = utf8_percent_encode(&namespace, NON_ALPHANUMERIC);
        let place = format!("/v1/links/{namespace}/{}", upserted.link_id.0);
        headers.insert(header::LOCATION, HeaderValue::from_str(&place).expect("an encoded path is plain text"));
    }
    let status = if upserted.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, headers, Json(AppliedUpsert::from_output(&upserted))))
}

/// Deletes all links of one side, or between two.
pub(super) async fn delete_many(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    query: Query,
    key: IdempotencyKey,
) -> Result<Json<DeletedLinks>, Problem> {
    let (from, to) = (side(&query, "fromType", "fromId")?, side(&query, "toType", "toId")?);
    if from.is_none() && to.is_none() {
        let hint = "send fromType and fromId, or toType and toId, or all four";
        return Err(Problem::invalid("neither side of the links is given").hint(hint));
    }
    let request = UnlinkRequest { from, to, relation: name(&query, "relation")?, id: None };
    let key = key.into_inner();
    let outcome = apply(&app, &caller, key.as_deref(), &namespace, OpAction::Unlink(request)).await?;
    let UnlinkOutput { deleted_count } = read_output(&outcome.map_err(refuse)?)?;
    if deleted_count == 0 {
        check_namespace(&app, caller.workspace, &namespace).await?;
    }
    Ok(Json(DeletedLinks { deleted_count }))
}

/// Deletes one link, by its id.
pub(super) async fn delete(
    State(app): State<AppState>,
    caller: Caller,
    path: LinkPath,
    key: IdempotencyKey,
) -> Result<StatusCode, Problem> {
    let LinkPath { namespace, id } = path;
    let request = UnlinkRequest { id: Some(id), ..UnlinkRequest::default() };
    let key = key.into_inner();
    let outcome = apply(&app, &caller, key.as_deref(), &namespace, OpAction::Unlink(request)).await?;
    let UnlinkOutput { deleted_count } = read_output(&outcome.map_err(refuse)?)?;
    if deleted_count == 0 { Err(missing(&namespace, id)) } else { Ok(StatusCode::NO_CONTENT) }
}

/// One side of the links, of two query parameters.
fn side(query: &Query, kind: &str, id: &str) -> Result<Option<Identifier>, Problem> {
    match (name(query, kind)?, name(query, id)?) {
        (None, None) => Ok(None),
        (Some(kind), Some(id)) => Ok(Some(Identifier::new(kind, id))),
        _ => Err(Problem::invalid(format!("the query parameters {kind:?} and {id:?} must be sent together"))),
    }
}
