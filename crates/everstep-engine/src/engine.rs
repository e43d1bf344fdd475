//! The handle that everyone else holds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use everstep_core::graph::Problem;
use everstep_core::ids::{NodeId, RunId, WorkspaceId};
use everstep_core::limits;
use everstep_core::payload::{self, Payload};
use everstep_core::run::{Input, Reply, State};
use everstep_core::time::Timestamp;
use everstep_core::workflow::Workflow;
use everstep_store::{NewRun, RunRow};
use futures_util::future::{self, BoxFuture, Either};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

use crate::count::{self, Tally};
use crate::error::Error;
use crate::library::{Library, Version};
use crate::look::Look;
use crate::member::Member;
use crate::message::{Mail, Respond, StartRequest, ToClaimer, ToShard, Watcher};
use crate::options::Options;
use crate::peers::{Hint, Peer, RunInput};
use crate::ports::World;
use crate::start::{Beginning, Begun};
use crate::sweep;
use crate::workers;

/// How often an input follows a run that moves from node to node.
const MOVES: usize = 3;
const REJOIN: Duration = Duration::from_millis(500);
/// Microseconds by which the clocks of nodes may differ while all is well.
const CLOCKS_DIFFER: i64 = 1_000_000;

/// What the workflow of a test run is called. No saved one can have this name.
pub const TEST: &str = "(test)";

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    world: World,
    options: Options,
    library: Arc<Library>,
    /// What has changed in how many runs there are.
    tally: Arc<Tally>,
    /// What this node is just now; another after it was fenced.
    member: RwLock<Arc<Member>>,
    /// Bounds the starts and inputs that wait for their commit.
    pending: Semaphore,
    is_stopping: AtomicBool,
    /// Ends the sweeper.
    stopped: Arc<Notify>,
}

/// A run to be started.
#[derive(Clone, Debug)]
pub struct Start {
    pub workspace: WorkspaceId,
    pub workflow: String,
    /// The active one when none is named.
    pub version: Option<u32>,
    pub input: Payload,
    /// The idempotency key with its scope: the workflow's name, or empty for the whole workspace.
    pub key: Option<(String, String)>,
    pub tags: Payload,
    pub retention_days: Option<u32>,
    /// Whether a name that nobody has saved is that of a code workflow.
    pub may_be_code: bool,
}

impl Start {
    pub fn new(workflow: impl Into<String>, input: impl Into<Payload>) -> Self {
        Self {
            workspace: WorkspaceId::DEFAULT,
            workflow: workflow.into(),
            version: None,
            input: input.into(),
            key: None,
            tags: Payload::from(json!({})),
            retention_days: None,
            may_be_code: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    pub run: RunId,
    /// False when a run with that key was there before.
    pub created: bool,
}

/// Follows one run. It ends with the run.
pub struct Watch(mpsc::UnboundedReceiver<News>);

/// What somebody who follows a run is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The run's last entry has this seq.
    Written(u64),
    /// The run is elsewhere and may have gone on: look.
    Look,
    /// The run has ended, with the entry of this seq.
    Ended(u64),
}

impl News {
    /// The seq of the last entry, where that is known.
    pub fn seq(self) -> Option<u64> {
        match self {
            Self::Written(seq) | Self::Ended(seq) => Some(seq),
            Self::Look => None,
        }
    }
}

/// The end of a run that was just started, or found.
pub struct Ending {
    engine: Engine,
    workspace: WorkspaceId,
    run: RunId,
    /// Has followed the run since before it began.
    watch: Option<Watch>,
}

impl Ending {
    /// Waits until the run has ended and returns its row.
    pub async fn row(self) -> Result<RunRow, Error> {
        if let Some(mut watch) = self.watch
            && let Some(News::Ended(_)) = watch.next().await
            && let Some(row) = self.engine.world().runs.get_run(self.workspace, self.run).await?
            && row.ended_at.is_some()
        {
            return Ok(row);
        }
        self.engine.wait(self.workspace, self.run).await
    }
}

impl Watch {
    pub async fn next(&mut self) -> Option<News> {
        self.0.recv().await
    }
}

impl Engine {
    /// Joins the database as a new node and starts all loops.
    ///
    /// The future is boxed so that this crate compiles the loops, not each crate that starts an engine.
    pub fn start(world: World, options: Options) -> BoxFuture<'static, Result<Self, Error>> {
        Box::pin(Self::join(world, options))
    }

