//! The one thing that a command prints on standard output: its result, as one line.

use std::io::{self, Write};

use anyhow::Context;

/// Prints a command's result. A reader that has gone away is trouble, not a crash.
pub fn print(result: impl std::fmt::Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{result}").and_then(|()| stdout.flush()).context("printing the result")
}
