//! The store contract, the simulator and fixtures: how Everstep proves its promises.

pub mod contract;
pub mod issuer;
pub mod postgres;
pub mod sim;
pub mod tidy;
