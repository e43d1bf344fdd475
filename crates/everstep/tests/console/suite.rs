//! Runs all scenarios and records the result of each: once, or as often as EVERSTEP_CONSOLE_REPEATS says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use everstep_testkit::postgres::Cluster;
use serde::Deserialize;

/// The results of the scenarios, of each repetition.
pub(crate) struct Suite {
    reports: Vec<Report>,
}

/// The report of Vitest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    test_results: Vec<ScenarioFile>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScenarioFile {
    name: String,
    /// Why no scenario of the file was played.
    message: String,
    assertion_results: Vec<Scenario>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Scenario {
    title: String,
    status: String,
    failure_messages: Vec<String>,
}

pub(crate) fn shared() -> &'static Suite {
    static SUITE: OnceLock<Suite> = OnceLock::new();
    SUITE.get_or_init(|| Suite { reports: (0..repeats()).map(|_| play()).collect() })
}

impl Suite {
    /// Fails unless the scenario was played and passed, in each repetition.
    #[track_caller]
    pub(crate) fn expect(&self, name: &str) {
        let all = self.reports.len();
        for (report, number) in self.reports.iter().zip(1..) {
            report.expect(name, &format!("{name}, repetition {number} of {all}"));
        }
    }

    pub(crate) fn names(&self) -> BTreeSet<&str> {
        self.reports.iter().flat_map(Report::scenarios).map(|scenario| &*scenario.title).collect()
    }
}

impl Report {
    #[track_caller]
    fn expect(&self, name: &str, what: &str) {
        let Some(scenario) = self.scenarios().find(|scenario| scenario.title == name) else {
            let files = self.test_results.iter().filter(|file| !file.message.is_empty());
            let said: Vec<_> = files.map(|file| format!("{}: {}", file.name, file.message)).collect();
            panic!("{what}: it was not played; {}", said.join("\n"));
        };
        assert_eq!(scenario.status, "passed", "{what}: {}", scenario.failure_messages.join("\n"));
    }

    fn scenarios(&self) -> impl Iterator<Item = &Scenario> {
        self.test_results.iter().flat_map(|file| &file.assertion_results)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console").canonicalize().unwrap()
}

fn repeats() -> usize {
    let Ok(text) = std::env::var("EVERSTEP_CONSOLE_REPEATS") else { return 1 };
    text.parse().unwrap_or_else(|error| panic!("EVERSTEP_CONSOLE_REPEATS is {text:?}: {error}"))
}

fn play() -> Report {
    let server = env!("CARGO_BIN_EXE_everstep");
    let details = Command::new(server).args(["--version", "--verbose"]).output().unwrap();
    let details = String::from_utf8(details.stdout).unwrap();
    assert!(!details.contains("console: none"), "this build is without the console: `make console`, then build again");
    install();
    let place = tempfile::tempdir().unwrap();
    let report = place.path().join("report.json");
    let mut command = Command::new("node");
    command.args(["node_modules/vitest/vitest.mjs", "run", "--config", "e2e/vitest.config.ts", "--reporter", "json"]);
    command.arg("--outputFile").arg(&report).env("EVERSTEP_BINARY", server).current_dir(folder());
    // For the scenarios of several nodes.
    let database = Cluster::shared().database();
    command.env("EVERSTEP_E2E_DATABASE", database.url());
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("node cannot be started ({error}): install Node.js 20 or later"));
    let Ok(text) = std::fs::read(&report) else {
        let said = [output.stdout, output.stderr].concat();
        panic!("the runner has made no report: {}", String::from_utf8_lossy(&said));
    };
    serde_json::from_slice(&text).unwrap()
}

/// Installs the packages of the scenarios, unless they are there. `make console` installs only those of the build.
fn install() {
    if folder().join("node_modules/playwright-core").is_dir() {
        return;
    }
    let output = Command::new("npm").args(["ci", "--silent"]).current_dir(folder()).output();
    let output = output.unwrap_or_else(|error| panic!("npm cannot be started ({error}): install Node.js 20 or later"));
    assert!(output.status.success(), "`npm ci` in console has failed: {}", String::from_utf8_lossy(&output.stderr));
}
