//! What can be asked of a benchmark.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::cases::Case;

const IN_FLIGHT: &[usize] = &[1, 64, 256, 1_024];
const QUICK_IN_FLIGHT: &[usize] = &[1, 256];

/// Measures the store and the engine on this machine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The database to measure.
    #[arg(long, value_enum, default_value = "sqlite")]
    pub(super) store: Database,

    /// Where the temporary data folder is made; its disk is what is measured.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(super) data: PathBuf,

    /// Measure only these cases: throughput, latency, starts, growth, sleeping, idle, shapes, or one shape.
    #[arg(long, value_name = "CASE", value_delimiter = ',')]
    pub(super) only: Vec<String>,

    /// How many runs each shape has in flight.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=4_000))]
    pub(super) in_flight: Vec<u16>,

    /// The length of one sample; a quarter of it goes before, to warm up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=3_600))]
    pub(super) seconds: Option<u16>,

    /// Take samples of one second and fewer runs in flight: enough to see that everything works.
    #[arg(long)]
    pub(super) quick: bool,

    /// Print an array of figures as JSON.
    #[arg(long)]
    pub(super) json: bool,

    /// Compare the figures with a file of budgets; exit with 1 when one is missed.
    #[arg(long, value_name = "FILE")]
    pub(super) check: Option<PathBuf>,

    /// Measure one case in this very process and print its figures: the other half of `idle` and `sleeping`.
    #[arg(long, hide = true, value_name = "CASE")]
    pub(super) child: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Database {
    Sqlite,
}

impl Database {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
        }
    }
}

/// What the arguments mean.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cases: Vec<Case>,
    pub(super) store: Database,
    pub(super) data: PathBuf,
    pub(super) length: Duration,
    pub(super) in_flight: Vec<usize>,
}

impl Plan {
    pub(super) fn of(args: &Args) -> anyhow::Result<Self> {
        let usual = if args.quick { QUICK_IN_FLIGHT } else { IN_FLIGHT };
        let in_flight = if args.in_flight.is_empty() {
            usual.to_vec()
        } else {
            args.in_flight.iter().map(|n| usize::from(*n)).collect()
        };
        let seconds = args.seconds.unwrap_or(if args.quick { 1 } else { 5 });
        Ok(Self {
            cases: Case::find_all(&args.only)?,
            store: args.store,
            data: args.data.clone(),
            length: Duration::from_secs(u64::from(seconds)),
            in_flight,
        })
    }
}
