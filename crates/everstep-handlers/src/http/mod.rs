//! Asks a server over HTTP.

mod config;
mod handler;
mod host;
mod request;
mod response;

pub use handler::HttpHandler;
