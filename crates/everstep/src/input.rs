//! JSON that is given on the command line: the input of a run, or the payload of a signal.

use std::io::Read;

use anyhow::Context;
use everstep_core::limits::PAYLOAD_BYTES;
use everstep_core::payload::Payload;

use crate::exit::invalid;

/// Reads the value of a flag: JSON, `@FILE` or `-`. Only the syntax is checked here; the engine checks the content.
pub fn read(flag: &str, given: &str) -> anyhow::Result<Payload> {
    let (text, source) = match given {
        "-" => {
            let source = format!("{flag} (standard input)");
            (read_all(std::io::stdin().lock(), &source)?, source)
        }
        given => match given.strip_prefix('@') {
            Some(path) => {
                let source = format!("{flag} ({path})");
                let file = std::fs::File::open(path).map_err(|error| invalid(error.to_string()));
                (read_all(file.with_context(|| format!("reading {source}"))?, &source)?, source)
            }
            None => (given.to_owned(), flag.to_owned()),
        },
    };
    Payload::from_json(text)
        .map_err(|error| invalid(format!("{source} is not JSON: {error}; give JSON, @FILE, or - for standard input")))
}

/// Reads at most a little more than the maximum input, so that a wrong file does not fill the memory.
fn read_all(reader: impl Read, source: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    reader
        .take(2 * PAYLOAD_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(|error| invalid(error.to_string()))
        .with_context(|| format!("reading {source}"))?;
    if bytes.len() > PAYLOAD_BYTES {
        return Err(invalid(format!("{source} has more than {PAYLOAD_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| invalid(format!("{source} is not UTF-8: {error}")))
}
