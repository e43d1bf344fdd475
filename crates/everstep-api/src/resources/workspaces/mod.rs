//! `/v1/workspaces`: tenants and their options.

mod manage;
mod routes;
mod wire;

pub(crate) use manage::only_for_the_default;
pub use manage::{check_workspace_name, first_key};
pub(crate) use routes::add;
