//! Waits that look back: events that were published before the wait was open.
//!
//! A wait may accept events from an earlier time on. The order of events:
//!
//! 1. The item that opens the wait is written. From then on every fan-out finds the wait.
//! 2. After that, and after every load, the owner of the run reads the events of the topic from the earlier time on, and
//!    delivers the oldest one that matches. An event that is published later is not missed: its fan-out begins after its
//!    commit, so it sees the wait.
//! 3. If both deliver the event, the run takes it once. The reader leaves out all events that the run has taken before; if
//!    the run takes an event after the reader has found it, the reader continues after that event.
//!
//! If the events were read before the item was written, an event that was published in between would be missed: its
//! fan-out would not find the wait, and the reader would not find the event.
//!
//! **Invariant**: a run does not park before its waits have looked back. Nothing else would deliver those events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::contains;
use everstep_core::ids::{EventId, RunId, StepKey, WorkspaceId};
use everstep_core::journal::{Dispatch, Entry, Event};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::planted::{self, Bug};
use everstep_core::run::{Input, OpenActivity, State, keys};
use everstep_core::time::Timestamp;
use everstep_core::topics::{EventRef, TopicEvent};
use everstep_store::Result;

use super::active::{ActiveRun, Next};
use super::mailbox::Envelope;
use crate::message::Shared;
use crate::ports::World;
use crate::shard::{Services, ShardSender, ToShard};

/// The number of events that are read together, if they are small.
const PAGE_EVENTS: usize = 200;
/// The number of events that a wait reads, with those that the run has taken. Beyond that it stays open.
pub const EXAMINED_EVENTS_MAX: usize = 10_000;
/// The pause after a failed read.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// One attempt of a step that waits.
type WaitKey = (StepKey, u32);

/// The known state of the waits of a run that look back.
#[derive(Default)]
pub(crate) struct LookBacks {
    /// Whether the run may have such waits. Most runs have none, and their open steps are not examined.
    may_have: bool,
    /// Waits whose events are being read, or were read.
    begun: BTreeSet<WaitKey>,
    done: BTreeSet<WaitKey>,
}

impl LookBacks {
    /// Those of a run that was loaded.
    pub(super) fn from_state(state: &State) -> Self {
        Self { may_have: waits(state).next().is_some(), ..Self::default() }
    }

    /// Records that all open waits have looked back: a parked run has done so.
    pub(super) fn all_done(&mut self, state: &State) {
        if self.may_have {
            self.done.extend(waits(state).map(|wait| wait.key));
        }
    }

    /// Records whether entries open such a wait.
    pub(super) fn note(&mut self, entries: &[Entry]) {
        self.may_have |= entries.iter().any(opens_look_back);
    }

    /// Whether a wait has not looked back.
    pub(super) fn are_missing(&self, state: &State) -> bool {
        self.may_have
            && !planted::is_planted(Bug::ParkedBeforeLookBack)
            && !state.is_paused()
            && waits(state).any(|wait| !self.done.contains(&wait.key))
    }
}

/// A wait that looks back.
struct LookBack {
    key: WaitKey,
    topic: String,
    pattern: Payload,
    since: Timestamp,
}

