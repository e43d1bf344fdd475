//! The values that a decision receives from outside the run.

use crate::evaluate::Evaluate;
use crate::time::Timestamp;

/// The time of a decision, and the evaluator of its expressions.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    pub now: Timestamp,
    pub evaluate: &'a dyn Evaluate,
}
