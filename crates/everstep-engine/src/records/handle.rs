//! The handle to records and links, which handlers, the API and the sweeper share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_core::records::{LinkPage, LinkQuery, NewOp, Op, OpKey, Record, RecordLimits, RecordPage, RecordQuery};
use everstep_core::time::Timestamp;
use everstep_handlers::{Place, Places};
use everstep_store::{ChangePage, ChangeQuery, NamespacePage, NamespaceQuery, OpOutcome, RecordKey, RecordStore};
use futures_util::future::{self, Either};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot, watch};

use super::reader::{GetRequest, RecordReader};
use super::writer::{OpRequest, RecordWriter};
use crate::batch::{BatchBounds, Batcher};
use crate::error::Error;
use crate::node::clock::NodeClock;
use crate::observe::Observe;
use crate::options::Options;
use crate::ports::{Random, Spawn};

/// Ops that wait for the record writer, whose places the workspaces share. If there are more, their callers wait.
const WAITING_OPS_MAX: usize = 8_192;
const OPS: BatchBounds = BatchBounds { requests_max: 512, bytes_max: 1024 * 1024 };
/// Gets that wait for the reader.
const WAITING_GETS_MAX: usize = 8_192;
/// The values of a batch of gets are in memory together.
const GETS: BatchBounds = BatchBounds { requests_max: 64, bytes_max: usize::MAX };
/// How long a request waits for a place in the queue. Ops of runs wait as long as necessary.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// How long a stopping node waits for the answer to the batch in flight.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// Applies ops in batches and reads records, links, namespaces and changes.
///
/// It accepts requests as soon as it exists; they are carried out once an engine runs with it.
pub struct Records {
    store: Arc<dyn RecordStore>,
    clock: Arc<NodeClock>,
    random: Arc<dyn Random>,
    limits: RecordLimits,
    kept: Duration,
    ops: mpsc::Sender<OpRequest>,
    op_places: Places,
    gets: mpsc::Sender<GetRequest>,
    get_places: Places,
    /// The other ends of the channels, until an engine takes them.
    queues: Mutex<Option<(mpsc::Receiver<OpRequest>, mpsc::Receiver<GetRequest>)>>,
    stopping: watch::Sender<bool>,
    /// Whether the node has stopped without an answer to a batch, whose ops may have been applied.
    is_cut_off: Arc<AtomicBool>,
    /// One for each loop that was started.
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
}

impl Records {
    pub fn new(
        store: Arc<dyn RecordStore>,
        clock: Arc<NodeClock>,
        random: Arc<dyn Random>,
        options: &Options,
    ) -> Arc<Self> {
        let (ops, queued_ops) = mpsc::channel(WAITING_OPS_MAX);
        let (gets, queued_gets) = mpsc::channel(WAITING_GETS_MAX);
        Arc::new(Self {
            store,
            clock,
            random,
            limits: options.record_limits,
            kept: Duration::from_secs(u64::from(options.record_history_days) * 86_400),
            ops,
            op_places: Places::new(ShareBounds::new(WAITING_OPS_MAX as u64)),
            gets,
            get_places: Places::new(ShareBounds::new(WAITING_GETS_MAX as u64)),
            queues: Mutex::new(Some((queued_ops, queued_gets))),
            stopping: watch::Sender::new(false),
            is_cut_off: Arc::default(),
            ended: Mutex::default(),
        })
    }

    /// Starts the loops of a node. `may_send`: whether the node's lease is fresh.
    ///
    /// The loops do not hold this handle: they end when they are stopped, or when no caller is left.
    pub(crate) fn start(
        &self,
        spawn: &dyn Spawn,
        observe: &Arc<dyn Observe>,
        may_send: impl Fn() -> bool + Send + Sync + 'static,
    ) {
        let queues = self.queues.lock().expect("no holder of the lock panics").take();
        let (ops, gets) = queues.expect("one engine runs with these records");
        let writer = RecordWriter {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            observe: Arc::clone(observe),
            limits: self.limits,
            kept: self.kept,
            may_send: Box::new(may_send),
        };
        let writer = Batcher::new("ops", writer, Arc::clone(&self.clock), ops, OPS);
        self.spawn(spawn, writer.run(self.stopping.subscribe()));
        let reader = RecordReader { store: Arc::clone(&self.store) };
        let reader = Batcher::new("gets", reader, Arc::clone(&self.clock), gets, GETS);
        self.spawn(spawn, reader.run(self.stopping.subscribe()));
    }

    fn spawn(&self, spawn: &dyn Spawn, work: impl Future<Output = ()> + Send + 'static) {
        let (done, ended) = oneshot::channel();
        let mut stopping = self.stopping.subscribe();
        self.ended.lock().expect("no holder of the lock panics").push(ended);
        let (clock, is_cut_off) = (Arc::clone(&self.clock), Arc::clone(&self.is_cut_off));
        spawn.spawn(Box::pin(async move {
            let patience = async move {
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
                clock.sleep(STOP_PATIENCE).await;
            };
            match future::select(Box::pin(work), Box::pin(patience)).await {
                Either::Left(_) => {}
                Either::Right((_, unfinished)) => {
                    is_cut_off.store(true, Ordering::SeqCst);
                    drop(unfinished);
                }
            }
            // The database is released before the end is reported.
            let _ = done.send(());
        }));
    }

