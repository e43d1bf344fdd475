//! Starting a run: one way for callers of the engine and for runs that start children.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use everstep_core::actor::Actor;
use everstep_core::ids::{RunId, WorkspaceId};
use everstep_core::journal::Cause;
use everstep_core::limits;
use everstep_core::payload::{self, Payload};
use everstep_core::run::Input;
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::{AuditRow, Gate, InboxRow, Item, NewRun, PendingStart, RunRow};
use serde_json::json;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::error::Error;
use crate::node::clock::NodeClock;
use crate::node::permits::{RunPermit, RunPermits, Share};
use crate::options::Options;
use crate::read::{RunSnapshot, Version};
use crate::shard::ToShard;
use crate::watch::{EndedRun, RunEnd};
use crate::workers;

/// The workflow name of a test run. No saved workflow can have it.
pub const TEST: &str = "(test)";

/// The format of the row of a run that has not begun: earlier releases cannot load a run without a journal.
pub(crate) const PENDING_FORMAT: u32 = 3;

/// A run to be started.
#[derive(Clone, Debug)]
pub struct Start {
    pub workspace: WorkspaceId,
    /// The workflow's name.
    pub workflow: String,
    /// The active version if none is named.
    pub version: Option<u32>,
    /// Whether a name that no worker has registered is accepted as a code workflow. Its run waits for a worker.
    pub allow_unserved: bool,
    /// The version itself, if the caller has it: see [`Library::find_to_start`](crate::Library::find_to_start) and
    /// [`Library::compile_test`](crate::Library::compile_test). Then no workflow is looked up.
    pub found: Option<Arc<Version>>,
    pub input: Payload,
    /// The idempotency key with its scope: the workflow's name, or empty for the whole workspace.
    pub key: Option<(String, String)>,
    pub tags: Payload,
    pub retention_days: Option<u32>,
    /// When the run begins; at once if there is none, or if the time has passed.
    pub begin_at: Option<Timestamp>,
    pub detail: StartDetail,
    /// The person or the program that starts the run.
    pub by: Option<Actor>,
    /// The row of the audit that exists with the run. It is not written if a run with the same key exists.
    pub audit: Option<Arc<AuditRow>>,
}

/// The facts that the caller of a start requests, beside the run's id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartDetail {
    #[default]
    Id,
    /// How the run began: [`StartReply::began`].
    Beginning,
    /// How the run ends: [`StartReply::end`].
    End,
}

impl Start {
    pub fn new(workflow: impl Into<String>, input: impl Into<Payload>) -> Self {
        Self {
            workspace: WorkspaceId::DEFAULT,
            workflow: workflow.into(),
            version: None,
            allow_unserved: false,
            found: None,
            input: input.into(),
            key: None,
            tags: Payload::from(json!({})),
            retention_days: None,
            begin_at: None,
            detail: StartDetail::Id,
            by: None,
            audit: None,
        }
    }

    /// A start of a version that the caller has.
    pub fn of_version(version: &Arc<Version>, input: impl Into<Payload>) -> Self {
        Self { found: Some(Arc::clone(version)), ..Self::new(version.workflow.name.clone(), input) }
    }

    /// Checks the parts that do not depend on the workflow.
    pub fn check(&self) -> Result<(), Error> {
        check_input(&self.input)?;
        if let Some((_, key)) = &self.key
            && (key.is_empty() || key.chars().count() > limits::KEY_CHARS)
        {
            return Err(Error::Invalid(format!("an idempotency key has 1 to {} characters", limits::KEY_CHARS)));
        }
        Ok(())
    }
}

/// The reply to a start: the run that was started, or that existed under the same key.
#[derive(Debug)]
pub struct StartReply {
    pub run: RunId,
    /// False if a run with that key existed before.
    pub created: bool,
    /// How the run began, if that was requested and the run was created.
    pub began: Option<Box<StartedRun>>,
    /// The run's end, if that was requested.
    pub end: Option<RunEnd>,
}

