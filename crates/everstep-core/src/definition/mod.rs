//! Definitions of workflows as users write them: the code that the readers of all styles share.

mod compile;
mod fields;
mod options;
mod problem;
mod retry;
pub(crate) mod secrets;

pub use compile::{compile, load};
pub(crate) use fields::{Fields, escape, name_of};
pub(crate) use options::{DESCRIPTION_CHARS, NAME_CHARS, check_length, insert, read_options};
pub use problem::{Problem, nearest};
pub(crate) use retry::read_retry;

/// Number of problems up to which the nearest names are searched: a definition may be large and wrong everywhere.
pub(crate) const HINTED_PROBLEMS_MAX: usize = 20;

/// Why a definition is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Care {
    Saving,
    Loading,
}

impl Care {
    pub(crate) fn is_saving(self) -> bool {
        self == Self::Saving
    }
}
