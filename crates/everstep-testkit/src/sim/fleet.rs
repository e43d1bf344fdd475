//! The workers of a simulation, and their faults.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::WorkspaceId;

use super::executor::{Executor, OUTSIDE};
use super::scripts::{self, Scripts};
use super::server::Server;
use super::store::SimStore;
use super::worker::Worker;

/// Slots in which workers run. Cheap to clone.
#[derive(Clone)]
pub(super) struct Fleet {
    executor: Executor,
    store: SimStore,
    servers: Vec<Server>,
    scripts: Scripts,
    places: Arc<Mutex<Vec<Option<Worker>>>>,
    born: Arc<Mutex<usize>>,
}

impl Fleet {
    pub(super) fn new(store: SimStore, servers: Vec<Server>, scripts: Scripts, places: usize) -> Self {
        let executor = store.executor.clone();
        let places = (0..places).map(|_| None).collect();
        Self { executor, store, servers, scripts, places: Arc::new(Mutex::new(places)), born: Arc::default() }
    }

    /// Starts a worker in a slot, if none runs there.
    fn boot(&self, place: usize) {
        let mut places = self.places.lock().expect("one thread");
        if places[place].is_some() {
            return;
        }
        let number = {
            let mut born = self.born.lock().expect("one thread");
            *born += 1;
            *born
        };
        // Some serve only a part; in the calm every worker serves all.
        let is_calm = self.store.ledger().is_calm;
        let all: Vec<_> = self.scripts.keys().cloned().collect();
        let some =
            |(name, _): &(String, u32)| is_calm || place == 0 || name == scripts::CHILD || !self.executor.chance(25);
        let serves: Vec<_> = all.into_iter().filter(some).collect();
        let name = format!("worker {number}");
        let worker = Worker::new(
            name.clone(),
            self.store.clone(),
            self.servers.clone(),
            Arc::clone(&self.scripts),
            serves.into(),
        );
        self.executor.note(|| format!("{name} starts as process {}", worker.process));
        self.executor.spawn(worker.process, worker.clone().live());
        places[place] = Some(worker);
    }

    fn boot_later(&self, place: usize, time: Duration) {
        let fleet = self.clone();
        self.executor.spawn(OUTSIDE, async move {
            fleet.executor.sleep(time).await;
            fleet.boot(place);
        });
    }

    pub(super) fn boot_all(&self) {
        let places = self.places.lock().expect("one thread").len();
        for place in 0..places {
            self.boot_later(place, self.a_while());
        }
    }

    /// From an instant to three leases.
    fn a_while(&self) -> Duration {
        let lease = self.store.ledger().worker_lease.as_millis() as u64;
        Duration::from_millis(self.executor.with_random(|random| random.between(1, lease * 3)))
    }

    /// A fault of a worker: it dies, it leaves, or it is silent for some time.
    pub(super) fn strike(&self) {
        let (place, worker) = {
            let places = self.places.lock().expect("one thread");
            let place = self.executor.with_random(|random| random.below(places.len()));
            (place, places.get(place).cloned().flatten())
        };
        let Some(worker) = worker else { return };
        let time = self.a_while();
        match self.executor.with_random(|random| random.below(100)) {
            0..35 => {
                self.executor.note(|| format!("{} dies", worker.name));
                self.bury(place);
                self.boot_later(place, time);
            }
            35..50 => {
                self.executor.note(|| format!("{} leaves", worker.name));
                let link = worker.link();
                self.bury(place);
                if let Some(link) = link {
                    link.server.accept(|engine| async move {
                        if let Some(session) = engine.session(WorkspaceId::DEFAULT, link.session) {
                            engine.close_session(&session);
                        }
                    });
                }
                self.boot_later(place, time);
            }
            _ => {
                self.executor.note(|| format!("{} is paused for {} ms", worker.name, time.as_millis()));
                self.executor.put_to_sleep(worker.process);
                let executor = self.executor.clone();
                self.executor.spawn(OUTSIDE, async move {
                    executor.sleep(time).await;
                    executor.awaken(worker.process);
                });
            }
        }
    }

    fn bury(&self, place: usize) {
        let worker = self.places.lock().expect("one thread")[place].take();
        if let Some(worker) = worker {
            self.executor.kill(worker.process);
        }
    }

    /// The storm has ended: all workers run and serve everything.
    pub(super) fn calm(&self) {
        let places = self.places.lock().expect("one thread").len();
        for place in 0..places {
            let worker = self.places.lock().expect("one thread")[place].clone();
            match worker {
                // The first serves all, and continues where it is.
                Some(worker) if place == 0 && !worker.has_declined() => self.executor.awaken(worker.process),
                _ => {
                    self.bury(place);
                    self.boot(place);
                }
            }
        }
    }

    pub(super) fn end(&self) {
        let places = self.places.lock().expect("one thread").len();
        for place in 0..places {
            self.bury(place);
        }
    }
}
