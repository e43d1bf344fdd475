//! Measures the good workspace beside a misuse, and asserts the promise.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everstep_testkit::neighbours::{Misuse, Neighbours, Pace, settings};

use crate::support::cluster::Site;
use crate::support::{Folder, Server};

/// The promise is that of an optimized build, which `make test-long` plays: most crates of `make test` are not optimized.
const TOLERANCE: u64 = if cfg!(debug_assertions) { 2 } else { 1 };
const RUN_P99_MAX: Duration = Duration::from_millis(500 * TOLERANCE);
const CALL_P99_MAX: Duration = Duration::from_millis(300 * TOLERANCE);
/// The time between two runs, and between two requests.
const INTERVAL: Duration = Duration::from_millis(40);
const ALONE: Pace = Pace { samples: 25, interval: INTERVAL };
const BESIDE: Pace = Pace { samples: 100, interval: INTERVAL };

/// On SQLite. Returns the maximum of the server's resident memory, in MiB.
#[track_caller]
pub(crate) fn holds_beside(misuse: Misuse) -> u64 {
    let _turn = alone();
    let (data, sources) = (Folder::new(), Folder::new());
    let server = start(&["--data", &data.at("data")], &sources, &[]);
    assert_promise(&server, &sources, misuse, "SQLite");
    peak_memory(&server)
}

#[track_caller]
pub(crate) fn holds_on_postgres_beside(misuse: Misuse) {
    let _turn = alone();
    let (site, sources) = (Site::new(), Folder::new());
    let (data, url) = (site.data(), site.database.url());
    let server = start(&["--data", &data], &sources, &[("EVERSTEP_DATABASE_URL", &url)]);
    assert_promise(&server, &sources, misuse, "PostgreSQL");
}

/// Tests of this suite run one at a time: each measures, and uses every core.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start(args: &[&str], sources: &Folder, more: &[(&str, &str)]) -> Server {
    let settings = settings(sources.path());
    let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, &**value)).chain(more.iter().copied()).collect();
    Server::with(args, &settings)
}

#[track_caller]
fn assert_promise(server: &Server, sources: &Folder, misuse: Misuse, store: &str) {
    let neighbours = Neighbours::create(server.address(), server.client().key(), sources.path()).unwrap();
    let alone = neighbours.observe(ALONE).unwrap();
    let (beside, answers) = neighbours.observe_beside(misuse, BESIDE).unwrap();
    let figures = format!(
        "figures: {store}, {}: runs alone {}, beside {}; requests alone {}, beside {}; {} MiB; misuse: {answers}",
        misuse.name(),
        alone.runs,
        beside.runs,
        alone.calls,
        beside.calls,
        peak_memory(server),
    );
    // The test harness does not capture it: the figures of passed tests are of interest too.
    let mut stderr = std::io::stderr();
    writeln!(stderr, "{figures}").unwrap();
    assert_eq!(alone.refusals, Vec::<String>::new(), "requests are refused without a misuse");
    assert!(answers.total() > 0, "nothing was misused: {figures}");
    let refused = beside.refusals.iter().take(5).collect::<Vec<_>>();
    assert!(refused.is_empty(), "{} requests are refused, such as {refused:#?}\n{figures}", beside.refusals.len());
    assert!(beside.runs.p99() < RUN_P99_MAX, "runs are too slow: {figures}");
    assert!(beside.calls.p99() < CALL_P99_MAX, "requests are too slow: {figures}");
}

fn peak_memory(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes / 1_024
}
