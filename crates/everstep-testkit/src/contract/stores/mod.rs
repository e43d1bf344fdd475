//! Promises that all ports share.

pub mod search;
pub mod texts;
