//! Two workspaces of one server: one misuses the server, the other observes how long its own runs and requests take.
//!
//! The suite `neighbours` of `everstep` asserts the promise for each misuse, and the case `neighbours` of the benchmark
//! compares the durations with those of a workspace alone.
//!
//! * `good` starts runs and sends requests at a steady rate, and measures them.
//! * `attack` is the tool of the misuses: connections that send requests until the misuse is over.
//! * `misuse` is the list; each misuse is a function of a file in `misuses`.

mod attack;
mod good;
mod misuse;
mod misuses;
mod samples;
mod site;

pub use attack::MisuseAnswers;
pub use good::{Observation, Pace};
pub use misuse::Misuse;
pub use samples::Samples;
pub use site::{Neighbours, settings};
