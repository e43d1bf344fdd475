//! Behind a pooler: the same promises, with unnamed statements and connections without state.

use everstep_store::RunStore;
use everstep_store::postgres::{self, Options, PostgresStore};
use everstep_testkit::contract::fixtures::Tables;
use everstep_testkit::contract::{self, FreshStore, run};
use everstep_testkit::postgres::Cluster;

use super::session;

/// Proves promises of the contract behind a pooler.
macro_rules! promises {
    ($($port:ident::$group:ident::$name:ident,)*) => {
        $(#[test]
        fn $name() {
            run(async {
                let database = Cluster::shared().migrated_database();
                let options = Options { pooled: true, ..Options::default() };
                let stores = postgres::open(&database.url(), &options).await.unwrap();
                let fresh = FreshStore { stores, tables: Tables::Postgres(database.url()), guard: Box::new(database) };
                contract::$port::$group::$name((&fresh).into()).await;
            });
        })*
    };
}

promises! {
    runs::commit::a_refused_head_writes_nothing_of_its_item,
    runs::commit::a_clash_behind_the_head_writes_nothing_of_its_item,
    runs::commit::neighbours_of_a_refused_item_are_applied,
    runs::commit::an_unowned_run_is_decided_by_one_node,
    runs::commit::refused_data_writes_nothing_of_its_batch,
    runs::starts::a_started_run_is_as_it_was_written,
    runs::starts::fifty_parallel_starts_with_one_key_leave_one_run,
    runs::claims::two_nodes_never_claim_the_same_run,
    runs::inbox::a_sent_inbox_input_names_the_owner_of_its_run,
    runs::waits::closed_waits_are_gone,
    runs::nodes::a_fenced_node_s_item_in_flight_is_seen_by_the_claimer_or_refused,
    runs::tick::a_tick_releases_what_the_next_one_claims,
    runs::tick::a_tick_reads_the_inbox_of_own_and_unowned_runs,
    access::keys::parallel_first_keys_leave_one,
    access::settings::parallel_settings_agree,
    runs::reads::a_load_sees_one_moment,
    runs::reads::payloads_of_any_length_and_content_come_back,
    runs::reads::runs_are_filtered,
    runs::reads::maintenance_changes_nothing_that_is_read,
    workflows::versions::parallel_saves_get_versions_of_their_own,
    runs::sweep::a_swept_run_leaves_nothing_behind,
    records::ops::a_transaction_is_whole_or_not_at_all,
    records::ops::values_come_back_as_they_were_written,
    records::races::fifty_parallel_creations_have_one_winner,
    records::races::contents_are_the_fold_of_their_changes,
    records::links::links_are_looked_up_from_both_sides_in_pages,
    records::pages::a_page_ends_at_half_a_mebibyte,
    records::changes::changes_are_kept_for_a_time_and_while_their_run_exists,
    topics::events::an_event_id_is_published_once,
    topics::events::a_page_of_events_ends_at_a_number_of_bytes,
    topics::fan_out::a_slice_is_written_once,
    topics::waits::waits_are_found_by_their_shape,
}

#[test]
fn a_pooled_connection_carries_nothing_of_its_own() {
    run(async {
        let database = Cluster::shared().migrated_database();
        // The next user of the connection would see a prepared statement or a changed setting.
        let watcher = session(&database).await;
        watcher
            .batch_execute(&format!("alter database {} set log_min_duration_statement = 0", database.name()))
            .await
            .unwrap();
        let options = Options { pooled: true, ..Options::default() };
        let store = PostgresStore::open(&database.url(), &options).await.unwrap();
        let node = contract::fixtures::member(&store).await;
        contract::fixtures::owned_run(&store, node).await;
        store.nodes().await.unwrap();
        let log = std::fs::read_to_string(database.cluster().folder().join("log")).unwrap();
        // "execute <unnamed>", never "execute s1".
        let ours: Vec<_> = log.lines().filter(|line| line.contains("execute ")).collect();
        assert!(ours.iter().any(|line| line.contains("execute <unnamed>")), "nothing was logged");
        let is_named = |line: &&&str| line.contains("execute s");
        assert_eq!(ours.iter().find(is_named), None);
        let stays = |line: &&str| line.contains("statement: set ") && !line.contains("statement: set local ");
        assert_eq!(log.lines().find(stays), None);
    });
}
