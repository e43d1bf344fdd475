//! Promises of [`everstep_store::RunStore`].

pub mod claims;
pub mod commit;
pub mod counts;
pub mod filters;
pub mod forks;
pub mod formats;
pub mod inbox;
pub mod machines;
pub mod nodes;
pub mod reads;
pub mod side;
pub mod starts;
pub mod sweep;
pub mod tick;
pub mod waits;
