//! `/v1/files`: files are uploaded, and read.
//!
//! * `upload` stores the body of a request in chunks; `form` is a body that a browser sends; `uploads` bounds the
//!   uploads of a node.
//! * `download` sends a file or a part of it; `range` and `disposition` are the headers about it.

mod disposition;
mod download;
mod form;
mod range;
mod routes;
mod upload;
mod uploads;
mod wire;

pub(crate) use routes::add;
pub use uploads::{FILE_BYTES_MAX, Uploads};
