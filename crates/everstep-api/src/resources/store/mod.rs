//! `/v1/store`: records, the JSON values that a workspace keeps under the keys of its namespaces.
//!
//! * `read` and `write` are the handlers. `apply` sends an op to the record writer and reports its failure,
//!   `precondition` is the state that a request requires of a record.
//! * `path` and `page` read namespaces, keys and pages; `/v1/links` and `/v1/namespaces` use them too.

mod apply;
mod page;
mod path;
mod precondition;
mod read;
mod routes;
mod wire;
mod write;

pub(super) use apply::{apply, read_output, refuse, refuse_query};
pub(super) use page::{
    LIMIT_PARAMETER, check_cursor, check_namespace, is_end, missing_namespace, read_cursor, read_limit,
};
pub(super) use path::{LinkPath, NamespacePath};
pub(super) use read::find_author;
pub(super) use routes::KEY_REUSED;
pub(crate) use routes::add;
pub(super) use wire::{AppliedIncrement, AppliedSet, Author, ValueType, check_ttl, check_value_type};
