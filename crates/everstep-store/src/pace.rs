//! The pace of upkeep: how many rows one transaction deletes, and the pause after it.
//!
//! A commit that arrives while upkeep writes must wait for it. So a transaction of upkeep is short, by measurement, and
//! while the database has other callers, most of the time is left to them.
//!
//! 1. The measured time has no wait for the disk: a transaction of upkeep is durable with the next commit of other
//!    callers, so that a slow disk makes neither the batches smaller nor the pauses longer.
//! 2. A pause is several times as long as the transaction before it. If upkeep is busy for minutes without an end, more
//!    rows expire than it deletes; then a pause is as long as the transaction, and half of the time is upkeep's. A run is
//!    deleted in less time than it is written, so this suffices for any load.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The time that a transaction of upkeep may take.
const BATCH_TIME_MAX: Duration = Duration::from_millis(4);
/// A pause is so many times as long as the transaction before it, while the database has other callers.
const PAUSE_FACTOR: u32 = 4;
/// The same with a backlog.
const BACKLOG_PAUSE_FACTOR: u32 = 1;
/// There is a backlog when upkeep has been busy for this time, its pauses included.
const BACKLOG_TIME: Duration = Duration::from_secs(600);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Several runs of ten steps.
const ROWS_MIN: usize = 128;
const ROWS_MAX: usize = 20_000;
/// Before anything was measured.
const ROWS_FIRST: usize = 256;

/// The pace of the upkeep of one database.
#[derive(Debug)]
pub(crate) struct Pace {
    rows: AtomicUsize,
    /// The calls to the store when the last transaction of upkeep had ended.
    calls: AtomicU64,
    /// How long upkeep has been busy.
    busy: Mutex<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rows: AtomicUsize::new(ROWS_FIRST), calls: AtomicU64::new(0), busy: Mutex::default() }
    }
}

impl Pace {
    /// The number of rows of the next transaction.
    pub(crate) fn rows(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// Records how long a transaction took that has changed so many rows: the next one is shorter or longer.
    pub(crate) fn record(&self, rows: usize, took: Duration) {
        let planned = self.rows();
        let next = match took {
            _ if took > BATCH_TIME_MAX => planned / 2,
            _ if took > BATCH_TIME_MAX * 3 / 4 => planned * 3 / 4,
            // A transaction that found few rows does not show how long many would take.
            _ if took < BATCH_TIME_MAX / 2 && rows >= planned / 2 => planned * 5 / 4,
            _ => planned,
        };
        self.rows.store(next.clamp(ROWS_MIN, ROWS_MAX), Ordering::Relaxed);
    }

    /// The pause after a transaction. `calls` counts the calls to the store so far, `own` of them for this transaction;
    /// without other callers since the transaction before, there is none.
    pub(crate) fn pause(&self, took: Duration, calls: u64, own: u64) -> Duration {
        let before = self.calls.swap(calls, Ordering::Relaxed);
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let factor = if *busy < BACKLOG_TIME { PAUSE_FACTOR } else { BACKLOG_PAUSE_FACTOR };
        let pause = match calls.saturating_sub(before) <= own {
            true => Duration::ZERO,
            false => (took * factor).min(PAUSE_MAX),
        };
        *busy += took + pause;
        pause
    }

    /// No expired run is left.
    pub(crate) fn end_backlog(&self) {
        *self.busy.lock().unwrap_or_else(PoisonError::into_inner) = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_transaction_makes_the_next_one_shorter() {
        let pace = Pace::default();
        for _ in 0..100 {
            pace.record(pace.rows(), Duration::from_millis(9));
        }
        assert_eq!(pace.rows(), ROWS_MIN);
        for _ in 0..100 {
            pace.record(pace.rows(), Duration::from_micros(100));
        }
        assert_eq!(pace.rows(), ROWS_MAX);
        // A transaction whose time is ten microseconds per row settles below the maximum.
        for _ in 0..100 {
            let rows = pace.rows();
            pace.record(rows, Duration::from_micros(10) * u32::try_from(rows).unwrap());
        }
        assert!((200..=400).contains(&pace.rows()), "{}", pace.rows());
    }

    #[test]
    fn transactions_without_rows_do_not_make_the_next_one_longer() {
        let pace = Pace::default();
        for _ in 0..1_000 {
            pace.record(0, Duration::from_micros(50));
        }
        assert_eq!(pace.rows(), ROWS_FIRST);
    }

    #[test]
    fn a_pause_is_longer_than_the_transaction_while_others_call() {
        let pace = Pace::default();
        let took = Duration::from_millis(3);
        assert_eq!(pace.pause(took, 50, 1), took * PAUSE_FACTOR);
        assert_eq!(pace.pause(took, 51, 1), Duration::ZERO);
        assert_eq!(pace.pause(took, 53, 1), took * PAUSE_FACTOR);
        assert_eq!(pace.pause(took, 56, 3), Duration::ZERO);
        assert_eq!(pace.pause(Duration::from_secs(60), 60, 1), PAUSE_MAX);
    }

    /// Runs expire faster than a sweep deletes them with long pauses. Times are those of a model: nothing is measured.
    #[test]
    fn a_sweep_catches_up_with_any_number_of_runs_that_expire() {
        const ROW_TIME: Duration = Duration::from_micros(8);
        const ROWS_OF_RUN: usize = 28;
        /// Longer than the time in which a run is deleted.
        const WRITE_TIME: Duration = Duration::from_micros(300);
        let pace = Pace::default();
        let (mut time, mut calls, mut most) = (Duration::ZERO, 0, 0);
        // Each run that has expired and is not deleted took this time to write.
        let mut due = Duration::ZERO;
        loop {
            let due_runs = usize::try_from(due.as_micros() / WRITE_TIME.as_micros()).unwrap();
            if due_runs == 0 {
                pace.end_backlog();
                if most > 100_000 {
                    break;
                }
            }
            most = most.max(due_runs);
            let runs = due_runs.min(pace.rows() / ROWS_OF_RUN);
            let took = ROW_TIME * u32::try_from(runs * ROWS_OF_RUN).unwrap();
            assert!(took <= BATCH_TIME_MAX * 2, "{took:?}");
            pace.record(runs * ROWS_OF_RUN, took);
            calls += 100;
            let pause = pace.pause(took, calls, 1).max(Duration::from_micros(100));
            // All of the pause belongs to runs, which expire as fast as they are written.
            due = due + pause - WRITE_TIME * u32::try_from(runs).unwrap();
            time += took + pause;
            assert!(time < Duration::from_secs(3 * 3_600), "{due_runs} runs are due, {most} before");
        }
    }
}
