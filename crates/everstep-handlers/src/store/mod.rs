//! Steps that read and write records: JSON values that outlive their run. One file per kind.
//!
//! * `handler`: performs these kinds and those of links.
//! * `fields`: parts of their schemas.

mod delete;
pub(crate) mod fields;
mod get;
mod handler;
mod increment;
mod list;
mod list_namespaces;
mod set;
mod transact;

pub use handler::RecordHandler;
pub(crate) use handler::{RecordKind, RecordStep};

pub(crate) fn kinds() -> Vec<RecordKind> {
    vec![
        get::kind(),
        set::kind(),
        delete::kind(),
        increment::kind(),
        list::kind(),
        list_namespaces::kind(),
        transact::kind(),
    ]
}
