//! Work that no run asks for: deleting data that has aged out, and maintaining totals.

pub(crate) mod counts;
pub(crate) mod sweep;
