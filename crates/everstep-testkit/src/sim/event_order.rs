//! The order in which the database has opened waits, published events, carried out their fan-outs and changed
//! subscriptions.

use std::collections::BTreeMap;

use everstep_core::ids::{EventId, RunId, StepKey, SubscriptionId};
use everstep_core::topics::{Subscription, TopicEvent};

#[derive(Default)]
pub(super) struct EventOrder {
    last: u64,
    waits: BTreeMap<(RunId, StepKey), u64>,
    events: BTreeMap<EventId, u64>,
    fanned: BTreeMap<EventId, u64>,
    spans: BTreeMap<SubscriptionId, Vec<Span>>,
}

/// A period in which a subscription was in force, unchanged.
struct Span {
    subscription: Subscription,
    from: u64,
    to: Option<u64>,
}

/// Whether a subscription receives an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receipt {
    /// It was in force from the publication to the end of the fan-out.
    Certain,
    /// It was in force for a part of that time.
    Possible,
}

impl EventOrder {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn note_wait(&mut self, run: RunId, step: &StepKey) {
        let number = self.next();
        self.waits.insert((run, step.clone()), number);
    }

    pub(super) fn note_event(&mut self, event: EventId) {
        let number = self.next();
        self.events.entry(event).or_insert(number);
    }

    /// The fan-out of an event is done.
    pub(super) fn note_fanned(&mut self, event: EventId) {
        let number = self.next();
        self.fanned.entry(event).or_insert(number);
    }

    /// The subscriptions as the database has them now.
    pub(super) fn note_subscriptions(&mut self, subscriptions: Vec<Subscription>) {
        let number = self.next();
        let in_force = subscriptions.into_iter().filter(|subscription| subscription.paused_at.is_none());
        let mut in_force: BTreeMap<_, _> = in_force.map(|subscription| (subscription.id, subscription)).collect();
        for (id, spans) in &mut self.spans {
            let Some(span) = spans.last_mut().filter(|span| span.to.is_none()) else { continue };
            if in_force.get(id) == Some(&span.subscription) {
                in_force.remove(id);
            } else {
                span.to = Some(number);
            }
        }
        for (id, subscription) in in_force {
            self.spans.entry(id).or_default().push(Span { subscription, from: number, to: None });
        }
    }

    /// Whether a wait was open before an event was published.
    pub(super) fn is_wait_first(&self, run: RunId, step: &StepKey, event: EventId) -> bool {
        let opened = self.waits.get(&(run, step.clone()));
        let published = self.events.get(&event);
        opened.zip(published).is_some_and(|(opened, published)| opened < published)
    }

    /// The subscriptions that receive an event, or may have received it, and pass the filter.
    pub(super) fn receipts(
        &self,
        event: &TopicEvent,
        passes: impl Fn(&Subscription) -> bool,
    ) -> BTreeMap<SubscriptionId, Receipt> {
        let published = self.events.get(&event.id).copied().unwrap_or(0);
        let fanned = self.fanned.get(&event.id).copied().unwrap_or(u64::MAX);
        let receipt = |spans: &[Span]| {
            let at_times = spans.iter().filter(|span| span.from < fanned && span.to.is_none_or(|to| to > published));
            let mut receipt = None;
            for span in at_times.filter(|span| span.subscription.receives(event) && passes(&span.subscription)) {
                let is_always = span.from < published && span.to.is_none_or(|to| to > fanned);
                receipt = if is_always { Some(Receipt::Certain) } else { receipt.or(Some(Receipt::Possible)) };
            }
            receipt
        };
        self.spans.iter().filter_map(|(id, spans)| Some((*id, receipt(spans)?))).collect()
    }
}
