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
