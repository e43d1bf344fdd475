//! Starts one child run, or finds it, and reports to its parent.

use std::sync::Arc;
use std::time::Duration;

use everstep_core::failure::{Failure, code};
use everstep_core::ids::WorkspaceId;
use everstep_core::journal::Cause;
use everstep_core::payload::Payload;
use everstep_core::run::{Child, Input, Parent, inbox};
use everstep_store::RunRow;

use super::active::ActiveRun;
use super::mailbox::Envelope;
use crate::error::Error;
use crate::message::Shared;
use crate::options::Options;
use crate::ports::World;
use crate::read::Library;
use crate::shard::{Services, ShardSender, ToShard, shard_of};
use crate::start::{Start, StartRequest, check_input};

const RETRY_DELAY_MIN: Duration = Duration::from_millis(200);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// The start of one child.
pub(super) struct Call {
    world: World,
    library: Arc<Library>,
    shards: Vec<ShardSender>,
    me: ShardSender,
    shared: Arc<Shared>,
    options: Options,
    workspace: WorkspaceId,
    /// Runs that a test run starts are part of the test.
    is_test: bool,
    child: Child,
    parent: Parent,
    cause: Cause,
}

impl Call {
    pub(super) fn new(run: &ActiveRun, child: Child, cause: Cause, parent: Parent, services: &Services) -> Self {
        Self {
            world: services.world.clone(),
            library: Arc::clone(&services.library),
            shards: services.shards.clone(),
            me: services.sender().clone(),
            shared: Arc::clone(&services.shared),
            options: services.options.clone(),
            workspace: run.workspace(),
            is_test: run.is_test,
            child,
            parent,
            cause,
        }
    }

    /// Starts the child, or finds it, and reports to its parent. Retries until the parent has ended.
    pub(super) async fn perform(self) {
        let mut delay = RETRY_DELAY_MIN;
        let input = loop {
            let permit = self.shared.child_lookups.acquire().await;
            match self.try_once().await {
                Ok(input) => break input,
                Err(Error::Stopping) => return,
                Err(error) => tracing::warn!(child = %self.child.run, %error, "a child run was not started; retrying"),
            }
            drop(permit);
            self.world.sleep(delay).await;
            delay = (2 * delay).min(RETRY_DELAY_MAX);
            if self.me.is_closed() || self.is_unwanted().await {
                return;
            }
        };
        // A parent that has left memory looks up its children when it is loaded.
        let _ = self.me.send(ToShard::Input(self.parent.run, Envelope::new(input)));
    }

    /// Whether the parent has ended or no longer exists. If the store does not reply, it has not.
    async fn is_unwanted(&self) -> bool {
        let parent = self.world.runs.get_run(self.workspace, self.parent.run).await;
        parent.is_ok_and(|parent| parent.is_none_or(|parent| parent.ended_at.is_some()))
    }

    async fn try_once(&self) -> Result<Input, Error> {
        let child = self.child.run;
        if let Some(row) = self.world.runs.get_run(self.workspace, child).await? {
            return Ok(self.found(&row));
        }
        let Child { workflow, version, .. } = &self.child;
        let version = match self.library.find_named(self.workspace, workflow, *version, false).await {
            Ok(version) => version,
            Err(error @ Error::WorkflowNotFound { .. }) => return self.unknown(&error).await,
            Err(Error::Invalid(message)) => return Ok(self.ended(Err(Failure::fatal(code::INVALID_CONFIG, message)))),
            Err(error) => return Err(error),
        };
        if let Err(error) = check_input(&self.child.input) {
            return Ok(self.ended(Err(Failure::fatal(code::INVALID_CONFIG, error.to_string()))));
        }
        if let Err(error) = version.check_input(&self.child.input) {
            return Ok(self.ended(Err(Failure::transient(error.code(), error.to_string()))));
        }
        let start = Start { workspace: self.workspace, ..Start::new(workflow.clone(), self.child.input.clone()) };
        let (mut request, answer) = StartRequest::new(child, start, &version, &self.options, self.world.clock.now());
        request.new.parent = Some(self.parent.run);
        request.new.is_test = self.is_test;
        request.cause = Some(self.cause.clone());
        // It may have been cancelled before it began.
        request.arrivals = self.world.runs.arrivals(child).await?;
        request.take_permit(&self.shared.permits, &self.world.clock).await;
        let shard = &self.shards[shard_of(child, self.shards.len())];
        shard.send(ToShard::Start(Box::new(request))).map_err(|_| Error::Stopping)?;
        match answer.await.map_err(|_| Error::Busy("its start was not answered".to_owned()))? {
            Ok(_) => Ok(self.started()),
            Err(Error::Refused(message)) => Ok(self.ended(Err(Failure::fatal(code::STORE_REFUSED, message)))),
            Err(error) => Err(error),
        }
    }

    /// The step fails, and its retry policy decides whether it is tried again: a worker may register the workflow.
    async fn unknown(&self, error: &Error) -> Result<Input, Error> {
        let nearest = self.library.nearest_name(self.workspace, &self.child.workflow).await?;
        let message = match nearest {
            Some(nearest) => format!("{error}; did you mean {nearest:?}?"),
            None => error.to_string(),
        };
        Ok(self.ended(Err(Failure::transient(code::WORKFLOW_NOT_FOUND, message))))
    }

    fn found(&self, row: &RunRow) -> Input {
        let error = row.error.as_ref();
        match inbox::child_result(row.id, row.status, row.output.as_ref(), error, None) {
            Some(result) if self.parent.waits => self.ended(result),
            _ => self.started(),
        }
    }

    fn started(&self) -> Input {
        let Parent { step, attempt, .. } = &self.parent;
        Input::ChildStarted { step: step.clone(), attempt: *attempt, child: self.child.run }
    }

    fn ended(&self, result: Result<Payload, Failure>) -> Input {
        let Parent { step, attempt, .. } = &self.parent;
        Input::ChildEnded { step: step.clone(), attempt: *attempt, child: self.child.run, result }
    }
}
