//! An identity provider for tests: signs tokens and serves its keys over HTTP. It can rotate its keys, hang, answer
//! with an error, and stop.

mod server;
mod signing_key;

pub use server::{Issuer, IssuerMode};
pub use signing_key::SigningKey;
