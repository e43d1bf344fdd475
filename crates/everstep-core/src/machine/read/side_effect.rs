//! Reads side effects: the `events`, `entry` and `exit` of a definition.

use serde_json::{Map, Value};

use super::Reader;
use super::values::{STATE_NAME_HINT, WHO_HINT, is_state_name, is_template};
use crate::definition::{Fields, Problem, escape, insert, name_of, nearest, read_retry, secrets};
use crate::journal::Delivery;
use crate::limits;
use crate::machine::model::{DeliveryKind, DeliveryTemplate, MailTemplate, SideEffect, SideEffectKind};
use crate::machine::problem_code as code;
use crate::mail;
use crate::retry::RetryPolicy;
use crate::webhook;
use crate::workflow::is_name;

const TARGET: &str = "an http:// or https:// URL without credentials";
const TARGET_HINT: &str = "write for example \"https://erp.example.com/hooks\"";
const WORKFLOW_HINT: &str = "1 to 128 lowercase letters, digits, `_` or `-`, beginning with a letter or digit";
const ACTION_HINT: &str = "write for example \"APPROVE\"";
const SECRET_HINT: &str = "write for example {\"$secret\": \"erp-webhook\"}";
const RECIPIENT: &str = "a recipient (1 to 254 characters, without control characters and `,;<>`)";
const RECIPIENT_HINT: &str = "write for example \"ann@example.com\" or \"{{ctx.reviewers}}\"";
const TEXTS_HINT: &str =
    "write for example {\"subject\": \"Please review\", \"text\": \"{{ctx.title}} waits for you.\"}";

const TYPES: &[&str] = &["assign", "auto_action", "notify", "webhook", "workflow"];

/// The fields of a side effect beside `id`, `type` and `target`, and the types that have them.
const FIELDS: &[(&str, &[&str])] = &[
    ("template", &["notify"]),
    ("payload", &["auto_action", "webhook", "workflow"]),
    ("headers", &["webhook"]),
    ("secret", &["webhook"]),
    ("retry", &["notify", "webhook", "workflow"]),
    ("timeoutSeconds", &["notify", "webhook"]),
];

