//! Reaches out: the one HTTP client for everything that a workflow asks for, and TLS.
//!
//! Addresses that lie inside (loopback, private and such) are refused unless they are allowed by a setting.
