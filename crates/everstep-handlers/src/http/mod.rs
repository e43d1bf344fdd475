//! Asks a server over HTTP.

mod config;
mod handler;
mod request;
mod response;

pub use handler::HttpHandler;
