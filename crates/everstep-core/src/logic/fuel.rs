//! The bounds of one evaluation.

use crate::limits;

/// Bytes that are read or written for the price of one operation.
const BYTES_PER_OPERATION: u64 = 64;

/// The work and the memory that an evaluation may still use.
///
/// Work is counted in operations. One operation is a part of a rule that is evaluated, or 64 bytes that are read,
/// compared or written. The time of an evaluation is therefore proportional to the operations that it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fuel {
    /// The operations of the whole evaluation.
    operations: u64,
    /// The remaining work, in bytes: operations in multiples of [`BYTES_PER_OPERATION`].
    work: u64,
    /// The remaining bytes of results.
    bytes: u64,
}

/// The rule needs more operations, bytes of results or levels than one evaluation has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "needs more than {} operations, {} bytes of results or {} levels",
    limits::RULE_OPERATIONS,
    limits::RULE_RESULT_BYTES,
    limits::RULE_LEVELS
)]
pub struct Error;

impl Fuel {
    /// The fuel of one evaluation.
    pub fn full() -> Self {
        Self::with(limits::RULE_OPERATIONS)
    }

    /// The fuel of one evaluation, of which only so many operations are left.
    pub fn with(operations: u64) -> Self {
        let operations = operations.min(limits::RULE_OPERATIONS);
        Self { operations, work: operations * BYTES_PER_OPERATION, bytes: limits::RULE_RESULT_BYTES }
    }

    /// The operations that were used, rounded up.
    pub fn used_operations(&self) -> u64 {
        self.operations - self.work / BYTES_PER_OPERATION
    }

    /// The bytes of results that were used.
    pub fn used_bytes(&self) -> u64 {
        limits::RULE_RESULT_BYTES - self.bytes
    }

    /// Charges for a part of a rule.
    pub(super) fn operate(&mut self) -> Result<(), Error> {
        self.work = self.work.checked_sub(BYTES_PER_OPERATION).ok_or(Error)?;
        Ok(())
    }

    /// Charges for bytes that are about to be read or compared.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), Error> {
        self.work = self.work.checked_sub(bytes as u64).ok_or(Error)?;
        Ok(())
    }

    /// Charges for bytes that are about to be added to a result.
    pub(super) fn write(&mut self, bytes: usize) -> Result<(), Error> {
        self.read(bytes)?;
        self.bytes = self.bytes.checked_sub(bytes as u64).ok_or(Error)?;
        Ok(())
    }

    /// Checks how deep a result is about to be nested.
    pub(super) fn nest(&self, levels: usize) -> Result<(), Error> {
        if levels > limits::RULE_LEVELS { Err(Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuel_is_used_in_proportion_to_the_bytes() {
        let mut fuel = Fuel::full();
        fuel.operate().unwrap();
        fuel.read(640).unwrap();
        fuel.write(64).unwrap();
        assert_eq!((fuel.used_operations(), fuel.used_bytes()), (12, 64));
        assert_eq!(fuel.write(256 * 1024), Err(Error));
        let mut fuel = Fuel::full();
        for _ in 0..limits::RULE_OPERATIONS {
            fuel.operate().unwrap();
        }
        assert_eq!((fuel.operate(), fuel.read(1), fuel.read(0)), (Err(Error), Err(Error), Ok(())));
        assert_eq!(fuel.used_operations(), limits::RULE_OPERATIONS);
    }
}
