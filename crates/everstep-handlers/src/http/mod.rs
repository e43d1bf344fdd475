//! Asks a server over HTTP.

mod answer;
mod config;
mod handler;
mod request;

pub use handler::Http;
