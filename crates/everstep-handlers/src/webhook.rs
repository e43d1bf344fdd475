//! Sends webhooks: signed messages, as Standard Webhooks specifies them.
//!
//! A node of a graph and a side effect of a state machine have the same config. The config of a side effect also
//! contains `delivery`, which the core adds: its id, and the message as it was decided. A definition cannot contain it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::failure::{Failure, code};
use everstep_core::fair_share::ShareBounds;
use everstep_core::journal::{Delivery, Outcome};
use everstep_core::kinds::KindInfo;
use everstep_core::time::Timestamp;
use everstep_core::webhook;
use everstep_net::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use everstep_net::{Client, Method, OpenResponse, Request, StatusCode, Url};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::config;
use crate::handler::{Description, Example, Handler, Task, TaskResult};
use crate::http::{ERROR_BODY_CHARS_MAX, TextValue, WrittenHost, cut, failure};
use crate::ports::Secrets;
use crate::secrets::RevealedSecrets;

/// The type of the message of a graph's node.
const STEP_TYPE: &str = "workflow.step";
/// The body of a response is only read for the message of a failure.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// The time for the body of a response, after its status.
const BODY_TIMEOUT: Duration = Duration::from_secs(1);
const IDEMPOTENCY_HEADER: &str = "idempotency-key";

/// The bounds of the webhooks that a node sends at the same time. A webhook that waits for its target holds no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookBounds {
    /// Webhooks of one workspace to one host.
    pub target_max: usize,
    /// All webhooks.
    pub places: usize,
}

impl Default for WebhookBounds {
    fn default() -> Self {
        Self { target_max: 5, places: 256 }
    }
}

/// Sends a JSON message to a URL, in the format of Standard Webhooks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// The URL that receives the message, beginning with `http://` or `https://`.
    #[schemars(length(min = 1))]
    target: String,
    /// The `type` of the message, such as `order.approved`.
    #[serde(default = "type_default", rename = "type")]
    #[schemars(length(min = 1, max = 128))]
    message_type: String,
    /// Any JSON. The message contains it as `data.payload`, beside `data.runId` and `data.step`.
    #[serde(default)]
    payload: Value,
    /// Further headers of the request, by name.
    #[serde(default)]
    headers: BTreeMap<String, TextValue>,
    /// The key of the signature: `whsec_` and base64, or any other text. Without it, the message is not signed.
    #[serde(default)]
    #[schemars(length(min = 1), extend("x-secret" = true))]
    secret: Option<String>,
    /// The time limit of an attempt, in seconds.
    #[serde(default)]
    #[schemars(range(min = 1, max = Delivery::TIMEOUT_SECONDS_MAX))]
    #[expect(dead_code, reason = "the core reads it from the config and sets the time limit of the task")]
    timeout_seconds: Option<u32>,
}

fn type_default() -> String {
    STEP_TYPE.to_owned()
}

/// A message and its id, which is the same for all attempts.
pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) body: Value,
}

/// Sends webhooks through the guarded client.
pub struct WebhookHandler {
    client: Client,
    secrets: Arc<dyn Secrets>,
    bounds: WebhookBounds,
    description: Description,
}

impl WebhookHandler {
    pub fn new(client: Client, secrets: Arc<dyn Secrets>, bounds: WebhookBounds) -> Self {
        let schema = config::schema::<Config>();
        let info = KindInfo {
            name: Delivery::WEBHOOK.to_owned(),
            output_variable: Some("webhookResponse".to_owned()),
            secret_places: schema.secret_places(),
            timeout_seconds: Delivery::TIMEOUT_SECONDS_DEFAULT,
            longest_timeout_seconds: Delivery::TIMEOUT_SECONDS_MAX,
            ..KindInfo::default()
        };
        let description = Description {
            info,
            title: "Webhook",
            group: "Integration",
            icon: "send",
            summary: "Sends a JSON message to a URL, in the format of Standard Webhooks and signed with `secret`.",
            output: "`{status}`: the HTTP status of the response. It is always 2xx: any other status is a failure.",
            schema,
            examples: examples(),
            is_internal: false,
            concurrency: bounds.places,
        };
        Self { client, secrets, bounds, description }
    }

