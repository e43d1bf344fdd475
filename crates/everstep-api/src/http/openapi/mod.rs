//! The document of the API, OpenAPI 3.1, made from the table of routes: a route without its text cannot be added.
//!
//! * `doc` is what the table says about a route: `doc("runs", "List runs").answers::<Runs>(200)`.
//! * `parameter` describes query parameters, headers and places in a path; the same list tells which are refused.
//! * `document` writes the whole; `normalize` makes schemas that generators of clients accept.
//!
//! The schemas are those of the types in `wire`, so a field cannot be sent without standing in the document.

mod doc;
mod document;
mod normalize;
mod parameter;

pub(crate) use doc::{Doc, doc};
pub(crate) use document::{Info, document};
pub(crate) use parameter::Parameter;
