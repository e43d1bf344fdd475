//! Sends mails, to the address of a workspace or to the mail server.

use std::sync::Arc;

use async_trait::async_trait;
use everstep_core::definition::Problem;
use everstep_core::evaluate::Fault;
use everstep_core::failure::{Failure, code};
use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_core::journal::{Delivery, Outcome};
use everstep_core::kinds::KindInfo;
use everstep_core::time::Timestamp;
use everstep_core::{limits, mail};
use everstep_net::{Client, Method, Request, Url};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Mail, MailServer};
use crate::config;
use crate::handler::{Description, Example, Handler, Task, TaskResult};
use crate::ports::{NotifyPolicy, NotifyTarget, Secrets};
use crate::secrets::RevealedSecrets;
use crate::webhook::{Message, WebhookBounds, now, post};

const NOT_CONFIGURED: &str = "NOTIFY_NOT_CONFIGURED";
const NOT_CONFIGURED_MESSAGE: &str = "the server has no mail server, and the workspace has no notifyUrl";
const NOT_CONFIGURED_HINT: &str = "set EVERSTEP_SMTP_URL and EVERSTEP_SMTP_FROM, or the options notifyUrl and \
                                   notifySecret of the workspace";

/// Sends a mail to people.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    /// One recipient, or a list of at most 100. A recipient is an email address, or another name that the `notifyUrl`
    /// of the workspace accepts.
    #[schemars(extend("type" = ["string", "number", "array", "null"]))]
    target: Value,
    /// The `subject`, one line of at most 500 characters, and the `text`, which is sent as plain text.
    template: Texts,
    /// The time limit of an attempt, in seconds.
    #[serde(default)]
    #[schemars(range(min = 1, max = Delivery::TIMEOUT_SECONDS_MAX))]
    #[expect(dead_code, reason = "the core reads it from the config and sets the time limit of the task")]
    timeout_seconds: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct Texts {
    /// The subject: one line of at most 500 characters.
    #[schemars(extend("type" = ["string", "number", "boolean"]))]
    subject: Value,
    /// The text. It is sent as plain text.
    #[schemars(extend("type" = ["string", "number", "boolean"]))]
    text: Value,
}

/// Sends mails as the workspace and the server are configured.
pub struct NotifyHandler {
    client: Client,
    secrets: Arc<dyn Secrets>,
    policy: Arc<dyn NotifyPolicy>,
    mail_server: Option<MailServer>,
    bounds: WebhookBounds,
    description: Description,
}

impl NotifyHandler {
    pub fn new(
        client: Client,
        secrets: Arc<dyn Secrets>,
        policy: Arc<dyn NotifyPolicy>,
        mail_server: Option<MailServer>,
        bounds: WebhookBounds,
    ) -> Self {
        let info = KindInfo {
            name: Delivery::NOTIFY.to_owned(),
            output_variable: Some("notifyResult".to_owned()),
            timeout_seconds: Delivery::TIMEOUT_SECONDS_DEFAULT,
            longest_timeout_seconds: Delivery::TIMEOUT_SECONDS_MAX,
            ..KindInfo::default()
        };
        let description = Description {
            info,
            title: "Notify",
            group: "Integration",
            icon: "mail",
            summary: "Sends a mail to people, by SMTP or through the `notifyUrl` of the workspace.",
            output: "`{recipients}`: the number of recipients. By SMTP also `messageId`; through the `notifyUrl` also \
                     `status`, which is always 2xx.",
            schema: config::schema::<Config>(),
            examples: examples(),
            is_internal: false,
            concurrency: bounds.places,
        };
        Self { client, secrets, policy, mail_server, bounds, description }
    }

    async fn send(&self, mut task: Task) -> Result<Outcome, Failure> {
        let delivery = task.config.as_object_mut().and_then(|config| config.remove("delivery"));
        let config: Config = config::read(std::mem::take(&mut task.config), &self.description.schema)?;
        let recipients = read_recipients(&config.target)?;
        let [subject, text] = [config.template.subject, config.template.text].map(into_text);
        if !mail::is_subject(&subject) {
            return Err(Failure::fatal("SUBJECT_INVALID", mail::SUBJECT_RULE));
        }
        let message = match delivery {
            Some(delivery) => Message::from_delivery(delivery)?,
            None => Message::from_task(&task, mail::MESSAGE_TYPE),
        };
        let decided_at = message.body["timestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
        let mail = Mail { id: message.id.clone(), at: decided_at.unwrap_or_else(now), recipients, subject, text };
        let mut target = self.policy.find_target(task.workspace).await?;
        if target.is_none() && self.mail_server.is_none() {
            target = self.policy.reread_target(task.workspace).await?;
        }
        match (target, &self.mail_server) {
            (Some(target), _) => self.post(&task, target, message, mail).await,
            (None, Some(server)) => {
                let count = mail.recipients.len();
                let message_id = server.send(mail, task.timeout).await?;
                Ok(Outcome::from_output(json!({"recipients": count, "messageId": message_id})))
            }
            (None, None) => {
                Err(Failure::transient(NOT_CONFIGURED, format!("{NOT_CONFIGURED_MESSAGE}; {NOT_CONFIGURED_HINT}")))
            }
        }
    }

    /// Sends a mail to the address of a workspace.
    async fn post(
        &self,
        task: &Task,
        target: NotifyTarget,
        mut message: Message,
        mail: Mail,
    ) -> Result<Outcome, Failure> {
        let invalid = |message: String| Failure::fatal(code::INVALID_CONFIG, message);
        let url: Url = target.url.parse().map_err(|error| invalid(format!("the notifyUrl is not a URL: {error}")))?;
        let secret = self.secrets.reveal(task.workspace, &target.secret).await?;
        let mut revealed = RevealedSecrets::default();
        revealed.add(&secret);
        let data = &mut message.body["data"];
        data["recipients"] = json!(mail.recipients);
        data["subject"] = mail.subject.into();
        data["text"] = mail.text.into();
        let mut request = Request::new(Method::POST, url);
        message.sign(Some(&secret), now(), &mut request)?;
        let status = post(&self.client, request, task.timeout, &revealed).await?;
        Ok(Outcome::from_output(json!({"recipients": mail.recipients.len(), "status": status.as_u16()})))
    }
}

#[async_trait]
impl Handler for NotifyHandler {
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

