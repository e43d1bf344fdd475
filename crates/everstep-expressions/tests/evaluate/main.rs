//! The promises of the evaluator, tested through its public interface.

mod check;
mod context;
mod costs;
mod hostile;
mod limits;
mod missing;
mod values;
