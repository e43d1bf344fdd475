//! `everstep-lab bench`: what this machine's store can do, and how much of it the engine leaves to its users.
//!
//! * `cases` measure; each is a file of its own. `ground` gives them a fresh store and an engine,
//!   `drive` keeps runs in flight, `journals` tells from what was written how long the steps took.
//! * `figure` is what was measured, `report` shows it, `budgets` compares it with what we promise.

mod args;
mod budgets;
mod cases;
mod connection;
mod drive;
mod figure;
mod ground;
mod journals;
mod process;
mod report;
mod run;
mod shapes;
mod usage;

pub(crate) use args::Args;
pub(crate) use run::run;
