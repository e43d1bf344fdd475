//! Data sources and saved queries: what they are, and how they are asked.
//!
//! * `source` and `query` are what people save; each is checked whole before it is kept.
//! * `statement` finds the arguments in SQL; `arguments` holds what was given against what was declared.
//! * `drivers` asks: `postgres`, `sqlite` and `http`, one file or folder each.
//! * `rows` gathers what comes back, within its limits.
//!
//! Where they are kept is left to others: see [`crate::Sources`].

mod arguments;
mod drivers;
mod fields;
mod http;
mod postgres;
mod query;
mod result;
mod rows;
mod source;
mod sqlite;
mod statement;

use everstep_core::failure::{Failure, code};

pub use drivers::{Drivers, QueryRequest};
pub use fields::is_name;
pub use query::{Argument, ArgumentType, HttpMethod, HttpRequest, Limits, OnLimit, Query};
pub use result::{Field, QueryResult, SourceTest};
pub use source::{HttpAuth, HttpSource, PostgresSource, SecretOrText, SecretRef, Source, SqliteSource, SslMode};

/// A statement or a request that failed.
pub(crate) const QUERY_ERROR: &str = "QUERY_ERROR";
/// A source or a query that does not exist.
pub const SOURCE_NOT_FOUND: &str = "SOURCE_NOT_FOUND";
/// An address that may not be reached.
pub(crate) const ADDRESS_REFUSED: &str = "ADDRESS_REFUSED";

/// What a failed exchange means for a step.
pub(crate) fn net_failure(error: &everstep_net::Error) -> Failure {
    use everstep_net::Error;
    match error {
        Error::Refused { .. } => Failure::fatal(ADDRESS_REFUSED, error.to_string()),
        Error::Timeout(_) => Failure::transient(code::STEP_TIMEOUT, error.to_string()),
        Error::TooLarge(_) => Failure::fatal(code::PAYLOAD_TOO_LARGE, error.to_string()),
        error if error.is_transient() => Failure::transient(QUERY_ERROR, error.to_string()),
        error => Failure::fatal(QUERY_ERROR, error.to_string()),
    }
}
