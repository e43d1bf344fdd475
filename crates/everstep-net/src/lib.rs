//! Network access: the one HTTP client for everything that workflows connect to, and TLS.
//!
//! Private addresses (loopback, private and reserved networks) are blocked unless a setting allows them.

mod address;
mod client;
mod dial;
mod error;
mod guard;
mod redirect;
mod resolver;
pub mod tls;

pub use client::{Client, OpenResponse, Request, Response};
pub use dial::dial;
pub use error::Error;
pub use guard::{ALLOW_ADDRESSES_VARIABLE, AllowListError, Guard};
pub use redirect::REDIRECTS_MAX;
pub use reqwest::{Method, StatusCode, Url, header};
