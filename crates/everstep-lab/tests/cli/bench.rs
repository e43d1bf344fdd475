//! `everstep-lab bench`: how it finds the server that it measures.

use crate::support::{Folder, Told, program};

#[test]
fn a_missing_server_is_reported_with_the_command_that_builds_it() {
    let folder = Folder::new();
    let lab = folder.path().join("everstep-lab");
    std::fs::copy(env!("CARGO_BIN_EXE_everstep-lab"), &lab).unwrap();
    let told: Told = program(&lab).args(["bench", "code-starts", "--quick"]).output().unwrap().into();
    told.exits(3).says("does not exist").says("-p everstep -p everstep-lab");
}