    async fn send(&self, mut task: Task) -> Result<Outcome, Failure> {
        let delivery = task.config.as_object_mut().and_then(|config| config.remove("delivery"));
        let has_secret_header = task.secrets.iter().any(|place| place.starts_with("/headers/"));
        let secret_places = task.secrets.clone();
        let revealed = RevealedSecrets::reveal_into(&mut task, &*self.secrets).await?;
        let config: Config = config::read(std::mem::take(&mut task.config), &self.description.schema)?;
        let url = read_target(&config.target)?;
        if has_secret_header {
            check_host(&task.written["target"], &url)?;
        }
        let message = match delivery {
            Some(delivery) => Message::from_delivery(delivery)?,
            None => {
                let mut message = Message::from_task(&task, &config.message_type);
                message.body["data"]["payload"] = config.payload.clone();
                message
            }
        };
        let mut request = Request::new(Method::POST, url);
        request.headers = headers(&config, &secret_places)?;
        message.sign(config.secret.as_deref(), now(), &mut request)?;
        let status = post(&self.client, request, task.timeout, &revealed).await?;
        Ok(Outcome::from_output(json!({"status": status.as_u16()})))
    }
}

/// Sends a signed message. Redirects are not followed. The status decides, whatever happens to the body.
pub(crate) async fn post(
    client: &Client,
    mut request: Request,
    timeout: Duration,
    revealed: &RevealedSecrets,
) -> Result<StatusCode, Failure> {
    if !timeout.is_zero() {
        request.timeout = timeout;
    }
    let (began, timeout) = (Instant::now(), request.timeout);
    let host = request.url.host_str().unwrap_or_default().to_owned();
    let mut response = client.open(request).await.map_err(|error| failure(&error, revealed))?;
    let rest = timeout.saturating_sub(began.elapsed()) / 2;
    let body = read_body(&mut response, rest.min(BODY_TIMEOUT)).await;
    read_response(response.status(), &host, body, revealed)
}

impl Message {
    /// The message of a side effect, as it was decided.
    pub(crate) fn from_delivery(mut delivery: Value) -> Result<Self, Failure> {
        let id = delivery["id"].as_str().map(str::to_owned);
        let id = id.ok_or_else(|| invalid("the delivery has no id"))?;
        let [message_type, timestamp, data] = ["type", "timestamp", "data"].map(|field| delivery[field].take());
        Ok(Self { id, body: json!({"type": message_type, "timestamp": timestamp, "data": data}) })
    }

    /// The message of a node of a graph.
    pub(crate) fn from_task(task: &Task, message_type: &str) -> Self {
        let begin = Timestamp::from_millis(i64::try_from(task.run.uuid().as_u128() >> 80).unwrap_or_default());
        let data = json!({"runId": task.run, "step": task.step});
        Self {
            id: Delivery::id_of(task.run, &task.step, begin).to_string(),
            body: json!({"type": message_type, "timestamp": now().to_string(), "data": data}),
        }
    }

    /// Adds the body and the headers of Standard Webhooks.
    pub(crate) fn sign(&self, secret: Option<&str>, at: Timestamp, request: &mut Request) -> Result<(), Failure> {
        let body = self.body.to_string().into_bytes();
        let signature = secret.map(|secret| webhook::sign(secret, &self.id, at, &body)).transpose();
        let signature = signature.map_err(|error| Failure::fatal("WEBHOOK_SECRET_INVALID", error.to_string()))?;
        let mut set = |name: HeaderName, text: &str| -> Result<(), Failure> {
            request.headers.insert(name, HeaderValue::from_str(text).map_err(|error| invalid(error.to_string()))?);
            Ok(())
        };
        set(CONTENT_TYPE, "application/json")?;
        set(HeaderName::from_static(IDEMPOTENCY_HEADER), &self.id)?;
        set(HeaderName::from_static(webhook::ID_HEADER), &self.id)?;
        set(HeaderName::from_static(webhook::TIMESTAMP_HEADER), &webhook::timestamp(at))?;
        if let Some(signature) = signature {
            set(HeaderName::from_static(webhook::SIGNATURE_HEADER), &signature)?;
        }
        request.body = body;
        Ok(())
    }
}

#[async_trait]
impl Handler for WebhookHandler {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, config: &Value) -> Vec<Fault> {
        let mut faults = config::check(config, &self.description.schema, &[]);
        if faults.is_empty() {
            faults = check(config);
        }
        faults
    }

    fn bounds(&self) -> ShareBounds {
        let places = self.bounds.places as u64;
        ShareBounds { places, workspace_max: places, key_max: self.bounds.target_max as u64 }
    }

    /// The host of the target.
    fn place_key(&self, task: &Task) -> Box<str> {
        let url = task.config["target"].as_str().and_then(|target| read_target(target).ok());
        url.as_ref().and_then(|url| url.host_str()).unwrap_or_default().into()
    }

    async fn perform(&self, task: Task) -> TaskResult {
        TaskResult::from(self.send(task).await)
    }
}

