//! One requeue: its attempts, by the handler of its kind or as the start of a run.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::actor::Actor;
use everstep_core::dead_letter::{self, DeadLetter, DeadLetterAttempt, DeadLetterSource};
use everstep_core::failure::{Failure, code};
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Cause, Delivery, Outcome};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics::{FailedStart, Target};
use everstep_handlers::Task;
use futures_util::future::AbortHandle;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::node::member::Member;
use crate::options::Options;
use crate::ports::World;
use crate::read::{Library, Version};
use crate::shard::ToShard;
use crate::start::{Start, StartRequest, check_input};
use crate::tasks::{Job, JobReply};
use crate::topics;

/// The pauses between the attempts of a requeue.
const DELAYS: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];

/// Performs a requeue on a node.
pub(super) struct Performance {
    pub(super) world: World,
    pub(super) options: Options,
    pub(super) library: Arc<Library>,
    pub(super) member: Arc<Member>,
}

/// One attempt: when it began, how long it took, and its failure, or the HTTP status of the response.
struct Tried {
    at: Timestamp,
    took: Duration,
    result: Result<Option<u16>, Failure>,
}

/// Ends a task whose requeue was dropped.
struct Abort(AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Performance {
    /// Up to three attempts. Returns all attempts of the dead letter, these at the end.
    pub(super) async fn perform(&self, letter: DeadLetter) -> Vec<DeadLetterAttempt> {
        let mut attempts = letter.attempts.clone();
        let mut delays = DELAYS.into_iter();
        loop {
            let number = u32::try_from(attempts.len()).unwrap_or(u32::MAX).saturating_add(1);
            let Tried { at, took, result } = self.try_once(&letter, number).await;
            let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let attempt = match &result {
                Ok(status) => DeadLetterAttempt::delivered(at, ms, *status),
                Err(failure) => DeadLetterAttempt::failed(at, ms, failure),
            };
            dead_letter::add_attempts(&mut attempts, [attempt]);
            let Some(delay) = delays.next().filter(|_| result.is_err()) else { return attempts };
            self.world.sleep(delay).await;
        }
    }

    async fn try_once(&self, letter: &DeadLetter, attempt: u32) -> Tried {
        let at = self.world.clock.now();
        let result = match letter.source {
            DeadLetterSource::Delivery if letter.kind != Delivery::WORKFLOW => {
                return self.perform_task(letter, attempt).await;
            }
            DeadLetterSource::Delivery => self.start(letter).await,
            DeadLetterSource::Start => self.start_of_event(letter).await,
        };
        Tried { at, took: self.world.clock.now().since(at), result: result.map(|()| None) }
    }

    /// Performs it by the handler of its kind, among the tasks of runs: with their bounds for a kind, a workspace and a
    /// target.
    async fn perform_task(&self, letter: &DeadLetter, attempt: u32) -> Tried {
        let config = letter.config.value().clone();
        let task = Task {
            workspace: letter.workspace,
            run: letter.run.unwrap_or_else(|| RunId::from_uuid(letter.id.uuid())),
            step: letter.step.clone().unwrap_or_else(|| StepKey::new(letter.delivery.as_str())),
            attempt,
            kind: letter.kind.clone(),
            timeout: timeout(&config),
            config,
            secrets: letter.secrets.clone(),
            written: letter.written.as_ref().map_or(Value::Null, |written| written.value().clone()),
            context: Payload::null(),
            actor: Arc::default(),
        };
        let (handle, abort) = AbortHandle::new_pair();
        let _abort = Abort(handle);
        let (reply, answer) = tokio::sync::oneshot::channel();
        self.member.dispatcher.submit(Box::new(Job { task, abort, reply: JobReply::Caller(reply) }));
        match answer.await {
            Ok(performed) => Tried {
                at: performed.began_at,
                took: self.world.clock.now().since(performed.began_at),
                result: performed.result.result.map(|outcome| http_status(&outcome)),
            },
            Err(_) => self.end_with_node().await,
        }
    }

    /// Starts a run, unless it exists.
    async fn start(&self, letter: &DeadLetter) -> Result<(), Failure> {
        let config = letter.config.value();
        let name = config["workflow"].as_str().unwrap_or_default();
        let input = match config.get("input") {
            Some(input) => Payload::from(input.clone()),
            None => Payload::from(json!({})),
        };
        let id = letter.delivery.parse::<Uuid>().map(RunId::from_uuid);
        let run = id.map_err(|_| Failure::fatal(code::INVALID_CONFIG, "the id of the delivery is not a UUID"))?;
        if self.exists(letter, run).await? {
            return Ok(());
        }
        // A dead letter of an earlier release has none.
        let cause = config.get("cause").and_then(|cause| Cause::deserialize(cause).ok());
        let version = self.find_version(letter, name, None).await?;
        check_input(&input).and_then(|()| version.check_input(&input)).map_err(|error| failure(&error))?;
        let start = Start { workspace: letter.workspace, ..Start::of_version(&version, input) };
        match self.begin(run, start, &version, cause).await {
            Ok(()) => Ok(()),
            // Another attempt may have started it: the node that performed the requeue before, or the run itself.
            Err(error) => match self.exists(letter, run).await {
                Ok(true) => Ok(()),
                Ok(false) | Err(_) => Err(failure(&error)),
            },
        }
    }

    /// Starts the run that an event could not start, unless a run with its key exists.
    async fn start_of_event(&self, letter: &DeadLetter) -> Result<(), Failure> {
        let invalid = |reason: String| Failure::fatal(code::INVALID_CONFIG, reason);
        let failed = FailedStart::from_config(&letter.config).map_err(invalid)?;
        let read = match failed.event_to_read() {
            Some(event) => {
                let row =
                    self.world.topics.event(letter.workspace, event).await.map_err(|error| unavailable(&error))?;
                let missing = || Failure::fatal("EVENT_NOT_FOUND", format!("event {event} is no longer stored"));
                Some(row.ok_or_else(missing)?.event)
            }
            None => None,
        };
        let (event, subscription) = failed.into_parts(letter.workspace, read).map_err(invalid)?;
        let Target::Workflow { name, version, retention_days, .. } = &subscription.target;
        let version = self.find_version(letter, name, *version).await?;
        let (evaluate, meter) = (&*self.world.evaluate, Meter::new());
        let input = subscription.resolve_input(&event, evaluate, &meter)?;
        check_input(&input).and_then(|()| version.check_input(&input)).map_err(|error| failure(&error))?;
        let key = topics::start_key(&subscription, &event, evaluate, &meter).map_err(|error| failure(&error))?;
        let start = Start {
            workspace: letter.workspace,
            key: Some(key),
            retention_days: *retention_days,
            ..Start::of_version(&version, input)
        };
        let run = RunId::new(self.world.clock.now(), self.world.random.next());
        let (by, trigger) = (Actor::system(Actor::TRIGGER), topics::trigger(&subscription, &event));
        let cause = Cause { by: Some(by), trigger: Some(trigger.into()), ..Cause::default() };
        self.begin(run, start, &version, Some(cause)).await.map_err(|error| failure(&error))
    }

    /// The version of a workflow to start. An unknown name has the code that it had at the first attempts.
    async fn find_version(
        &self,
        letter: &DeadLetter,
        name: &str,
        version: Option<u32>,
    ) -> Result<Arc<Version>, Failure> {
        self.library.find_named(letter.workspace, name, version, false).await.map_err(|error| match error {
            crate::Error::WorkflowNotFound { .. } => Failure::transient(code::WORKFLOW_NOT_FOUND, error.to_string()),
            error => failure(&error),
        })
    }

    /// Sends a start to the shard of its run, and waits until it is written.
    async fn begin(
        &self,
        run: RunId,
        start: Start,
        version: &Version,
        cause: Option<Cause>,
    ) -> Result<(), crate::Error> {
        let now = self.world.clock.now();
        let (mut request, answer) = StartRequest::new(run, start, version, &self.options, now);
        if let Some(cause) = cause {
            // A child has the trigger of its first ancestor, but was not started by it.
            match &cause.parent {
                Some(parent) => request.new.parent = Some(parent.run),
                None => request.new.trigger = cause.trigger.as_deref().cloned(),
            }
            request.cause = Some(cause);
        }
        request.take_permit(&self.member.shared.permits, &self.world.clock).await;
        let started = match self.member.tell(run, ToShard::Start(Box::new(request))) {
            Ok(()) => answer.await.unwrap_or(Err(crate::Error::Stopping)),
            Err(error) => Err(error),
        };
        match started {
            Ok(_) => Ok(()),
            Err(crate::Error::Stopping) => self.end_with_node().await,
            Err(error) => Err(error),
        }
    }

    /// The node was fenced or stops: everything that it holds is dropped, and another node takes it.
    async fn end_with_node<T>(&self) -> T {
        std::future::pending().await
    }

    async fn exists(&self, letter: &DeadLetter, run: RunId) -> Result<bool, Failure> {
        let found = self.world.runs.glance(letter.workspace, run).await;
        Ok(found.map_err(|error| unavailable(&error))?.is_some())
    }
}

/// The HTTP status in the output of a handler that has sent a request.
fn http_status(outcome: &Outcome) -> Option<u16> {
    outcome.output.value()["status"].as_u64().and_then(|status| u16::try_from(status).ok())
}

fn unavailable(error: &everstep_store::Error) -> Failure {
    Failure::transient("UNAVAILABLE", error.to_string())
}

fn failure(error: &crate::Error) -> Failure {
    Failure::transient(error.code(), error.to_string())
}

/// The time limit of an attempt, which the config of a delivery contains.
fn timeout(config: &Value) -> Duration {
    let seconds = config["timeoutSeconds"].as_u64().unwrap_or(u64::from(Delivery::TIMEOUT_SECONDS_DEFAULT));
    Duration::from_secs(seconds.clamp(1, u64::from(Delivery::TIMEOUT_SECONDS_MAX)))
}