impl Reader<'_> {
    /// Reads a list of side effects, and its canonical form. `states` are those that may be entered when they happen.
    pub(super) fn side_effects(
        &mut self,
        list: &[Value],
        path: &str,
        states: &[u32],
    ) -> (Vec<SideEffect>, Option<Value>) {
        self.check_count(list.len(), limits::SIDE_EFFECTS, path, "events");
        let mut effects = Vec::<SideEffect>::new();
        let mut normal = Vec::new();
        for (number, value) in list.iter().enumerate().take(limits::SIDE_EFFECTS) {
            let place = format!("{path}/{number}");
            let Some((effect, text)) = self.side_effect(value, &place, number, states) else { continue };
            if effects.iter().any(|other| other.id == effect.id) {
                let problem = Problem::at(format!("{place}/id"), format!("two events have the id {:?}", effect.id));
                self.report(problem.hint("give each event of a list a different id"));
            }
            effects.push(effect);
            normal.push(text);
        }
        let normal = (!list.is_empty()).then(|| normal.into());
        (effects, normal)
    }

    fn side_effect(&mut self, value: &Value, path: &str, number: usize, states: &[u32]) -> Option<(SideEffect, Value)> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let id = fields.text(&["id"]);
        let kind = fields.text(&["type"]);
        let target = fields.any(&["target"]);
        let template = fields.any(&["template"]);
        let payload = fields.any(&["payload"]);
        let delivery = DeliveryFields {
            headers: fields.object(&["headers"]),
            secret: fields.any(&["secret"]),
            retry: fields.any(&["retry"]),
            timeout_seconds: fields.number(&["timeoutSeconds"], 1, u64::from(Delivery::TIMEOUT_SECONDS_MAX)),
        };
        if let Some(id) = id.filter(|id| !is_state_name(id)) {
            fields.problem("id", format!("{id:?} is not a valid id of an event"), STATE_NAME_HINT);
        }
        let known = format!("use one of {}", TYPES.join(", "));
        match kind {
            None => fields.missing(&["type"], "an event needs a type", known),
            Some(name) if !TYPES.contains(&name) => {
                let hint = match nearest(name, TYPES.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => known,
                };
                let message = format!("unknown type of event {name:?}");
                fields.coded_problem("type", code::EVENT_UNKNOWN_TYPE, message, hint);
            }
            Some(name) => {
                for (field, types) in FIELDS {
                    let is_used = value.get(field).is_some_and(|value| !value.is_null());
                    if is_used && !types.contains(&name) {
                        let message = format!("{field} has no effect for an event of type {name:?}");
                        fields.problem(field, message, "remove it");
                    }
                }
                if target.is_none() {
                    let (message, hint) = match name {
                        "assign" => ("an assign event needs `target`, the persons to assign", WHO_HINT),
                        "auto_action" => ("an auto_action event needs `target`, the action to perform", ACTION_HINT),
                        "notify" => ("a notify event needs `target`, its recipients", RECIPIENT_HINT),
                        "webhook" => ("a webhook event needs `target`, the URL to send to", TARGET_HINT),
                        _ => ("a workflow event needs `target`, the name of the workflow", WORKFLOW_HINT),
                    };
                    fields.missing(&["target"], message, hint);
                }
                if name == "notify" && template.is_none() {
                    fields.missing(&["template"], "a notify event needs `template`, its subject and text", TEXTS_HINT);
                }
            }
        }
        fields.finish();
        let kind_name = kind?;
        let place = format!("{path}/target");
        let (kind, normal_target) = match kind_name {
            "assign" => {
                let who = self.person_or_persons(target?, &place);
                let normal = Value::from(who.clone());
                (SideEffectKind::Assign { who }, normal)
            }
            "auto_action" => {
                let target = target?;
                let Some(action) = target.as_str().filter(|_| !is_template(target)) else {
                    let message = format!("expected the name of an action, found {}", found(target));
                    self.report(Problem::at(place, message).hint(ACTION_HINT));
                    return None;
                };
                for state in states {
                    self.check_action(action, *state, &place);
                }
                if let Some(payload) = payload {
                    let place = format!("{path}/payload");
                    if !payload.is_object() && !is_template(payload) {
                        let message = format!("expected an object with data, found {}", name_of(payload));
                        let hint = "write for example {\"reason\": \"{{ctx.reason}}\"}";
                        self.report(Problem::at(&place, message).hint(hint));
                    }
                    self.check_template(payload, &place);
                }
                let kind = SideEffectKind::AutoAction { action: action.to_owned(), payload: payload.cloned() };
                (kind, target.clone())
            }
            "notify" => {
                let texts = template.and_then(|texts| self.texts(texts, &format!("{path}/template")));
                let recipients = self.recipients(target?, &place);
                let mut template = self.delivery(DeliveryKind::Notify, &recipients, None, &delivery, path);
                template.template = texts;
                (SideEffectKind::Deliver(template.into()), target?.clone())
            }
            "webhook" => {
                let template = self.delivery(DeliveryKind::Webhook, target?, payload, &delivery, path);
                (SideEffectKind::Deliver(template.into()), target?.clone())
            }
            "workflow" => {
                let template = self.delivery(DeliveryKind::Workflow, target?, payload, &delivery, path);
                (SideEffectKind::Deliver(template.into()), target?.clone())
            }
            _ => return None,
        };
        let mut normal = Map::new();
        insert(&mut normal, "id", id.map(Value::from));
        normal.insert("type".into(), kind_name.into());
        normal.insert("target".into(), normal_target);
        insert(&mut normal, "template", template.cloned());
        insert(&mut normal, "payload", payload.cloned());
        insert(&mut normal, "headers", delivery.headers.map(|headers| headers.clone().into()));
        insert(&mut normal, "secret", delivery.secret.cloned());
        insert(&mut normal, "retry", delivery.retry.cloned());
        insert(&mut normal, "timeoutSeconds", delivery.timeout_seconds.map(Value::from));
        let id = id.map_or_else(|| format!("{kind_name}-{number}"), str::to_owned);
        Some((SideEffect { id, kind }, normal.into()))
    }

    fn delivery(
        &mut self,
        kind: DeliveryKind,
        target: &Value,
        payload: Option<&Value>,
        fields: &DeliveryFields<'_>,
        path: &str,
    ) -> DeliveryTemplate {
        let place = format!("{path}/target");
        match kind {
            DeliveryKind::Webhook => self.check_target(target, &place, is_address, TARGET, TARGET_HINT),
            DeliveryKind::Workflow => {
                self.check_target(target, &place, is_name, "the name of a workflow", WORKFLOW_HINT);
            }
            // Its recipients have been checked.
            DeliveryKind::Notify => {}
        }
        if let Some(payload) = payload {
            self.check_template(payload, &format!("{path}/payload"));
        }
        let headers = fields.headers.cloned().unwrap_or_default();
        self.check_headers(&headers, is_template(target), path);
        if let Some(secret) = fields.secret {
            self.check_secret(secret, &format!("{path}/secret"));
        }
        let place = format!("{path}/retry");
        let retry = fields.retry.map(|retry| read_retry(retry, &place, None, RetryPolicy::delivery(), self.problems));
        let timeout_seconds = fields.timeout_seconds.and_then(|seconds| u32::try_from(seconds).ok());
        let (target, payload, secret) = (target.clone(), payload.cloned(), fields.secret.cloned());
        let path = path.to_owned();
        DeliveryTemplate { kind, path, target, template: None, payload, headers, secret, retry, timeout_seconds }
    }

    fn check_target(&mut self, target: &Value, path: &str, is_valid: fn(&str) -> bool, noun: &str, hint: &str) {
        match target.as_str() {
            _ if is_template(target) => self.check_template(target, path),
            Some(text) if is_valid(text) => {}
            Some(text) => self.report(Problem::at(path, format!("expected {noun}, found {text:?}")).hint(hint)),
            None => {
                self.report(Problem::at(path, format!("expected {noun}, found {}", name_of(target))).hint(hint));
            }
        }
    }

    /// Reads the recipients of a mail, as a list. Each is a text, or a template for a text or a list of texts.
    fn recipients(&mut self, target: &Value, path: &str) -> Value {
        let list = match target {
            Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        if list.is_empty() {
            self.report(Problem::at(path, "the list is empty").hint(RECIPIENT_HINT));
        }
        self.check_count(list.len(), limits::RECIPIENTS, path, "recipients");
        for (number, recipient) in list.iter().enumerate().take(limits::RECIPIENTS) {
            let place = if target.is_array() { format!("{path}/{number}") } else { path.to_owned() };
            self.check_target(recipient, &place, mail::is_recipient, RECIPIENT, RECIPIENT_HINT);
        }
        list.into()
    }

    /// Reads the texts of a mail.
    fn texts(&mut self, value: &Value, path: &str) -> Option<MailTemplate> {
        let mut fields = Fields::from_value(value, path, None, self.problems)?;
        let (subject, text) = (fields.any(&["subject"]), fields.any(&["text"]));
        for (name, value) in [("subject", subject), ("text", text)] {
            match value {
                None => fields.missing(&[name], format!("a mail needs a {name}"), TEXTS_HINT),
                Some(value) if is_template(value) => {}
                Some(Value::String(text)) if name == "subject" && !mail::is_subject(text) => {
                    fields.problem(name, mail::SUBJECT_RULE, TEXTS_HINT);
                }
                Some(Value::String(_)) => {}
                Some(value) => {
                    fields.problem(name, format!("expected a text, found {}", name_of(value)), TEXTS_HINT);
                }
            }
        }
        fields.finish();
        for (name, value) in [("subject", subject?), ("text", text?)] {
            self.check_template(value, &format!("{path}/{name}"));
        }
        Some(MailTemplate { subject: subject?.clone(), text: text?.clone() })
    }

    /// Checks the headers of a webhook. A secret is sent only to an address that the definition contains: the input of a
    /// run must not choose its receiver.
    fn check_headers(&mut self, headers: &Map<String, Value>, is_computed: bool, path: &str) {
        self.check_count(headers.len(), limits::LISTED_NAMES, &format!("{path}/headers"), "headers");
        for (name, value) in headers.iter().take(limits::LISTED_NAMES) {
            let place = format!("{path}/headers/{}", escape(name));
            if !is_header(name) {
                let message = format!("{name:?} is not a valid name of a header, or the server sets it itself");
                self.report(Problem::at(&place, message).hint("write for example \"x-tenant\""));
            }
            match value {
                Value::Object(object) if object.contains_key(secrets::MARK) => {
                    self.check_secret(value, &place);
                    if is_computed {
                        let message = "a webhook with a secret in a header needs a URL without expressions";
                        self.report(Problem::at(format!("{path}/target"), message).hint(TARGET_HINT));
                    }
                }
                Value::String(_) | Value::Number(_) | Value::Bool(_) => self.check_template(value, &place),
                Value::Object(object) if object.contains_key("$expr") => self.check_template(value, &place),
                Value::Null | Value::Array(_) | Value::Object(_) => {
                    let message = format!("expected a text, found {}", name_of(value));
                    self.report(Problem::at(&place, message).hint(SECRET_HINT));
                }
            }
        }
    }

    fn check_secret(&mut self, value: &Value, path: &str) {
        match secrets::find(value).as_slice() {
            [named] if named.pointer.is_empty() => {
                if let Some((message, hint)) = named.fault {
                    self.report(Problem::at(path, message).hint(hint));
                }
            }
            _ => {
                let message = format!("expected an object that names a secret, found {}", name_of(value));
                self.report(Problem::at(path, message).hint(SECRET_HINT));
            }
        }
    }
}

/// The fields that only deliveries have, as they are written.
struct DeliveryFields<'a> {
    headers: Option<&'a Map<String, Value>>,
    secret: Option<&'a Value>,
    retry: Option<&'a Value>,
    timeout_seconds: Option<u64>,
}

/// Whether a text looks like an address. The handler parses it when the request is sent.
fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let authority = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    authority.is_some_and(|authority| !authority.is_empty() && !authority.contains('@'))
        && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// Whether a name is valid for a header that a definition sets.
fn is_header(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    (1..=100).contains(&name.len())
        && name.bytes().all(is_token)
        && !webhook::RESERVED_HEADERS.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

fn found(value: &Value) -> &'static str {
    if is_template(value) { "an expression" } else { name_of(value) }
}
