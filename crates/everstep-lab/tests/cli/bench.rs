//! `everstep-lab bench`: how it finds the server that it measures, and its worker.

use std::path::Path;

use crate::lab;
use crate::support::{CommandOutput, Folder, program};

#[test]
fn a_missing_server_is_reported_with_the_command_that_builds_it() {
    let folder = Folder::new();
    let lab = folder.path().join("everstep-lab");
    std::fs::copy(env!("CARGO_BIN_EXE_everstep-lab"), &lab).unwrap();
    let output: CommandOutput = program(&lab).args(["bench", "code-starts", "--quick"]).output().unwrap().into();
    output.exits(3).says("does not exist").says("-p everstep -p everstep-lab");
}

/// The worker of the benchmark observes private methods of the SDK, so a change of the SDK can break it.
#[test]
fn the_worker_of_the_benchmark_works_with_the_sdk() {
    assert_eq!(quick("code-socket")[0]["metric"], "perStepP50");
}

#[test]
fn the_benchmark_starts_a_workflow_that_no_worker_has_registered() {
    let figures = quick("code-starts");
    let rate = figures.as_array().unwrap().iter().find(|figure| figure["metric"] == "unservedStartsPerSecond");
    assert!(rate.unwrap()["value"].as_f64().unwrap() > 0.0, "{figures}");
}

/// The figures of one case, measured as briefly as possible.
fn quick(case: &str) -> serde_json::Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Folder::new();
    let mut bench = lab();
    bench.current_dir(root).args(["bench", case, "--quick", "--json", "--data"]).arg(folder.path());
    let output: CommandOutput = bench.output().unwrap().into();
    output.exits(0).json()
}
