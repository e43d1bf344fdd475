//! The server process: it is started, and it dies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::{RunId, StepKey};
use everstep_core::input::Input;
use everstep_core::time::Timestamp;
use everstep_engine::{Alone, Engine, NodeClock, Options, World};
use everstep_expressions::Expressions;
use everstep_handlers::Registry;
use tokio::sync::Notify;

use super::executor::{Executor, Ports, Process};
use super::handlers::Act;
use super::store::SimStore;

/// What the world outside knows of a simulation.
#[derive(Default)]
pub(super) struct Ledger {
    /// Runs by the key that they were started with.
    pub(super) started: BTreeMap<String, RunId>,
    pub(super) performed: BTreeSet<(RunId, StepKey, u32)>,
    /// Results that handlers have given, to be delivered again.
    pub(super) results: Vec<(RunId, Input)>,
    /// Letters that were sent: by run and step.
    pub(super) letters: BTreeSet<(RunId, StepKey)>,
    /// How many letters each run was sent in all.
    pub(super) posted: BTreeMap<RunId, usize>,
    /// Until when there is no room on the disk.
    pub(super) full_until: Option<Timestamp>,
    /// Letter waits that were just opened: somebody writes at once.
    pub(super) urgent: Vec<(RunId, StepKey, String)>,
    pub(super) mailbox: Arc<Notify>,
    pub(super) violations: Vec<String>,
    pub(super) faults: u32,
    /// From then on nothing breaks any more, and every run must come to its end.
    pub(super) is_calm: bool,
}

/// The running server, if there is one.
#[derive(Clone)]
pub(super) struct Server {
    executor: Executor,
    store: SimStore,
    engine: Arc<Mutex<Option<Engine>>>,
    process: Arc<Mutex<Process>>,
    is_stopping: Arc<Mutex<bool>>,
}

impl Server {
    pub(super) fn new(executor: Executor, store: SimStore) -> Self {
        Self { executor, store, engine: Arc::default(), process: Arc::default(), is_stopping: Arc::default() }
    }

    pub(super) fn engine(&self) -> Option<Engine> {
        self.engine.lock().expect("one thread").clone()
    }

    pub(super) fn world(&self, process: Process, skew: i64) -> World {
        let ports = Arc::new(Ports { executor: self.executor.clone(), process, skew });
        World {
            store: Arc::new(self.store.clone()),
            clock: Arc::new(NodeClock::new(Arc::clone(&ports) as _)),
            spawn: Arc::clone(&ports) as _,
            random: ports,
            evaluate: Arc::new(Expressions::default()),
            handlers: Arc::new(Registry::with([Arc::new(Act::new(self.store.clone())) as _])),
            peers: Arc::new(Alone),
        }
    }

    /// Starts a process that takes over whatever the one before left.
    pub(super) fn boot(&self) {
        let process = {
            let mut process = self.process.lock().expect("one thread");
            *process += 1;
            *process
        };
        // A restarted process may find its clock ahead or behind.
        let skew = self.executor.with_random(|random| random.between(0, 60_000_000)) as i64 - 30_000_000;
        let world = self.world(process, skew);
        let (max_active_runs, shards) =
            self.executor.with_random(|random| (random.between(2, 30) as usize, random.between(1, 2) as usize));
        let options = Options {
            shards,
            max_active_runs,
            max_state_bytes: self.executor.with_random(|random| *random.pick(&[4_000, 1 << 28])),
            sweep_every: Duration::from_secs(3_600),
            ..Options::default()
        };
        let server = self.clone();
        let now = world.clock.now();
        self.executor.note(|| format!("process {process} starts, its clock {} ms off", skew / 1_000));
        self.store.direct(|db| db.release_all(now)).expect("the database is in memory");
        self.executor.spawn(
            process,
            Box::pin(async move {
                let engine = Engine::start(world, options).await.expect("joining does not fail");
                *server.engine.lock().expect("one thread") = Some(engine);
            }),
        );
    }

    /// Whether the process is being stopped in order.
    pub(super) fn is_stopping(&self) -> bool {
        *self.is_stopping.lock().expect("one thread")
    }

    /// Stops the process in order, and starts another.
    pub(super) fn restart(&self) {
        let Some(engine) = self.engine.lock().expect("one thread").take() else { return };
        *self.is_stopping.lock().expect("one thread") = true;
        let server = self.clone();
        self.executor.note(|| "the process is stopped".to_owned());
        self.executor.spawn(
            0,
            Box::pin(async move {
                // Whether it could say good-bye makes no difference.
                let _ = engine.stop(Duration::from_secs(2)).await;
                drop(engine);
                server.crash();
                server.boot();
                *server.is_stopping.lock().expect("one thread") = false;
            }),
        );
    }

    /// Ends the process at once, wherever its tasks are.
    pub(super) fn crash(&self) {
        let process = *self.process.lock().expect("one thread");
        self.executor.note(|| format!("process {process} dies"));
        let engine = self.engine.lock().expect("one thread").take();
        self.executor.kill(process);
        drop(engine);
    }
}