/// The errors in a config beyond its types, in its literal parts.
fn check(config: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut report = |pointer: String, message: String| faults.push(Fault { pointer, message });
    let is_literal = |text: &&str| !text.contains("{{");
    let literal = config["target"].as_str().filter(is_literal);
    if let Some(Err(failure)) = literal.map(read_target) {
        report("/target".to_owned(), failure.message);
    }
    let headers = config["headers"].as_object();
    for name in headers.into_iter().flat_map(|headers| headers.keys()) {
        if let Err(failure) = header_name(name) {
            report(format!("/headers/{}", name.replace('~', "~0").replace('/', "~1")), failure.message);
        }
    }
    let names_secret = headers.into_iter().flatten().any(|(_, value)| value.get("$secret").is_some());
    if names_secret && WrittenHost::read(&config["target"]) == WrittenHost::Computed {
        report("/target".to_owned(), COMPUTED_TARGET.to_owned());
    }
    faults
}

const COMPUTED_TARGET: &str = "a webhook with a secret in a header must have a literal host: write the scheme, the host \
                               and the first `/` of the path before the first expression";

fn invalid(message: impl Into<String>) -> Failure {
    Failure::fatal(code::INVALID_CONFIG, message)
}

fn read_target(text: &str) -> Result<Url, Failure> {
    let hint = "write for example https://erp.example.com/hooks";
    let url = Url::parse(text.trim());
    let url = url.map_err(|error| invalid(format!("`target` is not a valid address: {error}; {hint}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(format!("`target` must begin with http:// or https://; {hint}")));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("`target` must not contain credentials; send them in a header"));
    }
    Ok(url)
}

/// Rejects a request with a secret in a header to another host than the definition has.
fn check_host(written: &Value, url: &Url) -> Result<(), Failure> {
    match WrittenHost::read(written) {
        WrittenHost::Literal(written) if written.origin() == url.origin() => Ok(()),
        WrittenHost::Literal(_) | WrittenHost::Secret | WrittenHost::Computed => {
            Err(invalid(format!("`target`: {COMPUTED_TARGET}")))
        }
    }
}

fn header_name(name: &str) -> Result<HeaderName, Failure> {
    let read = HeaderName::from_bytes(name.as_bytes());
    let read = read.map_err(|_| invalid(format!("`headers`: {name:?} is not a valid name of a header")))?;
    if webhook::RESERVED_HEADERS.contains(&read.as_str()) {
        return Err(invalid(format!("`headers`: the server sets the header {read} itself; remove it")));
    }
    Ok(read)
}

fn headers(config: &Config, secret_places: &[String]) -> Result<HeaderMap, Failure> {
    let mut headers = HeaderMap::new();
    for (name, TextValue(text)) in &config.headers {
        let value = HeaderValue::from_bytes(text.as_bytes());
        // The value is not part of the message: it may be a secret.
        let mut value = value.map_err(|_| invalid(format!("the value of {name:?} is not valid in a header")))?;
        let place = format!("/headers/{}", name.replace('~', "~0").replace('/', "~1"));
        value.set_sensitive(secret_places.contains(&place));
        headers.insert(header_name(name)?, value);
    }
    Ok(headers)
}

/// The body of a response, if it is short and arrives in time. A part of it is not returned: it might end in the middle
/// of a secret.
async fn read_body(response: &mut OpenResponse, timeout: Duration) -> Vec<u8> {
    let read = async {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.ok()? {
            if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
                return None;
            }
            body.extend_from_slice(&chunk);
        }
        Some(body)
    };
    tokio::time::timeout(timeout, read).await.ok().flatten().unwrap_or_default()
}

/// Every status except 2xx is a failure. Another attempt may succeed, whatever the status is.
fn read_response(
    status: StatusCode,
    host: &str,
    body: Vec<u8>,
    revealed: &RevealedSecrets,
) -> Result<StatusCode, Failure> {
    if status.is_success() {
        return Ok(status);
    }
    let mut message = format!("{host} responded with status {status}");
    let bytes = revealed.mask_bytes(body);
    let text = String::from_utf8_lossy(&bytes);
    if !text.trim().is_empty() {
        message.push_str(&format!(": {}", cut(text.trim(), ERROR_BODY_CHARS_MAX)));
    }
    Err(Failure::transient("HTTP_STATUS", revealed.mask(&message)).with_status(status.as_u16()))
}

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn examples() -> Vec<Example> {
    vec![
        Example::new(
            "Send a signed message",
            json!({
                "target": "https://erp.example.com/hooks/orders",
                "type": "order.approved",
                "payload": {"order": "{{ctx.input.orderId}}"},
                "secret": {"$secret": "erp-webhook"},
            }),
        ),
        Example::new(
            "Send a message with a token in a header",
            json!({
                "target": "https://chat.example.com/hooks",
                "payload": {"text": "Order {{ctx.input.orderId}} is complete."},
                "headers": {"X-Token": {"$secret": "chat-token"}},
                "timeoutSeconds": 5,
            }),
        ),
    ]
}
