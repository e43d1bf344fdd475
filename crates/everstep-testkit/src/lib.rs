//! The store contract, the simulator and fixtures: the proofs of Everstep's promises.

pub mod connection;
pub mod contents;
pub mod contract;
pub mod held;
pub mod issuer;
pub mod neighbours;
pub mod postgres;
pub mod sim;
pub mod smtp_server;
pub mod snapshot;
pub mod tidy;
pub mod webhook_target;
pub mod words;
