//! Faults: their kind, time and duration.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::executor::{BEGIN, Executor};
use super::fleet::Fleet;
use super::server::Server;
use super::store::SimStore;

pub(super) struct Storm {
    executor: Executor,
    servers: Vec<Server>,
    store: SimStore,
    /// Microseconds by which the database's clock is ahead of the world's.
    database_skew: Arc<AtomicI64>,
    /// One fault in this many polls.
    every: usize,
    /// Its end: a number of polls for one server, a time for several.
    polls: u64,
    time: Duration,
    fleet: Option<Fleet>,
    pub(super) crashes: u32,
}

impl Storm {
    pub(super) fn new(
        store: SimStore,
        servers: Vec<Server>,
        fleet: Option<Fleet>,
        database_skew: Arc<AtomicI64>,
    ) -> Self {
        let executor = store.executor.clone();
        let is_alone = !store.ledger().is_shared;
        let (polls, every, time) = executor.with_random(|random| {
            let time = Duration::from_millis(random.between(2_000, 15_000));
            let every = if is_alone { random.between(40, 800) } else { random.between(60, 600) };
            (random.between(100, 1_500), every as usize, time)
        });
        Self { executor, servers, store, database_skew, every, polls, time, fleet, crashes: 0 }
    }

    pub(super) fn is_over(&self) -> bool {
        if self.store.ledger().is_shared {
            self.executor.now().since(BEGIN) > self.time
        } else {
            self.executor.polls() >= self.polls
        }
    }

    fn is_time_for(&self, one_in: usize) -> bool {
        self.executor.with_random(|random| random.below(one_in)) == 0
    }

    /// Between two polls any fault may happen.
    pub(super) fn strike(&mut self) {
        if let Some(fleet) = &self.fleet
            && self.is_time_for(self.every)
        {
            fleet.strike();
        }
        if self.store.ledger().is_shared {
            if self.is_time_for(self.every) {
                self.strike_cluster();
            }
            return;
        }
        let server = self.servers[0].clone();
        if server.is_up() && self.is_time_for(self.every) {
            self.crashes += 1;
            if self.executor.chance(25) {
                server.restart();
            } else {
                server.crash();
                server.boot();
            }
        }
        if self.is_time_for(700) {
            self.jump(Duration::from_secs(self.executor.with_random(|random| random.between(1, 120))));
        }
        // A suspended machine continues, or its wall clock is corrected.
        if self.is_time_for(700) {
            server.shift_clock();
        }
    }

    fn strike_cluster(&mut self) {
        let server = self.servers[self.executor.with_random(|random| random.below(self.servers.len()))].clone();
        let (now, time) = (self.executor.now(), self.a_while());
        match self.executor.with_random(|random| random.below(100)) {
            0..30 if server.is_up() => {
                self.crashes += 1;
                server.crash();
                // Some return before another node notices.
                server.boot_later(if self.executor.chance(50) { Duration::ZERO } else { time });
            }
            30..40 if server.is_up() => {
                self.crashes += 1;
                server.restart();
            }
            40..60 if server.machine(|machine| machine.is_up && !machine.is_paused) => server.pause(time),
            60..75 => {
                self.executor.note(|| format!("server {} is cut off for {} ms", server.index, time.as_millis()));
                server.machine(|machine| machine.cut_until = machine.cut_until.max(now.plus(time)));
                self.store.ledger().troubles.push((Some(server.index), now, now.plus(time)));
            }
            75..84 => {
                self.executor.note(|| format!("the database is down for {} ms", time.as_millis()));
                let mut ledger = self.store.ledger();
                ledger.outage_until = ledger.outage_until.max(now.plus(time));
                ledger.troubles.push((None, now, now.plus(time)));
            }
            84..90 => self.shift_database(),
            90..94 => self.jump(time),
            94..100 => server.shift_clock(),
            _ => {}
        }
    }

    /// From an instant to three leases.
    fn a_while(&self) -> Duration {
        let lease = self.store.ledger().lease.as_millis() as u64;
        Duration::from_millis(self.executor.with_random(|random| random.between(lease / 10, lease * 3)))
    }

    /// Sets the database's clock.
    fn shift_database(&self) {
        let skew = self.executor.with_random(|random| random.between(0, 10_000_000)) as i64 - 5_000_000;
        self.executor.note(|| format!("the database's clock is now {} ms off", skew / 1_000));
        let before = self.database_skew.swap(skew, Ordering::Relaxed);
        let set_back = Duration::from_micros(u64::try_from(before - skew).unwrap_or(0));
        let mut ledger = self.store.ledger();
        // A lease that was renewed before several set-backs lasts longer by all of them.
        ledger.set_back_until = ledger.set_back_until.max(self.executor.now()).plus(set_back);
    }

    /// Time passes without a notification.
    fn jump(&self, by: Duration) {
        self.executor.note(|| format!("the clock jumps by {} ms", by.as_millis()));
        let before = self.executor.now();
        self.executor.jump(by);
        let (mut ledger, now) = (self.store.ledger(), self.executor.now());
        ledger.jumped_at = now;
        ledger.troubles.push((None, before, now));
    }

    /// From now on there are no faults.
    pub(super) fn calm(&self) {
        {
            let now = self.executor.now();
            let mut ledger = self.store.ledger();
            ledger.is_calm = true;
            ledger.outage_until = ledger.outage_until.min(now);
            for machine in &mut ledger.machines {
                machine.cut_until = machine.cut_until.min(now);
            }
            ledger.mended.notify_waiters();
        }
        self.executor.note(|| "the storm has ended".to_owned());
        if let Some(fleet) = &self.fleet {
            fleet.calm();
        }
        for server in &self.servers {
            if server.machine(|machine| machine.is_paused) {
                server.resume();
            }
        }
    }

    /// Ends the storm: all connections work again. After one last crash, which the seed decides, there are no faults and
    /// no inputs from outside.
    pub(super) fn end(&mut self) {
        self.calm();
        let is_shared = self.store.ledger().is_shared;
        let server = self.servers[self.executor.with_random(|random| random.below(self.servers.len()))].clone();
        if server.is_up() && self.executor.chance(if is_shared { 66 } else { 50 }) {
            self.crashes += 1;
            server.crash();
            // One of several may stay dead.
            if !is_shared || self.executor.chance(50) {
                server.boot();
            }
        }
    }
}
