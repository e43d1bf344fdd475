//! A side effect that a transition of a machine has decided, as its entry contains it.

use serde::{Deserialize, Serialize};

use crate::ids::{DeliveryId, RunId, StepKey};
use crate::payload::Payload;
use crate::retry::RetryPolicy;
use crate::run::Child;
use crate::time::Timestamp;

/// The attempt from which the id of a delivery is computed: the id is the same for every attempt.
const ID_ATTEMPT: u32 = 1;

/// A request to send, or a run to start. Everything was evaluated when it was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub id: DeliveryId,
    /// `webhook` and `notify` are performed by handlers; `workflow` starts a run whose id is that of the delivery.
    pub kind: String,
    /// The config of the handler. Secrets are names in it.
    pub config: Payload,
    /// The places in the config where the definition names secrets, as JSON pointers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// The retry policy, if it is not [`RetryPolicy::delivery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryPolicy>,
}

impl Delivery {
    /// The kind of a delivery that starts a run.
    pub const WORKFLOW: &'static str = "workflow";
    /// The kind of a delivery that sends a signed request.
    pub const WEBHOOK: &'static str = "webhook";
    /// The kind of a delivery that sends a mail.
    pub const NOTIFY: &'static str = "notify";
    /// The time limit of an attempt of a webhook or a mail that names none.
    pub const TIMEOUT_SECONDS_DEFAULT: u32 = 10;
    /// The greatest time limit of an attempt of a webhook or a mail.
    pub const TIMEOUT_SECONDS_MAX: u32 = 60;

    /// The id of the delivery of a step. Like the id of a child, it shows which run has decided the delivery.
    pub fn id_of(run: RunId, step: &StepKey, now: Timestamp) -> DeliveryId {
        DeliveryId::from_uuid(Child::id(run, step, ID_ATTEMPT, now).uuid())
    }

    /// Whether this run has decided the delivery, and not the run of which it is a fork.
    pub fn is_of(&self, run: RunId, step: &StepKey) -> bool {
        Child::is_id(RunId::from_uuid(self.id.uuid()), run, step, ID_ATTEMPT)
    }

    /// Whether a handler performs it. Otherwise it starts a run.
    pub fn is_task(&self) -> bool {
        self.kind != Self::WORKFLOW
    }

    /// The run that it starts; none for a task.
    pub(crate) fn child(&self) -> Option<Child> {
        if self.is_task() {
            return None;
        }
        let config = self.config.value();
        Some(Child {
            run: RunId::from_uuid(self.id.uuid()),
            workflow: config["workflow"].as_str().unwrap_or_default().to_owned(),
            version: None,
            input: Payload::from(config["input"].clone()),
            waits: false,
            due: None,
        })
    }

    pub(crate) fn retry(&self) -> RetryPolicy {
        self.retry.clone().unwrap_or_else(RetryPolicy::delivery)
    }
}
