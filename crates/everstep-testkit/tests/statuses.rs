//! Which status may follow which: the whole tables, so that a change of one is visible.

use everstep_core::status::{Status, StepStatus};

#[test]
fn a_run_s_statuses_follow_each_other_as_listed() {
    let table = [
        ("pending", "running paused completed failed cancelled"),
        ("running", "waiting paused completed failed cancelled"),
        ("waiting", "running paused completed failed cancelled"),
        ("paused", "pending running failed cancelled"),
        ("completed", ""),
        ("failed", "running"),
        ("cancelled", ""),
    ];
    assert_eq!(Status::ALL.len(), table.len());
    for (status, next) in table {
        let status: Status = status.parse().unwrap();
        let next: Vec<Status> = next.split_whitespace().map(|next| next.parse().unwrap()).collect();
        for other in Status::ALL {
            assert_eq!(status.may_become(*other), next.contains(other), "{status} to {other}");
        }
    }
}

#[test]
fn a_step_s_statuses_follow_each_other_as_listed() {
    let table = [
        ("pending", "running skipped cancelled"),
        ("running", "waiting completed failed cancelled"),
        ("waiting", "running completed failed cancelled"),
        ("completed", ""),
        ("failed", "running"),
        ("skipped", ""),
        ("cancelled", ""),
    ];
    assert_eq!(StepStatus::ALL.len(), table.len());
    for (status, next) in table {
        let status: StepStatus = status.parse().unwrap();
        let next: Vec<StepStatus> = next.split_whitespace().map(|next| next.parse().unwrap()).collect();
        for other in StepStatus::ALL {
            assert_eq!(status.may_become(*other), next.contains(other), "{status} to {other}");
        }
    }
}
