//! Namespaces in the API.

mod change;
mod namespace;
mod transact;

pub(super) use change::{Change, Changes};
pub(super) use namespace::{EmptiedNamespace, Namespace, Namespaces};
pub(super) use transact::{TransactRequest, Transaction};
