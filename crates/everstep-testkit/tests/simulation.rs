//! Seeded simulation: the engine keeps its promises under every fault of a seed.

use everstep_testkit::sim::{self, Options};

/// The seeds that every test run plays, of one server alone and of several. `everstep-lab sim --seeds N` plays more.
const SEEDS: u64 = 500;
/// The seeds of each special load: code workflows whose workers send messages all the time, machines on which persons act
/// all the time, clients that write records and links, clients that publish events, workspaces with very different load.
const SPECIAL_SEEDS: u64 = 100;

fn alone(_: u64) -> Options {
    let (code, machines, records, events) = (Some(false), Some(false), Some(false), Some(false));
    let neighbours = Some(false);
    Options { nodes: Some(1), code, machines, records, events, neighbours, ..Options::default() }
}

/// Two to four servers on one database.
fn several(seed: u64) -> Options {
    Options { nodes: Some(2 + seed as usize % 3), ..alone(seed) }
}

/// With persons who act on machines.
fn machines_alone(seed: u64) -> Options {
    Options { machines: Some(true), ..alone(seed) }
}

fn machines_of_several(seed: u64) -> Options {
    Options { machines: Some(true), ..several(seed) }
}

/// With graphs and clients that write records and links.
fn records_alone(seed: u64) -> Options {
    Options { records: Some(true), ..alone(seed) }
}

fn records_of_several(seed: u64) -> Options {
    Options { records: Some(true), ..several(seed) }
}

/// With clients that publish events, and graphs that wait for them.
fn events_alone(seed: u64) -> Options {
    Options { events: Some(true), ..alone(seed) }
}

fn events_of_several(seed: u64) -> Options {
    Options { events: Some(true), ..several(seed) }
}

/// With events, and with workers whose functions publish them and wait for them.
fn events_with_code(seed: u64) -> Options {
    Options { code: Some(true), ..events_of_several(seed) }
}

/// With other workspaces, one of which has many due runs.
fn neighbours_alone(seed: u64) -> Options {
    Options { neighbours: Some(true), ..alone(seed) }
}

fn neighbours_of_several(seed: u64) -> Options {
    Options { neighbours: Some(true), ..several(seed) }
}

/// With workers that run code workflows.
fn code_alone(seed: u64) -> Options {
    Options { code: Some(true), ..alone(seed) }
}

fn code_of_several(seed: u64) -> Options {
    Options { code: Some(true), ..several(seed) }
}

fn play(seeds: std::ops::Range<u64>, options: fn(u64) -> Options) {
    for seed in seeds {
        if let Err(failure) = sim::play(seed, &options(seed)) {
            // Played again with its trace: a seed replays exactly.
            let again = sim::play(seed, &Options { has_trace: true, ..options(seed) });
            panic!("{}", again.err().unwrap_or(failure));
        }
    }
}

/// A server reads a parked run, another one accepts a request, and the first one receives the request again before its
/// read has ended: it must not be refused by the older state.
#[test]
fn a_request_that_arrives_while_its_run_is_read_is_not_refused() {
    fn options(seed: u64) -> Options {
        Options {
            nodes: Some(4),
            code: Some(true),
            records: Some(true),
            events: Some(false),
            neighbours: Some(false),
            ..machines_alone(seed)
        }
    }
    play(8_783..8_784, options);
}

#[test]
fn five_hundred_seeds_lose_and_double_nothing_first_half() {
    play(0..SEEDS / 2, alone);
}

#[test]
fn five_hundred_seeds_lose_and_double_nothing_second_half() {
    play(SEEDS / 2..SEEDS, alone);
}

#[test]
fn five_hundred_seeds_of_several_nodes_lose_and_double_nothing_first_half() {
    play(0..SEEDS / 2, several);
}

#[test]
fn five_hundred_seeds_of_several_nodes_lose_and_double_nothing_second_half() {
    play(SEEDS / 2..SEEDS, several);
}

#[test]
fn many_seeds_of_code_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, code_alone);
}

#[test]
fn many_seeds_of_code_and_several_nodes_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, code_of_several);
}

#[test]
fn many_seeds_of_machines_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, machines_alone);
}

#[test]
fn many_seeds_of_machines_and_several_nodes_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, machines_of_several);
}

#[test]
fn many_seeds_of_records_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, records_alone);
}

#[test]
fn many_seeds_of_records_and_several_nodes_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, records_of_several);
}

#[test]
fn many_seeds_of_events_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, events_alone);
}

#[test]
fn many_seeds_of_events_and_several_nodes_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, events_of_several);
}

#[test]
fn many_seeds_of_events_and_code_lose_and_double_nothing() {
    play(0..SPECIAL_SEEDS, events_with_code);
}

