//! A node's clock: time that only passes, and an offset that follows the database's clock.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::time::Timestamp;

use crate::ports::{BoxFuture, Clock, SystemClock};

/// How much the offset may change in a second.
const SLEW: i64 = 50_000;

/// Stamps entries, timers and ids. Leases alone are measured by the database.
///
/// **Invariant**: the clock of a node never goes back, whatever the database's clock and the machine's do.
pub struct NodeClock {
    machine: Arc<dyn Clock>,
    slew: Mutex<Slew>,
}

impl NodeClock {
    /// A clock that shows the machine's time until it has learnt the database's.
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        let monotonic = machine.monotonic();
        let offset = machine.wall().micros() - micros(monotonic);
        let slew = Slew { anchor: monotonic, offset, target: offset, skew: None };
        Self { machine, slew: Mutex::new(slew) }
    }

    /// A clock that follows this machine's.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock::default()))
    }

    pub fn now(&self) -> Timestamp {
        let slew = self.slew.lock().expect("no holder of the lock panics");
        // Read with the lock held: an anchor that is later than it would show a time before one that was shown.
        let monotonic = self.machine.monotonic();
        Timestamp::from_micros(micros(monotonic) + slew.offset_at(monotonic))
    }

    /// Time that only passes, from some beginning.
    pub fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }

    pub fn sleep_until(&self, time: Timestamp) -> BoxFuture {
        self.machine.sleep(time.since(self.now()))
    }

    pub fn sleep(&self, duration: Duration) -> BoxFuture {
        self.machine.sleep(duration)
    }

    /// Learns what the database's clock showed at some moment between two of our own.
    pub fn follow(&self, database: Timestamp, sent: Duration, received: Duration) {
        let middle = micros(sent + received.saturating_sub(sent) / 2);
        let wall = self.machine.wall().micros() - (micros(self.machine.monotonic()) - middle);
        let mut slew = self.slew.lock().expect("no holder of the lock panics");
        slew.aim(self.machine.monotonic(), database.micros() - middle);
        slew.skew = Some(wall - database.micros());
    }

    /// Learns the same when nothing that this clock has stamped is at work: a node that stood still, and was fenced,
    /// does not lag behind the others for as long as it takes to catch up slowly.
    pub fn catch_up(&self, database: Timestamp, sent: Duration, received: Duration) {
        self.follow(database, sent, received);
        let mut slew = self.slew.lock().expect("no holder of the lock panics");
        slew.offset = slew.offset.max(slew.target);
    }

    /// How far the machine's clock is ahead of the database's, in microseconds; `None` until it was compared.
    pub fn skew(&self) -> Option<i64> {
        self.slew.lock().expect("no holder of the lock panics").skew
    }
}

/// An offset on its way from one value to another.
struct Slew {
    /// The moment at which the offset was `offset`.
    anchor: Duration,
    offset: i64,
    target: i64,
    skew: Option<i64>,
}

impl Slew {
    fn offset_at(&self, monotonic: Duration) -> i64 {
        let passed = monotonic.saturating_sub(self.anchor);
        let most = i64::try_from(passed.as_micros() * SLEW as u128 / 1_000_000).unwrap_or(i64::MAX);
        self.offset + (self.target - self.offset).clamp(-most, most)
    }

    /// The first aim is reached at once: nothing was stamped before it.
    fn aim(&mut self, now: Duration, target: i64) {
        self.offset = if self.skew.is_none() { target } else { self.offset_at(now) };
        (self.anchor, self.target) = (now, target);
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Machine(Mutex<(Duration, i64)>);

    impl Clock for Machine {
        fn monotonic(&self) -> Duration {
            self.0.lock().unwrap().0
        }

        fn wall(&self) -> Timestamp {
            let (passed, skew) = *self.0.lock().unwrap();
            Timestamp::from_micros(micros(passed) + skew)
        }

        fn sleep(&self, _: Duration) -> BoxFuture {
            Box::pin(std::future::ready(()))
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn clock(skew: i64) -> (Arc<Machine>, NodeClock) {
        let machine = Arc::new(Machine(Mutex::new((SECOND, skew))));
        let clock = NodeClock::new(Arc::clone(&machine) as _);
        (machine, clock)
    }

    fn pass(machine: &Machine, time: Duration) {
        machine.0.lock().unwrap().0 += time;
    }

    #[test]
    fn the_first_measurement_is_taken_over_at_once() {
        let (machine, clock) = clock(30_000_000);
        assert_eq!(clock.now().micros(), 31_000_000);
        assert_eq!(clock.skew(), None);
        clock.follow(Timestamp::from_micros(1_000_000), machine.monotonic(), machine.monotonic());
        assert_eq!(clock.now().micros(), 1_000_000);
        assert_eq!(clock.skew(), Some(30_000_000));
    }

    #[test]
    fn a_jump_of_the_database_s_clock_is_followed_slowly_and_never_back() {
        let (machine, clock) = clock(0);
        clock.follow(clock.now(), machine.monotonic(), machine.monotonic());
        let mut before = clock.now();
        for jump in [60_000_000, -60_000_000] {
            let database = Timestamp::from_micros(clock.now().micros() + jump);
            clock.follow(database, machine.monotonic(), machine.monotonic());
            for _ in 0..100 {
                pass(&machine, SECOND / 10);
                let passed = clock.now().micros() - before.micros();
                assert!((95_000..=105_000).contains(&passed), "{passed}");
                before = clock.now();
            }
        }
    }

    #[test]
    fn whoever_joins_anew_catches_up_at_once_and_never_goes_back() {
        let (machine, clock) = clock(0);
        clock.follow(clock.now(), machine.monotonic(), machine.monotonic());
        let hour = 3_600_000_000;
        for ahead in [hour, -hour] {
            let before = clock.now().micros();
            let database = Timestamp::from_micros(before + ahead);
            clock.catch_up(database, machine.monotonic(), machine.monotonic());
            assert_eq!(clock.now().micros(), before + ahead.max(0));
        }
    }

    #[test]
    fn a_small_difference_is_gone_in_time() {
        let (machine, clock) = clock(0);
        clock.follow(clock.now(), machine.monotonic(), machine.monotonic());
        let database = Timestamp::from_micros(clock.now().micros() + 100_000);
        clock.follow(database, machine.monotonic(), machine.monotonic());
        pass(&machine, 2 * SECOND);
        assert_eq!(clock.now().micros(), database.micros() + 2_000_000);
        pass(&machine, 2 * SECOND);
        assert_eq!(clock.now().micros(), database.micros() + 4_000_000);
    }

    #[test]
    fn the_answer_is_taken_to_be_from_the_middle_of_the_call() {
        let (machine, clock) = clock(0);
        let sent = machine.monotonic();
        pass(&machine, 2 * SECOND);
        clock.follow(Timestamp::from_micros(50_000_000), sent, machine.monotonic());
        assert_eq!(clock.now().micros(), 51_000_000);
    }
}
