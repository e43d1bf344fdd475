//! Decision texts: each file in `decisions/` is a workflow, inputs, and the journal that follows.
//!
//! `BLESS=1 cargo test -p everstep-core decisions` writes the journals again; read the difference.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::support;

macro_rules! texts {
    ($($name:ident)*) => {
        const TEXTS: &[&str] = &[$(stringify!($name),)*];

        $(
            #[test]
            fn $name() {
                play(stringify!($name));
            }
        )*
    };
}

texts! {
    a_body_without_a_way_back_ends_at_its_last_node
    a_bodys_variable_named_as_the_item_hides_it_everywhere
    a_called_run_that_does_not_end_in_time_is_cancelled
    a_cancelled_child_tells_its_parent
    a_cancelled_function_takes_no_more_reports
    a_cancelled_run_cancels_the_child_it_waits_for
    a_cancelled_run_takes_no_more_results
    a_chain_of_twenty_runs_to_its_end
    a_child_tells_its_parent_of_its_end
    a_child_tells_its_parent_why_it_failed
    a_child_that_cannot_be_started_fails_its_step
    a_child_that_does_not_end_in_time_is_cancelled
    a_child_that_ended_late_or_elsewhere_changes_nothing
    a_child_that_fails_for_a_timeout_of_its_own_is_left_alone
    a_child_without_a_waiting_step_completes_its_step_when_it_exists
    a_child_without_a_waiting_step_is_not_cancelled
    a_child_without_a_waiting_step_notifies_no_run
    a_child_that_was_broken_from_outside_tells_its_parent
    a_childs_failure_follows_the_error_edge
    a_childs_failure_without_an_error_edge_fails_the_run
    a_childs_output_is_the_steps
    a_code_that_is_not_retryable_is_final
    a_condition_takes_one_path
    a_delay_of_a_day_is_allowed
    a_delay_over_a_day_fails_at_run_time
    a_delay_until_a_past_time_is_over_at_once
    a_delay_until_a_time_waits_for_it
    a_delay_until_no_time_fails
    a_dynamic_delay_is_in_milliseconds
    a_dynamic_delay_may_be_text
    a_dynamic_delay_that_is_no_number_fails
    a_failed_attempt_of_a_function_is_tried_again
    a_failed_child_is_tried_again_as_a_new_run
    a_failed_delay_can_be_retried
    a_failed_end_can_be_retried
    a_failed_expression_can_be_retried
    a_failed_item_can_be_retried
    a_failed_item_of_a_parallel_loop_drops_only_its_own_iteration
    a_failed_last_node_that_is_handled_gives_null
    a_failed_run_cancels_the_child_it_waits_for
    a_failed_scope_drops_what_is_open_inside
    a_failed_step_can_be_retried
    a_failed_step_leaves_its_error_in_the_context
    a_failure_between_crashes_resets_their_count
    a_failure_may_ask_for_time
    a_failure_that_no_attempt_can_repair_is_final_at_once
    a_failure_while_paused_is_retried_after_the_resume
    a_failure_without_an_error_edge_fails_the_run
    a_fan_out_runs_three_ends
    a_fatal_failure_is_not_retried
    a_final_failure_while_paused_fails_the_run_at_the_resume
    a_fixed_backoff_waits_the_same_each_time
    a_fork_leaves_the_originals_child_alone
    a_fork_of_a_child_tells_the_parent_nothing
    a_fork_of_a_function_calls_again
    a_fork_performs_open_tasks_again
    a_fork_starts_a_child_of_its_own
    a_fork_waits_until_the_same_deadline
    a_function_receives_the_failure_when_no_attempt_is_left
    a_function_runs_another_workflow
    a_function_that_diverges_is_paused
    a_function_that_ends_names_the_steps_that_it_did_not_await
    a_function_that_remembers_too_much_fails_its_steps
    a_function_that_returns_cancels_what_it_called
    a_function_that_throws_fails_its_run
    a_function_that_throws_keeps_its_stack
    a_function_that_was_called_tells_its_end
    a_function_waits_for_a_signal
    a_graph_has_neither_turns_nor_kept_signals
    a_join_sees_both_branches_and_runs_once
    a_join_waits_for_all_branches
    a_kept_signal_is_forgotten_after_a_week
    a_key_is_known_after_the_end
    a_key_makes_an_input_count_once
    a_key_of_another_input_is_refused
    a_key_stays_with_the_signals_own_entry
    a_linear_backoff_grows_by_its_base
    a_loop_goes_on_past_a_failed_item
    a_loop_in_a_scope_in_a_loop
    a_loop_over_null_is_empty
    a_loop_over_one_value_wraps_it
    a_loop_pauses_between_items
    a_loop_runs_a_child_per_item
    a_loop_runs_at_the_first_live_edge_by_default
    a_loop_runs_its_body_once_per_item
    a_loop_that_fails_again_after_a_retry
    a_loop_that_fails_cancels_the_children_in_it
    a_loop_with_too_many_items_can_be_retried
    a_loop_with_too_many_items_fails
    a_lost_task_is_dispatched_again_and_counts_no_failure
    a_node_is_seen_by_its_id
    a_paced_loop_over_pure_bodies_waits_between_them
    a_parallel_loop_keeps_its_results_in_item_order
    a_parallel_loop_pauses_between_starts
    a_pause_does_not_bring_back_a_turn_that_a_retry_ended
    a_paused_function_keeps_its_results
    a_paused_loop_goes_on_where_it_was
    a_paused_run_can_be_cancelled
    a_paused_run_can_be_cancelled_with_its_child
    a_paused_run_records_results_and_dispatches_nothing
    a_paused_run_records_the_end_of_its_child
    a_paused_run_takes_values
    a_refused_approval_leaves_by_its_own_handle
    a_report_of_an_older_turn_is_fenced
    a_report_that_is_repeated_changes_nothing
    a_result_by_an_unknown_handle_fails_the_step
    a_result_for_a_step_that_does_not_exist_changes_nothing
    a_result_may_leave_by_a_handle_of_its_kind
    a_result_of_an_old_attempt_changes_nothing
    a_retried_function_calls_again_what_was_cancelled_with_it
    a_retried_loop_that_paused_between_items_goes_on
    a_retry_restarts_the_count_of_failures_and_never_reuses_an_attempt
    a_retry_in_a_parallel_loop_leaves_the_other_iterations_as_they_were
    a_retry_in_nested_loops_goes_on_where_it_failed
    a_retry_of_a_function_that_threw_tries_its_last_failures_again
    a_retry_of_a_function_tries_again_what_failed_it
    a_retry_opens_timers_and_waits_again
    a_retry_timer_fires_once
    a_retry_under_a_key_is_done_once
    a_run_that_is_not_paused_cannot_be_resumed
    a_run_that_is_too_deep_calls_no_other
    a_run_that_ran_out_of_work_while_paused_ends_at_the_resume
    a_run_that_reaches_no_end_says_why
    a_run_that_was_failed_from_outside_has_nothing_to_retry
    a_run_whose_failure_leads_nowhere_says_why
    a_scope_can_be_retried
    a_scope_carries_its_first_failure
    a_scope_that_succeeds_gives_its_last_output
    a_signal_is_kept_for_a_later_wait_if_it_is_asked_for
    a_signal_resolves_the_wait_that_it_matches
    a_signal_that_comes_between_two_waits_is_not_kept
    a_signal_without_a_wait_changes_nothing
    a_skipped_last_node_gives_null
    a_sleep_is_over_when_its_time_has_come
    a_step_of_a_function_is_one_entry
    a_step_that_contradicts_the_journal_is_refused
    a_step_that_crashes_ten_times_fails
    a_steps_status_follows_what_it_does
    a_successful_step_raises_the_version_by_two
    a_terminating_end_cancels_the_child
    a_terminating_end_cancels_what_is_open
    a_terminating_end_in_error_fails_the_run
    a_timeout_at_the_moment_of_the_signal_comes_first
    a_timeout_that_came_while_paused_fires_at_the_resume
    a_timeout_without_an_edge_says_so
    a_turn_is_lost_once
    a_wait_answered_in_time_has_no_timeout
    a_wait_ends_by_its_timeout
    a_wait_for_no_name_fails
    a_wait_for_too_much_is_refused
    a_wait_inside_a_failed_scope_takes_no_more_signals
    a_wait_of_a_function_ends_by_its_timeout
    a_waiting_run_can_be_cancelled
    a_waiting_run_is_running_again_when_something_is_dispatched
    a_wide_fan_in_runs_its_join_once
    a_wide_fan_out_runs_ten_ends
    a_worker_goes_on_where_another_stopped
    an_approval_is_given_or_refused
    an_empty_loop_is_done_at_once
    an_end_in_error_fails_the_run_once_nothing_is_open
    an_end_with_status_failure_is_an_error
    an_ended_run_cannot_be_cancelled
    an_entry_may_also_have_an_inner_edge
    an_error_edge_back_to_the_loop_goes_on_with_the_next_item
    an_error_is_recovered_from
    an_error_path_runs_only_the_error_end
    an_exponential_backoff_stops_at_its_maximum
    an_expression_that_fails_is_the_steps_failure
    an_input_that_cannot_be_resolved_starts_no_child
    an_input_that_is_too_large_or_too_deep_starts_no_run
    an_item_that_is_given_up_cancels_its_children
    an_iterations_variable_hides_the_outer_one
    an_or_entry_with_an_inner_edge_runs_once
    an_or_join_runs_at_the_first_branch
    an_or_join_without_a_live_edge_is_skipped
    an_output_that_holds_its_variable_means_that_field
    an_output_that_is_too_large_or_too_deep_fails_its_step
    an_unreadable_output_fails_its_step
    an_untaken_branch_does_not_hang_a_join
    each_iteration_waits_for_its_own_signal
    fail_workflow_ignores_the_error_edge
    fail_workflow_inside_a_loop_fails_the_run
    fail_workflow_inside_a_scope_fails_the_run
    jitter_is_the_same_in_every_replay
    later_values_win_per_key
    loops_nest
    news_of_other_styles_change_nothing_in_a_function
    of_two_waiters_the_first_in_key_order_takes_the_signal
    of_two_waits_the_first_to_be_opened_takes_the_signal
    one_attempt_means_no_retry
    retries_again_and_again_are_no_crash_loop
    retries_wait_one_and_two_seconds
    several_ends_merge_their_outputs_in_the_order_they_complete
    several_last_nodes_give_an_object_by_id
    steps_of_a_function_back_off_as_they_say
    ten_lost_workers_in_a_row_fail_the_run
    the_error_edge_of_a_loop_is_followed
    the_runs_output_is_what_its_end_collects
    the_seeds_spelling_runs_as_ours
    three_delays_join
    three_nodes_run_in_a_line
    timers_that_came_due_while_paused_fire_at_the_resume
    two_diamonds_join_one_after_the_other
    two_failures_while_paused_are_both_retried
    values_are_refused_where_they_cannot_be_kept
    variables_of_an_iteration_are_not_seen_outside
    a_blocked_or_declined_report_is_not_written
}

#[test]
fn every_text_is_played() {
    let files: BTreeSet<_> = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    let names: BTreeSet<_> = TEXTS.iter().map(|name| format!("{name}.txt").into()).collect();
    assert_eq!(files, names);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions")
}

fn play(name: &str) {
    let file = folder().join(format!("{name}.txt"));
    let text = fs::read_to_string(&file).unwrap();
    let played = support::play(&text);
    if played == text {
        return;
    }
    if std::env::var_os("BLESS").is_some() {
        fs::write(&file, played).unwrap();
    } else {
        panic!("{}:\n{}", file.display(), difference(&text, &played));
    }
}

fn difference(expected: &str, found: &str) -> String {
    let expected: Vec<_> = expected.lines().collect();
    let found: Vec<_> = found.lines().collect();
    let same = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    format!(
        "line {}:\n  expected {:?}\n  found    {:?}",
        same + 1,
        expected.get(same).unwrap_or(&"the end"),
        found.get(same).unwrap_or(&"the end")
    )
}
