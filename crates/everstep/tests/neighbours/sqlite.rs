//! Misuses, on SQLite.

use everstep_testkit::neighbours::Misuse;

use crate::promise::holds_beside;

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
