//! The task that a handler receives, and the result that it returns.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::definition::Problem;
use everstep_core::evaluate::Fault;
use everstep_core::failure::Failure;
use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use everstep_core::payload::Payload;
use everstep_core::publisher::Publisher;
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
    /// The node's config with all templates resolved, except for the kind's raw fields.
    pub config: Value,
    /// The places in the config where the definition names secrets, as JSON pointers. No other value is used as the
    /// name of a secret.
    pub secrets: Vec<String>,
    /// The config as the definition has it, with unresolved templates, if it names secrets; else null.
    pub written: Value,
    /// The context, for kinds that need it; else null.
    pub context: Payload,
    /// The time limit of this attempt, counted from the start of its execution.
    pub timeout: Duration,
    /// The publisher of the workflow's version, with whose permissions the task acts.
    pub actor: Arc<Publisher>,
}

impl Task {
    /// The same for every attempt of this step: an outside system may use it to recognise a repetition.
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
    /// A title for people: "JavaScript".
    pub title: &'static str,
    pub group: &'static str,
    /// The name of an icon, for editors.
    pub icon: &'static str,
    pub summary: &'static str,
    /// A description of the output.
    pub output: &'static str,
    /// The JSON Schema of the config.
    pub schema: Schema,
    pub examples: Vec<Example>,
    /// Whether it is for tests and benchmarks only, so that editors do not offer it.
    pub is_internal: bool,
    /// The number of tasks of this kind that one node performs at the same time.
    pub concurrency: usize,
}

/// A valid config, and its purpose.
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

/// Performs tasks of one kind. It accesses outside systems; only the engine accesses the database.
#[async_trait]
pub trait Handler: Send + Sync {
    fn describe(&self) -> &Description;

    /// The errors in a config; pointers are relative to it. Templates may occur in any field except raw ones.
    fn check(&self, config: &Value) -> Vec<Fault>;

    /// The errors in the code of a config, such as the syntax of a script. Called when a definition is saved.
    fn check_code(&self, _config: &Value) -> Vec<Fault> {
        Vec::new()
    }

    /// The problem of a definition of this workspace that contains tasks of this kind, if the server is not configured to
    /// perform them. Its path is that of the task. Called when a definition is saved.
    async fn find_obstacle(&self, _workspace: WorkspaceId) -> Result<Option<Problem>, Failure> {
        Ok(None)
    }

    /// Whether the handler itself ends a task at its timeout. The engine does so for all others.
    fn times_itself(&self) -> bool {
        false
    }

    /// The time after which a task has used another turn of its workspace. Then other workspaces with the same number of
    /// places go first, although this one was served before them. None if tasks only wait.
    fn turn(&self) -> Option<Duration> {
        None
    }

    /// The bounds of the tasks that one node performs at the same time, whose places the workspaces share.
    fn bounds(&self) -> ShareBounds {
        ShareBounds::new(self.describe().concurrency as u64)
    }

    /// The key of a task within its workspace, if keys have a bound: such as the host of a request.
    fn place_key(&self, _task: &Task) -> Box<str> {
        Box::default()
    }

    /// Performs one task. Dropping the future stops the work.
    async fn perform(&self, task: Task) -> TaskResult;
}
