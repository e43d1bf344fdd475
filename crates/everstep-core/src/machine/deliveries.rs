//! Deliveries: the side effects that are performed after the commit of their transition.
//!
//! 1. A delivery is decided with its transition and is a step of the run. Its config is evaluated on the context after the
//!    transition and is part of the entry. If it cannot be evaluated, the transition does not happen.
//! 2. Its key contains the versionNo: `APPROVE[7].tell-erp`, `@entry[7].…` and `@exit[7].…` that of the entered state,
//!    `@after[7].2.…` that of the state with the timer. A timer that repeats adds its count: `@after[7].2[3].…`.
//! 3. A failed attempt is followed by another, after the delay of its retry policy; any failure counts. After the last
//!    one the delivery is dead.
//! 4. A fork skips the deliveries of its original that were open, also those that wait for another attempt.
//! 5. Deliveries change neither the state nor the versionNo. A machine in a terminal state ends when none is open.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::context::MachineContext;
use super::model::{DeliveryKind, DeliveryTemplate, MailTemplate, SideEffect, SideEffectKind};
use super::run::MachineRun;
use crate::actor::Actor;
use crate::definition::{escape, secrets};
use crate::failure::{Failure, code};
use crate::ids::StepKey;
use crate::journal::{Delivery, Dispatch, Event, TimerPurpose};
use crate::limits;
use crate::mail;
use crate::payload::{self, Payload};
use crate::planted::{self, Bug};
use crate::retry;
use crate::run::child;
use crate::run::task::TaskSpec;
use crate::run::{Activity, Cx};

/// The type of the message that a webhook sends.
const MESSAGE_TYPE: &str = "workflow.transition";

/// A list of side effects, with the beginning of the keys of its deliveries.
#[derive(Clone, Debug)]
pub(super) struct EffectList<'a> {
    pub(super) prefix: String,
    pub(super) effects: &'a [SideEffect],
}

impl<'a> EffectList<'a> {
    /// The side effects of leaving a state with the transition to a version.
    pub(super) fn exit(version_no: u32, effects: &'a [SideEffect]) -> Self {
        Self { prefix: format!("@exit[{version_no}]"), effects }
    }

    pub(super) fn entry(version_no: u32, effects: &'a [SideEffect]) -> Self {
        Self { prefix: format!("@entry[{version_no}]"), effects }
    }

    pub(super) fn action(action: &str, version_no: u32, effects: &'a [SideEffect]) -> Self {
        Self { prefix: format!("{action}[{version_no}]"), effects }
    }

    pub(super) fn branch(action: &str, version_no: u32, branch: usize, effects: &'a [SideEffect]) -> Self {
        Self { prefix: format!("{action}[{version_no}].{branch}"), effects }
    }

    /// The side effects of a timer, by its step. `repeat` is the count of a timer that repeats.
    pub(super) fn timer(step: &StepKey, repeat: Option<u32>, effects: &'a [SideEffect]) -> Self {
        let count = repeat.map(|count| format!("[{count}]")).unwrap_or_default();
        Self { prefix: format!("{step}{count}"), effects }
    }
}

/// The facts about a transition that its deliveries name.
pub(super) struct DeliveryFacts<'a> {
    pub(super) action: &'a str,
    pub(super) from: Option<&'a str>,
    pub(super) to: &'a str,
    pub(super) version_no: u32,
    pub(super) by: &'a Actor,
    pub(super) comment: Option<&'a str>,
}

