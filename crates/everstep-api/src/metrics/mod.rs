//! What is counted and measured, for Prometheus.
//!
//! * `meters` sees what the engine commits.
//! * `labels` keeps the number of series bounded, whatever workflows are called.
//! * `page` shows everything at `/metrics`.

mod labels;
mod meters;
mod page;
mod routes;

pub use meters::Meters;
pub use page::serve as serve_metrics;
pub(crate) use routes::add;
