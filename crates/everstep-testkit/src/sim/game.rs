//! One simulation, from the first start to the verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::time::Timestamp;
use everstep_engine::NoPeers;
use everstep_store::sqlite::Database;
use serde_json::Value;

use super::client::Client;
use super::executor::{Executor, OUTSIDE, Step};
use super::fleet::Fleet;
use super::follower::{self, Followed};
use super::graphs::{self, GraphOptions};
use super::inbox_signals::InboxSender;
use super::judge::{Judge, Judged, show};
use super::ledger::Ledger;
use super::machines::{self, Machines};
use super::neighbours;
use super::people::People;
use super::scripts::{self, ScriptOptions, Scripts};
use super::server::{Directory, Server, world};
use super::store::SimStore;
use super::storm::Storm;
use super::subscriptions;
use super::watch::Watch;
use super::{Options, SeedFailure, SeedSummary};

/// Plays a seed. `read` reads from its database when all conditions hold.
pub(super) fn play<T>(
    seed: u64,
    options: &Options,
    read: impl FnOnce(&Judge) -> Result<T, String>,
) -> Result<(SeedSummary, T), Box<SeedFailure>> {
    let nodes = options.nodes.unwrap_or_else(|| mixed(seed)).max(1);
    let executor = Executor::new(seed, options.has_trace);
    let code = options.code.unwrap_or(seed / 2 % 2 == 1);
    let machines = options.machines.unwrap_or(seed / 4 % 2 == 1);
    let records = options.records.unwrap_or(seed / 8 % 2 == 1);
    let events = options.events.unwrap_or(seed / 16 % 2 == 1);
    let has_neighbours = options.neighbours.unwrap_or(seed / 32 % 2 == 1);
    let mut game = Game::new(executor.clone(), nodes, Styles { code, machines, records, events });
    if has_neighbours {
        let runs = game.store.direct(|db| neighbours::write_runs(&executor, db));
        game.store.ledger().neighbours = runs;
    }
    if seed.is_multiple_of(FOLLOWED_SEEDS) {
        game.store.ledger().feed = Some(Followed::new());
    }
    let played = game.play(options.polls_max).and_then(|judged| Ok((judged, read(&game.judge)?)));
    // Tasks hold the executor that holds them, and servers the directory that lists them.
    for server in &game.servers {
        server.crash();
    }
    if let Some(fleet) = &game.fleet {
        fleet.end();
    }
    executor.kill(OUTSIDE);
    game.directory.lock().expect("one thread").clear();
    let ledger = game.store.ledger();
    played
        .map(|(judged, result)| {
            let summary = SeedSummary {
                seed,
                nodes,
                runs: game.planned,
                entries: judged.entries,
                polls: executor.polls(),
                crashes: game.storm.crashes,
                fenced: ledger.fenced.len(),
                faults: ledger.faults,
                digest: judged.digest,
            };
            (summary, result)
        })
        .map_err(|message| {
            let trace = executor.take_trace();
            Box::new(SeedFailure {
                seed,
                nodes,
                code,
                machines,
                records,
                events,
                neighbours: has_neighbours,
                message,
                trace,
            })
        })
}

/// In one of this many seeds a client follows the workspace.
const FOLLOWED_SEEDS: u64 = 3;
/// After the last run has ended, the nodes write its figures in this time.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// The time in which a follower has read from all nodes; those that are gone are fenced by then.
const FOLLOW_TIMEOUT: Duration = Duration::from_secs(120);

/// One server alone in every second seed, else two to four.
fn mixed(seed: u64) -> usize {
    if seed.is_multiple_of(2) { 1 } else { 2 + (seed / 2 % 3) as usize }
}

/// What a simulation has, beside plain graphs.
#[derive(Clone, Copy)]
struct Styles {
    code: bool,
    machines: bool,
    records: bool,
    events: bool,
}

struct Game {
    executor: Executor,
    store: SimStore,
    servers: Vec<Server>,
    directory: Directory,
    judge: Arc<Judge>,
    storm: Storm,
    scripts: Scripts,
    fleet: Option<Fleet>,
    machines: Machines,
    planned: usize,
}

