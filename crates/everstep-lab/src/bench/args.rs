//! The arguments of a benchmark.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;
use clap::builder::ArgPredicate;
use everstep_testkit::postgres::{Cluster, Durability};

use super::cases::{Case, Kit, SAMPLES};
use super::usage::Process;

const IN_FLIGHT: &[usize] = &[1, 64, 256, 1_024];
const QUICK_IN_FLIGHT: &[usize] = &[1, 256];
/// The numbers of runs in flight for the load of a worker.
const LOADS: &[usize] = &[64, 256];

/// The number of records with which larger numbers are compared.
pub(super) const RECORDS_MIN: usize = 10_000;

/// Measures the store and the engine on this machine.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// The database to measure. If no server is named, PostgreSQL is started for the measurement, from the installed
    /// binaries.
    #[arg(long, value_enum, default_value = "sqlite", default_value_if("server", ArgPredicate::IsPresent, "postgres"))]
    pub(super) store: Database,

    /// The folder for temporary data folders; its disk is measured.
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "server")]
    pub(super) data: PathBuf,

    /// Measure this PostgreSQL server; its role must be allowed to create databases, which are dropped afterwards.
    #[arg(long, value_name = "URL")]
    pub(super) server: Option<String>,

    /// Measure only these cases: throughput, latency, starts, growth, sleeping, idle, http, shapes, one shape,
    /// two-nodes (PostgreSQL). Nine further cases must be named: code (a worker of the TypeScript SDK), machine
    /// (approvals of state machines, and guards, their conditions), store (records), events (published events), follow
    /// (a follower of the workspace), stats (the figures of minutes), sweep (runs beside upkeep), lists (lists of many
    /// runs) and neighbours (a workspace beside one that misuses the server); a part such as code-load can be measured
    /// alone.
    #[arg(value_name = "CASE", value_delimiter = ',')]
    pub(super) cases: Vec<String>,

    /// The numbers of runs in flight for each shape.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=4_000))]
    pub(super) in_flight: Vec<u16>,

    /// The number of records in the database for store-size, and for store-idle up to a million [default: 1000000, with
    /// --quick 20000]; of ended runs for lists [default: 100000, with --quick 10000] and for sweep [default: 200000,
    /// with --quick 60000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(RECORDS_MIN as i64..=100_000_000))]
    pub(super) records: Option<u32>,

    /// Measure code-socket, code-http and code-load also on a database with this number of ended runs, in turns with an
    /// empty one, and compare both.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(super) runs_before: Option<u32>,

    /// The length of one sample; a quarter of it precedes the sample as a warm-up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=3_600))]
    pub(super) seconds: Option<u16>,

    /// Take samples of one second and fewer runs in flight: enough to check that everything works.
    #[arg(long)]
    pub(super) quick: bool,

    /// Print an array of figures as JSON.
    #[arg(long)]
    pub(super) json: bool,

    /// Compare the figures with a file of budgets; exit with 1 if one is missed.
    #[arg(long, value_name = "FILE")]
    pub(super) check: Option<PathBuf>,

    /// Node.js, for the worker of case code.
    #[arg(long, value_name = "PROGRAM", default_value = "node")]
    pub(super) node: PathBuf,

    /// The worker of case code.
    #[arg(long, value_name = "FILE", default_value = "bench/worker/worker.mjs")]
    pub(super) worker: PathBuf,

    /// The built TypeScript SDK that the worker uses.
    #[arg(long, value_name = "DIR", default_value = "sdks/typescript")]
    pub(super) sdk: PathBuf,

    /// Write profiles of the worker's processor time in case code to this folder.
    #[arg(long, value_name = "DIR")]
    pub(super) profile: Option<PathBuf>,

    /// Measure one case in this process and print its figures: the child process of `idle` and `sleeping`.
    #[arg(long, hide = true, value_name = "CASE")]
    pub(super) child: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// The database on which samples are taken.
#[derive(Clone, Debug)]
pub(super) enum Site {
    /// A folder for data folders.
    Sqlite(PathBuf),
    /// A server for databases.
    Postgres(String),
}

impl Site {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// The arguments that name this site.
    pub(super) fn arguments(&self) -> [&OsStr; 2] {
        match self {
            Self::Sqlite(folder) => ["--data".as_ref(), folder.as_os_str()],
            Self::Postgres(url) => ["--server".as_ref(), url.as_ref()],
        }
    }
}

