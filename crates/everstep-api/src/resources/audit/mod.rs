//! `/v1/audit`: the audit rows of a workspace. The folder `crate::audit` writes them.

mod list;
mod routes;
mod wire;

pub(crate) use routes::add;
