//! The misuses, by the resource that they use up.

pub(super) mod connections;
pub(super) mod decisions;
pub(super) mod load;
pub(super) mod tasks;
pub(super) mod writes;