/// The meaning of the arguments.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) cases: Vec<Case>,
    pub(super) site: Site,
    /// A server that was started for this measurement, and ends with it.
    pub(super) own_server: Option<Arc<Cluster>>,
    pub(super) length: Duration,
    /// The number of samples whose median is a figure of the cases store and events.
    pub(super) samples: usize,
    /// Records or ended runs in the database, for cases with many of them, if their number was given.
    pub(super) given_records: Option<usize>,
    /// Ended runs in the database, with which an empty one is compared.
    pub(super) runs_before: Option<usize>,
    pub(super) in_flight: Vec<usize>,
    /// Runs in flight for a worker's load.
    pub(super) loads: Vec<usize>,
    /// Whether the figures only show that everything works.
    pub(super) is_quick: bool,
    pub(super) kit: Kit,
}

impl Plan {
    pub(super) fn from_args(args: &Args) -> anyhow::Result<Self> {
        let in_flight = |usual: &[usize]| match &args.in_flight[..] {
            [] => usual.to_vec(),
            given => given.iter().map(|n| usize::from(*n)).collect(),
        };
        let seconds = args.seconds.unwrap_or(if args.quick { 1 } else { 5 });
        let (mut own_server, mut server) = (None, args.server.clone());
        anyhow::ensure!(
            server.is_none() || args.store == Database::Postgres,
            "--server names a PostgreSQL server; remove --store sqlite"
        );
        if server.is_none() && args.store == Database::Postgres {
            let cluster = Cluster::start_in(&args.data, Durability::Synced);
            server = Some(cluster.url("postgres"));
            own_server = Some(Arc::new(cluster));
        }
        let site = server.map_or_else(|| Site::Sqlite(args.data.clone()), Site::Postgres);
        Ok(Self {
            cases: Case::find_all(&args.cases, &site)?,
            site,
            own_server,
            length: Duration::from_secs(u64::from(seconds)),
            samples: if args.quick { 1 } else { SAMPLES },
            given_records: args.records.map(|records| records as usize),
            runs_before: args.runs_before.map(|runs| runs as usize),
            in_flight: in_flight(if args.quick { QUICK_IN_FLIGHT } else { IN_FLIGHT }),
            loads: in_flight(LOADS),
            is_quick: args.quick,
            kit: Kit {
                node: args.node.clone(),
                program: args.worker.clone(),
                sdk: args.sdk.clone(),
                profile: args.profile.clone(),
            },
        })
    }

    /// The number of records of a case, whose usual number is the first one; the second with `--quick`.
    pub(super) fn records(&self, usual: usize, quick: usize) -> usize {
        self.given_records.unwrap_or(if self.is_quick { quick } else { usual })
    }

    /// The process of the database's server, if it was started for this measurement.
    pub(super) fn database(&self) -> Option<Process> {
        let file = self.own_server.as_ref()?.folder().join("data/postmaster.pid");
        let text = std::fs::read_to_string(file).ok()?;
        Some(Process(text.lines().next()?.trim().parse().ok()?))
    }

    /// The bytes of a database; unknown if its server was not started for this measurement.
    pub(super) fn database_size(&self, place: &Site) -> anyhow::Result<Option<f64>> {
        let bytes = match place {
            Site::Sqlite(folder) => Some(size_of(folder)?),
            Site::Postgres(url) => self.query_server(url, |name| format!("select pg_database_size('{name}')")),
        };
        Ok(bytes)
    }

    /// The number that a query about a database returns, if its server was started for this measurement. The query is
    /// executed in another database.
    pub(super) fn query_server(&self, url: &str, query: impl FnOnce(&str) -> String) -> Option<f64> {
        let (_, name) = url.rsplit_once('/')?;
        self.own_server.as_ref()?.sql("postgres", &query(name)).first()?.parse().ok()
    }

    /// Makes the statistics of a filled database current, as they are in a database that was filled over days.
    pub(super) fn analyze(&self, place: &Site) {
        if let (Some(server), Site::Postgres(url)) = (&self.own_server, place)
            && let Some((_, name)) = url.rsplit_once('/')
        {
            server.sql(name, "vacuum analyze");
            server.sql(name, "checkpoint");
        }
    }
}

fn size_of(folder: &Path) -> anyhow::Result<f64> {
    let mut size = 0;
    for entry in std::fs::read_dir(folder).context("listing the data folder")? {
        size += entry?.metadata()?.len();
    }
    Ok(size as f64)
}
