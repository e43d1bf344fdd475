//! Metrics for Prometheus.
//!
//! * `meters` observes the commits of the engine; `transitions` are attempts of people, `records` are ops
//!   of the data store, `topics` are events, `dead_letters` are side effects and dead letters.
//! * `labels` bounds the number of series, whatever the names of workflows are.
//! * `page` returns everything at `/metrics`.

mod dead_letters;
mod labels;
mod meters;
mod page;
mod records;
mod routes;
mod topics;
mod transitions;

pub use meters::Meters;
pub use page::serve as serve_metrics;
pub(crate) use routes::add;
pub(crate) use transitions::AttemptOutcome;
