//! The output of a process, line by line.

use std::io::{BufRead, BufReader, Read};

use tokio::sync::mpsc;

/// Reads in a separate thread until the process closes its output. Lines are kept until they are read.
pub(super) fn read_lines(output: impl Read + Send + 'static) -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
