//! A server: a process on a machine. It is started, suspended and killed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_engine::{DeadLetters, Engine, NoObserver, NoPeers, NodeClock, Options, Peers, Records, World};
use everstep_expressions::Expressions;
use everstep_handlers::{Handler, RecordHandler, Registry};
use futures_util::future::{self, Either};
use tokio::sync::oneshot;

use super::executor::{Executor, OUTSIDE, Ports, Process};
use super::handlers::{Act, Rest};
use super::ledger::{Ledger, Machine};
use super::peers::SimPeers;
use super::requeues::Operators;
use super::store::SimStore;
use super::targets::Targets;
use super::watched::Watched;

/// The server at each address.
pub(super) type Directory = Arc<Mutex<BTreeMap<String, Server>>>;

/// How long a caller waits for a server's reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// One machine and its process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Server {
    pub(super) index: usize,
    executor: Executor,
    store: SimStore,
    directory: Directory,
    engine: Arc<Mutex<Option<Engine>>>,
    /// Microseconds by which the machine's clock is ahead.
    skew: Arc<AtomicI64>,
}

/// The ports of a process, or of an observer.
pub(super) fn world(store: &SimStore, process: Process, skew: &Arc<AtomicI64>, peers: Arc<dyn Peers>) -> World {
    let ports = Arc::new(Ports { executor: store.executor.clone(), process, skew: Arc::clone(skew) });
    let clock = Arc::new(NodeClock::new(Arc::clone(&ports) as _));
    let random = Arc::clone(&ports);
    let records = Records::new(Arc::new(store.clone()), Arc::clone(&clock), random, &Options::default());
    World {
        runs: Arc::new(store.clone()),
        workflows: Arc::new(store.clone()),
        topics: Arc::new(store.clone()),
        dead_letters: DeadLetters::new(Arc::new(store.clone()), Some(Arc::new(Operators { store: store.clone() }))),
        files: Arc::new(store.clone()),
        handlers: Arc::new(Registry::with(handlers(store, &records))),
        records,
        clock,
        spawn: Arc::clone(&ports) as _,
        random: ports,
        evaluate: Arc::new(Expressions::default()),
        peers,
        observe: Arc::new(NoObserver),
    }
}

fn handlers(store: &SimStore, records: &Arc<Records>) -> Vec<Arc<dyn Handler>> {
    let mut handlers: Vec<Arc<dyn Handler>> = vec![
        Arc::new(Act::new(store.clone())),
        Arc::new(Rest::new(store.clone())),
        Arc::new(Targets::new(store.clone())),
    ];
    if store.ledger().has_records {
        let watched = |handler| Arc::new(Watched::new(handler, store.clone())) as Arc<dyn Handler>;
        let records: Arc<dyn everstep_handlers::Records> = Arc::<Records>::clone(records);
        handlers.extend(RecordHandler::all(&records).into_iter().map(watched));
    }
    handlers
}

impl Server {
    pub(super) fn new(store: SimStore, directory: Directory) -> Self {
        let (executor, index) = (store.executor.clone(), store.machine);
        Self { index, executor, store, directory, engine: Arc::default(), skew: Arc::default() }
    }

    pub(super) fn address(&self) -> String {
        format!("server-{}", self.index)
    }

    pub(super) fn engine(&self) -> Option<Engine> {
        self.engine.lock().expect("one thread").clone()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.store.ledger.lock().expect("one thread")
    }

    /// Reads or changes the machine's state.
    pub(super) fn machine<T>(&self, ask: impl FnOnce(&mut Machine) -> T) -> T {
        ask(&mut self.ledger().machines[self.index])
    }

    pub(super) fn is_calm(&self) -> bool {
        self.ledger().is_calm
    }

    pub(super) fn is_up(&self) -> bool {
        self.machine(|machine| machine.is_up && !machine.is_stopping)
    }

    /// Starts a process. Alone it takes over the runs of the process before it; among others it is another node.
    pub(super) fn boot(&self) {
        if self.machine(|machine| machine.is_up) {
            return;
        }
        let process = self.executor.new_process();
        // The clock of a restarted process may be ahead or behind.
        self.shift_clock();
        let is_shared = self.ledger().is_shared;
        let peers: Arc<dyn Peers> = if is_shared {
            Arc::new(SimPeers { executor: self.executor.clone(), directory: Arc::clone(&self.directory) })
        } else {
            Arc::new(NoPeers)
        };
        let world = world(&self.store, process, &self.skew, peers);
        let options = self.options();
        let now = self.executor.now();
        self.machine(|machine| {
            (machine.process, machine.is_up, machine.booted_at) = (process, true, now);
            machine.max_active_runs = options.max_active_runs;
        });
        let ahead = self.skew.load(Ordering::Relaxed) / 1_000;
        self.executor.note(|| format!("server {} starts as process {process}, its clock {ahead} ms off", self.index));
        if !is_shared {
            let now = world.clock.now();
            self.store.direct(|db| db.release_all(now)).expect("the database is in memory");
            let mut ledger = self.ledger();
            let all: Vec<_> = ledger.members.keys().copied().collect();
            ledger.fenced.extend(all.into_iter().map(|node| (node, now)));
        }
        let server = self.clone();
        self.executor.spawn(process, async move {
            let engine = loop {
                match Engine::start(world.clone(), options.clone()).await {
                    Ok(engine) => break engine,
                    Err(_) => server.executor.sleep(Duration::from_millis(200)).await,
                }
            };
            *server.engine.lock().expect("one thread") = Some(engine);
        });
    }

