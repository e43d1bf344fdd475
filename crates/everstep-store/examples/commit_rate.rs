//! Measures the commit of a step: items of two entries, without a row of a run.
//!
//! `cargo run --release -p everstep-store --example commit_rate [folder | postgres://…]`
//!
//! A PostgreSQL database is measured with one committer and with two, which share the items in flight.

#![expect(clippy::print_stdout, reason = "the purpose of this program is to print figures")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::Kind;
use everstep_core::journal::codec::Row;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_store::postgres::{self, PostgresStore};
use everstep_store::sqlite::{Database, Options, SqliteStore};
use everstep_store::{CommitOutcome, Gate, Item, NewEntry, NewRun, Projection, RunStore};

const SAMPLE: Duration = Duration::from_secs(3);

fn main() {
    let place = std::env::args().nth(1);
    match place.filter(|place| place.starts_with("postgres")) {
        Some(url) => measure_postgres(&url),
        None => measure_sqlite(),
    }
}

fn measure_postgres(url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime starts");
    let pooled = std::env::var_os("EVERSTEP_DATABASE_POOLED").is_some();
    let options = postgres::Options { pooled, ..postgres::Options::default() };
    let store = runtime.block_on(PostgresStore::open(url, &options)).expect("the store opens");
    let store = Arc::new(store);
    for (in_flight, committers) in [(1, 1), (64, 1), (256, 1), (256, 2)] {
        let (rate, median) = runtime.block_on(measure_committers(&store, in_flight, committers));
        println!(
            "{in_flight:>3} in flight, {committers} committers: {rate:>9.0} entries/s, median {median:?} per commit"
        );
    }
}

/// Commits with several committers at the same time, each with its share of the items in flight.
async fn measure_committers(store: &Arc<PostgresStore>, in_flight: usize, committers: usize) -> (f64, Duration) {
    let loads = (0..committers).map(|_| Load::new(in_flight / committers));
    let tasks: Vec<_> = loads
        .map(|mut load| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                store.join(load.node, Duration::from_secs(60), None).await.expect("the node joins");
                let mut times = Times::default();
                while !times.are_enough() {
                    let items = load.next();
                    let started = Instant::now();
                    let outcomes = store.commit(load.node, &items).await.expect("the batch is written");
                    times.add(&items, started.elapsed());
                    check(&outcomes);
                }
                times
            })
        })
        .collect();
    let mut all = Times::default();
    for task in tasks {
        let times = task.await.expect("a committer ends");
        all.entries += times.entries;
        all.spent += times.spent;
        all.samples.extend(times.samples);
    }
    // They commit in parallel, so their time counts once.
    all.spent /= u32::try_from(committers).expect("a small number");
    all.figures()
}

fn measure_sqlite() {
    let folder = std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("commit_rate"), PathBuf::from);
    for batch in [1, 64, 256] {
        let (rate, median) = fresh(&folder, |folder| measure_database(folder, batch));
        println!("database, {batch:>3} items of 2 entries: {rate:>9.0} entries/s, median {median:?} per commit");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime starts");
    for batch in [1, 64, 256] {
        let (rate, median) = fresh(&folder, |folder| runtime.block_on(measure_store(folder, batch)));
        println!("store,    {batch:>3} items of 2 entries: {rate:>9.0} entries/s, median {median:?} per commit");
    }
}

fn fresh<T>(folder: &Path, measure: impl FnOnce(&Path) -> T) -> T {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let figures = measure(folder);
    let _ = std::fs::remove_dir_all(folder);
    figures
}

fn measure_database(folder: &Path, batch: usize) -> (f64, Duration) {
    let mut database = Database::open(&folder.join("everstep.db")).expect("the database opens");
    let mut load = Load::new(batch);
    database.join(load.node, Duration::from_secs(10), None).expect("the node joins");
    let mut times = Times::default();
    while !times.are_enough() {
        let items = load.next();
        let started = Instant::now();
        let outcomes = database.commit(load.node, &items).expect("the batch is written");
        times.add(&items, started.elapsed());
        check(&outcomes);
    }
    times.figures()
}

async fn measure_store(folder: &Path, batch: usize) -> (f64, Duration) {
    let store = SqliteStore::open(folder, &Options::default()).expect("the store opens");
    let mut load = Load::new(batch);
    store.join(load.node, Duration::from_secs(10), None).await.expect("the node joins");
    let mut times = Times::default();
    while !times.are_enough() {
        let items = load.next();
        let started = Instant::now();
        let outcomes = store.commit(load.node, &items).await.expect("the batch is written");
        times.add(&items, started.elapsed());
        check(&outcomes);
    }
    times.figures()
}

