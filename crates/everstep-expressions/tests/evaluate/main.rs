//! What the evaluator promises, seen from outside.

mod check;
mod context;
mod hostile;
mod limits;
mod missing;
mod values;