impl Game {
    fn new(executor: Executor, nodes: usize, styles: Styles) -> Self {
        let Styles { code, machines, records, events } = styles;
        let is_shared = nodes > 1;
        let database_skew: Arc<AtomicI64> = Arc::default();
        let mut database = Database::in_memory().expect("SQLite opens in memory");
        let (clock, skew) = (executor.clone(), Arc::clone(&database_skew));
        database.set_clock(move || Timestamp::from_micros(clock.now().micros() + skew.load(Ordering::Relaxed)));
        let (lease, fault_rate) =
            if is_shared { executor.with_random(|random| (random.between(1, 2), random.below(3))) } else { (10, 2) };
        let mut ledger = Ledger::new(nodes, is_shared, Duration::from_secs(lease), fault_rate);
        ledger.has_records = records;
        if events {
            ledger.has_events = true;
            for subscription in executor.with_random(subscriptions::make_subscriptions) {
                database.add_subscription(&subscription, 100).expect("the database is in memory");
            }
        }
        let store = SimStore {
            executor: executor.clone(),
            database: Arc::new(Mutex::new(database)),
            ledger: Arc::new(Mutex::new(ledger)),
            machine: 0,
        };
        store.direct(|db| store.watch_subscriptions(db));
        let directory = Directory::default();
        let servers: Vec<_> = (0..nodes)
            .map(|machine| Server::new(SimStore { machine, ..store.clone() }, Arc::clone(&directory)))
            .collect();
        let addresses = servers.iter().map(|server| (server.address(), server.clone()));
        directory.lock().expect("one thread").extend(addresses);
        let onlooker = world(&store, OUTSIDE, &Arc::default(), Arc::new(NoPeers));
        let scripts = if code { make_scripts(&executor, is_shared, events) } else { Scripts::default() };
        let machines = if machines { make_machines(&executor, is_shared) } else { Machines::default() };
        let judge = Arc::new(Judge::new(store.clone(), onlooker, Arc::clone(&scripts), Arc::clone(&machines)));
        let fleet = code.then(|| {
            let places = executor.with_random(|random| random.between(1, 3)) as usize;
            Fleet::new(store.clone(), servers.clone(), Arc::clone(&scripts), places)
        });
        let storm = Storm::new(store.clone(), servers.clone(), fleet.clone(), database_skew);
        Self { executor, store, servers, directory, judge, storm, scripts, fleet, machines, planned: 0 }
    }

    fn play(&mut self, polls_max: u64) -> Result<Judged, String> {
        self.servers[0].boot();
        for server in &self.servers[1..] {
            server.boot_later(Duration::from_millis(self.executor.with_random(|random| random.between(0, 1_000))));
        }
        let client =
            Client { executor: self.executor.clone(), servers: self.servers.clone(), judge: Arc::clone(&self.judge) };
        let (is_shared, has_records, has_events) = {
            let ledger = self.store.ledger();
            (ledger.is_shared, ledger.has_records, ledger.has_events)
        };
        let options = GraphOptions { is_brief: is_shared, has_records, has_events };
        let (workflows_max, runs_max) = if is_shared { (2, 4) } else { (3, 6) };
        let workflows = self.executor.with_random(|random| random.between(1, workflows_max));
        let child = self.executor.with_random(|random| graphs::make_child(random, options));
        if let Some(fleet) = &self.fleet {
            fleet.boot_all();
            self.start_code(&client, &child, runs_max);
        }
        self.start_machines(&client, &child, runs_max);
        // Only code workflows or machines, or also graphs.
        let has_others = self.fleet.is_some() || !self.machines.is_empty();
        let workflows = if has_others { self.executor.with_random(|random| random.below(2)) as u64 } else { workflows };
        for index in 0..workflows {
            let callees: Vec<_> = [graphs::CHILD.to_owned()].into_iter().chain(self.machines.keys().cloned()).collect();
            let definition = self.executor.with_random(|random| graphs::make(random, options, &callees));
            let name = format!("w{index}");
            let called = self.machines.iter().map(|(name, machine)| (name.clone(), machine.clone()));
            let definitions = [(graphs::CHILD.to_owned(), child.clone()), (name.clone(), definition)];
            let definitions: Arc<[_]> = called.chain(definitions).collect();
            let runs = self.executor.with_random(|random| random.between(1, runs_max));
            for n in 0..runs {
                self.planned += 1;
                let start = client.clone().start(name.clone(), None, Arc::clone(&definitions), n);
                self.executor.spawn(OUTSIDE, start);
            }
        }
        self.executor.spawn(OUTSIDE, client.clone().meddle());
        self.executor.spawn(OUTSIDE, client.clone().act());
        if has_records {
            self.executor.spawn(OUTSIDE, client.clone().write_records());
        }
        if self.store.ledger().feed.is_some() {
            self.executor.spawn(OUTSIDE, client.clone().follow_workspace());
        }
        if has_events {
            self.executor.spawn(OUTSIDE, client.clone().publish_events());
            self.executor.spawn(OUTSIDE, client.clone().publish_while_opening());
            self.executor.spawn(OUTSIDE, client.clone().change_subscriptions());
        }
        let sender =
            InboxSender { executor: self.executor.clone(), servers: self.servers.clone(), store: self.store.clone() };
        self.executor.spawn(OUTSIDE, sender.deliver());
        self.drive(&client, polls_max)?;
        self.settle()?;
        self.judge.verdict(self.storm.crashes > 0)
    }