/// A run as it was when its start was written. No read is needed for it.
#[derive(Clone, Debug)]
pub struct StartedRun {
    pub row: RunRow,
    pub snapshot: RunSnapshot,
}

/// A start on its way to its shard.
pub(crate) struct StartRequest {
    pub(crate) run: RunId,
    pub(crate) workspace: WorkspaceId,
    pub(crate) workflow: Arc<Workflow>,
    pub(crate) new: NewRun,
    pub(crate) input: Payload,
    pub(crate) begin_at: Option<Timestamp>,
    pub(crate) audit: Option<Arc<AuditRow>>,
    /// The step or the actor that starts it.
    pub(crate) cause: Option<Cause>,
    /// Inbox rows that were written before the run existed.
    pub(crate) arrivals: Vec<InboxRow>,
    /// Whether the reply contains the run's row.
    pub(crate) wants_row: bool,
    /// Receives the run's end, if the caller waits for it.
    pub(crate) end: Option<oneshot::Sender<EndedRun>>,
    /// The run's permit on this node. Without one it waits in the database until it is claimed.
    pub(crate) permit: Option<RunPermit>,
    pub(crate) reply: oneshot::Sender<Result<ShardReply, Error>>,
}

/// The shard's reply to a start.
pub(crate) struct ShardReply {
    pub(crate) run: RunId,
    pub(crate) created: bool,
    pub(crate) began: Option<Box<StartedRun>>,
}

impl StartRequest {
    /// A request, and the receiver of its reply.
    pub(crate) fn new(
        run: RunId,
        start: Start,
        version: &Version,
        options: &Options,
        now: Timestamp,
    ) -> (Self, oneshot::Receiver<Result<ShardReply, Error>>) {
        let workflow = Arc::clone(&version.workflow);
        let (reply, answer) = oneshot::channel();
        let new = NewRun {
            workflow: workflow.name.clone(),
            version: workflow.version,
            lane: workers::lane(start.workspace, &workflow).to_string(),
            key: start.key,
            input: start.input.clone(),
            parent: None,
            tags: start.tags,
            search_paths: Arc::clone(&version.search_paths),
            retention_days: options.keep_for(start.retention_days.unwrap_or(version.retention_days)),
            is_test: workflow.is_unsaved,
            created_at: now,
            trigger: None,
            start: start.begin_at.map(|_| PendingStart {
                by: start.by.clone(),
                begin_at: start.begin_at,
                holds: Vec::new(),
            }),
        };
        let request = Self {
            run,
            workspace: start.workspace,
            workflow,
            new,
            input: start.input,
            begin_at: start.begin_at,
            audit: start.audit,
            cause: start.by.map(Into::into),
            arrivals: Vec::new(),
            wants_row: start.detail == StartDetail::Beginning,
            end: None,
            permit: None,
            reply,
        };
        (request, answer)
    }

    /// Takes a permit for the run, if this node has one.
    pub(crate) async fn take_permit(&mut self, permits: &Arc<RunPermits>, clock: &NodeClock) {
        self.permit = permits.take_for_start(Share::of_lane(&self.new.lane), self.workspace, clock).await;
    }
}

