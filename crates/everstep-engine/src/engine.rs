//! The handle that everyone else holds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::input::{Input, Reply};
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::state::State;
use everstep_store::{NewRun, RunRow};
use futures_util::future::{self, Either};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::claim::Claimer;
use crate::commit::Committer;
use crate::error::Error;
use crate::library::Library;
use crate::message::{Mail, ShardSender, Shared, StartRequest, ToClaimer, ToShard};
use crate::options::Options;
use crate::peers::{Delivery, Hint};
use crate::perform::Dispatcher;
use crate::ports::World;
use crate::shard::{Shard, shard_of};
use crate::sweep;

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    world: World,
    node: NodeId,
    library: Arc<Library>,
    shared: Arc<Shared>,
    shards: Vec<ShardSender>,
    claimer: mpsc::UnboundedSender<ToClaimer>,
    /// Bounds the starts and inputs that wait for their commit.
    pending: Semaphore,
}

/// A run to be started.
#[derive(Clone, Debug)]
pub struct NewStart {
    pub workspace: WorkspaceId,
    pub workflow: String,
    /// The active one when none is named.
    pub version: Option<u32>,
    pub input: Payload,
    /// The idempotency key with its scope: the workflow's name, or empty for the whole workspace.
    pub key: Option<(String, String)>,
    pub tags: Payload,
    pub retention_days: Option<u32>,
}

