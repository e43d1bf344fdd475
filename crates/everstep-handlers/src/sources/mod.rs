//! Data sources and saved queries: their definitions, and the code that queries them.
//!
//! * `source` and `query` are the definitions that users save; each is checked completely before it is stored.
//! * `statement` finds the arguments in SQL; `arguments` compares given arguments with declared ones.
//! * `drivers` sends queries: `postgres`, `sqlite` and `http`, one file or folder each.
//! * `rows` collects the result, within its limits.
//!
//! Another crate stores them: see [`crate::Sources`].

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
/// An address that is blocked.
pub(crate) const ADDRESS_REFUSED: &str = "ADDRESS_REFUSED";

/// The failure of a step after a failed exchange.
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