    async fn find_obstacle(&self, workspace: WorkspaceId) -> Result<Option<Problem>, Failure> {
        if self.mail_server.is_some() || self.policy.reread_target(workspace).await?.is_some() {
            return Ok(None);
        }
        Ok(Some(Problem::at("", NOT_CONFIGURED_MESSAGE).code(NOT_CONFIGURED).hint(NOT_CONFIGURED_HINT)))
    }

    /// All mails of a workspace go to one host, its address or the mail server: they have one key, and its bound is that
    /// of a target.
    fn bounds(&self) -> ShareBounds {
        let places = self.bounds.places as u64;
        ShareBounds { places, workspace_max: places, key_max: self.bounds.target_max as u64 }
    }

    async fn perform(&self, task: Task) -> TaskResult {
        TaskResult::from(self.send(task).await)
    }
}

fn into_text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        value => value.to_string(),
    }
}

fn read_recipients(target: &Value) -> Result<Vec<String>, Failure> {
    let recipients = mail::read_recipients(target);
    let recipients =
        recipients.ok_or_else(|| Failure::fatal("RECIPIENT_INVALID", "a recipient is neither a text nor a number"))?;
    if recipients.is_empty() {
        return Err(Failure::fatal("NO_RECIPIENT", "the mail has no recipient"));
    }
    if recipients.len() > limits::RECIPIENTS {
        let message = format!("the mail has more than {} recipients", limits::RECIPIENTS);
        return Err(Failure::fatal("TOO_MANY_RECIPIENTS", message));
    }
    if !recipients.iter().all(|recipient| mail::is_recipient(recipient)) {
        return Err(Failure::fatal("RECIPIENT_INVALID", mail::RECIPIENT_RULE));
    }
    Ok(recipients)
}

/// The errors in a config beyond its types, in its literal parts.
fn check(config: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut report = |pointer: String, message: &str| faults.push(Fault { pointer, message: message.to_owned() });
    let is_literal = |value: &Value| value.as_str().is_none_or(|text| !text.contains("{{"));
    let target = &config["target"];
    let list = match target {
        Value::Array(list) => list.as_slice(),
        one => std::slice::from_ref(one),
    };
    if list.is_empty() || target.is_null() {
        report("/target".to_owned(), "the mail has no recipient");
    }
    if list.len() > limits::RECIPIENTS {
        report("/target".to_owned(), "a mail has at most 100 recipients");
    }
    for (number, recipient) in list.iter().enumerate().filter(|(_, recipient)| is_literal(recipient)) {
        let is_valid = match recipient {
            Value::String(text) => mail::is_recipient(text),
            // A template.
            Value::Object(object) => object.contains_key("$expr"),
            // An absent target has been reported.
            Value::Null => !target.is_array(),
            Value::Number(_) => true,
            Value::Bool(_) | Value::Array(_) => false,
        };
        if !is_valid {
            let place = if target.is_array() { format!("/target/{number}") } else { "/target".to_owned() };
            report(place, mail::RECIPIENT_RULE);
        }
    }
    let subject = &config["template"]["subject"];
    if is_literal(subject) && subject.as_str().is_some_and(|subject| !mail::is_subject(subject)) {
        report("/template/subject".to_owned(), mail::SUBJECT_RULE);
    }
    faults
}

fn examples() -> Vec<Example> {
    vec![
        Example::new(
            "Send a mail to one person",
            json!({
                "target": "{{ctx.input.customer.email}}",
                "template": {
                    "subject": "Your order {{ctx.input.orderId}}",
                    "text": "Dear customer,\n\nyour order has been shipped.\n",
                },
            }),
        ),
        Example::new(
            "Send a mail to a list of people",
            json!({
                "target": ["sales@example.com", "{{ctx.input.reviewers}}"],
                "template": {"subject": "Please review", "text": "{{ctx.input.title}} waits for your review."},
                "timeoutSeconds": 20,
            }),
        ),
    ]
}