impl NewStart {
    pub fn new(workflow: impl Into<String>, input: impl Into<Payload>) -> Self {
        Self {
            workspace: WorkspaceId::DEFAULT,
            workflow: workflow.into(),
            version: None,
            input: input.into(),
            key: None,
            tags: Payload::from(json!({})),
            retention_days: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    pub run: RunId,
    /// False when a run with that key was there before.
    pub created: bool,
}

/// News of one run: the seq of its last entry, after each commit. It ends with the run.
pub struct Watch(mpsc::UnboundedReceiver<u64>);

impl Watch {
    pub async fn next(&mut self) -> Option<u64> {
        self.0.recv().await
    }
}

impl Engine {
    /// Joins the database as a new node and starts all loops.
    pub async fn start(world: World, options: Options) -> Result<Self, Error> {
        let node = NodeId::new(world.clock.now(), world.random.next());
        world.store.join(node, options.node_lease, options.address.clone()).await?;
        tracing::info!(%node, shards = options.shards, "joined");
        let shared = Arc::new(Shared::default());
        let library = Arc::new(Library::new(world.clone()));
        let (committer, proposals) = mpsc::unbounded_channel();
        let (claimer, news) = mpsc::unbounded_channel();
        let (shards, mailboxes): (Vec<_>, Vec<_>) = (0..options.shards).map(|_| mpsc::unbounded_channel()).unzip();
        let dispatcher = Dispatcher::new(world.clone(), Arc::clone(&shared), shards.clone());
        for (index, messages) in mailboxes.into_iter().enumerate() {
            let shard = Shard {
                world: world.clone(),
                options: options.clone(),
                node,
                index,
                me: shards[index].clone(),
                messages,
                committer: committer.clone(),
                claimer: claimer.clone(),
                dispatcher: Arc::clone(&dispatcher),
                library: Arc::clone(&library),
                shared: Arc::clone(&shared),
                runs: Default::default(),
                timers: Default::default(),
                watchers: Default::default(),
                most_watched: 1_024,
                pausing: Default::default(),
                weight: 0,
                drained: None,
            };
            world.spawn.spawn(Box::pin(shard.run()));
        }
        let commit = Committer {
            world: world.clone(),
            node,
            shared: Arc::clone(&shared),
            shards: shards.clone(),
            proposals,
            waiting: Vec::new(),
        };
        world.spawn.spawn(Box::pin(commit.run()));
        let claim = Claimer {
            world: world.clone(),
            options: options.clone(),
            node,
            shared: Arc::clone(&shared),
            shards: shards.clone(),
            news,
        };
        world.spawn.spawn(Box::pin(claim.run()));
        let pending = Semaphore::new(options.max_pending);
        world.spawn.spawn(Box::pin(sweep::run(world.clone(), options, Arc::clone(&shared))));
        Ok(Self(Arc::new(Inner { world, node, library, shared, shards, claimer, pending })))
    }

    pub fn node(&self) -> NodeId {
        self.0.node
    }

    pub fn library(&self) -> &Library {
        &self.0.library
    }

    pub fn world(&self) -> &World {
        &self.0.world
    }

    /// How many runs this node holds.
    pub fn active_runs(&self) -> usize {
        self.0.shared.active.load(Ordering::Relaxed)
    }

    /// Whether another node took this one's runs: it must be restarted.
    pub fn is_fenced(&self) -> bool {
        self.0.shared.is_fenced.load(Ordering::Relaxed)
    }

    /// Starts a run, or finds the one that has the same key. Answers after the commit.
    pub async fn start_run(&self, start: NewStart) -> Result<Started, Error> {
        check_start(&start)?;
        let version = self.0.library.find(start.workspace, &start.workflow, start.version).await?;
        let _permit = self.0.pending.acquire().await.map_err(|_| Error::Stopping)?;
        let now = self.0.world.clock.now();
        let run = RunId::new(now, self.0.world.random.next());
        let new = NewRun {
            workflow: version.workflow.name.clone(),
            version: version.workflow.version,
            lane: String::new(),
            key: start.key,
            input: start.input.clone(),
            parent: None,
            tags: start.tags,
            retention_days: start.retention_days.unwrap_or(version.retention_days),
            is_test: false,
            created_at: now,
        };
        let (reply, answer) = oneshot::channel();
        let request = StartRequest {
            run,
            workspace: start.workspace,
            workflow: Arc::clone(&version.workflow),
            new,
            input: start.input,
            reply,
        };
        self.tell(run, ToShard::Start(Box::new(request)))?;
        answer.await.map_err(|_| Error::Stopping)?
    }

    /// Gives a run an input, wherever it is, and answers after the commit.
    pub async fn deliver(&self, delivery: Delivery) -> Result<Reply, Error> {
        self.receive(delivery).await
    }

    /// Gives a run that is this node's, or nobody's, an input that another node has passed on.
    pub async fn receive(&self, delivery: Delivery) -> Result<Reply, Error> {
        let Delivery { workspace, run, input, expected } = delivery;
        let _permit = self.0.pending.acquire().await.map_err(|_| Error::Stopping)?;
        let (reply, answer) = oneshot::channel();
        let mail = Mail { reply: Some(reply), expected, workspace: Some(workspace), ..Mail::of(input) };
        self.tell(run, ToShard::Mail(run, mail))?;
        answer.await.map_err(|_| Error::Stopping)?
    }

    /// Takes what another node has said.
    pub fn hinted(&self, hint: Hint) {
        match hint {
            Hint::Inbox => self.hint_inbox(),
            Hint::Work => _ = self.0.claimer.send(ToClaimer::Room),
            Hint::Watch { .. } | Hint::Written { .. } => {}
        }
    }

    /// Gives a run an input and answers after the commit.
    pub async fn send(&self, run: RunId, input: Input) -> Result<Reply, Error> {
        self.send_at(run, input, None).await
    }

    /// As [`Engine::send`], but only if the run has the expected version; else it is refused as `CONCURRENCY_ERROR`
    /// and nothing is changed.
    pub async fn send_at(&self, run: RunId, input: Input, expected: Option<u64>) -> Result<Reply, Error> {
        let _permit = self.0.pending.acquire().await.map_err(|_| Error::Stopping)?;
        let (reply, answer) = oneshot::channel();
        self.tell(run, ToShard::Mail(run, Mail { reply: Some(reply), expected, ..Mail::of(input) }))?;
        answer.await.map_err(|_| Error::Stopping)?
    }

    /// Says that there may be news in the inbox.
    pub fn hint_inbox(&self) {
        let _ = self.0.claimer.send(ToClaimer::Inbox);
    }

    /// The state that this node holds of a run, unless an item of it is in flight.
    pub async fn inspect(&self, run: RunId) -> Option<State> {
        let (reply, answer) = oneshot::channel();
        self.tell(run, ToShard::Inspect(run, reply)).ok()?;
        answer.await.ok()?
    }

    /// Follows a run. What was written before must be read from the journal.
    pub fn watch(&self, run: RunId) -> Watch {
        let (sender, receiver) = mpsc::unbounded_channel();
        let _ = self.tell(run, ToShard::Watch(run, sender));
        Watch(receiver)
    }

    /// Waits until a run has ended and returns its row.
    pub async fn wait(&self, workspace: WorkspaceId, run: RunId) -> Result<RunRow, Error> {
        loop {
            let mut watch = self.watch(run);
            let row = self.0.world.store.get_run(workspace, run).await?.ok_or(Error::RunNotFound(run))?;
            if row.ended_at.is_some() {
                return Ok(row);
            }
            while watch.next().await.is_some() {}
            if self.0.shared.is_stopping() {
                return Err(Error::Stopping);
            }
        }
    }

    /// Stops: takes nothing new, waits up to `grace` for what is under way, and gives all runs back.
    pub async fn stop(&self, grace: Duration) -> Result<(), Error> {
        self.0.shared.is_stopping.store(true, Ordering::SeqCst);
        let _ = self.0.claimer.send(ToClaimer::Stop);
        let drained = self.0.shards.iter().map(|shard| {
            let (done, drained) = oneshot::channel();
            let _ = shard.send(ToShard::Drain(done));
            drained
        });
        let drained = future::join_all(drained);
        let deadline = self.0.world.clock.sleep_until(self.0.world.clock.now().plus(grace));
        if let Either::Right(_) = future::select(drained, deadline).await {
            tracing::warn!(
                grace = grace.as_secs_f64(),
                "tasks were still running; they are started again by whoever claims their runs"
            );
        }
        self.0.shared.stopped.notify_one();
        for shard in &self.0.shards {
            let _ = shard.send(ToShard::Quit);
        }
        self.0.world.store.leave(self.0.node, self.0.world.clock.now()).await?;
        Ok(())
    }

    fn tell(&self, run: RunId, message: ToShard) -> Result<(), Error> {
        let shard = &self.0.shards[shard_of(run, self.0.shards.len())];
        shard.send(message).map_err(|_| Error::Stopping)
    }
}

fn check_start(start: &NewStart) -> Result<(), Error> {
    if start.input.size() > limits::PAYLOAD_BYTES {
        return Err(Error::Invalid(format!(
            "the input is {} bytes; at most {} are taken",
            start.input.size(),
            limits::PAYLOAD_BYTES
        )));
    }
    if everstep_core::payload::depth(start.input.json()) > limits::JSON_DEPTH {
        return Err(Error::Invalid(format!("the input is nested deeper than {} levels", limits::JSON_DEPTH)));
    }
    if everstep_core::payload::has_nul(start.input.json()) {
        return Err(Error::Invalid("the input holds a NUL character, which no database stores as text".to_owned()));
    }
    if let Some((_, key)) = &start.key
        && (key.is_empty() || key.chars().count() > limits::KEY_CHARS)
    {
        return Err(Error::Invalid(format!("an idempotency key has 1 to {} characters", limits::KEY_CHARS)));
    }
    Ok(())
}
