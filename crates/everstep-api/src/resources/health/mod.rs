//! `/livez` and `/readyz`: liveness and readiness probes.

mod probe;
mod routes;
mod wire;

pub(crate) use routes::add;
