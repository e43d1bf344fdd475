//! Queries a data source with a saved query.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::failure::Failure;
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::config;
use crate::handler::{Description, Example, Handler, Task, TaskResult};
use crate::ports::Sources;
use crate::sources::{Drivers, QueryRequest};

const TIMEOUT_SECONDS_DEFAULT: u32 = 30;

/// Queries a data source. The rows are the step's output.
pub struct DataQueryHandler {
    sources: Arc<dyn Sources>,
    drivers: Drivers,
    description: Description,
}

/// Queries a data source with a saved query.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The name of the saved query.
    #[serde(rename = "dataQueryID")]
    #[schemars(length(min = 1), regex(pattern = r"\S"))]
    data_query_id: String,
    /// The query's arguments, by name.
    #[serde(default)]
    args: Map<String, Value>,
    /// The time limit of the query, in seconds; the query's own limit applies as well.
    #[serde(default)]
    #[schemars(range(min = 1, max = 3600))]
    timeout_seconds: Option<u32>,
}

impl DataQueryHandler {
    pub fn new(sources: Arc<dyn Sources>, drivers: Drivers) -> Self {
        let info = KindInfo {
            name: "dataQuery".to_owned(),
            output_variable: Some("queryResult".to_owned()),
            timeout_seconds: TIMEOUT_SECONDS_DEFAULT,
            longest_timeout_seconds: 3_600,
            ..KindInfo::default()
        };
        let description = Description {
            info,
            title: "Data query",
            group: "Integration",
            icon: "database",
            summary: "Queries a database, a file or a service with a saved query and returns its rows.",
            output: "`{rows, rowCount, fields, truncated}`.",
            schema: config::schema::<Config>(),
            examples: vec![Example::new(
                "Run a saved query with its arguments",
                json!({"dataQueryID": "open-orders", "args": {"customer": "{{ctx.input.customer}}", "limit": 10}}),
            )],
            is_internal: false,
            concurrency: 64,
        };
        Self { sources, drivers, description }
    }

    async fn ask(&self, task: Task) -> Result<Outcome, Failure> {
        let config: Config = config::read(task.config, &self.description.schema)?;
        let timeout = config.timeout_seconds.map_or(task.timeout, |seconds| Duration::from_secs(seconds.into()));
        let query = self.sources.query(task.workspace, &config.data_query_id).await?;
        let source = self.sources.source(task.workspace, &query.source).await?;
        let ask = QueryRequest {
            workspace: task.workspace,
            source: &source,
            query: &query,
            args: &Value::Object(config.args),
            max_rows: None,
            timeout,
        };
        Ok(Outcome::from_output(self.drivers.ask(ask).await?.payload()))
    }
}

#[async_trait]
impl Handler for DataQueryHandler {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, config: &Value) -> Vec<Fault> {
        config::check(config, &self.description.schema, &self.description.info.raw_fields)
    }

    fn times_itself(&self) -> bool {
        true
    }

    async fn perform(&self, task: Task) -> TaskResult {
        TaskResult::from(self.ask(task).await)
    }
}
