//! `/v1/schemas`: the file formats of workflows, as JSON Schemas for editors.

mod routes;

pub(crate) use routes::add;
