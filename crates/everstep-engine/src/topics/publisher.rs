//! The event publisher: writes the events of many callers, many in one transaction.

use std::sync::Arc;

use everstep_core::ids::WorkspaceId;
use everstep_core::topics::TopicEvent;
use everstep_handlers::Place;
use everstep_store::{EventRow, PublishOutcome, TopicStore, UnmatchedEvents};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use super::queue::EventQueue;
use crate::batch::{BatchBounds, BatchPort, Rejection};
use crate::error::Error;
use crate::observe::Observe;

pub(super) const EVENTS: BatchBounds = BatchBounds { requests_max: 512, bytes_max: 1024 * 1024 };

/// An event on its way to the database.
pub(super) struct PublishRequest {
    /// Absent only while the store has it.
    pub(super) event: Option<TopicEvent>,
    pub(super) workspace: WorkspaceId,
    /// Its place among the events that wait, until it is sent.
    pub(super) place: Option<Place>,
    pub(super) reply: oneshot::Sender<Result<PublishOutcome, Error>>,
}

pub(super) struct EventPublisher {
    pub(super) store: Arc<dyn TopicStore>,
    pub(super) observe: Arc<dyn Observe>,
    pub(super) queue: Arc<EventQueue>,
}

impl EventPublisher {
    /// The fan-out of an event was done when it was written.
    fn report_fanned(&self, row: Option<EventRow>) {
        if let Some(row) = row {
            self.observe.event_fanned(&EventRow { fanned_at: Some(row.event.at), ..row });
        }
    }
}

impl BatchPort for EventPublisher {
    type Request = PublishRequest;
    type Answer = PublishOutcome;

    fn send<'a>(
        &'a self,
        batch: &'a mut [PublishRequest],
    ) -> BoxFuture<'a, everstep_store::Result<Vec<Option<PublishOutcome>>>> {
        Box::pin(async move {
            batch.iter_mut().for_each(|request| request.place = None);
            let events: Vec<_> = batch.iter_mut().map(|request| request.event.take().expect("not yet sent")).collect();
            let published = self.store.publish(&events, UnmatchedEvents::Done).await;
            for (request, event) in batch.iter_mut().zip(events) {
                request.event = Some(event);
            }
            let outcomes = published?;
            // The fan-out begins before the callers receive their answers, and with all events of the batch together.
            let published = outcomes.iter().filter(|outcome| outcome.is_published()).count();
            self.observe.events_published(published);
            let mut open = Vec::new();
            for (request, outcome) in batch.iter().zip(&outcomes) {
                let row = |request: &PublishRequest| request.event.clone().map(EventRow::open);
                match outcome {
                    PublishOutcome::Published => open.extend(row(request)),
                    PublishOutcome::Unmatched => self.report_fanned(row(request)),
                    PublishOutcome::Known(_) | PublishOutcome::Reused(_) => {}
                }
            }
            if !open.is_empty() {
                self.queue.add(open);
            }
            Ok(outcomes.into_iter().map(Some).collect())
        })
    }

    fn answer(&self, request: PublishRequest, answer: Result<PublishOutcome, Rejection>) {
        let answer = answer.map_err(|rejection| match rejection {
            Rejection::Refused(reason) => Error::Refused(reason),
            Rejection::Full(message) => Error::Full(message),
            Rejection::Unreadable(message) => Error::Unavailable(message),
        });
        // The caller may have stopped waiting.
        let _ = request.reply.send(answer);
    }

    fn workspace(&self, request: &PublishRequest) -> WorkspaceId {
        request.workspace
    }

    fn size(&self, request: &PublishRequest) -> usize {
        request.event.as_ref().map_or(0, TopicEvent::size)
    }

    fn is_wanted(&self, request: &PublishRequest) -> bool {
        !request.reply.is_closed()
    }

    fn waits_for_space(&self, _: &PublishRequest) -> bool {
        false
    }

    /// A source publishes an id once, so that an event needs no lease.
    fn may_send(&self) -> bool {
        true
    }
}
