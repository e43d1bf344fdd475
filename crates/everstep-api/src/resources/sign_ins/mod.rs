//! `/v1/sign-in-codes` and `/v1/sign-ins`: one-time links, by which browsers receive keys of their own.

mod codes;
mod routes;
mod sign_in;
mod wire;

pub(crate) use routes::add;
