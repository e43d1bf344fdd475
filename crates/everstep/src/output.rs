//! Standard output: the result of a command, and nothing else.

use std::fmt;
use std::io::{self, ErrorKind, Write};

use anyhow::Context;

/// The reader of standard output has closed it.
#[derive(Debug)]
pub(crate) struct OutputClosed;

impl fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for OutputClosed {}

/// Prints a part of a command's result, with a line end.
pub fn print(result: impl fmt::Display) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{result}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(OutputClosed.into()),
        written => written.context("printing the result"),
    }
}
