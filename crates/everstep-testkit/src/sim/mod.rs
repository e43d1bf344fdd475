//! The whole engine on a virtual clock, with a seeded scheduler and faults.
//!
//! A seed decides everything: the workflows, the inputs, which ready task is polled next, when the store's replies are
//! late, lost or duplicated, when the clock jumps, and when the process dies, between any two awaits. Several servers
//! on one database are also suspended, lose the connection to it or to each other, and have different clocks. The store
//! is the real SQL on an in-memory database. The same seed replays exactly.
//!
//! * `game` plays a seed on the `executor`; `client`, `forks` and `inbox_signals` are the world outside, `storm`
//!   causes the faults.
//! * `server` runs the engine; `store`, `records` and `topics` are its database, behind a `wire`; `peers` carries the
//!   messages between servers.
//! * `fleet` has the workers that run code workflows: `worker` is one of them, `carrier` and `socket` are its
//!   connections to a server, `scripts` are the functions that workers run, and `turns` has the conditions on their
//!   runs.
//! * `machines` are state machines, `people` act on them, and `transitions` says what must hold of their journals;
//!   `targets` receive their webhooks; `requeues` has the dead letters that are performed again, and the notices of
//!   them; `offers` has the files that persons offer to runs.
//! * `ops` are nodes that write records and links, `watched` observes their handlers, `callers` write from outside, and
//!   `changes` says what must hold of the data and its changes.
//! * `events` publishes events, and says what must hold of their runs and waits; `subscriptions` changes subscriptions
//!   and triggers; `event_order` has the order of all of these.
//! * `figures` compares the figures of runs over time with the journals; `follower` follows the workspace live.
//! * `audit` has the requests with a row of the audit, and compares the rows with the journals.
//! * `neighbours` are other workspaces with very different load: no workspace waits for more than its turn.
//! * `watch` and `judge` have the conditions on all runs, during a simulation and at its end; they compare them with
//!   the `ledger`.

mod audit;
mod callers;
mod carrier;
mod changes;
mod client;
mod dead_letters;
mod event_order;
mod events;
mod executor;
mod figures;
mod files;
mod fleet;
mod follower;
mod forks;
mod function;
mod game;
mod graphs;
mod handlers;
mod inbox_signals;
mod judge;
mod ledger;
mod machines;
mod neighbours;
mod offers;
mod ops;
mod peers;
mod people;
mod random;
mod records;
mod requeues;
mod scripts;
mod server;
mod socket;
mod store;
mod storm;
mod subscriptions;
mod tables;
mod targets;
mod topics;
mod transitions;
mod turns;
mod watch;
mod watched;
mod wire;
mod worker;

use std::fmt;
use std::sync::Arc;

use everstep_core::ids::RunId;
use everstep_core::planted::Bug;
use everstep_core::workflow::Workflow;
use everstep_store::StoredEntry;

use judge::Judge;
pub use random::SeededRng;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Servers on one database. One is alone, as on SQLite; by default the seed decides.
    pub nodes: Option<usize>,
    /// Whether workers run code workflows; by default the seed decides.
    pub code: Option<bool>,
    /// Whether persons act on machines; by default the seed decides.
    pub machines: Option<bool>,
    /// Whether graphs and clients write records and links; by default the seed decides.
    pub records: Option<bool>,
    /// Whether clients publish events, and graphs wait for them; by default the seed decides.
    pub events: Option<bool>,
    /// Whether other workspaces have runs, one of them many; by default the seed decides.
    pub neighbours: Option<bool>,
    /// The number of polls after which a simulation that does not end is stuck.
    pub polls_max: u64,
    /// Whether every poll and fault is recorded for the report.
    pub has_trace: bool,
    /// A bug to plant (needs the feature `planted-bugs`).
    pub bug: Option<Bug>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: None,
            code: None,
            machines: None,
            records: None,
            events: None,
            neighbours: None,
            polls_max: 100_000,
            has_trace: false,
            bug: None,
        }
    }
}

/// The summary of a successful seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedSummary {
    pub seed: u64,
    pub nodes: usize,
    pub runs: usize,
    pub entries: usize,
    pub polls: u64,
    pub crashes: u32,
    /// Nodes that were fenced, or left.
    pub fenced: usize,
    pub faults: u32,
    /// A digest of all journals: two plays of a seed have the same one.
    pub digest: u64,
}

/// The journal of a run that a seed has played to its end.
#[derive(Clone, Debug)]
pub struct PlayedJournal {
    pub run: RunId,
    pub workflow: Arc<Workflow>,
    /// The entries of a fork up to this one are copies; 0 for other runs.
    pub copied: u64,
    pub entries: Vec<StoredEntry>,
}

/// The failure of a seed.
#[derive(Clone, Debug)]
pub struct SeedFailure {
    pub seed: u64,
    pub nodes: usize,
    pub code: bool,
    pub machines: bool,
    pub records: bool,
    pub events: bool,
    pub neighbours: bool,
    pub message: String,
    pub trace: Vec<String>,
}

impl fmt::Display for SeedFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} failed: {}", self.seed, self.message)?;
        for line in &self.trace {
            writeln!(f, "  {line}")?;
        }
        let Self { nodes, code, machines, records, events, neighbours, seed, .. } = self;
        write!(
            f,
            "replay it with: everstep-lab sim --nodes {nodes} --code {code} --machines {machines} --records {records} \
             --events {events} --neighbours {neighbours} --seed {seed}"
        )
    }
}

/// Plays one seed.
pub fn play(seed: u64, options: &Options) -> Result<SeedSummary, Box<SeedFailure>> {
    play_and_read(seed, options, |_| Ok(())).map(|(summary, ())| summary)
}

/// Plays one seed, and returns the journals of its runs.
pub fn play_journals(seed: u64, options: &Options) -> Result<Vec<PlayedJournal>, Box<SeedFailure>> {
    play_and_read(seed, options, Judge::journals).map(|(_, journals)| journals)
}

fn play_and_read<T>(
    seed: u64,
    options: &Options,
    read: impl FnOnce(&Judge) -> Result<T, String>,
) -> Result<(SeedSummary, T), Box<SeedFailure>> {
    #[cfg(feature = "planted-bugs")]
    everstep_core::planted::plant(options.bug);
    let result = game::play(seed, options, read);
    #[cfg(feature = "planted-bugs")]
    everstep_core::planted::plant(None);
    result
}