#[test]
fn no_workspace_waits_for_more_than_its_turn() {
    play(0..SPECIAL_SEEDS, neighbours_alone);
}

#[test]
fn no_workspace_waits_for_more_than_its_turn_on_several_nodes() {
    play(0..SPECIAL_SEEDS, neighbours_of_several);
}

#[test]
fn a_seed_replays_exactly() {
    let graphs = [alone, several, records_alone, records_of_several];
    let others = [code_alone, code_of_several, machines_alone, machines_of_several];
    let special = [events_alone, events_of_several, neighbours_alone, neighbours_of_several];
    // One seed for each load: the loads of code and of neighbours take long.
    for (options, seed) in graphs.into_iter().chain(others).chain(special).zip([1, 42, 8113].into_iter().cycle()) {
        let first = sim::play(seed, &options(seed)).unwrap();
        assert_eq!(first, sim::play(seed, &options(seed)).unwrap());
    }
}

#[cfg(feature = "planted-bugs")]
mod planted {
    use everstep_core::planted::Bug;

    use super::*;

    /// With persons, and with clients that write records and links.
    fn machines_with_records(seed: u64) -> Options {
        Options { records: Some(true), ..machines_of_several(seed) }
    }

    /// Proves that the simulator finds bugs: each planted bug must be caught within [`SEEDS`] seeds.
    ///
    /// `known` is a seed that has caught the bug. It is played first, which saves the time of the others; a change of the
    /// engine or of the simulator may let another seed catch it.
    fn caught(bug: Bug, options: fn(u64) -> Options, known: u64) {
        let options = |seed| Options { bug: Some(bug), ..options(seed) };
        let found = std::iter::once(known).chain(0..SEEDS).find_map(|seed| sim::play(seed, &options(seed)).err());
        let Some(failure) = found else { panic!("{} was not caught within {SEEDS} seeds", bug.name()) };
        eprintln!("{} was caught by seed {}: {}", bug.name(), failure.seed, failure.message);
    }

    #[test]
    fn dispatch_before_commit_is_caught() {
        caught(Bug::DispatchBeforeCommit, alone, 0);
    }

    #[test]
    fn an_item_without_head_gate_is_caught() {
        caught(Bug::ItemWithoutHeadGate, alone, 27);
    }

    #[test]
    fn a_reused_attempt_is_caught() {
        caught(Bug::AttemptReused, alone, 0);
    }

    #[test]
    fn a_park_that_ignores_the_inbox_is_caught() {
        caught(Bug::ParkIgnoresInbox, alone, 68);
    }

    #[test]
    fn a_timer_lost_on_reload_is_caught() {
        caught(Bug::TimerLostOnReload, alone, 19);
    }

    #[test]
    fn a_late_result_after_cancel_is_caught() {
        caught(Bug::LateResultAfterCancel, alone, 229);
    }

    #[test]
    fn a_fence_that_is_not_checked_is_caught() {
        caught(Bug::FenceNotChecked, several, 77);
    }

    #[test]
    fn a_release_that_stops_half_way_is_caught() {
        caught(Bug::ReleaseStopsHalfWay, several, 3);
    }

    #[test]
    fn a_restarted_node_that_keeps_its_id_is_caught() {
        caught(Bug::RestartKeepsId, several, 4);
    }

    #[test]
    fn a_lease_on_a_node_s_clock_is_caught() {
        caught(Bug::LeaseOnNodeClock, several, 4);
    }

    #[test]
    fn a_turn_that_is_not_fenced_is_caught() {
        caught(Bug::TurnNotFenced, code_alone, 14);
    }

    #[test]
    fn a_lost_turn_that_is_forgotten_is_caught() {
        caught(Bug::LostTurnForgotten, code_alone, 13);
    }

    #[test]
    fn a_turn_before_its_commit_is_caught() {
        caught(Bug::TurnBeforeCommit, code_alone, 0);
    }

    #[test]
    fn side_writes_without_their_item_are_caught() {
        caught(Bug::SideWritesWithoutItem, alone, 0);
    }

    #[test]
    fn a_park_that_races_a_signal_is_caught() {
        caught(Bug::ParkRacesSignal, several, 0);
    }

    #[test]
    fn a_stale_version_that_is_taken_is_caught() {
        caught(Bug::StaleVersionTaken, machines_alone, 1);
    }

    #[test]
    fn a_version_that_is_checked_before_the_key_is_caught() {
        caught(Bug::VersionCheckedBeforeKey, machines_alone, 4);
    }

    #[test]
    fn a_key_that_is_forgotten_on_reload_is_caught() {
        caught(Bug::KeyForgottenOnReload, machines_alone, 0);
    }