    /// Starts runs of machines, and the persons who act on them.
    fn start_machines(&mut self, client: &Client, child: &Value, runs_max: u64) {
        if self.machines.is_empty() {
            return;
        }
        for (name, definition) in &*Arc::clone(&self.machines) {
            let definitions: Arc<[_]> =
                [(graphs::CHILD.to_owned(), child.clone()), (name.clone(), definition.clone())].into();
            for n in 0..self.executor.with_random(|random| random.between(1, runs_max)) {
                self.planned += 1;
                let start = client.clone().start(name.clone(), None, Arc::clone(&definitions), n);
                self.executor.spawn(OUTSIDE, start);
            }
        }
        self.executor.spawn(OUTSIDE, client.clone().requeue_letters());
        let people = People { client: client.clone(), machines: Arc::clone(&self.machines) };
        self.executor.spawn(OUTSIDE, people.act());
    }

    /// Starts runs of code workflows, of any version or of one.
    fn start_code(&mut self, client: &Client, child: &Value, runs_max: u64) {
        let definitions: Arc<[_]> = [(graphs::CHILD.to_owned(), child.clone())].into();
        let names: BTreeSet<_> = self.scripts.keys().map(|(name, _)| name.clone()).collect();
        for name in names.into_iter().filter(|name| name != scripts::CHILD) {
            for n in 0..self.executor.with_random(|random| random.between(1, runs_max)) {
                let version = match self.executor.with_random(|random| random.below(3)) {
                    0 => Some(1),
                    1 => Some(2).filter(|version| self.scripts.contains_key(&(name.clone(), *version))),
                    _ => None,
                };
                self.planned += 1;
                let start = client.clone().start(name.clone(), version, Arc::clone(&definitions), n);
                self.executor.spawn(OUTSIDE, start);
            }
        }
    }

    fn drive(&mut self, client: &Client, polls_max: u64) -> Result<(), String> {
        let longest_rest = longest_rest(&self.store.ledger(), &self.machines);
        let mut watch = Watch::new(Arc::clone(&self.judge), self.servers.clone());
        let mut progress = (0, self.executor.now());
        let mut is_storm = true;
        loop {
            let polls = self.executor.polls();
            if is_storm {
                progress.1 = self.executor.now();
                self.storm.strike();
                if self.storm.is_over() {
                    is_storm = false;
                    self.storm.end();
                    let runs = self.store.ledger().runs();
                    for run in runs {
                        self.executor.spawn(OUTSIDE, client.clone().follow(run));
                    }
                }
            }
            if let Step::Stuck = self.executor.step() {
                return Err(format!("nothing is ready and nothing will be\n{}", self.open_runs()));
            }
            if let Some(violation) = self.store.ledger().violations.first() {
                return Err(violation.clone());
            }
            watch.look()?;
            if polls.is_multiple_of(64) && self.is_over() {
                return Ok(());
            }
            if !is_storm && polls.is_multiple_of(64) {
                let work = self.store.count_entries() + self.store.settled_letters().0;
                if work != progress.0 {
                    progress = (work, self.executor.now());
                }
            }
            if polls > polls_max || self.executor.now().since(progress.1) > longest_rest {
                return Err(format!("it does not end\n{}", self.open_runs()));
            }
        }
    }

