//! Counts the work of a decision.
//!
//! The core has no clock, so work is counted as fuel: a unit is about one nanosecond of the machine on which the prices
//! were measured. A meter limits nothing itself.
//!
//! 1. Expressions, conditions and filters charge the meter for the bytes and the items that they read.
//! 2. A *part* of a decision is work that cannot be divided: an input, the comparison of an event with one wait, or the
//!    next step of a run. It may use [`limits::DECISION_FUEL`]; an expression beyond that fails. The fuel that a part may
//!    use does not depend on the parts before it, so a run has the same entries however its items are divided.
//! 3. A decision that has used [`limits::DECISION_FUEL`] ends after the part in progress.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::failure::{Failure, code};
use crate::limits;

/// The fuel that a decision has used.
#[derive(Debug, Default)]
pub struct Meter {
    used: AtomicU64,
    /// The fuel that was used before the present part.
    before_part: AtomicU64,
}

impl Meter {
    pub fn new() -> Self {
        Self::default()
    }

    /// The fuel that was used so far.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Charges for work that was done.
    pub fn charge(&self, fuel: u64) {
        // One thread decides; the type is atomic only because evaluators are shared.
        self.used.store(self.used().saturating_add(fuel), Ordering::Relaxed);
    }

    /// Begins work that cannot be divided.
    pub fn begin_part(&self) {
        self.before_part.store(self.used(), Ordering::Relaxed);
    }

    /// The fuel that the present part may still use.
    pub fn left_for_part(&self) -> u64 {
        limits::DECISION_FUEL.saturating_sub(self.used() - self.before_part.load(Ordering::Relaxed))
    }

    /// Whether the decision has used its fuel, and ends after the present part.
    pub fn is_spent(&self) -> bool {
        self.used() >= limits::DECISION_FUEL
    }

    /// Charges for a comparison outside of expressions. It fails if the part has used its fuel.
    pub(crate) fn charge_comparison(&self, fuel: u64) -> Result<(), Failure> {
        self.charge(fuel);
        if self.left_for_part() > 0 {
            return Ok(());
        }
        let most = limits::DECISION_FUEL / limits::FUEL_PER_MS;
        let message = format!("the conditions of the step need more than {most} ms of work");
        Err(Failure::fatal(code::EXPRESSION_TOO_COSTLY, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuel_of_a_part_does_not_depend_on_the_parts_before_it() {
        let meter = Meter::new();
        meter.begin_part();
        meter.charge(limits::DECISION_FUEL - 1);
        assert!(!meter.is_spent());
        assert_eq!(meter.left_for_part(), 1);
        meter.begin_part();
        assert_eq!(meter.left_for_part(), limits::DECISION_FUEL);
        meter.charge(u64::MAX);
        assert!(meter.is_spent());
        assert_eq!((meter.left_for_part(), meter.used()), (0, u64::MAX));
    }
}
