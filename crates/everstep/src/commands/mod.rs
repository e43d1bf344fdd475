//! One file per subcommand.

pub(crate) mod client;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod keys;
pub(crate) mod nodes;
pub(crate) mod openapi;
pub(crate) mod run;
pub(crate) mod secrets;
pub(crate) mod serve;
pub(crate) mod validate;
pub(crate) mod workspaces;
