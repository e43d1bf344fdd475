//! The noop kind.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use everstep_core::failure::{Failure, code};
use everstep_core::journal::Outcome;
use everstep_handlers::{Task, TaskResult};
use serde_json::{Value, json};

use crate::{faults, registry, task};

/// Performs without a runtime: it must finish at the first poll.
fn perform(config: Value, attempt: u32) -> TaskResult {
    let registry = registry();
    let task = Task { attempt, ..task("noop", config, json!({})) };
    let future = pin!(registry.find_handler("noop").expect("it is standard").perform(task));
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(report) => report,
        Poll::Pending => panic!("noop waits for something"),
    }
}

#[test]
fn it_succeeds_with_its_output() {
    assert_eq!(perform(json!({"output": {"a": 1}}), 1).result, Ok(Outcome::from_output(json!({"a": 1}))));
    assert_eq!(perform(json!({}), 1).result, Ok(Outcome::from_output(json!(null))));
    assert_eq!(perform(json!(null), 1).result, Ok(Outcome::from_output(json!(null))));
}

#[test]
fn it_fails_as_often_as_configured() {
    let failed = Err(Failure::transient("NOOP_FAILED", "down"));
    assert_eq!(perform(json!({"fail": "down"}), 9).result, failed);
    let config = json!({"fail": "down", "failTimes": 2, "output": 5});
    assert_eq!(perform(config.clone(), 1).result, failed);
    assert_eq!(perform(config.clone(), 2).result, failed);
    assert_eq!(perform(config, 3).result, Ok(Outcome::from_output(json!(5))));
}

#[test]
fn a_config_that_resolves_to_nonsense_is_a_failure() {
    assert_eq!(perform(json!({"failTimes": "x"}), 1).result.unwrap_err().code, code::INVALID_CONFIG);
    assert_eq!(perform(json!({"delayMs": 99_999_999}), 1).result.unwrap_err().code, code::INVALID_CONFIG);
    assert_eq!(perform(json!({"outptu": 1}), 1).result.unwrap_err().code, code::INVALID_CONFIG);
}

#[tokio::test]
async fn it_takes_its_time() {
    let begin = Instant::now();
    let task = task("noop", json!({"delayMs": 50}), json!({}));
    assert!(registry().find_handler("noop").unwrap().perform(task).await.result.is_ok());
    assert!(begin.elapsed() >= Duration::from_millis(50));
}

#[test]
fn configs_are_checked_when_saved() {
    assert_eq!(faults("noop", &json!({"output": [1, "{{ctx.x}}"], "failTimes": "{{ctx.n}}", "delayMs": 5})), [""; 0]);
    assert_eq!(faults("noop", &json!({"failTimes": -1})).len(), 1);
    assert_eq!(
        faults("noop", &json!({"delay": 5})),
        ["/delay: the field `delay` does not exist; the fields are output, fail, failTimes, delayMs"]
    );
}