fn check(outcomes: &[CommitOutcome]) {
    assert!(outcomes.iter().all(|outcome| matches!(outcome, CommitOutcome::Applied(_))), "every item is applied");
}

/// Runs of ten steps, as many at once as a batch has items. Their starts are not measured.
struct Load {
    node: NodeId,
    runs: Vec<(RunId, u64)>,
    made: u128,
    first: u128,
}

impl Load {
    fn new(batch: usize) -> Self {
        static LOADS: AtomicU64 = AtomicU64::new(0);
        let number = u128::from(LOADS.fetch_add(1, Ordering::Relaxed));
        let began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
        let node = NodeId::new(Timestamp::EPOCH.plus(began), number);
        // Two loads never create the same id.
        let made = (u128::from(began.as_secs()) * 64 + number) << 40;
        Self { node, runs: vec![(RunId::new(Timestamp::EPOCH, 0), 0); batch], made, first: made }
    }

    fn next(&mut self) -> Vec<Item> {
        let Self { node, runs, made, first } = self;
        let mut items = Vec::with_capacity(runs.len());
        for (run, seq) in runs {
            *made += 1;
            let now = Timestamp::from_millis(
                1_790_000_000_000 + i64::try_from((*made - *first) / 100).expect("a small number"),
            );
            let random = made.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let commit = CommitId::new(now, random);
            if *seq == 0 || *seq > 20 {
                *run = RunId::new(now, random);
                *seq = 2;
                items.push(start(*node, *run, commit, now));
            } else {
                items.push(step(*run, commit, *seq, now));
                *seq += 2;
            }
        }
        items
    }
}

fn start(node: NodeId, run: RunId, commit: CommitId, now: Timestamp) -> Item {
    let new = NewRun {
        workflow: "bench".to_owned(),
        version: 1,
        lane: String::new(),
        key: None,
        input: Payload::null(),
        parent: None,
        tags: Payload::null(),
        retention_days: 7,
        is_test: false,
        search_paths: std::sync::Arc::default(),
        created_at: now,
        trigger: None,
        start: None,
    };
    let projection = Projection {
        status: Status::Running,
        owner: Some(node),
        wake_at: now,
        output: None,
        error: None,
        ended_at: None,
        machine: None,
    };
    let row = Row { kind: Kind::RunStarted, step: None, attempt: 0, payload: b"null".to_vec() };
    Item {
        commit,
        run,
        workspace: WorkspaceId::DEFAULT,
        gate: Gate::Start(Box::new(new)),
        format: 1,
        entries: vec![NewEntry { seq: 1, at: now, row }],
        projection: Some(projection),
        waits: vec![],
        taken: vec![],
        inbox_inputs: vec![],
        side: None,
    }
}

fn step(run: RunId, commit: CommitId, seq: u64, now: Timestamp) -> Item {
    let done = StepKey::from(format!("fetch-orders-{}", seq / 2));
    let next = StepKey::from(format!("fetch-orders-{}", seq / 2 + 1));
    let output = format!(r#"{{"output":{{"order":{seq},"note":"{:x<160}"}}}}"#, commit.to_string());
    let entry = |seq, kind, step, payload| {
        let row = Row { kind, step: Some(step), attempt: 1, payload };
        NewEntry { seq, at: now, row }
    };
    Item {
        commit,
        run,
        workspace: WorkspaceId::DEFAULT,
        gate: Gate::Owned,
        format: 1,
        entries: vec![
            entry(seq, Kind::StepCompleted, done, output.into_bytes()),
            entry(seq + 1, Kind::StepDispatched, next, Vec::new()),
        ],
        projection: None,
        waits: vec![],
        taken: vec![],
        inbox_inputs: vec![],
        side: None,
    }
}

#[derive(Default)]
struct Times {
    samples: Vec<Duration>,
    entries: usize,
    spent: Duration,
}

impl Times {
    fn are_enough(&self) -> bool {
        self.spent >= SAMPLE
    }

    /// Adds a commit of steps. The runs of a batch start together, in separate commits.
    fn add(&mut self, items: &[Item], elapsed: Duration) {
        if items.iter().all(|item| item.gate == Gate::Owned) {
            self.samples.push(elapsed);
            self.spent += elapsed;
            self.entries += items.iter().map(|item| item.entries.len()).sum::<usize>();
        }
    }

    fn figures(&mut self) -> (f64, Duration) {
        self.samples.sort_unstable();
        let rate = self.entries as f64 / self.spent.as_secs_f64();
        (rate, self.samples[self.samples.len() / 2])
    }
}
