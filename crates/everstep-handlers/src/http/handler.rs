//! The handler of the http kind.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::failure::Failure;
use everstep_core::fair_share::ShareBounds;
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use everstep_net::Client;
use serde_json::{Value, json};

use super::config::Config;
use super::request;
use super::response::{self, ResponseReader};
use crate::config;
use crate::handler::{Description, Example, Handler, Task, TaskResult};
use crate::ports::Secrets;
use crate::secrets::RevealedSecrets;

const TIMEOUT_SECONDS_DEFAULT: u32 = 30;
/// The memory of a request that waits for its response: the connection, its buffers and the task.
const REQUEST_BYTES: usize = 64 * 1024;

/// The bounds of the requests that the http nodes of a server have in progress. Most of them only wait for a response,
/// so that memory bounds their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpBounds {
    /// Requests of one workspace.
    pub workspace_max: usize,
    /// Requests of one workspace to one host.
    pub host_max: usize,
    /// Memory of all requests.
    pub memory_bytes: usize,
}

impl Default for HttpBounds {
    fn default() -> Self {
        Self { workspace_max: 128, host_max: 64, memory_bytes: 64 * 1024 * 1024 }
    }
}

/// Sends HTTP requests through the guarded client.
pub struct HttpHandler {
    client: Client,
    secrets: Arc<dyn Secrets>,
    bounds: ShareBounds,
    description: Description,
}

impl HttpHandler {
    pub fn new(client: Client, secrets: Arc<dyn Secrets>, bounds: HttpBounds) -> Self {
        let requests_max = (bounds.memory_bytes / REQUEST_BYTES).max(1);
        let schema = config::schema::<Config>();
        let info = KindInfo {
            name: "http".to_owned(),
            output_variable: Some("httpResponse".to_owned()),
            secret_places: schema.secret_places(),
            timeout_seconds: TIMEOUT_SECONDS_DEFAULT,
            longest_timeout_seconds: 3_600,
            ..KindInfo::default()
        };
        let description = Description {
            info,
            title: "HTTP request",
            group: "Integration",
            icon: "globe",
            summary: "Sends an HTTP request and returns the response.",
            output: "`{status, headers, body}`; the names of headers are in lowercase.",
            schema,
            examples: examples(),
            is_internal: false,
            concurrency: requests_max,
        };
        let bounds = ShareBounds {
            places: requests_max as u64,
            workspace_max: bounds.workspace_max as u64,
            key_max: bounds.host_max as u64,
        };
        Self { client, secrets, bounds, description }
    }

    async fn ask(&self, mut task: Task) -> Result<Outcome, Failure> {
        let places = task.secrets.clone();
        let mut revealed = RevealedSecrets::reveal_into(&mut task, &*self.secrets).await?;
        let config: Config = config::read(std::mem::take(&mut task.config), &self.description.schema)?;
        let reading = ResponseReader {
            accept_statuses: config.accept_statuses.clone(),
            retry_on: config.retry_on.clone(),
            response_type: config.response_type,
        };
        let request = request::make(config, &task, &places, &mut revealed)?;
        let response = self.client.send(request).await.map_err(|error| response::failure(&error, &revealed))?;
        reading.read(response, &revealed)
    }
}

#[async_trait]
impl Handler for HttpHandler {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, config: &Value) -> Vec<Fault> {
        let mut faults = config::check(config, &self.description.schema, &[]);
        if faults.is_empty() {
            faults = request::check(config);
        }
        faults
    }

    fn bounds(&self) -> ShareBounds {
        self.bounds
    }

    /// The host. Addresses that are secrets count as one host: they are revealed only while the task is performed.
    fn place_key(&self, task: &Task) -> Box<str> {
        let url = task.config["url"].as_str().and_then(|url| request::read_address(url).ok());
        url.as_ref().and_then(|url| url.host_str()).unwrap_or_default().into()
    }

    async fn perform(&self, task: Task) -> TaskResult {
        TaskResult::from(self.ask(task).await)
    }
}

fn examples() -> Vec<Example> {
    vec![
        Example::new("Read a resource", json!({"url": "https://api.example.com/orders/{{ctx.input.orderId}}"})),
        Example::new(
            "Create a resource, with a token that is stored as a secret",
            json!({
                "method": "POST",
                "url": "https://api.example.com/orders",
                "auth": {"type": "bearer", "token": {"$secret": "orders-token"}},
                "body": {"customer": "{{ctx.input.customer}}", "lines": {"$expr": "ctx.input.lines"}},
            }),
        ),
        Example::new(
            "Send a form, and accept the status 404 as well",
            json!({
                "method": "POST",
                "url": "https://example.com/login",
                "bodyType": "form",
                "body": {"user": "{{ctx.input.user}}", "password": {"$secret": "login-password"}},
                "acceptStatuses": ["2xx", 404],
                "sendIdempotencyKey": false,
            }),
        ),
        Example::new(
            "Search, and retry only after too many requests",
            json!({
                "url": "https://api.example.com/search",
                "query": {"q": "{{ctx.input.text}}", "tag": ["new", "open"]},
                "headers": {"X-Api-Key": {"$secret": "search-key"}},
                "retryOn": [429],
                "timeoutSeconds": 10,
            }),
        ),
    ]
}
