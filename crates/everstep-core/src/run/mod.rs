//! A run: the state that its journal folds to, and what is decided when an input arrives. Common to all styles.

mod apply;
pub(crate) mod child;
mod children;
pub mod decide;
pub mod inbox;
mod input;
pub mod keys;
mod state;
pub mod task;

pub use child::{Child, Parent};
pub use input::{Input, Reply};
pub(crate) use state::{Doing, Open, Phase};
pub use state::{Misfit, OpenStep, OpenWhat, State};
