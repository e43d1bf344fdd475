//! Why a data source or a saved query cannot be used.

use axum::http::StatusCode;
use everstep_core::failure::{Failure, code};
use everstep_handlers::sources::SOURCE_NOT_FOUND;
use everstep_vault::ResourceError;
use serde_json::Value;

use crate::http::problem::Problem;

/// Problems of a source or a query that the detail of the answer names; `problems` lists all.
const PROBLEMS_SHOWN_MAX: usize = 5;

impl From<ResourceError> for Problem {
    fn from(refusal: ResourceError) -> Self {
        match refusal {
            ResourceError::Invalid(problems) => {
                let shown: Vec<_> = problems.iter().take(PROBLEMS_SHOWN_MAX).map(|it| &*it.message).collect();
                let detail = match problems.len() {
                    1 => shown.concat(),
                    count => format!("there are {count} problems: {}", shown.join("; ")),
                };
                let problems = serde_json::to_value(problems).unwrap_or(Value::Null);
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "VALIDATION_ERROR", detail).with("problems", problems)
            }
            ResourceError::NotFound(message) => Self::not_found(message),
            ResourceError::InUse(queries) => {
                let detail = format!("saved queries use the data source: {}", queries.join(", "));
                Self::new(StatusCode::CONFLICT, "SOURCE_IN_USE", detail)
                    .hint("delete these queries first, or change them to use another source")
                    .with("queries", queries)
            }
            ResourceError::Store(error) => error.into(),
        }
    }
}

/// Why a source returned no rows. It is an error of the caller's query or source, not of this server.
pub(super) fn failed(failure: &Failure) -> Problem {
    let status = match failure.code.as_str() {
        "UNAVAILABLE" => return Problem::unavailable("the database is unavailable; try again"),
        SOURCE_NOT_FOUND => StatusCode::NOT_FOUND,
        _ if failure.retryable => StatusCode::FAILED_DEPENDENCY,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let word = match failure.code.as_str() {
        code::INVALID_CONFIG => "VALIDATION_ERROR".to_owned(),
        SOURCE_NOT_FOUND => "NOT_FOUND".to_owned(),
        other => other.to_owned(),
    };
    Problem::new(status, word, failure.message.clone())
}