/// Whether an entry opens a wait that looks back.
fn opens_look_back(entry: &Entry) -> bool {
    match &entry.event {
        Event::StepDispatched { dispatch: Dispatch::Wait { since, .. }, .. } | Event::WaitOpened { since, .. } => {
            since.is_some()
        }
        Event::StepDispatched { .. }
        | Event::RunStarted { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::StepSkipped { .. }
        | Event::TimerSet { .. }
        | Event::TimerFired { .. }
        | Event::TransitionApplied(_)
        | Event::VoteCast(_)
        | Event::Assigned(_)
        | Event::ContextSet { .. }
        | Event::WaitResolved { .. }
        | Event::SignalBuffered { .. }
        | Event::TurnStarted { .. }
        | Event::TurnLost { .. }
        | Event::RunPaused { .. }
        | Event::RunResumed
        | Event::RunRetried
        | Event::RunCompleted { .. }
        | Event::RunFailed { .. }
        | Event::RunCancelled { .. } => false,
    }
}

fn waits(state: &State) -> impl Iterator<Item = LookBack> {
    let open = if state.has_ended() { None } else { Some(state.open()) };
    open.into_iter().flatten().filter_map(|open| match open.activity {
        OpenActivity::Wait { event, pattern, by_topic: true, since: Some(since), .. } => Some(LookBack {
            key: (open.step.clone(), open.attempt),
            topic: event.to_owned(),
            pattern: pattern.clone(),
            since,
        }),
        OpenActivity::Wait { .. }
        | OpenActivity::Task
        | OpenActivity::Child(_)
        | OpenActivity::Delay { .. }
        | OpenActivity::Backoff { .. }
        | OpenActivity::Body { .. }
        | OpenActivity::Soon => None,
    })
}

impl ActiveRun {
    /// Begins to read the events of waits that have not looked back.
    pub(super) fn start_look_backs(&mut self, services: &Services) {
        if !self.look_backs.may_have || self.state.is_paused() {
            return;
        }
        let mut new = Vec::new();
        for wait in waits(&self.state) {
            if !self.look_backs.done.contains(&wait.key) && self.look_backs.begun.insert(wait.key.clone()) {
                new.push(wait);
            }
        }
        let Some(since) = new.iter().map(|wait| wait.since).min() else { return };
        // One copy for all of them: thousands of waits may begin together, in a run that has taken thousands of events.
        let taken = self.taken_since(since);
        for wait in new {
            self.search(wait, Arc::clone(&taken), None, services);
        }
    }

    fn taken_since(&self, since: Timestamp) -> Arc<BTreeSet<EventId>> {
        Arc::new(self.state.events_taken_since(since).collect())
    }

    fn search(&self, wait: LookBack, taken: Arc<BTreeSet<EventId>>, after: Option<EventId>, services: &Services) {
        let search = Search {
            world: services.world.clone(),
            shared: Arc::clone(&services.shared),
            shard: services.sender().clone(),
            workspace: self.workspace,
            run: self.state.run,
            taken,
            wait,
            after,
        };
        services.world.spawn.spawn(Box::pin(search.perform()));
    }

    /// A wait has looked back. An event that the run has taken before does not count.
    pub(crate) fn looked_back(&mut self, looked: LookedBack, services: &mut Services) -> Next {
        let LookedBack { step, attempt, found } = looked;
        let key = (step, attempt);
        if let Some((event, data)) = found {
            let (id, own_key) = (event.id, event.key());
            let input = Input::Event { event, data };
            let is_taken = keys::answer(&self.state, &input, &own_key, services.now()).is_some();
            let wait = if is_taken { waits(&self.state).find(|wait| wait.key == key) } else { None };
            if let Some(wait) = wait {
                let taken = self.taken_since(wait.since);
                self.search(wait, taken, Some(id), services);
                return Next::Keep;
            }
            if !is_taken {
                self.mailbox.push(Envelope::new(input));
            }
        }
        self.look_backs.done.insert(key);
        self.advance(services)
    }
}

/// The result of a search.
pub(crate) struct LookedBack {
    step: StepKey,
    attempt: u32,
    /// The oldest event that the wait accepts, with its data.
    found: Option<(EventRef, Payload)>,
}

/// The search for the oldest event that a wait accepts.
struct Search {
    world: World,
    shared: Arc<Shared>,
    shard: ShardSender,
    workspace: WorkspaceId,
    run: RunId,
    wait: LookBack,
    /// The events that the run had taken when the search began.
    taken: Arc<BTreeSet<EventId>>,
    /// Only events after this one are examined.
    after: Option<EventId>,
}

impl Search {
    async fn perform(self) {
        let _permit = self.shared.look_backs.acquire().await;
        let found = loop {
            match self.find().await {
                Ok(found) => break found,
                Err(error) => tracing::warn!(run = %self.run, %error, "a wait could not look back; trying again"),
            }
            if self.shard.is_closed() {
                return;
            }
            self.world.sleep(RETRY_DELAY).await;
        };
        let (step, attempt) = self.wait.key;
        let _ = self.shard.send(ToShard::LookedBack(self.run, Box::new(LookedBack { step, attempt, found })));
    }

    async fn find(&self) -> Result<Option<(EventRef, Payload)>> {
        let LookBack { topic, pattern, since, .. } = &self.wait;
        let mut after = self.after;
        let mut examined = 0;
        let mut meter = Meter::new();
        while examined < EXAMINED_EVENTS_MAX {
            let page = self.world.topics.events_since(self.workspace, topic, *since, after, PAGE_EVENTS).await?;
            let Some(last) = page.events.last().map(|event| event.id) else { return Ok(None) };
            (after, examined) = (Some(last), examined + page.events.len());
            // A replay reaches one subscription, and no waits.
            let is_new = |event: &TopicEvent| event.replay_of.is_none() && !self.taken.contains(&event.id);
            for event in page.events.into_iter().filter(is_new) {
                meter.begin_part();
                if contains::matches_within(&event.data, pattern, &meter) {
                    return Ok(Some((event.reference(), event.data)));
                }
                if meter.is_spent() {
                    // The comparisons have used the time of a decision: other tasks of the node are next.
                    meter = Meter::new();
                    tokio::task::yield_now().await;
                }
            }
            if !page.has_more {
                return Ok(None);
            }
        }
        tracing::warn!(
            run = %self.run, topic, examined,
            "a wait has found no match among the events that it examines; it stays open"
        );
        Ok(None)
    }
}
