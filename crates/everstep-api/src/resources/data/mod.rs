//! `/v1/data-sources` and `/v1/queries`: the data of workflows.

mod problem;
mod queries;
mod routes;
mod sources;
mod wire;

use everstep_core::strict::StrictValue;
use everstep_core::whole;
use serde_json::Value;

pub(crate) use routes::add;

use crate::http::body::Body;
use crate::http::problem::Problem;

/// Bytes of a source or a query.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// Reads a source or a query. Integers may be written as floats.
fn read_document(body: &Body<BODY_BYTES_MAX>) -> Result<Value, Problem> {
    let StrictValue(mut document) = body.json()?;
    whole::rewrite(&mut document);
    Ok(document)
}
