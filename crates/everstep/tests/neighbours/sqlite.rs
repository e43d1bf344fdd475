//! Misuses, on SQLite.

use everstep_testkit::neighbours::Misuse;

use crate::promise::holds_beside;

/// The memory of a server while bodies without an end arrive, in MiB.
const BODIES_MEMORY_MAX: u64 = 600;

#[test]
fn endless_scripts_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Script);
}

#[test]
fn requests_to_a_slow_server_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::SlowHttp);
}

#[test]
fn six_thousand_runs_in_memory_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Runs);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "its times are those of an optimized build: `make test-long` plays it")]
fn batches_of_starts_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Batches);
}

#[test]
fn endless_queries_of_files_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::FileQueries);
}

#[test]
fn sixty_api_keys_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Keys);
}

#[test]
fn tickets_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Tickets);
}

#[test]
fn starts_under_new_names_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Names);
}

#[test]
fn ops_on_one_record_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::RecordOps);
}

#[test]
fn actions_in_one_run_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Transitions);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "its times are those of an optimized build: `make test-long` plays it")]
fn costly_expressions_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Expression);
}

#[test]
fn costly_conditions_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Guard);
}

#[test]
fn checks_of_large_definitions_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Definition);
}

#[test]
fn bodies_without_an_end_do_not_slow_down_a_neighbour() {
    let memory = holds_beside(Misuse::Bodies);
    assert!(memory < BODIES_MEMORY_MAX, "the server has used {memory} MiB");
}

#[test]
fn two_thousand_streams_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Streams);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "its times are those of an optimized build: `make test-long` plays it")]
fn sockets_without_an_api_key_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Sockets);
}

#[test]
fn workers_with_new_names_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::WorkerHello);
}

#[test]
fn events_for_many_subscriptions_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::Publishes);
}

#[test]
fn large_events_for_expressions_do_not_slow_down_a_neighbour() {
    holds_beside(Misuse::LargeEvents);
}
