//! The space on the disk of a database.

/// The space of a database, as it was measured last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// The free bytes of the disk; none if the database does not report them.
    pub free_bytes: Option<u64>,
    /// Why new work is refused; none while it is accepted.
    pub refusal: Option<String>,
}
