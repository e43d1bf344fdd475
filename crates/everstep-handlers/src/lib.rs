//! Acts on the outside world: one file per kind of node.

mod handler;

pub use handler::{Description, Handler, Report, Task};
