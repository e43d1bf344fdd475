//! `everstep-lab bench`: the limit of the store on this machine, and the part of it that the engine reaches.
//!
//! * `cases` measure; each is a file. `ground` gives them a fresh store and an engine, `drive` keeps runs in flight,
//!   `journals` reads the durations of steps from the entries, `remote` serves HTTP.
//! * `figure` is a result, `report` prints it, `budgets` compares it with our promises.

mod args;
mod budgets;
mod cases;
mod drive;
mod figure;
mod ground;
mod journals;
mod process;
mod remote;
mod report;
mod run;
mod shapes;
mod usage;

use everstep_testkit::connection;

pub(crate) use args::Args;
pub(crate) use run::run;
