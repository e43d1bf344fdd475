//! The list of all promises, by port and group.

/// One test per promise of the contract: `port::group::promise`.
#[macro_export]
macro_rules! contract_tests {
    ($fresh:path) => {
        $crate::contract_tests! {
            @each $fresh;
            runs {
                commit {
                    a_refused_head_writes_nothing_of_its_item,
                    a_clash_behind_the_head_writes_nothing_of_its_item,
                    neighbours_of_a_refused_item_are_applied,
                    a_resent_item_is_a_duplicate,
                    a_resent_batch_is_answered_item_by_item,
                    another_proposal_for_the_same_seq_is_a_conflict,
                    an_attempt_is_journaled_once_per_kind,
                    an_unowned_run_is_decided_by_one_node,
                    a_run_that_is_owned_refuses_items_for_unowned_ones,
                    an_unowned_run_refuses_items_of_owners,
                    an_item_of_a_missing_run_is_lost,
                    an_item_without_entries_is_gated_by_its_run,
                    an_item_that_only_takes_is_gated_by_the_owner,
                    a_failed_run_is_retried_by_one_node,
                    a_projection_is_the_row_after_its_item,
                    an_item_without_a_projection_leaves_the_row_alone,
                    refused_data_writes_nothing_of_its_batch,
                    an_ended_run_without_an_end_time_is_refused,
                    an_empty_batch_is_nothing,
                }
                starts {
                    a_started_run_is_as_it_was_written,
                    a_run_that_starts_and_ends_in_one_item_is_completed,
                    two_starts_with_one_key_leave_one_journal,
                    a_run_is_found_by_its_key_and_scope,
                    a_start_that_exists_writes_nothing_of_its_item,
                    fifty_parallel_starts_with_one_key_leave_one_run,
                    one_key_in_another_workspace_or_scope_is_another_run,
                    starts_without_a_key_are_always_new,
                    a_resent_start_is_a_duplicate,
                    another_start_of_the_same_run_is_a_conflict,
                    a_start_without_a_projection_is_pending_and_claimable,
                    a_pending_start_has_no_journal_and_is_claimed_when_due,
                    a_resent_pending_start_is_a_duplicate,
                    a_pending_start_of_a_fenced_node_is_nobodys,
                    an_older_release_never_claims_a_pending_start,
                    a_pending_start_is_held_only_while_no_node_has_begun_it,
                    a_hold_has_its_audit_row_with_it,
                    the_inbox_of_a_pending_start_waits_for_its_owner,
                    runs_are_found_by_their_trigger,
                }
                claims {
                    a_claimed_run_is_owned,
                    a_node_finds_the_runs_that_it_owns,
                    two_nodes_never_claim_the_same_run,
                    claims_take_the_oldest_first,
                    only_due_runs_are_claimed,
                    only_runs_of_the_lane_are_claimed,
                    ended_runs_are_never_claimed,
                    a_parked_run_is_claimed_when_it_is_due,
                    the_next_wake_is_the_earliest_of_its_lane,
                    only_members_claim,
                    a_backlog_of_one_workspace_does_not_delay_another,
                    claims_rotate_over_workspaces,
                    the_runs_of_one_workspace_are_claimed_alone,
                    workspaces_have_equal_shares_of_a_claim,
                    places_that_a_share_leaves_go_to_the_oldest_runs,
                    a_claim_with_room_for_all_due_runs_keeps_the_rotation,
                    workspaces_that_sleep_delay_no_other_for_long,
                    runs_that_are_never_due_are_not_visited,
                }
                inbox {
                    inbox_inputs_arrive_in_their_order,
                    inbox_inputs_of_ended_runs_are_dropped,
                    an_inbox_input_waits_for_a_run_that_is_yet_to_start,
                    a_sent_inbox_input_names_the_owner_of_its_run,
                    an_inbox_input_reaches_a_run_that_starts_in_the_same_batch,
                    a_node_sees_the_inbox_of_its_own_and_of_unowned_runs,
                    the_inbox_is_read_on_from_the_last_row,
                    inbox_ids_are_never_used_again,
                    an_input_is_answered_once,
                    taken_rows_are_deleted_with_their_item,
                    taken_rows_stay_when_their_item_is_refused,
                    an_item_takes_only_rows_of_its_own_run,
                }
                waits {
                    a_wait_says_what_kind_it_is,
                    open_waits_are_found_by_their_event,
                    closed_waits_are_gone,
                    waits_end_with_their_run,
                    parked_runs_keep_their_waits,
                    a_wait_that_is_open_already_is_a_conflict,
                }
                nodes {
                    a_node_joins_with_a_lease_and_an_address,
                    an_id_joins_once,
                    an_expired_lease_is_renewed,
                    an_expired_lease_still_commits_until_it_is_fenced,
                    only_a_lease_that_is_over_and_was_not_renewed_is_fenced,
                    a_fenced_node_stays_fenced,
                    only_members_tick_and_commit,
                    a_node_that_leaves_gives_its_runs_back,
                    runs_of_fenced_owners_are_released_in_batches,
                    a_fenced_node_s_item_in_flight_is_seen_by_the_claimer_or_refused,
                }
                tick {
                    a_tick_returns_the_time_and_all_nodes,
                    a_tick_claims_each_lane_up_to_its_room,
                    a_tick_claims_only_what_is_due,
                    a_tick_releases_what_the_next_one_claims,
                    a_tick_reads_the_inbox_of_own_and_unowned_runs,
                    a_fenced_node_s_tick_does_nothing,
                    ticks_of_two_nodes_share_the_runs,
                    ticks_rotate_over_workspaces,
                }
                reads {
                    entries_come_back_as_they_were_written,
                    entries_of_one_time_come_back_with_it,
                    a_journal_is_read_in_pages,
                    payloads_of_any_length_and_content_come_back,
                    step_keys_of_any_script_come_back,
                    a_missing_run_is_none,
                    a_run_is_hidden_from_other_workspaces,
                    a_load_sees_one_moment,
                    a_snapshot_spares_the_entries_before_it,
                    snapshots_never_go_back,
                    pages_of_runs_are_stable_while_runs_are_added,
                    a_full_last_page_has_no_next,
                    runs_are_filtered,
                    test_runs_are_not_listed,
                    calls_are_counted,
                    maintenance_changes_nothing_that_is_read,
                }
                side {
                    audit_rows_exist_with_their_item,
                    a_batch_writes_the_audit_rows_of_its_applied_items,
                    a_resent_item_writes_its_audit_rows_once,
                    a_conflicting_item_writes_no_audit_rows,
                    a_lost_item_writes_no_audit_rows,
                    a_start_that_exists_writes_no_audit_rows,
                    items_share_an_audit_row,
                    parallel_commits_share_an_audit_row,
                    a_fork_writes_its_audit_rows,
                    an_audit_row_with_a_nul_is_refused_with_its_item,
                }
                forks {
                    a_fork_begins_as_its_source_did,
                    a_fork_ends_with_an_item,
                    only_what_is_there_is_forked,
                    a_fork_is_claimed_and_goes_on_by_itself,
                    a_run_that_goes_on_can_be_forked,
                    a_fork_may_have_another_first_payload,
                    an_ended_test_run_is_deleted_whole,
                    only_test_runs_are_deleted,
                }
                formats {
                    a_node_of_an_older_format_leaves_machine_runs_and_takes_back_graph_runs,
                    a_claim_does_not_change_the_format_of_a_run,
                    an_item_raises_the_format_of_its_run_and_never_lowers_it,
                    an_item_that_is_refused_raises_no_format,
                    a_start_without_a_projection_has_the_format_of_its_item,
                    a_fork_has_the_format_of_its_source,
                }
                machines {
                    the_place_of_a_machine_is_written_with_its_item,
                    an_item_that_is_refused_moves_no_machine,
                    items_of_machines_and_of_other_styles_share_a_batch,
                    a_fork_has_no_place_before_its_first_item,
                    runs_are_listed_by_the_state_of_their_machine,
                    a_glance_shows_the_owner_the_status_and_the_place,
                }
                filters {
                    runs_are_listed_by_any_of_some_statuses,
                    runs_are_listed_by_one_status_without_others,
                    runs_are_listed_by_several_statuses_without_others,
                    runs_are_listed_by_version,
                    runs_are_listed_by_parent,
                    runs_are_found_by_what_their_input_holds,
                    inputs_of_any_script_are_found,
                    inputs_are_found_however_they_are_written,
                    runs_are_found_by_their_key_origin_error_and_id,
                    runs_are_found_by_their_tags,
                    filtered_pages_are_stable_while_runs_are_added,
                    a_page_looks_at_ten_thousand_runs,
                }
                counts {
                    counts_add_up,
                    a_recount_replaces_the_numbers,
                    figures_of_a_minute_add_up_from_many_nodes,
                }
                sweep {
                    ended_runs_go_when_their_retention_is_over,
                    test_runs_go_an_hour_after_their_end,
                    runs_that_have_not_ended_are_never_swept,
                    a_swept_run_leaves_nothing_behind,
                    a_long_journal_does_not_stop_a_sweep,
                    a_sweep_takes_the_oldest_in_batches,
                    retried_runs_are_not_swept,
                    old_inbox_rows_of_ended_or_missing_runs_are_swept,
                    swept_runs_are_taken_off_the_counts,
                }
            }
            workflows {
                versions {
                    a_workflow_is_saved_as_versions,
                    the_digest_of_the_newest_version_is_that_version,
                    a_version_remembers_its_publisher,
                    the_active_version_changes_only_on_request,
                    a_workflow_that_is_not_as_expected_is_left_alone,
                    a_workflow_may_have_no_active_version,
                    a_name_belongs_to_one_style,
                    of_many_calls_that_expect_nothing_one_saves,
                    parallel_saves_get_versions_of_their_own,
                    parallel_saves_never_set_the_active_version_back,
                    an_older_version_can_be_made_active,
                    workflows_are_listed_by_name_in_pages,
                    versions_are_listed_newest_first_in_pages,
                    the_key_of_a_change_is_known_for_a_day,
                    keys_of_changes_are_swept_after_a_day,
                }
                registrations {
                    a_version_is_registered_under_its_own_number,
                    the_newest_registered_version_is_the_active_one,
                    a_chosen_version_stays_active_until_a_newer_one_comes,
                    a_version_that_was_only_named_is_not_active_until_it_is_brought,
                    a_drawing_replaces_a_name_that_starts_alone_have_created,
                    the_last_word_on_a_version_s_retention_counts,
                    the_last_registration_decides_the_definition,
                    many_versions_are_registered_in_one_call,
                    workflows_have_the_quota_of_the_workspace,
                    code_has_versions_of_no_other_style,
                    a_deleted_workflow_is_registered_again_under_any_number,
                    a_deleted_workflow_of_another_style_leaves_the_numbers_that_no_run_refers_to,
                    parallel_registrations_agree,
                    of_a_drawing_and_code_with_one_name_one_is_there,
                }
                deletions {
                    a_deleted_workflow_is_neither_active_nor_listed,
                    only_a_workflow_that_is_there_is_deleted,
                    a_workflow_is_not_deleted_while_runs_go_on,
                    a_deleted_workflow_that_is_saved_again_is_new_and_its_numbers_go_on,
                    a_deleted_workflow_is_created_again_under_the_same_key,
                    a_start_that_has_read_a_deleted_workflow_may_begin,
                    versions_of_a_deleted_workflow_go_a_day_later_and_their_numbers_stay,
                    versions_stay_while_runs_refer_to_them,
                    versions_stay_while_test_runs_refer_to_them,
                    parallel_saves_and_deletions_leave_a_whole_workflow_or_none,
                }
            }
            access {
                settings {
                    the_first_value_of_a_setting_is_everyone_s,
                    parallel_settings_agree,
                }
                keys {
                    a_key_is_found_by_its_hash,
                    a_hash_is_added_once,
                    a_permission_is_one_word,
                    the_first_key_is_added_once,
                    parallel_first_keys_leave_one,
                    a_key_of_a_link_is_deleted_a_day_after_it_expired,
                    a_key_comes_back_with_all_that_limits_it,
                    keys_are_listed_by_workspace_oldest_first,
                    a_revoked_key_is_not_found_but_listed,
                    keys_have_the_quota_of_the_workspace,
                    only_a_key_of_the_workspace_is_revoked,
                }
                workspaces {
                    there_is_always_a_default_workspace,
                    workspaces_are_listed_by_name,
                    a_workspace_s_name_and_id_are_its_own,
                    options_of_a_workspace_are_replaced,
                }
                audit {
                    what_was_done_is_listed_newest_first,
                    the_audit_is_read_in_pages_while_it_grows,
                    the_audit_is_filtered,
                    a_row_that_is_sent_again_is_there_once,
                    the_audit_is_kept_for_a_year,
                }
            }
            resources {
                bodies {
                    a_resource_is_found_by_workspace_kind_and_name,
                    a_resource_is_replaced_and_keeps_its_beginning,
                    resources_are_listed_by_name_in_pages,
                    a_deleted_resource_is_gone,
                    parallel_puts_leave_one_resource,
                }
            }
            records {
                ops {
                    an_op_key_is_applied_once,
                    an_op_key_of_another_input_is_refused,
                    a_failed_op_leaves_nothing_and_may_be_tried_again,
                    the_output_is_stored_with_the_write,
                    a_failure_affects_no_other_op,
                    a_later_op_of_a_batch_sees_the_earlier,
                    a_transaction_is_whole_or_not_at_all,
                    an_expired_record_is_absent_for_every_op,
                    a_record_that_was_set_again_is_not_swept,
                    another_workspace_sees_nothing,
                    values_come_back_as_they_were_written,
                    a_deleted_run_leaves_its_records,
                }
                races {
                    fifty_parallel_creations_have_one_winner,
                    parallel_increments_are_all_counted,
                    the_same_ops_at_the_same_time_are_applied_once,
                    one_key_in_two_namespaces_is_applied_in_one,
                    contents_are_the_fold_of_their_changes,
                }
                pages {
                    records_are_listed_by_key_in_pages,
                    records_are_found_by_what_their_values_hold,
                    a_page_reads_ten_thousand_records,
                    a_page_ends_at_half_a_mebibyte,
                    emptied_namespaces_are_not_listed_and_keep_their_numbers,
                }
                links {
                    a_link_keeps_its_id_and_replaces_its_attributes,
                    links_are_looked_up_from_both_sides_in_pages,
                    a_page_of_links_ends_at_half_a_mebibyte,
                    links_are_deleted_by_their_sides,
                    one_op_deletes_at_most_ten_thousand_links,
                }
                changes {
                    changes_are_numbered_without_a_gap,
                    changes_are_filtered_and_read_in_pages,
                    a_long_value_is_not_in_the_history,
                    changes_are_kept_for_a_time_and_while_their_run_exists,
                }
            }
            topics {
                events {
                    an_event_id_is_published_once,
                    parallel_publishers_of_one_id_publish_it_once,
                    an_event_comes_back_as_it_was_published,
                    events_are_listed_newest_first_in_pages,
                    a_wait_looks_back_over_the_events_of_its_topic,
                    a_page_of_events_ends_at_a_number_of_bytes,
                    old_events_are_deleted_when_their_fan_out_is_done,
                    a_run_publishes_with_its_item_or_not_at_all,
                }
                subscriptions {
                    a_subscription_comes_back_as_it_was_added,
                    a_paused_subscription_is_not_found_by_topics,
                    subscriptions_are_found_by_the_heads_of_a_topic,
                    subscriptions_are_listed_by_id_in_pages,
                    a_workspace_has_a_number_of_subscriptions,
                }
                triggers {
                    triggers_change_with_the_active_version_in_one_transaction,
                    triggers_have_the_quota_of_the_workspace,
                    a_registration_of_code_declares_triggers,
                }
                fan_out {
                    a_slice_is_written_once,
                    a_stale_cursor_writes_nothing,
                    slices_of_several_events_are_independent,
                    a_key_starts_one_run,
                    a_result_names_the_run_that_has_the_key,
                    fan_out_rows_of_ended_runs_are_dropped,
                    only_members_fan_out,
                    open_events_are_found_oldest_first,
                    results_are_read_in_pages,
                    a_slice_has_its_dead_letters_or_none,
                }
                waits {
                    waits_are_found_by_their_shape,
                    numbers_that_are_equal_have_one_hash,
                    closed_waits_are_not_found_by_an_event,
                    waits_with_very_many_shapes_are_read_by_pages,
                    waits_of_an_earlier_release_are_candidates,
                }
            }
            dead_letters {
                writes {
                    a_letter_is_written_with_its_item_or_not,
                    a_resent_item_writes_no_second_letter,
                    a_letter_with_a_nul_is_refused_with_its_item,
                }
                reads {
                    letters_are_listed_newest_first_in_pages,
                    letters_are_filtered,
                    configs_of_any_length_and_content_come_back,
                }
                changes {
                    only_dead_letters_are_queued_and_discarded,
                    many_letters_are_queued_at_once_up_to_a_limit,
                    a_call_continues_after_the_last_letter_of_another,
                    letters_of_a_run_are_queued_and_discarded,
                    parallel_calls_queue_a_letter_once,
                    old_letters_are_deleted_and_queued_ones_are_kept,
                    a_letter_outlives_its_run,
                }
                takes {
                    letters_are_taken_in_the_order_in_which_they_were_queued,
                    letters_of_a_crowded_target_are_left,
                    a_lost_reply_loses_no_letter,
                    a_result_that_is_sent_again_ends_no_later_requeue,
                    two_nodes_never_take_one_letter,
                    a_fenced_node_s_letters_are_taken_by_another,
                    a_result_is_written_once,
                    operators_are_notified_once,
                }
            }
            files {
                uploads {
                    chunks_come_back_as_they_were_sent,
                    an_unfinished_file_is_not_found,
                    an_interrupted_upload_leaves_nothing,
                    a_person_has_a_quota_of_unbound_bytes,
                    a_file_with_a_nul_in_its_name_is_refused,
                }
                bindings {
                    a_file_is_reserved_by_one_run,
                    files_are_reserved_all_or_none,
                    only_the_person_who_uploaded_a_file_reserves_it_in_time,
                    files_are_bound_with_their_item,
                    a_refused_item_binds_nothing,
                    an_item_whose_file_cannot_be_bound_writes_nothing,
                    a_resent_item_binds_its_files_once,
                }
                sweeps {
                    unbound_files_are_deleted_after_their_time,
                    unfinished_files_are_deleted_after_their_time,
                    bound_files_are_deleted_with_their_run,
                }
            }
            stores {
                search {
                    runs_are_found_by_search_attributes_without_others,
                    pages_by_terms_are_complete_and_in_order,
                    runs_from_before_an_attribute_was_declared_are_found_too,
                    search_attributes_are_those_of_the_active_version,
                    an_attribute_that_returns_does_not_hide_runs,
                    a_run_on_its_way_while_an_attribute_is_declared_is_found,
                    terms_exist_with_their_run,
                    runs_that_events_start_have_terms,
                }
                texts {
                    texts_with_a_nul_are_not_stored,
                    items_with_a_nul_are_not_stored,
                    nothing_is_found_by_a_text_with_a_nul,
                    a_document_may_hold_a_nul_and_is_found_by_it,
                    a_page_after_a_name_with_a_nul_starts_after_the_part_before_it,
                }
            }
        }
    };
    (@each $fresh:path; $($port:ident { $($group:ident { $($name:ident,)* })* })*) => {
        $(mod $port {
            $(mod $group {
                $(#[test]
                fn $name() {
                    $crate::contract::run(async {
                        let fresh = $fresh().await;
                        $crate::contract::$port::$group::$name((&fresh).into()).await;
                    });
                })*
            })*
        })*
    };
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_promise_is_in_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/contract");
        let list = fs::read_to_string(folder.join("list.rs")).unwrap();
        let mut promises = 0;
        for port in ["runs", "workflows", "access", "resources", "records", "topics", "files", "dead_letters", "stores"]
        {
            for file in fs::read_dir(folder.join(port)).unwrap() {
                let source = fs::read_to_string(file.unwrap().path()).unwrap();
                for line in source.lines() {
                    let Some((name, _)) = line.strip_prefix("pub async fn ").and_then(|rest| rest.split_once('('))
                    else {
                        continue;
                    };
                    assert!(list.contains(&format!(" {name},\n")), "{name} is not in contract_tests!");
                    promises += 1;
                }
            }
        }
        assert!(promises > 50);
    }

    #[test]
    fn every_verb_of_a_port_is_called_outside_of_tests() {
        let files = crate::tidy::files();
        // The ports are among them: a verb may be called by a provided method of its port.
        let callers = [
            "everstep/src",
            "everstep-api/src",
            "everstep-engine/src",
            "everstep-vault/src",
            "everstep-store/src/ports",
        ];
        let is_production = |path: &str| callers.iter().any(|name| path.starts_with(&format!("crates/{name}/")));
        let code: String =
            files.iter().filter(|file| is_production(&file.path)).map(|file| file.text.as_str()).collect();
        let mut verbs = 0;
        for port in files.iter().filter(|file| file.path.starts_with("crates/everstep-store/src/ports/")) {
            for line in port.text.lines() {
                let signature = line.strip_prefix("    async fn ").or(line.strip_prefix("    fn "));
                let Some((verb, _)) = signature.and_then(|signature| signature.split_once('(')) else { continue };
                assert!(code.contains(&format!(".{verb}(")), "only tests call {verb}: make it a fixture");
                verbs += 1;
            }
        }
        assert!(verbs > 40);
    }
}
