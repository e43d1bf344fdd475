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
    let figures = quick("code-socket");
    assert_eq!(figures[0]["metric"], "perStepP50");
    let commits = value(&figures, "code-socket", "commitsPerRun");
    assert!((11.0..30.0).contains(&commits), "{figures}");
}

/// Each sample starts another server on the filled database.
#[test]
fn the_benchmark_measures_steps_among_ended_runs_on_postgresql() {
    let figures = quick_with("code-http", &["--store", "postgres", "--runs-before", "100"]);
    assert!(value(&figures, "code-http", "amongOfEmpty") > 0.0, "{figures}");
}

#[test]
fn the_benchmark_starts_a_workflow_that_no_worker_has_registered() {
    let figures = quick("code-starts");
    let rate = figures.as_array().unwrap().iter().find(|figure| figure["metric"] == "unservedStartsPerSecond");
    assert!(rate.unwrap()["value"].as_f64().unwrap() > 0.0, "{figures}");
}

#[test]
fn the_benchmark_measures_a_client_and_the_first_runs_of_a_worker() {
    let figures = quick("code-client,code-first");
    for (case, metric) in [
        ("code-client", "ofBatch"),
        ("code-first", "firstFan"),
        ("code-first", "firstClientFan"),
        ("code-first", "firstRunsPerStep"),
    ] {
        assert!(value(&figures, case, metric) > 0.0, "{metric} of {case}");
    }
}

#[test]
fn the_benchmark_measures_lists_and_a_search() {
    let figures = quick("lists");
    for metric in ["failedP50", "errorCodeP50", "searchP50", "bytesPerRun"] {
        assert!(value(&figures, "lists", metric) > 0.0, "{metric}");
    }
    assert_eq!(value(&figures, "lists", "searchRequests"), 1.0, "{figures}");
}

/// The parts of case machine, except for the conditions, which need no server. Race fails unless exactly one of its
/// requests succeeds.
#[test]
fn the_benchmark_approves_runs_of_a_state_machine() {
    let figures = quick(
        "machine-latency,machine-load,machine-race,machine-review,machine-growth,machine-webhooks,machine-hung,\
         machine-letters,machine-files",
    );
    for (case, metric) in [
        ("machine-latency", "transitionOfCommit"),
        ("machine-latency", "pacedP95"),
        ("machine-load", "transitionsPerSecond"),
        ("machine-load", "transitionsOfStarts"),
        ("machine-race", "lastAnswerP95"),
        ("machine-review", "serverRss"),
        ("machine-growth", "lateOfEarly"),
        ("machine-webhooks", "deliveriesPerSecond"),
        ("machine-hung", "besideOfQuiet"),
        ("machine-hung", "deliveriesOfQuiet"),
        ("machine-letters", "pageP95"),
        ("machine-letters", "requeuesPerSecond"),
        ("machine-files", "mebibytesPerSecond"),
        ("machine-files", "besideOfQuiet"),
    ] {
        assert!(value(&figures, case, metric) > 0.0, "{figures}");
    }
}

#[test]
fn the_benchmark_measures_the_data_store() {
    let figures = quick("store");
    let rates = [
        ("store-limit", "opsPerSecond"),
        ("store-nodes", "nodesPerSecond"),
        ("store-latency", "nodeOfCommit"),
        ("store-one-key", "oneOfMany"),
        ("store-http", "httpOfDirect"),
        ("store-size", "manyOfFew"),
        ("store-idle", "rss"),
    ];
    for (case, metric) in rates {
        assert!(value(&figures, case, metric) > 0.0, "{metric} of {case}");
    }
    assert_eq!(value(&figures, "store-size", "records"), 20_000.0);
}

#[test]
fn the_benchmark_measures_events() {
    let figures = quick("events");
    let budgeted = [
        ("events-wait", "answeredOfCommit"),
        ("events-size", "manyOfFew"),
        ("events-shapes", "eightOfOne"),
        ("events-shapes", "sixtyFourOfOne"),
        ("events-publish", "publishesOfStore"),
        ("events-subscriptions", "triggeredOfCalled"),
        ("events-waits", "resolvedPerSecond"),
        ("events-start", "startedOfCommit"),
        ("events-http", "publishesPerSecond"),
    ];
    for (case, metric) in budgeted {
        assert!(value(&figures, case, metric) > 0.0, "{metric} of {case}");
    }
}

#[test]
fn the_benchmark_measures_a_workspace_beside_one_that_misuses_the_server() {
    let figures = quick("neighbours-tickets");
    let metrics: Vec<_> = figures.as_array().unwrap().iter().map(|figure| &figure["metric"]).collect();
    assert_eq!(
        metrics,
        ["runAloneP99", "runP99", "callAloneP99", "callP99", "ofAlone", "ofPromise", "refused"],
        "{figures}"
    );
    assert!(figures[5]["value"].as_f64().unwrap() > 0.0, "{figures}");
}

/// One of the figures.
fn value(figures: &serde_json::Value, case: &str, metric: &str) -> f64 {
    let mut list = figures.as_array().unwrap().iter();
    let figure = list.find(|figure| figure["case"] == case && figure["metric"] == metric);
    figure.unwrap_or_else(|| panic!("no {metric} of {case}: {figures}"))["value"].as_f64().unwrap()
}

/// The figures of some cases, measured as briefly as possible.
fn quick(cases: &str) -> serde_json::Value {
    quick_with(cases, &[])
}

/// The same with further arguments.
fn quick_with(cases: &str, further: &[&str]) -> serde_json::Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Folder::new();
    let mut bench = lab();
    bench.current_dir(root).args(["bench", cases, "--quick", "--json"]).args(further).arg("--data").arg(folder.path());
    let output: CommandOutput = bench.output().unwrap().into();
    output.exits(0).json()
}
