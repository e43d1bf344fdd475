//! `everstep sim`: the engine under seeded faults.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use everstep_testkit::sim::{self, Failure, Options, Report};
use serde_json::json;

use crate::args::SimArgs;
use crate::{exit, output};

pub(crate) fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    let (first, count) = match args.seed {
        Some(seed) => (seed, 1),
        None => (args.from, args.seeds),
    };
    let options = Options { nodes: args.nodes.map(usize::from), code: args.code, ..Options::default() };
    let began = Instant::now();
    let (total, failures) = play_all(first, count, &options);
    for failure in &failures {
        eprintln!("{failure}");
    }
    let Total { seeds, runs, entries, crashes, fenced, faults } = total;
    output::print(json!({
        "seeds": seeds,
        "failures": failures.len(),
        "runs": runs,
        "entries": entries,
        "crashes": crashes,
        "fenced": fenced,
        "faults": faults,
        "seconds": (began.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0,
    }))?;
    Ok(ExitCode::from(if failures.is_empty() { 0 } else { exit::FAILED }))
}

#[derive(Default)]
struct Total {
    seeds: u64,
    runs: usize,
    entries: usize,
    crashes: u64,
    fenced: usize,
    faults: u64,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.runs += report.runs;
        self.entries += report.entries;
        self.crashes += u64::from(report.crashes);
        self.fenced += report.fenced;
        self.faults += u64::from(report.faults);
    }
}

/// Plays seeds on all cores until one fails or all are played. On threads of their own: inside a runtime tokio would
/// have a say in who goes first.
fn play_all(first: u64, count: u64, options: &Options) -> (Total, Vec<Failure>) {
    let next = AtomicU64::new(0);
    let has_failed = AtomicBool::new(false);
    let found = Mutex::new((Total::default(), Vec::new()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !has_failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let played = sim::play(first.saturating_add(number), options);
                    let mut found = found.lock().expect("no holder of the lock panics");
                    match played {
                        Ok(report) => found.0.add(&report),
                        Err(failure) => {
                            has_failed.store(true, Ordering::Relaxed);
                            // Played again with its trace: a seed replays exactly.
                            let again = sim::play(failure.seed, &Options { has_trace: true, ..options.clone() });
                            found.1.push(*again.err().unwrap_or(failure));
                        }
                    }
                }
            });
        }
    });
    found.into_inner().expect("no holder of the lock panics")
}
