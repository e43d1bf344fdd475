//! Seeded simulation: the engine survives whatever a seed does to it.

use everstep_testkit::sim::{self, Options};

/// Seeds played by every test run. `everstep sim --seeds N` plays more.
const SEEDS: u64 = 500;

fn play(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        if let Err(failure) = sim::play(seed, &Options::default()) {
            // Played again with its trace: a seed replays exactly.
            let again = sim::play(seed, &Options { has_trace: true, ..Options::default() });
            panic!("{}", again.err().unwrap_or(failure));
        }
    }
}

#[test]
fn five_hundred_seeds_lose_and_double_nothing_first_half() {
    play(0..SEEDS / 2);
}

#[test]
fn five_hundred_seeds_lose_and_double_nothing_second_half() {
    play(SEEDS / 2..SEEDS);
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [1, 42, 8113] {
        let first = sim::play(seed, &Options::default()).unwrap();
        assert_eq!(first, sim::play(seed, &Options::default()).unwrap());
    }
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use everstep_core::planted::Bug;

    use super::*;

    /// A simulator that finds nothing proves nothing: each bug must be caught.
    fn caught(bug: Bug) {
        let options = Options { bug: Some(bug), ..Options::default() };
        let found = (0..SEEDS).find(|seed| sim::play(*seed, &options).is_err());
        assert!(found.is_some(), "{} was not caught within {SEEDS} seeds", bug.name());
    }

    #[test]
    fn dispatch_before_commit_is_caught() {
        caught(Bug::DispatchBeforeCommit);
    }

    #[test]
    fn an_item_without_head_gate_is_caught() {
        caught(Bug::ItemWithoutHeadGate);
    }

    #[test]
    fn a_reused_attempt_is_caught() {
        caught(Bug::AttemptReused);
    }

    #[test]
    fn a_park_that_ignores_the_inbox_is_caught() {
        caught(Bug::ParkIgnoresInbox);
    }

    #[test]
    fn a_timer_lost_on_reload_is_caught() {
        caught(Bug::TimerLostOnReload);
    }

    #[test]
    fn a_late_result_after_cancel_is_caught() {
        caught(Bug::LateResultAfterCancel);
    }
}