    async fn join(world: World, options: Options) -> Result<Self, Error> {
        let library = Arc::new(Library::new(world.clone()));
        let tally = Arc::new(Tally::default());
        let member = Member::join(&world, &options, &library, &tally).await?;
        let inner = Arc::new(Inner {
            world: world.clone(),
            library,
            tally: Arc::clone(&tally),
            member: RwLock::new(Arc::new(member)),
            pending: Semaphore::new(options.max_pending),
            is_stopping: AtomicBool::new(false),
            stopped: Arc::default(),
            options: options.clone(),
        });
        if world.runs.is_shared() {
            world.spawn.spawn(Box::pin(stay(Arc::downgrade(&inner))));
        }
        let sweep = sweep::run(world.clone(), options, Arc::clone(&inner.stopped));
        world.spawn.spawn(Box::pin(sweep));
        let count = count::run(world.clone(), tally);
        world.spawn.spawn(Box::pin(count));
        Ok(Self(inner))
    }

    /// The id under which this node is a member just now.
    pub fn node(&self) -> NodeId {
        self.0.member().node
    }

    pub fn library(&self) -> &Library {
        &self.0.library
    }

    pub fn world(&self) -> &World {
        &self.0.world
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// How many runs this node holds.
    pub fn active_runs(&self) -> usize {
        self.0.member().shared.active.load(Ordering::Relaxed)
    }

    /// Whether another node took this one's runs and it has not yet joined anew.
    pub fn is_fenced(&self) -> bool {
        self.0.member().shared.is_fenced.load(Ordering::Relaxed)
    }

    /// How many items were refused because another node had written, or owned, their run.
    pub fn conflicts(&self) -> u64 {
        self.0.member().shared.conflicts.load(Ordering::Relaxed)
    }

    /// Whether this node's heartbeats come through, so that it may dispatch tasks.
    pub fn is_in_touch(&self) -> bool {
        self.0.member().shared.may_dispatch(&self.0.world.clock)
    }

    /// Starts a run, or finds the one that has the same key. Answers after the commit.
    pub async fn start_run(&self, start: Start) -> Result<Started, Error> {
        Ok(self.start_as(self.new_id(), start, false).await?.started)
    }

    /// As [`Engine::start_run`], and tells how the run began, if it was made.
    pub async fn start_shown(&self, start: Start) -> Result<(Started, Option<Box<Beginning>>), Error> {
        let Begun { started, beginning } = self.start_as(self.new_id(), start, true).await?;
        Ok((started, beginning))
    }

    /// As [`Engine::start_run`], and waits for the run's end: see [`Ending::row`].
    pub async fn start_to_end(&self, start: Start) -> Result<(Started, Ending), Error> {
        // Followed before it is there: what starts and ends in one item is not missed.
        let (workspace, run) = (start.workspace, self.new_id());
        let watch = self.watch_for(run, true);
        let started = self.start_as(run, start, false).await?.started;
        let watch = Some(watch).filter(|_| started.created);
        Ok((started, Ending { engine: self.clone(), workspace, run: started.run, watch }))
    }

    fn new_id(&self) -> RunId {
        RunId::new(self.0.world.clock.now(), self.0.world.random.next())
    }

    async fn start_as(&self, run: RunId, start: Start, is_shown: bool) -> Result<Begun, Error> {
        check_start(&start)?;
        let version = self.0.library.find_to_start(&start).await?;
        let retention_days = start.retention_days.unwrap_or(version.retention_days);
        self.begin(run, start, &version.workflow, retention_days, is_shown).await
    }

    /// As [`Engine::start_run`], of a version that was found before: see [`Library::find_to_start`].
    pub async fn start_of(&self, version: &Version, start: Start) -> Result<Started, Error> {
        check_start(&start)?;
        let retention_days = start.retention_days.unwrap_or(version.retention_days);
        Ok(self.begin(self.new_id(), start, &version.workflow, retention_days, false).await?.started)
    }

    /// Starts a run of a definition that is not saved. It is neither listed nor counted, and goes an hour after its end.
    pub async fn start_test(
        &self,
        workspace: WorkspaceId,
        definition: &Value,
        input: Payload,
    ) -> Result<Result<Started, Vec<Problem>>, Error> {
        let start = Start { workspace, ..Start::new(TEST, input) };
        check_start(&start)?;
        let workflow = match self.0.library.check(TEST, definition) {
            Ok(workflow) => Arc::new(workflow),
            Err(problems) => return Ok(Err(problems)),
        };
        Ok(Ok(self.begin(self.new_id(), start, &workflow, 1, false).await?.started))
    }

    async fn begin(
        &self,
        run: RunId,
        start: Start,
        workflow: &Arc<Workflow>,
        retention_days: u32,
        is_shown: bool,
    ) -> Result<Begun, Error> {
        let _permit = self.0.pending.acquire().await.map_err(|_| Error::Stopping)?;
        let now = self.0.world.clock.now();
        let new = NewRun {
            workflow: workflow.name.clone(),
            version: workflow.version,
            lane: workers::lane(start.workspace, workflow).to_string(),
            key: start.key,
            input: start.input.clone(),
            parent: None,
            tags: start.tags,
            retention_days: self.0.options.keep_for(retention_days),
            is_test: workflow.is_unpublished,
            created_at: now,
        };
        let (reply, answer) = oneshot::channel();
        let request = StartRequest {
            run,
            workspace: start.workspace,
            workflow: Arc::clone(workflow),
            new,
            input: start.input,
            parent: None,
            arrivals: Vec::new(),
            is_shown,
            reply,
        };
        self.0.member().tell(run, ToShard::Start(Box::new(request)))?;
        answer.await.map_err(|_| self.0.gone())?
    }

    /// Gives a run an input, wherever it is, and answers after the commit.
    pub async fn route(&self, delivery: RunInput) -> Result<Reply, Error> {
        // To learn that a run is another node's it need not be loaded.
        let mut answer = match self.owner_elsewhere(&delivery).await? {
            Some(owner) => Err(Error::Elsewhere(owner)),
            None => self.receive(delivery.clone()).await,
        };
        // A run may move while an input follows it.
        for _ in 0..MOVES {
            let Err(Error::Elsewhere(owner)) = answer else { return answer };
            let peer = self.peer(owner).await?.ok_or(Error::Unreachable(owner))?;
            answer = self.0.world.peers.send(&peer, delivery.clone()).await;
            if let Err(Error::Elsewhere(_)) = answer {
                answer = self.receive(delivery.clone()).await;
            }
        }
        answer
    }

    /// The other node that owns a run, by its row; none when it is in memory here.
    async fn owner_elsewhere(&self, delivery: &RunInput) -> Result<Option<NodeId>, Error> {
        if !self.0.world.runs.is_shared() {
            return Ok(None);
        }
        let member = self.0.member();
        let (reply, answer) = oneshot::channel();
        member.tell(delivery.run, ToShard::Has(delivery.run, reply))?;
        if answer.await.unwrap_or(false) {
            return Ok(None);
        }
        let row = self.0.world.runs.get_run(delivery.workspace, delivery.run).await?;
        let row = row.ok_or(Error::RunNotFound(delivery.run))?;
        Ok(row.owner.filter(|owner| *owner != member.node))
    }

    /// Gives a run that is this node's, or nobody's, an input that another node has passed on.
    pub async fn receive(&self, delivery: RunInput) -> Result<Reply, Error> {
        let RunInput { workspace, run, input, expected, key } = delivery;
        self.post(run, Mail { expected, key, workspace: Some(workspace), ..Mail::of(input) }).await
    }

    /// Takes what another node has said.
    pub fn hinted(&self, hint: Hint) {
        let member = self.0.member();
        // Whoever does not listen any more will find out by itself.
        let _ = match hint {
            Hint::Inbox => member.claimer.send(ToClaimer::Inbox).map_err(|_| Error::Stopping),
            Hint::Work => member.claimer.send(ToClaimer::Room).map_err(|_| Error::Stopping),
            Hint::Watch { run, by } => member.tell(run, ToShard::Follow(run, by)),
            Hint::Written { run, seq } => member.tell(run, ToShard::Told(run, News::Written(seq))),
            Hint::Ended { run, seq } => member.tell(run, ToShard::Told(run, News::Ended(seq))),
        };
    }

    /// Gives a run that is this node's, or nobody's, an input and answers after the commit.
    pub async fn send(&self, run: RunId, input: Input) -> Result<Reply, Error> {
        self.send_at(run, input, None).await
    }

    /// As [`Engine::send`], but only if the run has the expected version; else it is refused as `CONCURRENCY_ERROR`
    /// and nothing is changed.
    pub async fn send_at(&self, run: RunId, input: Input, expected: Option<u64>) -> Result<Reply, Error> {
        self.post(run, Mail { expected, ..Mail::of(input) }).await
    }

    async fn post(&self, run: RunId, mail: Mail) -> Result<Reply, Error> {
        let _permit = self.0.pending.acquire().await.map_err(|_| Error::Stopping)?;
        let (reply, answer) = oneshot::channel();
        self.0.member().tell(run, ToShard::Mail(run, Mail { respond: Respond::Once(reply), ..mail }))?;
        answer.await.map_err(|_| self.0.gone())?
    }

    /// The other nodes that may be alive.
    pub async fn peers(&self) -> Result<Vec<Peer>, Error> {
        if !self.0.world.runs.is_shared() {
            return Ok(Vec::new());
        }
        let member = self.0.member();
        let nodes = self.0.world.runs.nodes().await?;
        member.shared.see_peers(member.node, &nodes);
        Ok(member.shared.peers())
    }

    /// Another node that was there at the last tick.
    pub fn known_peer(&self, node: NodeId) -> Option<Peer> {
        self.0.member().shared.peer(node)
    }

    /// Another node, if it may be alive.
    pub async fn peer(&self, node: NodeId) -> Result<Option<Peer>, Error> {
        let member = self.0.member();
        if let Some(peer) = member.shared.peer(node) {
            return Ok(Some(peer));
        }
        // It may have joined since the last tick.
        let nodes = self.0.world.runs.nodes().await?;
        member.shared.see_peers(member.node, &nodes);
        Ok(member.shared.peer(node))
    }

    /// Says that there may be news in the inbox.
    pub fn hint_inbox(&self) {
        self.hinted(Hint::Inbox);
    }

    /// The state that this node holds of a run, unless an item of it is in flight.
    pub async fn inspect(&self, run: RunId) -> Option<State> {
        let (reply, answer) = oneshot::channel();
        self.0.member().tell(run, ToShard::Inspect(run, reply)).ok()?;
        answer.await.ok()?
    }

    /// What a run that this node owns is about; none when it is not here, or just being written.
    pub async fn look(&self, run: RunId) -> Option<Look> {
        let (reply, answer) = oneshot::channel();
        self.0.member().tell(run, ToShard::Look(run, reply)).ok()?;
        answer.await.ok()?
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.0.tally
    }

    pub(crate) fn member(&self) -> Arc<Member> {
        self.0.member()
    }

    /// Follows a run. What was written before must be read from the journal.
    pub fn watch(&self, run: RunId) -> Watch {
        self.watch_for(run, false)
    }

    fn watch_for(&self, run: RunId, for_end: bool) -> Watch {
        let (sender, receiver) = mpsc::unbounded_channel();
        let _ = self.0.member().tell(run, ToShard::Watch(run, Watcher { sender, for_end }));
        Watch(receiver)
    }

    /// Asks whoever owns a run to say when it goes on. Lasts a few seconds; without it a watch looks once per tick.
    pub fn follow(&self, row: &RunRow) {
        let member = self.0.member();
        let owner = row.owner.filter(|owner| *owner != member.node);
        if let Some(peer) = owner.and_then(|owner| member.shared.peer(owner)) {
            self.0.world.peers.hint(&peer, Hint::Watch { run: row.id, by: member.node });
        }
    }

    /// Waits until a run has ended and returns its row.
    pub async fn wait(&self, workspace: WorkspaceId, run: RunId) -> Result<RunRow, Error> {
        loop {
            let mut watch = self.watch_for(run, true);
            loop {
                let row = self.0.world.runs.get_run(workspace, run).await?.ok_or(Error::RunNotFound(run))?;
                if row.ended_at.is_some() {
                    return Ok(row);
                }
                self.follow(&row);
                if watch.next().await.is_none() {
                    break;
                }
            }
            if self.0.is_stopping.load(Ordering::SeqCst) {
                return Err(Error::Stopping);
            }
            // The run has ended, or this node joins anew.
            if self.is_fenced() {
                self.0.world.sleep(REJOIN).await;
            }
        }
    }

    /// Stops: takes nothing new, waits up to `grace` for what is under way, and gives all runs back.
    pub async fn stop(&self, grace: Duration) -> Result<(), Error> {
        self.0.is_stopping.store(true, Ordering::SeqCst);
        let member = self.0.member();
        member.shared.is_stopping.store(true, Ordering::SeqCst);
        let drained = member.shards.iter().map(|shard| {
            let (done, drained) = oneshot::channel();
            let _ = shard.send(ToShard::Drain(done));
            drained
        });
        let drained = future::join_all(drained);
        if let Either::Right(_) = future::select(drained, self.0.world.clock.sleep(grace)).await {
            tracing::warn!(
                grace = grace.as_secs_f64(),
                "tasks were still running; they are started again by whoever claims their runs"
            );
        }
        self.0.stopped.notify_one();
        member.quit();
        self.0.tally.stop(&*self.0.world.runs).await;
        // The clocks of two nodes differ a little; what is given back is due by each of them.
        let now = Timestamp::from_micros(self.0.world.clock.now().micros() - CLOCKS_DIFFER);
        self.0.world.runs.leave(member.node, now).await?;
        for peer in member.shared.peers() {
            self.0.world.peers.hint(&peer, Hint::Work);
        }
        Ok(())
    }
}

impl Inner {
    fn member(&self) -> Arc<Member> {
        Arc::clone(&self.member.read().expect("no holder of the lock panics"))
    }