    fn options(&self) -> Options {
        let (is_shared, lease, has_records, has_events) = {
            let ledger = self.ledger();
            (ledger.is_shared, ledger.lease, ledger.has_records, ledger.has_events)
        };
        let record_sweep_millis =
            if has_records { self.executor.with_random(|random| random.between(500, 5_000)) } else { 3_600_000 };
        let most = if is_shared { 12 } else { 30 };
        let (max_active_runs, shards, max_state_bytes) = self.executor.with_random(|random| {
            (random.between(2, most) as usize, random.between(1, 2) as usize, *random.pick(&[4_000, 1 << 28]))
        });
        let defaults = Options::default();
        // The fan-out of most events has several slices.
        let event_slice_rows_max = if has_events {
            self.executor.with_random(|random| random.between(1, 3)) as usize
        } else {
            defaults.event_slice_rows_max
        };
        let options = Options {
            shards,
            event_slice_rows_max,
            max_active_runs,
            max_state_bytes,
            node_lease: lease,
            worker_lease: self.ledger().worker_lease,
            sweep_every: Duration::from_secs(3_600),
            record_sweep_every: Duration::from_millis(record_sweep_millis),
            address: is_shared.then(|| self.address()),
            ..defaults
        };
        if !is_shared {
            return options;
        }
        Options { park_after: Duration::from_millis(self.executor.with_random(|r| r.between(500, 3_000))), ..options }
    }

    /// Sets the machine's clock, up to half a minute off.
    pub(super) fn shift_clock(&self) {
        let skew = self.executor.with_random(|random| random.between(0, 60_000_000)) as i64 - 30_000_000;
        self.skew.store(skew, Ordering::Relaxed);
    }

    /// Makes the server's process execute a request: lost if it dies. `None` if no reply arrived.
    pub(super) async fn ask<T, F>(&self, request: impl FnOnce(Engine) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let answer = std::pin::pin!(self.ask_patiently(request));
        let patience = std::pin::pin!(self.executor.sleep(REPLY_TIMEOUT));
        match future::select(answer, patience).await {
            Either::Left((answer, _)) => answer,
            Either::Right(_) => None,
        }
    }

    /// Like [`Server::ask`], for as long as the process lives.
    pub(super) async fn ask_patiently<T, F>(&self, request: impl FnOnce(Engine) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let engine = self.engine()?;
        let (answer, answered) = oneshot::channel();
        let work = request(engine);
        self.executor.spawn(self.machine(|machine| machine.process), async move {
            let _ = answer.send(work.await);
        });
        answered.await.ok()
    }

    /// Stops polling the process for some time, without its knowledge.
    pub(super) fn pause(&self, time: Duration) {
        let now = self.executor.now();
        self.ledger().troubles.push((Some(self.index), now, now.plus(time)));
        let process = self.machine(|machine| {
            machine.is_paused = true;
            machine.process
        });
        self.executor.note(|| format!("server {} is paused for {} ms", self.index, time.as_millis()));
        self.executor.put_to_sleep(process);
        let server = self.clone();
        self.executor.spawn(OUTSIDE, async move {
            server.executor.sleep(time).await;
            if server.machine(|machine| machine.process == process && machine.is_paused) {
                server.resume();
            }
        });
    }

    pub(super) fn resume(&self) {
        let now = self.executor.now();
        let process = self.machine(|machine| {
            (machine.is_paused, machine.resumed_at) = (false, now);
            machine.process
        });
        self.executor.note(|| format!("server {} continues", self.index));
        self.executor.awaken(process);
    }

    /// Stops the process in order, and starts another.
    pub(super) fn restart(&self) {
        let Some(engine) = self.engine.lock().expect("one thread").take() else { return };
        self.ledger().stopped(self.index);
        let process = self.machine(|machine| machine.process);
        let (server, (stopped, has_stopped)) = (self.clone(), oneshot::channel());
        self.executor.note(|| format!("server {} is stopped", self.index));
        self.executor.spawn(process, async move {
            // Whether it could leave in order makes no difference.
            let _ = engine.stop(Duration::from_secs(2)).await;
            drop(engine);
            let _ = stopped.send(());
        });
        self.executor.spawn(OUTSIDE, async move {
            let _ = has_stopped.await;
            if server.machine(|machine| machine.process == process && machine.is_up) {
                server.crash();
                server.boot();
            }
        });
    }

    /// Ends the process and all its tasks at once.
    pub(super) fn crash(&self) {
        let process = self.machine(|machine| machine.process);
        self.executor.note(|| format!("server {} dies, process {process}", self.index));
        let now = self.executor.now();
        self.ledger().buried(self.index, now);
        let engine = self.engine.lock().expect("one thread").take();
        self.executor.kill(process);
        drop(engine);
    }

    /// Starts a process after some time, unless one runs by then.
    pub(super) fn boot_later(&self, time: Duration) {
        let server = self.clone();
        self.executor.spawn(OUTSIDE, async move {
            server.executor.sleep(time).await;
            server.boot();
        });
    }

    /// Spawns a task in the process, if a process is running.
    pub(super) fn accept<F>(&self, request: impl FnOnce(Engine) -> F) -> bool
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(engine) = self.engine() else { return false };
        self.executor.spawn(self.machine(|machine| machine.process), request(engine));
        true
    }
}