/// The deliveries of lists of side effects: rules 1 and 2.
pub(super) fn deliver(
    run: MachineRun<'_>,
    lists: &[EffectList<'_>],
    facts: &DeliveryFacts<'_>,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Vec<Event>, Failure> {
    let mut events = Vec::new();
    let mut bytes = 0;
    for EffectList { prefix, effects } in lists {
        for effect in *effects {
            let SideEffectKind::Deliver(template) = &effect.kind else { continue };
            let step = StepKey::from(format!("{prefix}.{}", effect.id));
            let delivery = decide(run, &step, template, facts, lookup, cx)?;
            bytes += delivery.config.size();
            if run.state.weight() + bytes > limits::STATE_BYTES {
                let message = format!("with {step} the run would exceed {} bytes", limits::STATE_BYTES);
                return Err(Failure::fatal(code::CONTEXT_TOO_LARGE, message));
            }
            events.push(Event::StepDispatched { step, attempt: 1, dispatch: Dispatch::Delivery(delivery.into()) });
        }
    }
    Ok(events)
}

fn decide(
    run: MachineRun<'_>,
    step: &StepKey,
    template: &DeliveryTemplate,
    facts: &DeliveryFacts<'_>,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Delivery, Failure> {
    let target = cx.resolve(&template.target, lookup)?;
    let payload = template.payload.as_ref().map(|payload| cx.resolve(payload, lookup)).transpose()?;
    let mut named = Vec::new();
    let config = match template.kind {
        DeliveryKind::Webhook => {
            let target = read_target(target, step)?;
            webhook(run, step, template, &target, payload.as_ref(), facts, lookup, &mut named, cx)?
        }
        DeliveryKind::Notify => notify(run, step, template, target, facts, lookup, cx)?,
        DeliveryKind::Workflow => {
            let target = read_target(target, step)?;
            child::check_depth(run.state)?;
            let input = Payload::from(payload.unwrap_or_else(|| lookup.context.clone()));
            child::check_input(step, &input, run.state)?;
            json!({"workflow": target, "input": input.value()})
        }
    };
    let config = Payload::from(config);
    if config.size() > limits::DELIVERY_BYTES {
        let message = format!("the config of {step} has {} bytes, more than {}", config.size(), limits::DELIVERY_BYTES);
        return Err(Failure::fatal(code::PAYLOAD_TOO_LARGE, message));
    }
    payload::check(config.json())
        .map_err(|error| Failure::fatal(error.code(), format!("the config of {step} {error}")))?;
    Ok(Delivery {
        id: Delivery::id_of(run.state.run, step, cx.now),
        kind: template.kind.as_str().to_owned(),
        config,
        secrets: named,
        retry: template.retry.clone(),
    })
}

fn read_target(value: Value, step: &StepKey) -> Result<String, Failure> {
    match value {
        Value::String(target) => Ok(target),
        _ => Err(Failure::fatal(code::EXPRESSION_ERROR, format!("the target of {step} is not a text"))),
    }
}

/// The config of a webhook: its request, and its message.
#[expect(clippy::too_many_arguments, reason = "it is a part of one function, which has these values")]
fn webhook(
    run: MachineRun<'_>,
    step: &StepKey,
    template: &DeliveryTemplate,
    target: &str,
    payload: Option<&Value>,
    facts: &DeliveryFacts<'_>,
    lookup: &MachineContext<'_>,
    named: &mut Vec<String>,
    cx: Cx<'_>,
) -> Result<Value, Failure> {
    let mut headers = Map::new();
    for (name, value) in &template.headers {
        let is_secret = value.get(secrets::MARK).is_some();
        if is_secret {
            named.push(format!("/headers/{}", escape(name)));
        }
        let value = if is_secret { value.clone() } else { cx.resolve(value, lookup)? };
        headers.insert(name.clone(), value);
    }
    if template.secret.is_some() {
        named.push("/secret".to_owned());
    }
    let mut config = json!({
        "target": target,
        "timeoutSeconds": template.timeout_seconds.unwrap_or(Delivery::TIMEOUT_SECONDS_DEFAULT),
        "delivery": message(run, step, MESSAGE_TYPE, facts, cx),
    });
    config["delivery"]["data"]["payload"] = payload.cloned().unwrap_or_default();
    if !headers.is_empty() {
        config["headers"] = headers.into();
    }
    if let Some(secret) = &template.secret {
        config["secret"] = secret.clone();
    }
    Ok(config)
}

/// The config of a mail. The options of the workspace decide when it is sent how people receive it. Values that cannot be
/// sent, such as an absent subject, fail the delivery and not the transition.
fn notify(
    run: MachineRun<'_>,
    step: &StepKey,
    template: &DeliveryTemplate,
    target: Value,
    facts: &DeliveryFacts<'_>,
    lookup: &MachineContext<'_>,
    cx: Cx<'_>,
) -> Result<Value, Failure> {
    // The handler refuses recipients that cannot be read.
    let recipients = mail::read_recipients(&target).map_or(target, Value::from);
    let resolve = |value: &Value| -> Result<String, Failure> {
        Ok(match cx.resolve(value, lookup)? {
            Value::String(text) => text,
            Value::Null => String::new(),
            value => value.to_string(),
        })
    };
    let texts = match &template.template {
        Some(MailTemplate { subject, text }) => json!({"subject": resolve(subject)?, "text": resolve(text)?}),
        None => json!({"subject": "", "text": ""}),
    };
    Ok(json!({
        "target": recipients,
        "template": texts,
        "timeoutSeconds": template.timeout_seconds.unwrap_or(Delivery::TIMEOUT_SECONDS_DEFAULT),
        "delivery": message(run, step, mail::MESSAGE_TYPE, facts, cx),
    }))
}

/// The message of a delivery, without the id of the history entry, which the fold adds.
fn message(run: MachineRun<'_>, step: &StepKey, message_type: &str, facts: &DeliveryFacts<'_>, cx: Cx<'_>) -> Value {
    json!({
        "id": Delivery::id_of(run.state.run, step, cx.now).to_string(),
        "type": message_type,
        "timestamp": cx.now.max(run.state.updated_at).to_string(),
        "data": {
            "runId": run.state.run.to_string(),
            "workflow": run.workflow.name,
            "workflowVersion": run.workflow.version,
            "action": facts.action,
            "fromState": facts.from,
            "toState": facts.to,
            "versionNo": facts.version_no,
            "by": facts.by.to_string(),
            "comment": facts.comment,
        },
    })
}

/// The next event of a delivery that is not being performed: rules 3 and 4. None if no delivery needs one.
pub(super) fn again(run: MachineRun<'_>, cx: Cx<'_>) -> Option<Event> {
    let mut deliveries = run.state.open.deliveries();
    if let Some((step, ..)) = deliveries.find(|(step, _, delivery)| !delivery.is_of(run.state.run, step)) {
        return Some(Event::StepSkipped { step: step.clone() });
    }
    let todo = run.state.open.todo().find_map(|step| {
        let open = run.state.open.get(step)?;
        Some((step, open, open.delivery.as_deref()?))
    });
    let (step, open, delivery) = todo?;
    let (step, attempt) = (step.clone(), open.attempt);
    if open.activity == Activity::Failed {
        let policy = delivery.delivery.retry();
        let seed = retry::seed(run.state.run.uuid().as_u128(), step.as_str(), attempt);
        let due = cx.now.plus(policy.delay(open.failures, seed));
        return Some(Event::TimerSet { step, attempt, due, why: TimerPurpose::Retry });
    }
    let dispatch = delivery.delivery.child().map_or(Dispatch::Task, |child| Dispatch::Child(child.into()));
    Some(Event::StepDispatched { step, attempt: attempt + 1, dispatch })
}

/// Describes an open delivery for its handler.
pub(crate) fn describe_task(run: MachineRun<'_>, step: &StepKey) -> Result<TaskSpec, Failure> {
    let open = run.state.open.get(step).and_then(|open| open.delivery.as_deref());
    let open = open.ok_or_else(|| TaskSpec::unknown(step))?;
    let mut config = open.config(run.state.run);
    if planted::is_planted(Bug::ConfigResolvedLate) {
        config["delivery"]["data"]["versionNo"] = run.progress.version_no.into();
    }
    let seconds = config["timeoutSeconds"].as_u64().unwrap_or(u64::from(Delivery::TIMEOUT_SECONDS_DEFAULT));
    let secrets = open.delivery.secrets.clone();
    Ok(TaskSpec {
        kind: open.delivery.kind.clone(),
        // A definition with a secret in a header has a literal target, so that the target is as it was written.
        written: if secrets.is_empty() { Value::Null } else { config.clone() },
        config,
        secrets,
        context: Payload::null(),
        timeout: Some(Duration::from_secs(seconds)),
    })
}
