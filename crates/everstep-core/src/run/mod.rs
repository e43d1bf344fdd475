//! A run: the state that its journal folds to, and the decision for each input. Common to all styles.

pub(crate) mod apply;
pub(crate) mod child;
mod children;
mod cx;
pub mod decide;
pub mod delivery;
pub mod inbox;
mod input;
mod key_ring;
pub mod keys;
mod lifecycle;
mod open;
mod phase;
mod state;
pub mod task;

pub use child::{Child, Parent};
pub use cx::Cx;
pub use input::{Input, Reply};
pub(crate) use open::{Activity, Fired, Open, OpenSteps};
pub use open::{OpenActivity, OpenStep};
pub(crate) use phase::Phase;
pub use state::{FoldError, SNAPSHOT_FORMAT, State};
