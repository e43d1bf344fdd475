//! Promises that all ports share.

pub mod texts;
