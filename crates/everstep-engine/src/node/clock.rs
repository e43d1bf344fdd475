//! A node's clock: a monotonic clock plus an offset. If nodes share a database, the offset follows the database's
//! clock, and otherwise the machine's wall clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::time::Timestamp;

use crate::ports::{BoxFuture, Clock, SystemClock};

/// The change of the offset per second without a step.
const SLEW_MICROS_PER_SECOND: i64 = 50_000;
/// A skew above this is logged and reported.
const LARGE_SKEW_MICROS: i64 = 1_000_000;
/// A step forward of at least this much makes alarms late, so that they must be set again.
const REARM_STEP_MICROS: i64 = 10_000;

/// Stamps entries, timers and ids. Leases are not measured by it: those of nodes use the database's clock, those of
/// workers the monotonic clock.
///
/// **Invariant**: the clock of a node never goes backwards, whatever the database's clock and the machine's do.
pub struct NodeClock {
    machine: Arc<dyn Clock>,
    slew: Mutex<Slew>,
    /// The number of steps forward.
    steps: AtomicU64,
}

impl NodeClock {
    /// A clock that shows the machine's time until it follows the database's clock.
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        let monotonic = machine.monotonic();
        let offset = machine.wall().micros() - micros(monotonic);
        let slew = Slew { anchor: monotonic, offset, target: offset, skew: None, unannounced: 0 };
        Self { machine, slew: Mutex::new(slew), steps: AtomicU64::new(0) }
    }

    /// A clock that follows this machine's.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock::default()))
    }

    pub fn now(&self) -> Timestamp {
        let slew = self.slew.lock().expect("no holder of the lock panics");
        // Read with the lock held: an anchor later than this reading would show a time before one that was already
        // shown.
        let monotonic = self.machine.monotonic();
        Timestamp::from_micros(micros(monotonic) + slew.offset_at(monotonic))
    }

    /// Monotonic time, from an arbitrary beginning.
    pub fn monotonic(&self) -> Duration {
        self.machine.monotonic()
    }

    /// Sleeps until this clock shows `time`, if it is not stepped before: see [`NodeClock::steps`].
    pub fn sleep_until(&self, time: Timestamp) -> BoxFuture {
        self.machine.sleep(time.since(self.now()))
    }

    pub fn sleep(&self, duration: Duration) -> BoxFuture {
        self.machine.sleep(duration)
    }

    /// The number of steps forward. [`NodeClock::sleep_until`] sleeps on the monotonic clock, so a sleep from before a
    /// step ends too late and must be started again.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    /// Follows the machine's wall clock. For a node that shares its database with no other.
    ///
    /// While a machine is suspended its monotonic clock stops, and its wall clock continues: then this clock is behind
    /// and steps forward at once, so that timers that became due fire. A clock that is ahead, because the wall clock
    /// was set back, slews. Returns the size of the step forward, if it was large enough for alarms to be late.
    pub fn follow_wall(&self) -> Option<Duration> {
        let mut slew = self.slew.lock().expect("no holder of the lock panics");
        // The wall clock is read first: if this thread is suspended between the two reads, the node clock is behind,
        // and the next comparison corrects it at once.
        let wall = self.machine.wall().micros();
        let monotonic = self.machine.monotonic();
        let target = wall - micros(monotonic);
        let offset = slew.offset_at(monotonic);
        let behind = (target - offset).max(0);
        // Many small steps make an alarm as late as one large step.
        let unannounced = slew.unannounced + behind;
        let is_announced = unannounced >= REARM_STEP_MICROS;
        *slew = Slew {
            anchor: monotonic,
            offset: offset + behind,
            target,
            skew: Some(target - offset - behind),
            unannounced: if is_announced { 0 } else { unannounced },
        };
        if !is_announced {
            return None;
        }
        self.steps.fetch_add(1, Ordering::SeqCst);
        Some(Duration::from_micros(unannounced.unsigned_abs()))
    }

    /// Follows the database's clock, which showed `database` at a moment between `sent` and `received`.
    pub fn follow(&self, database: Timestamp, sent: Duration, received: Duration) {
        let middle = micros(sent + received.saturating_sub(sent) / 2);
        let wall = self.machine.wall().micros() - (micros(self.machine.monotonic()) - middle);
        let mut slew = self.slew.lock().expect("no holder of the lock panics");
        slew.aim(self.machine.monotonic(), database.micros() - middle);
        slew.skew = Some(wall - database.micros());
    }

    /// Like `follow`, while no entry or timer of this clock is in use: a node that was suspended and fenced does not
    /// lag behind the others for as long as slewing takes.
    pub fn catch_up(&self, database: Timestamp, sent: Duration, received: Duration) {
        self.follow(database, sent, received);
        let mut slew = self.slew.lock().expect("no holder of the lock panics");
        slew.offset = slew.offset.max(slew.target);
    }

    /// The difference between the machine's wall clock and the clock that all nodes follow, in microseconds: the
    /// database's, or on a node that shares its database with no other, the node's own. Positive if the wall clock is
    /// ahead. `None` until they were compared.
    pub fn skew(&self) -> Option<i64> {
        self.slew.lock().expect("no holder of the lock panics").skew
    }

    /// The skew in seconds, if it is above a second.
    pub fn large_skew_seconds(&self) -> Option<f64> {
        self.skew().filter(|skew| skew.abs() > LARGE_SKEW_MICROS).map(|skew| skew as f64 / 1e6)
    }
}

