//! Runs a user's JavaScript.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::WorkspaceId;
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use everstep_core::payload::Payload;
use everstep_net::Client;
use everstep_sandbox::{Error, Fetch, Sandbox, Script, ScriptOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::fetch::GuardedFetch;
use crate::handler::{Description, Example, Handler, Task, TaskResult};
use crate::ports::FetchPolicy;
use crate::{config, logs};

const FETCH_HINT: &str = "scripts of this workspace may use fetch only if its options contain \"fetch\": true";
const TIMEOUT_SECONDS_DEFAULT: u32 = 30;
/// A script that ran for this long has used another turn of its workspace.
const TURN: Duration = Duration::from_secs(5);

/// Runs JavaScript with the run's context as `ctx`. Its return value is the step's output.
pub struct JavaScriptHandler {
    sandbox: Sandbox,
    fetch: Arc<dyn Fetch>,
    fetch_policy: Arc<dyn FetchPolicy>,
    description: Description,
}

/// Runs JavaScript with the run's context as `ctx`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The body of an async function: it may `await`, and `return` any JSON value.
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    code: String,
    /// The time limit of the code, in seconds. More than 60 needs a server whose `EVERSTEP_JS_TIMEOUT_MAX` allows it.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: Option<u32>,
}

impl JavaScriptHandler {
    /// A handler whose scripts may use this client, in workspaces that allow it.
    pub fn new(sandbox: Sandbox, client: Client, fetch_policy: Arc<dyn FetchPolicy>) -> Self {
        let info = KindInfo {
            name: "javascript".to_owned(),
            output_variable: Some("jsResult".to_owned()),
            raw_fields: vec!["code".to_owned()],
            needs_context: true,
            timeout_seconds: TIMEOUT_SECONDS_DEFAULT,
            longest_timeout_seconds: u32::try_from(sandbox.timeout_max().as_secs()).unwrap_or(u32::MAX),
            ..KindInfo::default()
        };
        let description = Description {
            info,
            title: "JavaScript",
            group: "Code",
            icon: "braces",
            summary: "Computes a value from the context with JavaScript, in a sandbox.",
            output: "The value that the code returns, as JSON.",
            schema: config::schema::<Config>(),
            examples: vec![
                Example::new(
                    "Compute the total of an order",
                    json!({"code": "const lines = ctx.input.lines ?? [];\nreturn {total: lines.reduce((sum, line) => sum + line.price * line.count, 0)};"}),
                ),
                Example::new(
                    "Log, and stop after five seconds",
                    json!({"code": "console.log('input', ctx.input);\nreturn Object.keys(ctx.input).length;", "timeoutSeconds": 5}),
                ),
                Example::new(
                    "Send a request, in a workspace that allows it",
                    json!({"code": "const answer = await fetch('https://api.example.com/rates');\nif (!answer.ok) throw new Error(`status ${answer.status}`);\nreturn await answer.json();"}),
                ),
            ],
            is_internal: false,
            // Not more than the sandbox runs at the same time: the time of a script counts from its start, not from its
            // queueing.
            concurrency: sandbox.threads(),
        };
        Self { sandbox, fetch: Arc::new(GuardedFetch(client)), fetch_policy, description }
    }

    /// The implementation of `fetch` for a script. Code that does not contain the word needs no lookup.
    async fn find_fetch(&self, workspace: WorkspaceId, code: &str) -> Result<Option<Arc<dyn Fetch>>, Failure> {
        let is_allowed = code.contains("fetch") && self.fetch_policy.allows(workspace).await?;
        Ok(is_allowed.then(|| Arc::clone(&self.fetch)))
    }
}

#[async_trait]
impl Handler for JavaScriptHandler {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, config: &Value) -> Vec<Fault> {
        let mut faults = config::check(config, &self.description.schema, &self.description.info.raw_fields);
        if config.get("code").and_then(Value::as_str).is_some_and(|code| code.contains('\0')) {
            faults.push(Fault { pointer: "/code".to_owned(), message: "the code contains a NUL character".to_owned() });
        }
        faults
    }

    fn check_code(&self, config: &Value) -> Vec<Fault> {
        let code = config.get("code").and_then(Value::as_str).filter(|code| !code.contains('\0'));
        let error = code.and_then(Sandbox::check);
        error.map(|error| Fault { pointer: "/code".to_owned(), message: error.to_string() }).into_iter().collect()
    }

    fn times_itself(&self) -> bool {
        true
    }

    fn turn(&self) -> Option<Duration> {
        Some(TURN)
    }

    async fn perform(&self, task: Task) -> TaskResult {
        let config: Config = match config::read(task.config, &self.description.schema) {
            Ok(config) => config,
            Err(failure) => return TaskResult::from(Err(failure)),
        };
        let named = config.timeout_seconds.map_or(task.timeout, |seconds| Duration::from_secs(seconds.into()));
        let timeout = named.min(self.sandbox.timeout_max());
        if timeout < named {
            tracing::warn!(
                run = %task.run,
                step = %task.step,
                "the timeout of a script is reduced from {named:?} to the maximum of this server, {timeout:?}"
            );
        }
        let fetch = match self.find_fetch(task.workspace, &config.code).await {
            Ok(fetch) => fetch,
            Err(failure) => return TaskResult::from(Err(failure)),
        };
        let owner = task.workspace.uuid().as_u128();
        let script = Script { timeout, owner, fetch, ..Script::new(config.code, task.context.json()) };
        match self.sandbox.run(script).await {
            Ok(ScriptOutput { json, logs }) => TaskResult { result: outcome(json), logs: logs::cut(logs) },
            Err(failed) => TaskResult { result: Err(failure(&failed.error)), logs: logs::cut(failed.logs) },
        }
    }
}

fn outcome(json: String) -> Result<Outcome, Failure> {
    let output = Payload::from_json(json).map_err(|error| Failure::fatal("JAVASCRIPT_ERROR", error.to_string()))?;
    Ok(Outcome::from_output(output))
}

/// Whether a script tried to use `fetch`, which was not available.
fn is_about_fetch(thrown: &str) -> bool {
    thrown.starts_with("ReferenceError") && thrown.contains("fetch")
}

fn failure(error: &Error) -> Failure {
    let message = error.to_string();
    match error {
        Error::Threw { message: thrown, .. } if is_about_fetch(thrown) => {
            Failure::fatal("JAVASCRIPT_ERROR", format!("{message}; {FETCH_HINT}"))
        }
        // Code with a syntax error has it in every attempt.
        Error::Threw { message: thrown, .. } if thrown.starts_with("SyntaxError") => {
            Failure::fatal("JAVASCRIPT_ERROR", message)
        }
        Error::Threw { .. } | Error::NeverSettles | Error::Stuck(_) | Error::Unavailable(_) => {
            Failure::transient("JAVASCRIPT_ERROR", message)
        }
        Error::Timeout(_) => Failure::transient(code::STEP_TIMEOUT, message),
        Error::OutOfMemory(_) => Failure::fatal("OUT_OF_MEMORY", message),
        Error::NotJson(_) => Failure::fatal("JAVASCRIPT_ERROR", message),
        Error::TooLarge(_) => Failure::fatal(code::PAYLOAD_TOO_LARGE, message),
    }
}
