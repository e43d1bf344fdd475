//! The binary `everstep-lab` as a user runs it, with real processes and databases.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod bench;
mod crash;
mod documents;
mod load;
#[path = "../../../everstep/tests/support/mod.rs"]
#[expect(dead_code, reason = "each suite uses a part of it")]
mod support;

use std::path::Path;
use std::process::Command;

use crate::support::CommandOutput;

/// The binary, without the settings of the environment in which the tests run.
fn lab() -> Command {
    support::program(Path::new(env!("CARGO_BIN_EXE_everstep-lab")))
}

fn call_lab(args: &[&str]) -> CommandOutput {
    lab().args(args).output().unwrap().into()
}
