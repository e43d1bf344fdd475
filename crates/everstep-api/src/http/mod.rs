//! HTTP itself: it knows nothing of workflows.
//!
//! * `listen` accepts connections, `connections` bounds their number, `framing` finds requests whose length is
//!   ambiguous; `table` holds the rows of routes.
//! * `query`, `headers` and `body` read a request, `page` reads which part of a list it asks for; unknown content is
//!   rejected.
//! * `problem` is the response to a request that cannot be served; `deadline` bounds the wait for a write;
//!   `compress` compresses JSON.
//! * `openapi` makes a document of the table, `docs` is the page that shows it; `schema` and `time` hold types that the
//!   wire types of many resources use.

pub(crate) mod body;
pub(crate) mod compress;
mod connections;
pub(crate) mod deadline;
pub(crate) mod docs;
mod framing;
pub(crate) mod headers;
pub(crate) mod listen;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod problem;
pub(crate) mod query;
pub(crate) mod schema;
pub(crate) mod table;
pub(crate) mod time;
