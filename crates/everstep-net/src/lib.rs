//! Reaches out: the one HTTP client for everything that a workflow asks for, and TLS.
//!
//! Addresses that lie inside (loopback, private and such) are refused unless they are allowed by a setting.

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
