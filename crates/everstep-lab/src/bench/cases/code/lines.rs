//! What a process says, line by line.

use std::io::{BufRead, BufReader, Read};

use tokio::sync::mpsc;

/// Reads in a thread of its own until the process closes its end. Lines are kept until they are asked for.
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
