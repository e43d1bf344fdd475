//! JSON Logic: the rules of conditions.
//!
//! A rule is parsed into a tree when its definition is saved ([`Rule::from_condition`]) and evaluated with bounds
//! ([`Rule::judge`]). Evaluation is total and pure: it returns for any rule and any data, it reads no clock, and two
//! evaluations of the same rule on the same data agree.
//!
//! 1. The operators are those of the public specification, with the semantics of JavaScript: [`operator`] lists them.
//! 2. NaN and the infinities are null, and null is false. `<`, `<=`, `>` and `>=` are false for such a null.
//! 3. Every part that is evaluated uses [`Fuel`], and so does every byte that is read, compared or written. A rule that
//!    needs more than a full [`Fuel`] does not hold.
//! 4. A variable that the caller supplies (`$user`) is visible at every level of a rule, and data cannot replace it.

mod coerce;
mod compare;
mod datum;
mod evaluate;
mod explain;
mod fuel;
mod lists;
pub mod operator;
mod parse;
mod rule;
mod texts;

pub use explain::Explanation;
pub use fuel::{Error, Fuel};
pub use operator::Operator;
pub use rule::{FieldReference, Rule, RuleInput, VARIABLES, Verdict};

/// Codes of the problems of a condition, and of the reasons why it does not hold.
pub mod code {
    pub const CONDITION_FAILED: &str = "CONDITION_FAILED";
    pub const CONDITION_NOT_JSON_LOGIC: &str = "CONDITION_NOT_JSON_LOGIC";
    pub const CONDITION_TOO_COSTLY: &str = "CONDITION_TOO_COSTLY";
    pub const CONDITION_TOO_LARGE: &str = "CONDITION_TOO_LARGE";
    pub const CONDITION_UNKNOWN_OPERATOR: &str = "CONDITION_UNKNOWN_OPERATOR";
}
