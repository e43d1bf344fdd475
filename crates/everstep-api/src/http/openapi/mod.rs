//! The OpenAPI 3.1 document of the API, generated from the table of routes. A route without documentation does not
//! compile.
//!
//! * `doc` is the documentation of a route: `doc("runs", "List runs").answers::<Runs>(200)`.
//! * `parameter` describes query parameters, headers and path parameters; query parameters that it does not describe
//!   are rejected.
//! * `document` writes the whole document; `normalize` makes schemas that generators of clients accept.
//!
//! The schemas are those of the types in `wire`, so the document contains every field that is sent.

mod doc;
mod document;
mod normalize;
mod parameter;

pub(crate) use doc::{Doc, KeyPolicy, doc};
pub(crate) use document::{Info, document};
pub(crate) use parameter::Parameter;
