//! `/v1/namespaces`: the namespaces of records and links, their changes and their transactions.

mod changes;
mod empty;
mod list;
mod routes;
mod transact;
mod wire;

pub(crate) use routes::add;