    /// Waits, after all runs have ended, until the nodes have written the figures and the follower has read the feed.
    fn settle(&mut self) -> Result<(), String> {
        let is_calm = self.store.ledger().is_calm;
        if !is_calm {
            self.storm.calm();
        }
        let mut ended_at = self.executor.now();
        loop {
            if let Step::Stuck = self.executor.step() {
                return Err("nothing is ready and nothing will be, after all runs have ended".to_owned());
            }
            let polls = self.executor.polls();
            if !polls.is_multiple_of(64) {
                continue;
            }
            // A request that was under way may have continued a run.
            let now = self.executor.now();
            if !self.is_over() {
                ended_at = now;
            }
            let ledger = self.store.ledger();
            let settled_at = ended_at.plus(SETTLE_TIME);
            if now > settled_at && follower::has_read_since(ledger.feed.as_ref(), settled_at) {
                return ledger.violations.first().map_or(Ok(()), |violation| Err(violation.clone()));
            }
            if now > ended_at.plus(FOLLOW_TIMEOUT) {
                return Err("the follower of the workspace has not read the feed of all nodes".to_owned());
            }
        }
    }

    fn is_over(&self) -> bool {
        let (started, followed, is_forking, runs) = {
            let ledger = self.store.ledger();
            let is_forking = ledger.forks.values().any(Option::is_none);
            (ledger.started.len(), ledger.followed.len(), is_forking, ledger.runs())
        };
        started == self.planned
            && followed == 0
            && !is_forking
            && self.store.direct(|db| db.count_open_events()).is_ok_and(|open| open == 0)
            && self.store.have_neighbours_ended()
            && self.store.settled_letters().1
            && runs.iter().all(|run| self.judge.row(*run).is_ok_and(|row| row.ended_at.is_some()))
    }

    fn open_runs(&self) -> String {
        let (started, runs) = {
            let ledger = self.store.ledger();
            (ledger.started.len(), ledger.runs())
        };
        let followed = self.store.ledger().followed.clone();
        let mut lines = vec![format!("{started} of {} were started, {followed:?} are still followed", self.planned)];
        let forking = self.store.ledger().forks.values().filter(|fork| fork.is_none()).count();
        let events = self.store.direct(|db| db.count_open_events()).unwrap_or_default();
        let (have_ended, are_settled) = (self.store.have_neighbours_ended(), self.store.settled_letters().1);
        lines.push(format!(
            "{forking} forks and {events} events are open; the neighbours have ended: {have_ended}, the dead letters are \
             settled: {are_settled}",
        ));
        for run in runs {
            let Ok(row) = self.judge.row(run) else { continue };
            if row.ended_at.is_none() {
                let owner = row.owner.map_or("no node".to_owned(), |owner| owner.to_string());
                let parent = row.parent.map(|parent| format!(", started by {parent}")).unwrap_or_default();
                lines.push(format!("{run} is {}, owned by {owner}, wakes {}{parent}", row.status, row.wake_at));
                lines.push(show(&self.judge.journal(run).unwrap_or_default()));
            }
        }
        lines.join("\n")
    }
}

/// Longer than any delay or timeout in a generated graph: a run that writes nothing for this time is stranded. A node
/// without work searches for dead letters every 30 seconds.
fn longest_rest(ledger: &Ledger, machines: &Machines) -> Duration {
    let has_letters = ledger.has_events || !machines.is_empty();
    Duration::from_secs(match (ledger.is_shared, has_letters) {
        (true, false) => 40,
        (true, true) => 80,
        (false, _) => 600,
    })
}

/// One or two machines.
fn make_machines(executor: &Executor, is_brief: bool) -> Machines {
    executor.with_random(|random| {
        let count = random.between(1, 2);
        Arc::new((0..count).map(|index| (format!("machine-{index}"), machines::make(random, is_brief))).collect())
    })
}

/// The functions that all workers have: one or two of them, in one or two versions, and the one that others call.
fn make_scripts(executor: &Executor, is_brief: bool, has_events: bool) -> Scripts {
    let options = ScriptOptions { is_brief, has_events };
    executor.with_random(|random| {
        let mut scripts = BTreeMap::from([((scripts::CHILD.to_owned(), 1), scripts::make_child(random, options))]);
        for index in 0..random.between(1, 2) {
            for version in 1..=random.between(1, 2) as u32 {
                scripts.insert((format!("code-{index}"), version), scripts::make(random, options));
            }
        }
        Arc::new(scripts)
    })
}
