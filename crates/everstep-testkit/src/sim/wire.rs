//! The wire between a server and the database: it delays, loses, duplicates and breaks calls.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use everstep_store::sqlite::Database;
use everstep_store::{Error, Result};
use futures_util::future;
use tokio::sync::oneshot;

use super::executor::{Executor, OUTSIDE};
use super::ledger::Ledger;

/// The database as one machine reaches it.
#[derive(Clone)]
pub(super) struct SimStore {
    pub(super) executor: Executor,
    pub(super) database: Arc<Mutex<Database>>,
    pub(super) ledger: Arc<Mutex<Ledger>>,
    pub(super) machine: usize,
}

/// A fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It never arrives.
    LostCall,
    /// It is executed, and the reply is lost.
    LostReply,
    /// It arrives twice.
    Doubled,
}

/// The delays of a call and its reply, in milliseconds.
struct Delays {
    there: u64,
    back: u64,
}

impl SimStore {
    pub(super) fn direct<T>(&self, call: impl FnOnce(&mut Database) -> T) -> T {
        call(&mut self.database.lock().expect("one thread"))
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("one thread")
    }

    /// Calls the database. A shared database is remote: a call arrives there although its sender is suspended or dies.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        name: &'static str,
        call: impl Fn(&mut Database) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        let is_shared = self.ledger().is_shared;
        if !is_shared {
            return self.carry(name, &call).await;
        }
        let (answer, answered) = oneshot::channel();
        let store = self.clone();
        self.executor.spawn(OUTSIDE, async move {
            let _ = answer.send(store.carry(name, &call).await);
        });
        let result = answered.await.unwrap_or_else(|_| lost());
        if result.is_err() && matches!(name, "tick" | "fence" | "owned" | "inbox" | "claim" | "claim_workspace") {
            let now = self.executor.now();
            self.ledger().machines[self.machine].unsteady_at = now;
        }
        result
    }

    async fn carry<T>(&self, name: &str, call: &impl Fn(&mut Database) -> Result<T>) -> Result<T> {
        self.executor.waver().await;
        let (fault, delays) = self.roll(name);
        self.delay(20, delays.there).await;
        if self.is_cut().await {
            return lost();
        }
        let result = match fault {
            Fault::LostCall => lost(),
            Fault::None => self.direct(call),
            Fault::LostReply => {
                let _ = self.direct(call);
                lost()
            }
            Fault::Doubled => {
                let _ = self.direct(call);
                self.direct(call)
            }
        };
        if fault != Fault::None {
            self.executor.note(|| format!("server {}: {name}: {fault:?}", self.machine));
        }
        self.executor.waver().await;
        self.delay(15, delays.back).await;
        if self.is_cut().await { lost() } else { result }
    }

    /// Draws the fault of a call.
    fn roll(&self, name: &str) -> (Fault, Delays) {
        let mut ledger = self.ledger();
        let rate = if ledger.is_calm { 0 } else { ledger.fault_rate };
        let luck = self.executor.with_random(|random| random.below(100));
        let fault = match luck.checked_div(rate) {
            Some(0) => Fault::LostCall,
            Some(1) => Fault::LostReply,
            // A call whose second reply differs is equivalent to a lost reply, and is tested as such.
            Some(2)
                if matches!(
                    name,
                    "claim" | "claim_workspace" | "tick" | "join" | "fence" | "fan_out" | "hold_start"
                ) =>
            {
                Fault::LostReply
            }
            Some(2) => Fault::Doubled,
            _ => Fault::None,
        };
        ledger.faults += u32::from(fault != Fault::None);
        let lease = ledger.lease.as_millis() as u64;
        let delays = if ledger.is_shared {
            Delays { there: lease / 40, back: lease / 8 }
        } else {
            Delays { there: 60, back: 400 }
        };
        (fault, delays)
    }

    async fn delay(&self, percent: u64, most: u64) {
        if self.executor.chance(percent) {
            let millis = self.executor.with_random(|random| random.between(1, most));
            self.executor.sleep(Duration::from_millis(millis)).await;
        }
    }

    /// Whether the connection to the database is cut now. If so, the caller notices soon, or only when it works again.
    async fn is_cut(&self) -> bool {
        let now = self.executor.now();
        let (until, lease, mended) = {
            let ledger = self.ledger();
            (ledger.cut_until(self.machine), ledger.lease, Arc::clone(&ledger.mended))
        };
        if now >= until {
            return false;
        }
        let most = if self.executor.chance(50) { 40 } else { lease.as_millis() as u64 * 3 / 2 };
        let millis = self.executor.with_random(|random| random.between(1, most));
        let sleep = std::pin::pin!(self.executor.sleep(Duration::from_millis(millis).min(until.since(now))));
        future::select(sleep, std::pin::pin!(mended.notified())).await;
        true
    }
}

fn lost<T>() -> Result<T> {
    Err(Error::Unavailable("the connection broke".to_owned()))
}
