//! `POST /v1/namespaces/{namespace}/transact`: checks and writes that are applied together or not at all.

use axum::Json;
use axum::extract::State;
use everstep_core::records::{OpAction, TRANSACT_BYTES_MAX, TransactOutput};

use super::wire::{TransactRequest, Transaction};
use crate::auth::Caller;
use crate::http::body::Body;
use crate::http::headers::IdempotencyKey;
use crate::http::problem::Problem;
use crate::resources::store::{NamespacePath, apply, read_output, refuse};
use crate::server::AppState;

/// Bytes of a request: its values, its keys and the rest.
const BODY_BYTES_MAX: usize = 2 * TRANSACT_BYTES_MAX;

pub(super) async fn post(
    State(app): State<AppState>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    key: IdempotencyKey,
    body: Body<BODY_BYTES_MAX>,
) -> Result<Json<Transaction>, Problem> {
    let request: TransactRequest = body.json()?;
    let verbs = request.verbs();
    let request = request.into_core().map_err(refuse)?;
    let key = key.into_inner();
    let outcome = apply(&app, &caller, key.as_deref(), &namespace, OpAction::Transact(request)).await?;
    let output: TransactOutput = read_output(&outcome.map_err(refuse)?)?;
    Transaction::from_output(&verbs, &output).map(Json)
}
