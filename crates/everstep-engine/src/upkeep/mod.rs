//! Work that no run requests: deleting expired data, and maintaining totals.

pub(crate) mod counts;
pub(crate) mod sweep;
