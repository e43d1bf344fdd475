//! Code workflows with real workers and real servers: the scenarios of `sdks/conformance`, on both databases.
//!
//! The suite runs once per database; each test checks the result of its scenario.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod suite;

use std::collections::BTreeSet;

/// Creates a test for each scenario: for those of both databases, and for those of PostgreSQL, where nodes share one.
macro_rules! scenarios {
    (both { $($both:ident,)* } postgres { $($cluster:ident,)* }) => {
        const ALL: &[&str] = &[$(stringify!($both),)* $(stringify!($cluster),)*];

        mod sqlite {
            $(
                #[test]
                fn $both() {
                    crate::suite::sqlite().expect(stringify!($both));
                }
            )*
        }

        mod postgres {
            $(
                #[test]
                fn $both() {
                    crate::suite::postgres().expect(stringify!($both));
                }
            )*
            $(
                #[test]
                fn $cluster() {
                    crate::suite::postgres().expect(stringify!($cluster));
                }
            )*
        }
    };
}

scenarios! {
    both {
        a_cancel_ends_a_sleeping_run,
        a_cancel_reaches_a_running_step,
        a_cancel_reaches_a_step_of_a_paused_run,
        a_child_run_gives_its_output,
        a_child_run_that_fails_rejects_its_call,
        a_crash_after_the_ack_goes_on_after_the_step,
        a_crash_after_the_commit_before_the_ack_runs_no_step_twice,
        a_crash_before_the_commit_runs_the_step_again,
        a_crash_in_a_step_runs_it_again,
        a_cut_connection_is_taken_up_again,
        a_divergence_keeps_what_running_steps_give,
        a_drained_worker_loses_no_attempt,
        a_draining_worker_keeps_no_run_from_going_on,
        a_first_step_that_differs_is_reported_before_the_lease_ends,
        a_function_may_catch_what_its_step_threw,
        a_function_that_disagrees_with_its_journal_pauses_the_run,
        a_function_that_ends_aborts_what_runs_still,
        a_function_that_forgets_a_step_says_so,
        a_function_waits_for_the_decision_of_a_person,
        a_long_journal_is_replayed_whole,
        a_long_sleep_leaves_memory_and_wakes,
        a_name_that_is_used_twice_pauses_the_run,
        a_non_retriable_error_is_final,
        a_paused_run_goes_on_where_it_was,
        a_publish_step_publishes_once_if_its_worker_dies,
        a_publish_step_publishes_once_if_the_server_dies,
        a_race_replays_the_same,
        a_resume_aborts_a_step_that_runs_still,
        a_run_without_a_worker_reports_it_and_waits,
        a_server_killed_in_full_flight_loses_nothing,
        a_server_killed_with_a_hundred_runs_loses_nothing,
        a_server_stopped_in_order_finds_its_worker_again,
        a_signal_may_be_kept_until_it_is_waited_for,
        a_signal_resolves_a_wait_only_if_it_contains_the_match,
        a_signal_without_a_wait_is_dropped,
        a_signal_that_races_the_timeout_has_one_winner,
        a_signal_wakes_its_run_at_once,
        a_sleep_outlives_a_restart_of_the_server,
        a_start_of_an_unknown_name_is_refused,
        a_start_with_the_same_key_is_one_run,
        a_step_is_tried_three_times_if_nothing_is_said,
        a_step_that_fails_at_first_is_tried_again,
        a_step_without_a_proper_name_fails_the_run,
        a_stopped_worker_is_fenced,
        a_storm_of_kills_loses_nothing,
        a_wait_is_resolved_by_its_signal,
        a_wait_of_a_client_ends_when_its_run_is_paused,
        a_wait_that_times_out_gives_null,
        a_worker_killed_in_full_flight_loses_nothing,
        a_worker_killed_with_a_hundred_runs_loses_nothing,
        an_error_outside_a_step_fails_the_run,
        an_event_after_the_end_of_a_wait_changes_nothing,
        an_event_from_before_a_wait_reaches_it_only_by_since,
        an_event_resolves_every_wait_that_it_matches,
        an_event_starts_one_run_of_the_workflow_that_declares_it,
        an_event_wakes_a_run_that_has_left_memory,
        an_input_that_does_not_fit_is_refused,
        code_outside_steps_runs_again_on_replay,
        exhausted_retries_fail_the_run,
        five_hundred_parallel_steps_run_once_each,
        many_starts_and_waits_of_one_client_have_their_own_results,
        many_starts_of_one_client_with_the_same_key_are_one_run,
        one_of_several_parallel_steps_fails,
        reports_that_arrive_twice_count_once,
        sleeping_runs_use_no_capacity,
        sleeps_end_when_they_should,
        steps_run_in_order_and_once,
        ten_lost_turns_in_a_row_fail_the_run,
        the_example_of_the_guide_runs,
        the_first_of_two_waits_takes_a_signal,
        the_steps_of_a_run_are_shown_with_their_times,
        two_versions_run_side_by_side,
    }
    postgres {
        a_cluster_is_restarted_node_by_node,
        a_killed_node_leaves_its_runs_to_other_workers,
        a_killed_node_leaves_its_worker_to_another,
        a_storm_of_kills_in_a_cluster_loses_nothing,
        requests_may_alternate_between_nodes,
    }
}

#[test]
fn every_scenario_is_listed() {
    let files = std::fs::read_dir(suite::folder().join("scenarios")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let found: BTreeSet<_> = paths.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let listed: BTreeSet<_> = ALL.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(found, listed, "the scenarios in sdks/conformance, and those that are run here");
}
