//! Sees to it that the child runs of a run are there.
//!
//! A child's id stands in the entry that dispatched its step, so it may be started as often as anybody likes.
//! **Invariant**: a run is not parked before all its children are known to be there; nobody else would start them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::failure::{Failure, code};
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::run::inbox;
use everstep_core::run::{Child, Input, OpenWhat, Parent};
use everstep_store::{NewRun, RunRow};
use serde_json::json;
use tokio::sync::oneshot;

use crate::engine::check_input;
use crate::error::Error;
use crate::library::Library;
use crate::message::{Mail, ShardSender, Shared, StartRequest, ToShard};
use crate::options::Options;
use crate::ports::World;
use crate::run::active::Slot;
use crate::shard::{Shard, shard_of};
use crate::workers;

const RETRY: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Shard {
    /// Starts the children of a run that are not known to be there.
    pub(crate) fn see_to_children(&mut self, run: RunId) {
        let Some(Slot::Held(held)) = self.runs.get_mut(&run) else { return };
        if !held.state.has_open_children() || held.state.has_ended() {
            return;
        }
        let ended: BTreeSet<_> = held.mailbox.iter().filter_map(|mail| ended_child(&mail.input)).collect();
        for open in held.state.open() {
            let OpenWhat::Child(child) = open.what else { continue };
            if held.born.contains(&child.run) || ended.contains(&child.run) || !held.called.insert(child.run) {
                continue;
            }
            let Some(parent) = held.state.parent_of(open.step, open.attempt) else { continue };
            let call = Call {
                world: self.world.clone(),
                library: Arc::clone(&self.library),
                shards: self.shards.clone(),
                me: self.me.clone(),
                shared: Arc::clone(&self.shared),
                options: self.options.clone(),
                workspace: held.workspace,
                is_test: held.is_test,
                child: child.clone(),
                parent,
                may_be_code: held.workflow.needs_worker(),
            };
            self.world.spawn.spawn(Box::pin(call.perform()));
        }
    }
}

fn ended_child(input: &Input) -> Option<RunId> {
    match input {
        Input::ChildEnded { child, .. } => Some(*child),
        _ => None,
    }
}

/// The start of one child.
struct Call {
    world: World,
    library: Arc<Library>,
    shards: Vec<ShardSender>,
    me: ShardSender,
    shared: Arc<Shared>,
    options: Options,
    workspace: WorkspaceId,
    /// What a test run starts is part of the test.
    is_test: bool,
    child: Child,
    parent: Parent,
    /// Whether a name that nobody knows is a workflow that a worker will bring along, as for whoever starts a run of it.
    may_be_code: bool,
}

impl Call {
    /// Starts the child, or finds it, and tells its parent.
    async fn perform(self) {
        let mut pause = RETRY;
        let input = loop {
            let permit = self.shared.calls.acquire().await;
            match self.try_once().await {
                Ok(input) => break input,
                Err(Error::Stopping) => return,
                Err(error) => tracing::warn!(child = %self.child.run, %error, "a child was not started; trying again"),
            }
            drop(permit);
            self.world.sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
            if self.me.is_closed() || self.is_unwanted().await {
                return;
            }
        };
        // A parent that is gone will look for its children when it is loaded.
        let _ = self.me.send(ToShard::Mail(self.parent.run, Mail::of(input)));
    }

    /// Whether the parent is over. If that cannot be told it is not.
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
        let version = match self.library.find_named(self.workspace, workflow, *version, self.may_be_code).await {
            Ok(version) => version,
            Err(error @ (Error::WorkflowNotFound { .. } | Error::StyleConflict { .. })) => {
                return Ok(self.ended(Err(Failure::fatal(code::WORKFLOW_NOT_FOUND, error.to_string()))));
            }
            Err(Error::Invalid(message)) => return Ok(self.ended(Err(Failure::fatal(code::INVALID_CONFIG, message)))),
            Err(error) => return Err(error),
        };
        if let Err(error) = check_input(&self.child.input) {
            return Ok(self.ended(Err(Failure::fatal(code::INVALID_CONFIG, error.to_string()))));
        }
        let now = self.world.clock.now();
        let new = NewRun {
            workflow: version.workflow.name.clone(),
            version: version.workflow.version,
            lane: workers::lane(self.workspace, &version.workflow).to_string(),
            key: None,
            input: self.child.input.clone(),
            parent: Some(self.parent.run),
            tags: Payload::from(json!({})),
            retention_days: self.options.keep_for(version.retention_days),
            is_test: self.is_test,
            created_at: now,
        };
        // It may have been cancelled before it began.
        let arrivals = self.world.runs.arrivals(child).await?;
        let (reply, answer) = oneshot::channel();
        let request = StartRequest {
            run: child,
            workspace: self.workspace,
            workflow: Arc::clone(&version.workflow),
            new,
            input: self.child.input.clone(),
            parent: Some(self.parent.clone()),
            arrivals,
            is_shown: false,
            reply,
        };
        let shard = &self.shards[shard_of(child, self.shards.len())];
        shard.send(ToShard::Start(Box::new(request))).map_err(|_| Error::Stopping)?;
        match answer.await.map_err(|_| Error::Busy("its start was not answered".to_owned()))? {
            Ok(_) => Ok(self.started()),
            Err(Error::Refused(message)) => Ok(self.ended(Err(Failure::fatal(code::STORE_REFUSED, message)))),
            Err(error) => Err(error),
        }
    }

    fn found(&self, row: &RunRow) -> Input {
        let error = row.error.as_ref();
        match inbox::ended(row.id, row.status, row.output.as_ref(), error, None) {
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
