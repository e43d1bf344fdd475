//! The handle to topics, which the API and the shards share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::{EventId, WorkspaceId};
use everstep_core::payload;
use everstep_core::topics::{TopicEvent, check_topic};
use everstep_handlers::Places;
use everstep_store::{EventRow, PublishOutcome};
use futures_util::future::{self, Either};
use tokio::sync::{mpsc, oneshot, watch};

use super::publisher::{EVENTS, EventPublisher, PublishRequest};
use super::queue::EventQueue;
use crate::batch::Batcher;
use crate::error::Error;
use crate::ports::World;

/// Events that wait for the event publisher, whose places the workspaces share. If there are more, their callers wait.
const WAITING_EVENTS_MAX: usize = 8_192;
/// How long an event waits for a place in the queue of the publisher.
const PUBLISH_PATIENCE: Duration = Duration::from_secs(5);
/// How long a stopping node waits for the answer to the batch in flight.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// How often a caller that waits for a fan-out reads the event: another node may carry it out.
const FANNED_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Publishes events, and reports the ends of their fan-outs.
pub struct Topics {
    world: World,
    requests: mpsc::Sender<PublishRequest>,
    places: Places,
    queue: Arc<EventQueue>,
    waiters: Waiters,
    stopping: watch::Sender<bool>,
    /// Whether the node has stopped without an answer to a batch, whose events may have been published.
    is_cut_off: Arc<AtomicBool>,
    /// One for each loop that was started.
    ended: Mutex<Vec<oneshot::Receiver<()>>>,
}

/// Callers that wait for the end of a fan-out on this node.
#[derive(Default)]
pub(super) struct Waiters(Mutex<HashMap<EventId, Vec<oneshot::Sender<()>>>>);

/// A caller that waits for the end of a fan-out, until it is dropped.
struct Waiter<'a> {
    waiters: &'a Waiters,
    event: EventId,
    done: Option<oneshot::Receiver<()>>,
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.done = None;
        self.waiters.forget(self.event);
    }
}

impl Waiters {
    fn add(&self, event: EventId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        let mut waiters = self.0.lock().expect("no holder of the lock panics");
        let of_event = waiters.entry(event).or_default();
        of_event.retain(|waiter| !waiter.is_closed());
        of_event.push(sender);
        receiver
    }

    fn forget(&self, event: EventId) {
        let mut waiters = self.0.lock().expect("no holder of the lock panics");
        if let Some(of_event) = waiters.get_mut(&event) {
            of_event.retain(|waiter| !waiter.is_closed());
            if of_event.is_empty() {
                waiters.remove(&event);
            }
        }
    }

    /// Notifies the callers that wait for an event.
    pub(super) fn notify(&self, event: EventId) {
        let of_event = self.0.lock().expect("no holder of the lock panics").remove(&event);
        for waiter in of_event.into_iter().flatten() {
            let _ = waiter.send(());
        }
    }
}

impl Topics {
    /// Starts the event publisher.
    pub(crate) fn start(world: &World, queue: &Arc<EventQueue>) -> Arc<Self> {
        let (requests, queued) = mpsc::channel(WAITING_EVENTS_MAX);
        let publisher = EventPublisher {
            store: Arc::clone(&world.topics),
            observe: Arc::clone(&world.observe),
            queue: Arc::clone(queue),
        };
        let batcher = Batcher::new("events", publisher, Arc::clone(&world.clock), queued, EVENTS);
        let topics = Arc::new(Self {
            world: world.clone(),
            requests,
            places: Places::new(ShareBounds::new(WAITING_EVENTS_MAX as u64)),
            queue: Arc::clone(queue),
            waiters: Waiters::default(),
            stopping: watch::Sender::new(false),
            is_cut_off: Arc::default(),
            ended: Mutex::default(),
        });
        topics.spawn_publisher(batcher.run(topics.stopping.subscribe()));
        topics
    }