/// Detects when a skew becomes large, so that it is logged once and not at every measurement.
#[derive(Default)]
pub(crate) struct SkewAlert {
    is_raised: bool,
}

impl SkewAlert {
    /// The skew in seconds, if it has become large since the last call.
    pub(crate) fn check(&mut self, clock: &NodeClock) -> Option<f64> {
        let skew = clock.large_skew_seconds();
        let was_raised = std::mem::replace(&mut self.is_raised, skew.is_some());
        skew.filter(|_| !was_raised)
    }
}

/// An offset that moves from one value to another.
struct Slew {
    /// The moment at which the offset was `offset`.
    anchor: Duration,
    offset: i64,
    target: i64,
    skew: Option<i64>,
    /// The sum of the steps forward since alarms were last started again.
    unannounced: i64,
}

impl Slew {
    fn offset_at(&self, monotonic: Duration) -> i64 {
        let passed = monotonic.saturating_sub(self.anchor);
        let change = passed.as_micros() * SLEW_MICROS_PER_SECOND as u128 / 1_000_000;
        let change = i64::try_from(change).unwrap_or(i64::MAX);
        self.offset + (self.target - self.offset).clamp(-change, change)
    }

    /// The first measurement is applied at once: no entry was stamped before it.
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
    fn a_node_that_joins_again_catches_up_at_once_and_never_goes_back() {
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
    fn behind_the_wall_clock_it_steps_forward_at_once() {
        let (machine, clock) = clock(0);
        assert_eq!((clock.follow_wall(), clock.steps(), clock.skew()), (None, 0, Some(0)));
        let before = clock.now().micros();
        // The machine was suspended for an hour: the monotonic clock stopped.
        machine.0.lock().unwrap().1 += 3_600_000_000;
        assert_eq!(clock.now().micros(), before);
        assert_eq!(clock.follow_wall(), Some(Duration::from_secs(3_600)));
        assert_eq!(clock.now().micros(), before + 3_600_000_000);
        assert_eq!((clock.steps(), clock.skew(), clock.large_skew_seconds()), (1, Some(0), None));
    }

    #[test]
    fn ahead_of_the_wall_clock_it_slews_and_never_goes_back() {
        const TEN_DAYS: i64 = 864_000_000_000;
        let (machine, clock) = clock(TEN_DAYS);
        machine.0.lock().unwrap().1 = 0;
        let mut before = clock.now().micros();
        for second in 1..=100 {
            assert_eq!(clock.follow_wall(), None);
            assert_eq!(clock.skew(), Some(50_000 * (second - 1) - TEN_DAYS));
            pass(&machine, SECOND);
            assert_eq!(clock.now().micros() - before, 950_000);
            before = clock.now().micros();
        }
        assert!(clock.large_skew_seconds().is_some_and(|skew| skew < -863_990.0));
        let mut alert = SkewAlert::default();
        assert!(alert.check(&clock).is_some());
        assert!(alert.check(&clock).is_none(), "it is logged once");
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