    /// Ends the loops, which then no longer use the database. A batch in flight is answered, if the database replies
    /// within a few seconds. Other requests fail; an op of a run is repeated by the next owner of the run, under its key.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        let ended = std::mem::take(&mut *self.ended.lock().expect("no holder of the lock panics"));
        future::join_all(ended).await;
    }

    /// The error for an op without an answer.
    fn unanswered(&self) -> Error {
        if self.is_cut_off.load(Ordering::SeqCst) { Error::Unanswered } else { Error::Stopping }
    }

    /// Applies an op. An op of a run waits as long as necessary; any other op fails if the record writer is busy or the
    /// disk is full.
    pub async fn apply(&self, new: NewOp) -> Result<OpOutcome, Error> {
        let random = self.random.next();
        let NewOp { workspace, namespace, key, author, action } = new;
        let key = key.unwrap_or_else(|| OpKey::of_request(self.clock.now(), random));
        let mut op = Op { workspace, namespace, key, digest: None, random, author, action };
        if let Err(failure) = op.check(&self.limits) {
            return Ok(Err(failure));
        }
        op.digest = op.key.is_chosen().then(|| Sha256::digest(op.digested_text()).into());
        let is_patient = op.author.run.is_some();
        let (reply, answer) = oneshot::channel();
        let since = self.clock.monotonic();
        let place = self.find_place(&self.op_places, workspace, is_patient).await?;
        let request = OpRequest { verb: op.action.verb(), op: Some(op), workspace, place: Some(place), since, reply };
        // The channel has as many places.
        self.ops.try_send(request).map_err(|_| Error::Stopping)?;
        answer.await.map_err(|_| self.unanswered())?
    }

    /// The record with a key, unless it has expired. Fails if the reader is busy.
    pub async fn get(&self, workspace: WorkspaceId, namespace: &str, key: &str) -> Result<Option<Record>, Error> {
        let key = RecordKey { workspace, namespace: namespace.to_owned(), key: key.to_owned() };
        self.get_by_key(key, false).await
    }

    /// The record with a key, unless it has expired. Waits as long as necessary if `is_patient`.
    pub(super) async fn get_by_key(&self, key: RecordKey, is_patient: bool) -> Result<Option<Record>, Error> {
        let (reply, answer) = oneshot::channel();
        let workspace = key.workspace;
        let place = self.find_place(&self.get_places, workspace, is_patient).await?;
        let request = GetRequest { key: Some(key), workspace, place: Some(place), reply };
        self.gets.try_send(request).map_err(|_| Error::Stopping)?;
        let record = answer.await.map_err(|_| Error::Stopping)??;
        let now = self.clock.now();
        Ok(record.filter(|record| record.is_live(now)))
    }

    /// Waits for a place in a queue.
    async fn find_place(&self, places: &Places, workspace: WorkspaceId, is_patient: bool) -> Result<Place, Error> {
        let place = places.acquire(workspace, (), 1);
        let place = if is_patient {
            place.await
        } else {
            match future::select(std::pin::pin!(place), self.clock.sleep(REQUEST_PATIENCE)).await {
                Either::Left((place, _)) => place,
                Either::Right(_) => None,
            }
        };
        place.ok_or_else(|| Error::Busy("the data store is busy; try again".to_owned()))
    }

    /// The number of ops that wait for the record writer.
    pub fn waiting(&self) -> usize {
        self.op_places.used() as usize
    }

    /// The limits of values, as this server sets them.
    pub fn limits(&self) -> &RecordLimits {
        &self.limits
    }

    /// A page of the records of a namespace.
    pub async fn list(&self, workspace: WorkspaceId, query: &RecordQuery) -> Result<RecordPage, Error> {
        Ok(self.store.list(workspace, query, self.clock.now()).await?)
    }

    /// A page of the records of a namespace, with those that have expired and are not yet swept.
    pub async fn list_with_expired(&self, workspace: WorkspaceId, query: &RecordQuery) -> Result<RecordPage, Error> {
        // No record has expired at the first time of all.
        Ok(self.store.list(workspace, query, Timestamp::EPOCH).await?)
    }

    /// A page of links.
    pub async fn links(&self, workspace: WorkspaceId, query: &LinkQuery) -> Result<LinkPage, Error> {
        Ok(self.store.links(workspace, query).await?)
    }

    /// A page of namespaces, or one namespace.
    pub async fn namespaces(&self, workspace: WorkspaceId, query: &NamespaceQuery) -> Result<NamespacePage, Error> {
        Ok(self.store.namespaces(workspace, query).await?)
    }

    /// A page of the changes of a namespace.
    pub async fn changes(&self, workspace: WorkspaceId, query: &ChangeQuery) -> Result<ChangePage, Error> {
        Ok(self.store.changes(workspace, query).await?)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(super) fn clock(&self) -> &NodeClock {
        &self.clock
    }

    pub(super) fn store(&self) -> &dyn RecordStore {
        &*self.store
    }
}
