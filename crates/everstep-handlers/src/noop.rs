//! Does nothing, in the way that a test or a benchmark configures.

use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::failure::Failure;
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config;
use crate::handler::{Description, Example, Handler, Task, TaskResult};

/// Succeeds, or fails, according to its config. Without `delayMs` it needs no timer and no runtime.
pub struct NoopHandler {
    description: Description,
}

/// Does nothing: for tests and benchmarks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The output of the step.
    #[serde(default)]
    output: Value,
    /// The message that the step fails with.
    #[serde(default)]
    fail: Option<String>,
    /// The number of attempts that fail before one succeeds; without it every attempt fails.
    #[serde(default)]
    fail_times: Option<u32>,
    /// The duration of the step, in milliseconds.
    #[serde(default)]
    #[schemars(range(max = 3_600_000))]
    delay_ms: Option<u64>,
}

impl NoopHandler {
    pub fn new() -> Self {
        let description = Description {
            info: KindInfo { name: "noop".to_owned(), timeout_seconds: 30, ..KindInfo::default() },
            title: "No operation",
            group: "Testing",
            icon: "circle-off",
            summary: "Returns a fixed output, fails or waits, for tests and benchmarks.",
            output: "The value of `output`.",
            schema: config::schema::<Config>(),
            examples: vec![Example::new("Fail twice, then return a number", json!({"failTimes": 2, "output": 5}))],
            is_internal: true,
            concurrency: 1024,
        };
        Self { description }
    }
}

impl Default for NoopHandler {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Handler for NoopHandler {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, config: &Value) -> Vec<Fault> {
        config::check(config, &self.description.schema, &self.description.info.raw_fields)
    }

    async fn perform(&self, task: Task) -> TaskResult {
        let attempt = task.attempt;
        let config: Config = match config::read(task.config, &self.description.schema) {
            Ok(config) => config,
            Err(failure) => return TaskResult::from(Err(failure)),
        };
        if let Some(delay) = config.delay_ms {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        TaskResult::from(config.result(attempt))
    }
}

impl Config {
    fn result(self, attempt: u32) -> Result<Outcome, Failure> {
        let fails = match (&self.fail, self.fail_times) {
            (_, Some(times)) => attempt <= times,
            (fail, None) => fail.is_some(),
        };
        if !fails {
            return Ok(Outcome::from_output(self.output));
        }
        let message = self.fail.unwrap_or_else(|| format!("the config demands that attempt {attempt} fails"));
        Err(Failure::transient("NOOP_FAILED", message))
    }
}