    /// An answer did not come: its item may have been on its way when this node stopped or was fenced.
    fn gone(&self) -> Error {
        Error::OutcomeUnknown(self.member().node)
    }
}

/// Joins anew, under a new id, whenever this node was fenced.
async fn stay(inner: Weak<Inner>) {
    loop {
        let Some((member, world)) = inner.upgrade().map(|inner| (inner.member(), inner.world.clone())) else { return };
        member.shared.fenced.notified().await;
        tracing::warn!(node = %member.node, "this node was fenced: others go on with its runs; joining anew");
        member.quit();
        if let Some(inner) = inner.upgrade() {
            inner.tally.forget();
        }
        loop {
            let Some(inner) = inner.upgrade().filter(|inner| !inner.is_stopping.load(Ordering::SeqCst)) else { return };
            match Member::join(&world, &inner.options, &inner.library, &inner.tally).await {
                Ok(member) => {
                    let member = Arc::new(member);
                    *inner.member.write().expect("no holder of the lock panics") = Arc::clone(&member);
                    if inner.is_stopping.load(Ordering::SeqCst) {
                        member.quit();
                        // Whoever is left fences it.
                        let _ = world.runs.leave(member.node, world.clock.now()).await;
                        return;
                    }
                    break;
                }
                Err(error) => tracing::warn!(%error, "joining anew failed; trying again"),
            }
            drop(inner);
            world.sleep(REJOIN).await;
        }
    }
}

fn check_start(start: &Start) -> Result<(), Error> {
    check_input(&start.input)?;
    if let Some((_, key)) = &start.key
        && (key.is_empty() || key.chars().count() > limits::KEY_CHARS)
    {
        return Err(Error::Invalid(format!("an idempotency key has 1 to {} characters", limits::KEY_CHARS)));
    }
    Ok(())
}

/// Whether a run can be started with an input.
pub(crate) fn check_input(input: &Payload) -> Result<(), Error> {
    if input.size() > limits::PAYLOAD_BYTES {
        let (size, most) = (input.size(), limits::PAYLOAD_BYTES);
        return Err(Error::Invalid(format!("the input is {size} bytes; at most {most} are taken")));
    }
    payload::check(input.json()).map_err(|unfit| Error::Invalid(format!("the input {unfit}")))?;
    if payload::has_nul(input.json()) {
        return Err(Error::Invalid("the input holds a NUL character, which no database stores as text".to_owned()));
    }
    Ok(())
}
