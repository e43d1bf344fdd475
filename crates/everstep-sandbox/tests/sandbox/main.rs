//! The promises of the sandbox, tested through its public interface.

mod attacks;
mod built_ins;
mod fetch;
mod pool;
mod results;
mod syntax;
mod tampering;

use std::time::Duration;

use everstep_sandbox::{Error, Sandbox, Script, ScriptFailure, ScriptOutput};
use serde_json::Value;
use tokio::sync::Mutex;

/// Held by tests that measure time, so that they do not slow each other down.
static CLOCK: Mutex<()> = Mutex::const_new(());

/// Runs code with `{"n": 1, "deep": {"list": [1, 2]}}` as `ctx`.
async fn run(code: &str) -> Result<ScriptOutput, ScriptFailure> {
    let script = Script { timeout: Duration::from_secs(5), ..Script::new(code, r#"{"n":1,"deep":{"list":[1,2]}}"#) };
    Sandbox::new(1).run(script).await
}

async fn value(code: &str) -> Value {
    let ran = run(code).await.unwrap_or_else(|stopped| panic!("{code}: {stopped}"));
    serde_json::from_str(&ran.json).expect("a result is JSON")
}

async fn error(code: &str) -> Error {
    run(code).await.expect_err(code).error
}