impl Engine {
    /// Starts a run, or finds the one that has the same key. Replies after the commit.
    pub async fn start_run(&self, mut start: Start) -> Result<StartReply, Error> {
        start.check()?;
        start.begin_at = start.begin_at.filter(|begin_at| *begin_at > self.world().clock.now());
        let version = match &start.found {
            Some(version) => Arc::clone(version),
            None => self.library().find_to_start(&start).await?,
        };
        if let Err(rejected) = version.check_input(&start.input) {
            return self.find_keyed(&start).await?.ok_or(rejected);
        }
        if start.begin_at.is_some() && version.workflow.is_unsaved {
            return Err(Error::Invalid("a test run begins at once".to_owned()));
        }
        let world = self.world();
        let run = RunId::new(world.clock.now(), world.random.next());
        let (workspace, wants_end) = (start.workspace, start.detail == StartDetail::End);
        let _place = self.pending(workspace).await?;
        let (mut request, answer) = StartRequest::new(run, start, &version, self.options(), world.clock.now());
        let member = self.member();
        // A node that could not join because the disk is full.
        if member.shared.is_fenced.load(Ordering::Relaxed)
            && let Some(reason) = self.space().refusal
        {
            return Err(Error::Full(reason));
        }
        let (sender, ended) = oneshot::channel();
        request.end = wants_end.then_some(sender);
        if request.begin_at.is_none() {
            request.take_permit(&member.shared.permits, &world.clock).await;
        }
        member.tell(run, ToShard::Start(Box::new(request)))?;
        let ShardReply { run, created, began } = answer.await.map_err(|_| self.unanswered())??;
        if let Some(began) = &began {
            // The next request of many callers waits for the end.
            self.started_rows().keep(&began.row);
        }
        let end = wants_end.then(|| RunEnd::new(self.clone(), workspace, run, ended));
        Ok(StartReply { run, created, began, end })
    }

    /// The run that has the key of a start. A repeated start finds its run, although its input does not fit the schema of
    /// a version that was saved after it.
    async fn find_keyed(&self, start: &Start) -> Result<Option<StartReply>, Error> {
        let Some((scope, key)) = &start.key else { return Ok(None) };
        let workspace = start.workspace;
        let Some(run) = self.world().runs.keyed_run(workspace, scope, key).await? else { return Ok(None) };
        // No shard reports the end: it is awaited as that of any run.
        let (_, ended) = oneshot::channel();
        let wants_end = start.detail == StartDetail::End;
        let end = wants_end.then(|| RunEnd::new(self.clone(), workspace, run, ended));
        Ok(Some(StartReply { run, created: false, began: None, end }))
    }
}

/// The start of a run that has not begun, as its row has it.
pub(crate) fn input_from_row(row: &RunRow) -> Input {
    let by = match (&row.trigger, &row.start) {
        (Some(_), _) => Some(Actor::system(Actor::TRIGGER)),
        (None, start) => start.as_ref().and_then(|start| start.by.clone()),
    };
    let cause = Cause { by, trigger: row.trigger.clone().map(Box::new), ..Cause::default() };
    Input::Start { input: row.input.clone(), cause: (cause != Cause::default()).then_some(cause) }
}

/// The row that an item creates, if it starts a run.
pub(crate) fn row_from_item(item: &Item) -> Option<Box<RunRow>> {
    let (Gate::Start(new), Some(projection)) = (&item.gate, &item.projection) else { return None };
    let (new, projection) = ((**new).clone(), projection.clone());
    Some(Box::new(RunRow {
        id: item.run,
        workspace: item.workspace,
        workflow: new.workflow,
        version: new.version,
        lane: new.lane,
        status: projection.status,
        owner: projection.owner,
        wake_at: projection.wake_at,
        format: item.format,
        key: new.key,
        input: new.input,
        output: projection.output,
        error: projection.error,
        parent: new.parent,
        origin: None,
        tags: new.tags,
        retention_days: new.retention_days,
        is_test: new.is_test,
        created_at: new.created_at,
        trigger: new.trigger,
        start: new.start,
        ended_at: projection.ended_at,
        machine: projection.machine,
        seq: item.entries.last().map_or(0, |entry| entry.seq),
    }))
}

/// Whether a run can be started with an input.
pub(crate) fn check_input(input: &Payload) -> Result<(), Error> {
    if input.size() > limits::PAYLOAD_BYTES {
        let (size, most) = (input.size(), limits::PAYLOAD_BYTES);
        return Err(Error::Invalid(format!("the input has {size} bytes; at most {most} are allowed")));
    }
    payload::check(input.json()).map_err(|error| Error::Invalid(format!("the input {error}")))?;
    if payload::has_nul(input.json()) {
        return Err(Error::Unstorable(
            "the input contains a NUL character, which no database stores as text".to_owned(),
        ));
    }
    Ok(())
}
