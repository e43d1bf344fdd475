//! The console in a browser, with a real server: the scenarios of `console/e2e`.
//!
//! The suite runs once, or EVERSTEP_CONSOLE_REPEATS times; each test checks the results of its scenario.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

mod suite;

use std::collections::BTreeSet;

/// Creates a test for each scenario.
macro_rules! scenarios {
    ($($name:ident,)*) => {
        const ALL: &[&str] = &[$(stringify!($name),)*];

        $(
            #[test]
            fn $name() {
                suite::shared().expect(stringify!($name));
            }
        )*
    };
}

scenarios! {
    a_busy_run_is_read_once_per_second,
    a_child_run_opens_in_the_timeline_of_its_parent,
    a_code_run_shows_its_steps_by_turn,
    a_created_key_is_shown_once,
    a_decision_after_a_lost_reply_shows_what_was_recorded,
    a_decision_that_came_too_late_is_reported,
    a_failed_run_is_retried_from_its_step,
    a_filter_in_the_url_shows_a_colleague_the_same,
    a_five_megabyte_output_does_not_stall_the_page,
    a_fork_at_an_entry_shows_what_is_not_undone,
    a_link_that_is_pasted_into_an_open_tab_signs_in,
    a_log_of_many_lines_is_read_to_its_end,
    a_long_error_is_shown_to_its_end,
    a_loop_of_2500_is_one_node,
    a_machine_run_is_approved_on_its_page,
    a_new_workspace_is_accessible,
    a_newcomer_signs_in_by_link_and_starts_hello,
    a_revoked_key_leads_to_sign_in,
    a_run_is_coloured_live_and_ends,
    a_used_code_is_refused,
    a_viewer_sees_no_way_to_change_anything,
    an_approval_is_given_in_the_inbox,
    an_inbox_of_many_pages_is_read_to_its_end,
    each_approval_has_a_comment_of_its_own,
    every_dialog_is_accessible_in_both_themes,
    every_dialog_is_accessible_with_longer_texts,
    every_screen_by_keyboard_alone,
    every_screen_is_accessible_in_both_themes,
    every_screen_is_accessible_with_longer_texts,
    hostile_values_are_shown_as_text,
    loaded_lines_of_a_log_stay_while_it_grows,
    new_runs_are_announced_and_do_not_move_the_rows,
    no_request_leaves_the_origin_and_nothing_breaks_the_policy,
    pseudo_locale_shows_no_english,
    screens_that_load_fail_or_are_not_live_are_accessible,
    selected_runs_are_counted_before_and_refusals_say_why,
    signing_out_revokes_the_key_of_the_link,
    ten_thousand_runs_scroll_filter_and_are_cancelled_in_bulk,
    the_model_of_the_page_has_the_statuses_of_the_server,
    the_runs_of_an_event_are_found,
    the_server_dies_and_comes_back_and_nothing_is_missed_or_doubled,
    the_slider_shows_a_machine_as_it_was,
    the_slider_shows_the_run_as_it_was,
    twelve_tabs_are_live_at_once_and_still_load,
    two_nodes_one_postgres_the_other_node_shows_it_live,
    two_runs_are_compared_to_their_first_divergence,
    two_selected_runs_are_compared,
    why_it_waits_is_said_and_an_approval_lets_it_go,
}

#[test]
fn every_scenario_is_listed() {
    let listed: BTreeSet<_> = ALL.iter().copied().collect();
    assert_eq!(suite::shared().names(), listed, "the scenarios in console/e2e, and those that have a test here");
}