    #[test]
    fn a_vote_that_is_counted_twice_is_caught() {
        caught(Bug::VoteCountedTwice, machines_alone, 1);
    }

    #[test]
    fn voters_that_are_resolved_again_are_caught() {
        caught(Bug::VotersResolvedAgain, machines_alone, 4);
    }

    #[test]
    fn a_timer_that_outlives_its_state_is_caught() {
        caught(Bug::TimerOutlivesItsState, machines_alone, 0);
    }

    #[test]
    fn a_row_that_lags_behind_is_caught() {
        caught(Bug::RowLagsBehind, machines_of_several, 0);
    }

    #[test]
    fn an_op_key_without_the_iteration_is_caught() {
        caught(Bug::OpKeyWithoutIteration, records_alone, 1);
    }

    #[test]
    fn an_op_key_with_the_attempt_is_caught() {
        caught(Bug::OpKeyWithAttempt, records_alone, 0);
    }

    #[test]
    fn an_output_that_is_not_saved_with_the_write_is_caught() {
        caught(Bug::OutputNotSaved, records_alone, 0);
    }

    #[test]
    fn an_expired_record_that_a_sweep_revives_is_caught() {
        caught(Bug::ExpiredRecordRevived, records_alone, 0);
    }

    #[test]
    fn a_transaction_that_is_half_applied_is_caught() {
        caught(Bug::TransactionHalfApplied, records_alone, 3);
    }

    #[test]
    fn an_op_that_is_given_up_when_its_outcome_is_unknown_is_caught() {
        caught(Bug::UnknownOpGivenUp, records_alone, 2);
    }

    #[test]
    fn figures_that_count_a_resent_item_twice_are_caught() {
        caught(Bug::StatsCountAResentItem, alone, 4);
    }

    #[test]
    fn a_feed_that_forgets_a_gap_is_caught() {
        caught(Bug::FeedForgetsAGap, several, 0);
    }

    #[test]
    fn a_fan_out_without_the_gate_of_the_cursor_is_caught() {
        caught(Bug::FanOutWithoutCursorGate, events_of_several, 0);
    }

    #[test]
    fn a_cursor_that_moves_before_its_slice_is_caught() {
        caught(Bug::CursorBeforeSlice, events_alone, 0);
    }

    #[test]
    fn a_wait_that_is_missed_while_it_opens_is_caught() {
        caught(Bug::WaitMissedWhileOpening, events_of_several, 0);
    }

    #[test]
    fn an_event_that_is_published_before_the_commit_is_caught() {
        caught(Bug::EventPublishedBeforeCommit, events_alone, 0);
    }

    #[test]
    fn triggers_of_an_old_version_are_caught() {
        caught(Bug::TriggersOfAnOldVersion, events_alone, 0);
    }

    #[test]
    fn a_pending_start_that_is_loaded_twice_is_caught() {
        caught(Bug::PendingStartLoadedTwice, events_of_several, 69);
    }

    #[test]
    fn a_run_that_is_parked_before_it_looks_back_is_caught() {
        caught(Bug::ParkedBeforeLookBack, events_alone, 69);
    }

    #[test]
    fn a_claim_by_time_alone_is_caught() {
        caught(Bug::ClaimByTimeAlone, neighbours_alone, 0);
    }

    #[test]
    fn a_share_that_forgets_a_workspace_is_caught() {
        caught(Bug::ShareForgetsAWorkspace, neighbours_alone, 5);
    }

    #[test]
    fn a_claim_by_time_alone_is_caught_on_several_nodes() {
        caught(Bug::ClaimByTimeAlone, neighbours_of_several, 1);
    }

    #[test]
    fn delivery_dies_with_cancel_is_caught() {
        caught(Bug::DeliveryDiesWithCancel, machines_alone, 21);
    }

    #[test]
    fn fork_delivers_again_is_caught() {
        caught(Bug::ForkDeliversAgain, machines_alone, 9);
    }

    #[test]
    fn config_resolved_late_is_caught() {
        caught(Bug::ConfigResolvedLate, machines_alone, 4);
    }

    #[test]
    fn letter_beside_its_item_is_caught() {
        caught(Bug::LetterBesideItsItem, machines_with_records, 200);
    }

    #[test]
    fn requeue_forgotten_is_caught() {
        caught(Bug::RequeueForgotten, machines_of_several, 398);
    }

    #[test]
    fn file_bound_twice_is_caught() {
        caught(Bug::FileBoundTwice, machines_alone, 29);
    }

    #[test]
    fn parent_waits_for_webhooks_is_caught() {
        caught(Bug::ParentWaitsForWebhooks, machines_alone, 21);
    }
}
