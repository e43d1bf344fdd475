//! `everstep-lab sim`: the engine under seeded faults.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use everstep::{exit, output};
use everstep_testkit::sim::{self, Options, SeedFailure, SeedSummary};
use serde_json::json;

/// Play the engine on a virtual clock with crashes, lost and duplicated replies, delays and clock jumps.
///
/// One server alone crashes and starts again. Several on one database are also suspended, lose the connection to it or
/// to each other, and disagree about the time.
///
/// A seed decides everything, so a failure is reported as a seed and reproduced with --seed and --nodes. Prints a
/// summary on standard output as one JSON document, and exits with 1 if a seed failed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  everstep-lab sim --seeds 20000\n  everstep-lab sim --nodes 3 --seed 8113")]
pub(crate) struct Args {
    /// Play only this seed.
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "from"])]
    pub(crate) seed: Option<u64>,

    /// The number of seeds to play.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) seeds: u64,

    /// The first seed.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from: u64,

    /// The number of servers that share the database; 1 is one alone [default: the seed decides, up to 4].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) nodes: Option<u8>,

    /// Whether workers run code workflows [default: the seed decides].
    #[arg(long, value_name = "BOOL")]
    pub(crate) code: Option<bool>,

    /// Whether persons act on machines [default: the seed decides].
    #[arg(long, value_name = "BOOL")]
    pub(crate) machines: Option<bool>,

    /// Whether graphs and clients write records and links [default: the seed decides].
    #[arg(long, value_name = "BOOL")]
    pub(crate) records: Option<bool>,

    /// Whether clients publish events, and graphs wait for them [default: the seed decides].
    #[arg(long, value_name = "BOOL")]
    pub(crate) events: Option<bool>,

    /// Whether other workspaces have runs, one of them many [default: the seed decides].
    #[arg(long, value_name = "BOOL")]
    pub(crate) neighbours: Option<bool>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (first, count) = match args.seed {
        Some(seed) => (seed, 1),
        None => (args.from, args.seeds),
    };
    let options = Options {
        nodes: args.nodes.map(usize::from),
        code: args.code,
        machines: args.machines,
        records: args.records,
        events: args.events,
        neighbours: args.neighbours,
        ..Options::default()
    };
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
    fn add(&mut self, report: &SeedSummary) {
        self.seeds += 1;
        self.runs += report.runs;
        self.entries += report.entries;
        self.crashes += u64::from(report.crashes);
        self.fenced += report.fenced;
        self.faults += u64::from(report.faults);
    }
}

/// Plays seeds on all cores until one fails or all are played. On separate threads: inside a runtime tokio would
/// influence the order.
fn play_all(first: u64, count: u64, options: &Options) -> (Total, Vec<SeedFailure>) {
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
