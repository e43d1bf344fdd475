//! Runs all scenarios on a database, once, and records the result of each.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;

use everstep_testkit::postgres::Cluster;
use serde::Deserialize;

/// The results of the scenarios.
pub(crate) struct Suite(Vec<Played>);

/// A scenario with one transport.
#[derive(Deserialize)]
struct Played {
    name: String,
    transport: String,
    /// The failure, with the journals.
    problem: Option<String>,
}

pub(crate) fn sqlite() -> &'static Suite {
    static SUITE: OnceLock<Suite> = OnceLock::new();
    SUITE.get_or_init(|| play(&["--store", "sqlite"]))
}

pub(crate) fn postgres() -> &'static Suite {
    static SUITE: OnceLock<Suite> = OnceLock::new();
    SUITE.get_or_init(|| play(&["--store", "postgres", "--database", &Cluster::shared().url("postgres")]))
}

impl Suite {
    /// Fails unless the scenario was played, with each of its transports, and passed.
    #[track_caller]
    pub(crate) fn expect(&self, name: &str) {
        let played: Vec<_> = self.0.iter().filter(|played| played.name == name).collect();
        assert!(!played.is_empty(), "{name} was not played");
        for Played { transport, problem, .. } in played {
            assert!(problem.is_none(), "{name} by {transport}: {}", problem.as_deref().unwrap_or_default());
        }
    }
}

/// Where the scenarios are.
pub(crate) fn folder() -> PathBuf {
    root().join("sdks/conformance")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Plays all scenarios. One suite at a time: each has the machine to itself.
fn play(args: &[&str]) -> Suite {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock();
    build_sdk();
    let place = tempfile::tempdir().unwrap();
    let report = place.path().join("report.json");
    let mut command = Command::new("node");
    command.arg(folder().join("run.mjs")).args(["--server", env!("CARGO_BIN_EXE_everstep"), "--report"]);
    let output = command.arg(&report).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("node cannot be started ({error}): install Node.js 20 or later"));
    let Ok(text) = std::fs::read(&report) else {
        let said = [output.stdout, output.stderr].concat();
        panic!("the runner has made no report: {}", String::from_utf8_lossy(&said));
    };
    Suite(serde_json::from_slice(&text).unwrap())
}

/// Builds the TypeScript SDK, unless it is built from the present files.
fn build_sdk() {
    let folder = root().join("sdks/typescript");
    let built = std::fs::metadata(folder.join("dist/src/index.js")).and_then(|file| file.modified());
    let newest = newest(&folder.join("src")).max(newest(&folder.join("package.json")));
    if built.is_ok_and(|built| built >= newest) {
        return;
    }
    let scripts: &[&[&str]] = &[&["ci", "--silent"], &["run", "--silent", "build"]];
    for script in scripts {
        let output = Command::new("npm").args(*script).current_dir(&folder).output();
        let output =
            output.unwrap_or_else(|error| panic!("npm cannot be started ({error}): install Node.js 20 or later"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`npm {}` in {} has failed: {said}", script.join(" "), folder.display());
    }
}

/// When a file, or any file in a folder, was changed last.
fn newest(path: &Path) -> SystemTime {
    if path.is_dir() {
        let files = std::fs::read_dir(path).unwrap();
        return files.map(|file| newest(&file.unwrap().path())).max().unwrap_or(SystemTime::UNIX_EPOCH);
    }
    std::fs::metadata(path).unwrap().modified().unwrap()
}
