//! Sends HTTP requests.

mod config;
mod handler;
mod host;
mod request;
mod response;

pub(crate) use config::TextValue;
pub use handler::{HttpBounds, HttpHandler};
pub(crate) use host::WrittenHost;
pub(crate) use response::{ERROR_BODY_CHARS_MAX, cut, failure};
