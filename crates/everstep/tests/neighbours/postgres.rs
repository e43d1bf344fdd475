//! Misuses that use the database, on PostgreSQL.

use everstep_testkit::neighbours::Misuse;

use crate::promise::holds_on_postgres_beside;

#[test]
fn six_thousand_runs_in_memory_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Runs);
}

#[test]
fn starts_under_new_names_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Names);
}

#[test]
fn ops_on_one_record_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::RecordOps);
}

#[test]
fn actions_in_one_run_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Transitions);
}

#[test]
fn costly_conditions_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Guard);
}

#[test]
fn workers_with_new_names_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::WorkerHello);
}

#[test]
fn events_for_many_subscriptions_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Publishes);
}

#[test]
#[cfg_attr(debug_assertions, ignore = "its times are those of an optimized build: `make test-long` plays it")]
fn batches_of_starts_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Batches);
}

#[test]
fn large_events_for_expressions_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::LargeEvents);
}

#[test]
fn sixty_api_keys_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Keys);
}

#[test]
fn tickets_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Tickets);
}

#[test]
fn two_thousand_streams_do_not_slow_down_a_neighbour() {
    holds_on_postgres_beside(Misuse::Streams);
}
