//! How a command ends: its exit code, and its error message.

use std::fmt;
use std::process::ExitCode;

use crate::output::OutputClosed;

/// The run failed or was cancelled.
pub const FAILED: u8 = 1;
/// An argument is invalid: a file, an input, a setting.
const INVALID: u8 = 2;
/// The command could not do its work: the data folder, the port, the database.
const ERROR: u8 = 3;
/// The run is paused: it continues only after `everstep resume`.
pub(crate) const PAUSED: u8 = 4;
/// The command was interrupted before its end.
pub const INTERRUPTED: u8 = 130;

/// An invalid argument, and the reason. It is the first in the chain of an error.
#[derive(Debug)]
pub(crate) struct Invalid(pub(crate) String);

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Invalid {}

/// An error about an invalid argument.
pub fn invalid(message: impl Into<String>) -> anyhow::Error {
    Invalid(message.into()).into()
}

/// Prints an error for a person and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    // The reader has closed the output because it needs no more: `everstep runs | head -1`.
    if error.downcast_ref::<OutputClosed>().is_some() {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {error:#}");
    ExitCode::from(if error.downcast_ref::<Invalid>().is_some() { INVALID } else { ERROR })
}
