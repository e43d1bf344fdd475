//! The javascript kind.

use std::time::{Duration, Instant};

use everstep_core::failure::{Failure, code};
use everstep_core::journal::Outcome;
use everstep_core::limits::LOG_BYTES;
use everstep_handlers::{Task, TaskResult};
use serde_json::{Value, json};

use crate::{faults, registry, task};

async fn perform(task: Task) -> TaskResult {
    registry().find_handler("javascript").expect("it is standard").perform(task).await
}

async fn failure(config: Value) -> Failure {
    perform(task("javascript", config, json!({}))).await.result.expect_err("the code is wrong")
}

#[tokio::test]
async fn code_computes_from_the_context() {
    let config = json!({"code": "console.log('total', ctx.total); return {double: ctx.total * 2}"});
    let report = perform(task("javascript", config, json!({"total": 21}))).await;
    assert_eq!(report.result, Ok(Outcome::from_output(json!({"double": 42}))));
    assert_eq!(report.logs, ["total 21"]);
}

#[tokio::test]
async fn code_is_taken_as_written() {
    let config = json!({"code": "return '{{ctx.x}}'"});
    let report = perform(task("javascript", config, json!({"x": 1}))).await;
    assert_eq!(report.result, Ok(Outcome::from_output(json!("{{ctx.x}}"))));
}

#[tokio::test]
async fn failures_have_their_codes() {
    let threw = failure(json!({"code": "\nthrow new Error('no stock')"})).await;
    assert_eq!(threw, Failure::transient("JAVASCRIPT_ERROR", "Error: no stock (line 2)"));
    let memory = failure(json!({"code": "return new ArrayBuffer(1 << 30)"})).await;
    assert_eq!((memory.code.as_str(), memory.retryable), ("OUT_OF_MEMORY", false));
    let large = failure(json!({"code": "return 'x'.repeat(2e6)"})).await;
    assert_eq!((large.code.as_str(), large.retryable), (code::PAYLOAD_TOO_LARGE, false));
    let function = failure(json!({"code": "return () => 1"})).await;
    assert_eq!((function.code.as_str(), function.retryable), ("JAVASCRIPT_ERROR", false));
    let syntax = failure(json!({"code": "return )"})).await;
    assert_eq!((syntax.code.as_str(), syntax.retryable), ("JAVASCRIPT_ERROR", false));
    let empty = failure(json!({"code": ""})).await;
    assert_eq!(empty.code, code::INVALID_CONFIG);
}

#[tokio::test]
async fn a_timeout_is_the_config_s_or_else_the_task_s() {
    let endless = |config| Task { timeout: Duration::from_millis(100), ..task("javascript", config, json!({})) };
    let report = perform(endless(json!({"code": "console.log('begun'); for (;;) {}"}))).await;
    let failure = report.result.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), (code::STEP_TIMEOUT, true));
    assert_eq!(report.logs, ["begun"]);
    let begin = Instant::now();
    let report = perform(endless(json!({"code": "for (;;) {}", "timeoutSeconds": 1}))).await;
    assert_eq!(report.result.unwrap_err().code, code::STEP_TIMEOUT);
    assert!(begin.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn logs_are_cut_with_a_mark() {
    let config = json!({"code": "for (let i = 0; i < 100000; i++) console.log('line ' + i)"});
    let report = perform(task("javascript", config, json!({}))).await;
    assert_eq!(report.result, Ok(Outcome::from_output(json!(null))));
    assert!(report.logs.iter().map(|line| line.len() + 1).sum::<usize>() <= LOG_BYTES);
    assert!(report.logs.last().unwrap().starts_with('…'));
}

#[test]
fn configs_are_checked_when_saved() {
    assert_eq!(faults("javascript", &json!({"code": "return 1"})), [""; 0]);
    assert_eq!(faults("javascript", &json!({"code": "return '{{'", "timeoutSeconds": "{{ctx.t}}"})), [""; 0]);
    assert_eq!(faults("javascript", &json!({"code": "return 1", "timeoutSeconds": {"$expr": "ctx.t"}})), [""; 0]);
    assert_eq!(faults("javascript", &json!({})), ["/code: `code` is missing"]);
    assert_eq!(faults("javascript", &json!(null)), ["/code: `code` is missing"]);
    assert_eq!(faults("javascript", &json!([])), [": a config must be an object"]);
    assert_eq!(faults("javascript", &json!({"code": "  \n"})), ["/code: it must not be empty"]);
    assert_eq!(
        faults("javascript", &json!({"code": "1", "timeoutSeconds": 0})),
        ["/timeoutSeconds: 0 is out of range: it must be between 1 and 3600"]
    );
    assert_eq!(
        faults("javascript", &json!({"cod/e": "1", "code": {"$expr": "ctx.code"}, "timeoutSeconds": "soon"})),
        [
            "/cod~1e: the field `cod/e` does not exist; the fields are code, timeoutSeconds",
            "/code: expected a string, found an object",
            "/timeoutSeconds: expected a whole number, found a string",
        ]
    );
}

#[test]
fn code_with_a_nul_character_is_refused_at_save() {
    let found = faults("javascript", &json!({"code": "return 1\0"}));
    assert_eq!(found, ["/code: the code contains a NUL character"]);
}

#[test]
fn the_syntax_of_code_is_checked_with_line_and_column() {
    let handler = registry().find_handler("javascript").unwrap().clone();
    let found = handler.check_code(&json!({"code": "const a = 1;\nreturn a +* 2;"}));
    let found: Vec<_> = found.iter().map(|fault| (fault.pointer.as_str(), fault.message.as_str())).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, "/code");
    assert!(found[0].1.starts_with("SyntaxError: ") && found[0].1.ends_with(" at line 2, column 11"), "{found:?}");
    for config in [json!({"code": "return 1"}), json!({}), json!({"code": 5}), json!({"code": "return 1\0"})] {
        assert_eq!(handler.check_code(&config), [], "{config}");
    }
}
