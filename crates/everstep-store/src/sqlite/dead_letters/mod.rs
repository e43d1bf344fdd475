//! Dead letters.

mod insert;

pub(super) use insert::insert;
