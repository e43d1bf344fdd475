//! Sends HTTP requests.

mod config;
mod handler;
mod host;
mod request;
mod response;

pub use handler::{HttpBounds, HttpHandler};