    /// Starts the event publisher, which ends by itself when this handle is stopped, or is cut off soon after.
    fn spawn_publisher(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (clock, is_cut_off) = (Arc::clone(&self.world.clock), Arc::clone(&self.is_cut_off));
        let mut stopping = self.stopping.subscribe();
        self.spawn_until_ended(async move {
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
        });
    }

    /// Starts a loop, which ends at once when this handle is stopped.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut stopping = self.stopping.subscribe();
        self.spawn_until_ended(async move {
            let stopped = async move {
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            };
            drop(future::select(Box::pin(work), Box::pin(stopped)).await);
        });
    }

    /// Starts a loop, and reports its end to [`Self::stop`].
    fn spawn_until_ended(&self, work: impl Future<Output = ()> + Send + 'static) {
        let (done, ended) = oneshot::channel();
        self.ended.lock().expect("no holder of the lock panics").push(ended);
        self.world.spawn.spawn(Box::pin(async move {
            // The database is released before the end is reported.
            work.await;
            let _ = done.send(());
        }));
    }

    /// Ends the loops, which then no longer use the database. A batch in flight is answered, if the database replies
    /// within a few seconds. Other events fail; they were not published. Other nodes, or the next process, continue the
    /// fan-outs.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        let ended = std::mem::take(&mut *self.ended.lock().expect("no holder of the lock panics"));
        future::join_all(ended).await;
    }

    /// The error for an event without an answer.
    fn unanswered(&self) -> Error {
        if self.is_cut_off.load(Ordering::SeqCst) { Error::Unanswered } else { Error::Stopping }
    }

    /// The number of events that wait for the event publisher.
    pub fn waiting(&self) -> usize {
        self.places.used() as usize
    }

    /// Publishes an event. Replies after the commit; the fan-out follows. The same id of the same source is published
    /// once.
    pub async fn publish(&self, event: TopicEvent) -> Result<PublishOutcome, Error> {
        check(&event)?;
        let (reply, answer) = oneshot::channel();
        let workspace = event.workspace;
        let place = std::pin::pin!(self.places.acquire(workspace, (), 1));
        let place = match future::select(place, self.world.clock.sleep(PUBLISH_PATIENCE)).await {
            Either::Left((place, _)) => place,
            Either::Right(_) => None,
        };
        let place = place.ok_or_else(|| Error::Busy("too many events are being published; try again".to_owned()))?;
        let request = PublishRequest { event: Some(event), workspace, place: Some(place), reply };
        // The channel has as many places.
        self.requests.try_send(request).map_err(|_| Error::Stopping)?;
        answer.await.map_err(|_| self.unanswered())?
    }

    /// Waits until the fan-out of an event is done, whichever node carries it out.
    pub async fn fanned(&self, workspace: WorkspaceId, event: EventId) -> Result<EventRow, Error> {
        loop {
            let mut waiter = Waiter { waiters: &self.waiters, event, done: Some(self.waiters.add(event)) };
            let row = self.world.topics.event(workspace, event).await?;
            let row = row.ok_or_else(|| Error::Invalid(format!("event {event} was not found")))?;
            if row.fanned_at.is_some() {
                return Ok(row);
            }
            let done = waiter.done.as_mut().expect("it is taken when the waiter is dropped");
            future::select(done, self.world.clock.sleep(FANNED_POLL_INTERVAL)).await;
        }
    }

    pub(crate) fn queue(&self) -> &Arc<EventQueue> {
        &self.queue
    }

    pub(super) fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// Checks that an event can be stored.
fn check(event: &TopicEvent) -> Result<(), Error> {
    check_topic(&event.topic).map_err(Error::Invalid)?;
    payload::check(event.data.json()).map_err(|error| Error::Invalid(format!("the data {error}")))?;
    if payload::has_nul(event.data.json()) {
        return Err(Error::Unstorable(
            "the data contains a NUL character, which no database stores as text".to_owned(),
        ));
    }
    Ok(())
}
