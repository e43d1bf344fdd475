//! Evaluates expressions and templates over a run's context.
//!
//! One language: minijinja's expressions, in `{{ … }}` inside strings and in `{"$expr": "…"}`. It has no statements, no
//! functions and no access to anything except the values it is given. The core defines the variables and decides when
//! an expression is evaluated.
//!
//! The limits of an expression; the instructions of the library limit neither built-ins nor memory:
//!
//! 1. Its source has at most 64 KiB and 512 operators, so that neither parsing nor evaluation nests deeply.
//! 2. The values that it reads have at most 1 MiB together.
//! 3. The bytes that `+` and `~` could copy, estimated from the number of these operators, are at most 64 MiB.
//! 4. `*` multiplies numbers only: every operand is checked before it is used, so text and lists are never repeated.
//! 5. Every filter that can lengthen a text stops at 256 KiB, and so does the result.
//! 6. A panic inside the library is an error of the expression.
//! 7. Filters, operators and conversions use fuel in proportion to the bytes and items that they read (`fuel.rs` has the
//!    prices). An expression that needs more than its fuel is ended, and fails with `EXPRESSION_TOO_COSTLY`.

mod cache;
mod convert;
mod environment;
mod expressions;
mod filters;
mod fuel;
mod inputs;
mod metered;
mod operands;
mod path;
mod position;
mod program;
mod scan;
mod template;
mod token;
mod walk;

pub use expressions::Expressions;

/// Bytes of one expression's source.
pub const SOURCE_BYTES_MAX: usize = 64 * 1024;
/// Operators, brackets, dots and words like `and` in one expression.
pub const OPERATORS_MAX: usize = 512;
/// Bytes of the values that one computed expression may read, approximately as JSON.
pub const INPUT_BYTES_MAX: usize = 1024 * 1024;
/// Bytes that one computed expression may copy to join texts and lists.
pub const COPIED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Bytes of the result of one computed expression. A plain path may give more.
pub const OUTPUT_BYTES_MAX: usize = 256 * 1024;
