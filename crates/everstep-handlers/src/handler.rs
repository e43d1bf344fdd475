//! What a handler is told and what it answers.

use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use everstep_core::payload::Payload;
use everstep_core::schema::Schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// One attempt of one step, ready to be performed.
#[derive(Clone, Debug)]
pub struct Task {
    pub workspace: WorkspaceId,
    pub run: RunId,
    pub step: StepKey,
    pub attempt: u32,
    /// The node's type.
    pub kind: String,
    /// The node's config with every template resolved, but for the kind's raw fields.
    pub config: Value,
    /// Where in the config the definition names secrets, as JSON pointers. Nothing else may be taken for one.
    pub secrets: Vec<String>,
    /// The config as the definition has it, with unresolved templates, if it names secrets; else null.
    pub written: Value,
    /// The context, for kinds that ask for it; else null.
    pub context: Payload,
    /// How long this attempt may take, counted from the start of performing.
    pub timeout: Duration,
}

impl Task {
    /// The same for every attempt of this step: what an outside system may use to tell a repetition.
    pub fn idempotency_key(&self) -> String {
        format!("{}:{}", self.run, self.step)
    }
}

/// The result of a task, with the lines that it logged. On success the lines become a part of the outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskResult {
    pub result: Result<Outcome, Failure>,
    pub logs: Vec<String>,
}

impl From<Result<Outcome, Failure>> for TaskResult {
    fn from(result: Result<Outcome, Failure>) -> Self {
        Self { result, logs: Vec::new() }
    }
}

/// A kind's entry in the catalogue.
#[derive(Clone, Debug)]
pub struct Description {
    pub info: KindInfo,
    /// For people: "JavaScript".
    pub title: &'static str,
    pub group: &'static str,
    /// The name of an icon, for editors.
    pub icon: &'static str,
    pub summary: &'static str,
    /// What the output is.
    pub output: &'static str,
    /// The JSON Schema of the config.
    pub schema: Schema,
    pub examples: Vec<Example>,
    /// Whether it is for tests and benchmarks only, so that editors leave it out.
    pub is_internal: bool,
    /// How many tasks of this kind one node performs at once.
    pub concurrency: usize,
}

/// A config that works, and what it does.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Example {
    pub title: String,
    pub config: Value,
}

impl Example {
    pub fn new(title: &str, config: Value) -> Self {
        Self { title: title.to_owned(), config }
    }
}

/// Performs tasks of one kind. It touches the world; it leaves the database to the engine.
#[async_trait]
pub trait Handler: Send + Sync {
    fn describe(&self) -> &Description;

    /// What is wrong with a config; pointers are relative to it. Templates may stand in any field but raw ones.
    fn check(&self, config: &Value) -> Vec<Fault>;

    /// What is wrong with the code in a config, such as the syntax of a script. Called when a definition is saved.
    fn check_code(&self, _config: &Value) -> Vec<Fault> {
        Vec::new()
    }

    /// Whether the handler itself ends a task at its timeout. The engine does so for all others.
    fn times_itself(&self) -> bool {
        false
    }

    /// Performs one task. Dropping the future stops the work.
    async fn perform(&self, task: Task) -> TaskResult;
}
