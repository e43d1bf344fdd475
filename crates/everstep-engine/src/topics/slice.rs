//! Makes the next slice of the fan-out of an event.
//!
//! 1. A slice continues at the position that the event's row has: first subscriptions by id, then waits.
//! 2. A subscription is compared with the event here. If it matches, the slice has a run to be created, or the reason why
//!    there is none.
//! 3. A wait that the event resolves becomes an inbox row of its run. A run gets one row of a slice for all its waits.
//! 4. A slice has at most [`SLICE_ROWS_MAX`] rows, and ends when its filters and templates have used the fuel of a
//!    decision. If subscriptions and waits fit into one slice, it is the only one.
//! 5. A replay reaches one subscription and no waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everstep_core::evaluate::Evaluate;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::{RunId, SubscriptionId};
use everstep_core::limits;
use everstep_core::meter::Meter;
use everstep_core::run::Input;
use everstep_core::topics::{EventView, FailedStart, Subscription, Target, TopicEvent, Trigger, TriggerKind};
use everstep_store::{
    EventResult, EventRow, EventSlice, FanOutPosition, InboxInput, NewRun, StartRow, WaitPage, WaitPosition,
};
use futures_util::future;
use serde_json::{Value, json};

use super::queue::SLICE_ROWS_MAX;
use crate::error::Error;
use crate::options::Options;
use crate::ports::World;
use crate::read::{Library, Version};
use crate::start::{self, PENDING_FORMAT};
use crate::workers;

/// A slice, with the versions of the runs that it creates.
pub(super) struct MadeSlice {
    pub(super) slice: EventSlice,
    /// One per start of the slice.
    pub(super) versions: Vec<Arc<Version>>,
}

/// Makes a slice.
pub(super) struct SliceMaker<'a> {
    pub(super) world: &'a World,
    pub(super) library: &'a Library,
    pub(super) options: &'a Options,
    /// The greatest number of rows.
    pub(super) rows_max: usize,
    /// The meter of one slice.
    pub(super) meter: Meter,
}

/// The versions of targets that were read for one slice: by name and number, or the active one.
type Versions = BTreeMap<(String, Option<u32>), Result<Arc<Version>, Error>>;

impl SliceMaker<'_> {
    /// The next slice of an event. If the database does not answer, there is none.
    pub(super) async fn make(&self, row: &EventRow) -> Result<MadeSlice, Error> {
        let event = &row.event;
        let slice = EventSlice {
            workspace: event.workspace,
            event: event.id,
            seen: row.position.clone(),
            next: None,
            at: self.world.clock.now(),
            starts: Vec::new(),
            inputs: Vec::new(),
            results: Vec::new(),
            dead_letters: Vec::new(),
        };
        let mut made = MadeSlice { slice, versions: Vec::new() };
        let mut versions = Versions::new();
        let mut position = Some(row.position.clone());
        if row.position == FanOutPosition::default() && event.replay_of.is_none() {
            position = self.begin(event, &mut made, &mut versions).await?;
        }
        while let Some(at) = position.take() {
            if made.rows() >= self.rows_max || self.meter.is_spent() {
                made.slice.next = Some(at);
                break;
            }
            position = match at {
                FanOutPosition::Subscriptions(after) => {
                    Some(self.add_subscriptions(event, after, &mut made, &mut versions).await?)
                }
                FanOutPosition::Waits(_) if event.replay_of.is_some() => None,
                FanOutPosition::Waits(after) => self.add_waits(event, after, &mut made).await?,
            };
        }
        Ok(made)
    }

    /// Adds the first subscriptions, and the first waits if they fit too: their rows do not depend on each other, so both
    /// are read at the same time. Returns the position after them, unless they are the last.
    async fn begin(
        &self,
        event: &TopicEvent,
        made: &mut MadeSlice,
        versions: &mut Versions,
    ) -> Result<Option<FanOutPosition>, Error> {
        let waits = self.world.topics.matching_waits(event, None, self.rows_max);
        let (position, page) = future::join(self.add_subscriptions(event, None, made, versions), waits).await;
        let (position, page) = (position?, page?);
        if position != FanOutPosition::Waits(None) || made.rows() + page.waits.len() > self.rows_max {
            return Ok(Some(position));
        }
        Ok(add_page(event, page, made))
    }

    /// Adds a page of subscriptions. Returns the position after it.
    async fn add_subscriptions(
        &self,
        event: &TopicEvent,
        mut after: Option<SubscriptionId>,
        made: &mut MadeSlice,
        versions: &mut Versions,
    ) -> Result<FanOutPosition, Error> {
        let store = &self.world.topics;
        let page = store.subscriptions_of(event.workspace, &event.topic, after, SLICE_ROWS_MAX).await?;
        let is_last = page.len() < SLICE_ROWS_MAX;
        for subscription in page {
            if made.rows() >= self.rows_max || self.meter.is_spent() {
                return Ok(FanOutPosition::Subscriptions(after));
            }
            if self.is_match(&subscription, event, made) {
                self.add_start(&subscription, event, made, versions).await?;
            }
            after = Some(subscription.id);
        }
        Ok(if is_last { FanOutPosition::Waits(None) } else { FanOutPosition::Subscriptions(after) })
    }

    /// Whether a subscription receives an event. A filter that fails is a result of the event.
    fn is_match(&self, subscription: &Subscription, event: &TopicEvent, made: &mut MadeSlice) -> bool {
        if !subscription.receives(event) {
            return false;
        }
        let evaluate = &*self.world.evaluate;
        let filter = subscription.filter.as_ref();
        match filter.map_or(Ok(true), |filter| filter.matches(event, evaluate, &self.meter)) {
            Ok(is_match) => is_match,
            Err(failure) => {
                made.fail(subscription, failure.code.as_ref(), failure.to_string());
                false
            }
        }
    }

    /// Adds the run that a subscription starts, or the reason why it cannot.
    async fn add_start(
        &self,
        subscription: &Subscription,
        event: &TopicEvent,
        made: &mut MadeSlice,
        versions: &mut Versions,
    ) -> Result<(), Error> {
        let Target::Workflow { name, version, retention_days, .. } = &subscription.target;
        let found = match versions.get(&(name.clone(), *version)) {
            Some(found) => found.clone(),
            None => {
                let found = self.library.find_named(event.workspace, name, *version, false).await;
                if let Err(error @ (Error::Unavailable(_) | Error::Full(_) | Error::Busy(_) | Error::Stopping)) = found
                {
                    return Err(error);
                }
                versions.insert((name.clone(), *version), found.clone());
                found
            }
        };
        let failed = |made: &mut MadeSlice, code: &str, message: String| {
            let letter =
                FailedStart::dead_letter(subscription, event, &Failure::fatal(code, message.as_str()), made.slice.at);
            made.slice.dead_letters.push(letter);
            made.fail(subscription, code, message);
            Ok(())
        };
        let version = match found {
            Ok(version) => version,
            Err(error @ Error::WorkflowNotFound { .. }) => {
                return failed(made, code::WORKFLOW_NOT_FOUND, error.to_string());
            }
            Err(error) => return failed(made, error.code(), error.to_string()),
        };
        let input = match subscription.resolve_input(event, &*self.world.evaluate, &self.meter) {
            Ok(input) => input,
            Err(failure) => return failed(made, failure.code.as_ref(), failure.to_string()),
        };
        if let Err(error) = start::check_input(&input).and_then(|()| version.check_input(&input)) {
            return failed(made, error.code(), error.to_string());
        }
        let key = match start_key(subscription, event, &*self.world.evaluate, &self.meter) {
            Ok(key) => key,
            Err(error) => return failed(made, error.code(), error.to_string()),
        };
        let now = made.slice.at;
        let run = RunId::new(now, self.world.random.next());
        let workflow = &version.workflow;
        let new = NewRun {
            workflow: workflow.name.clone(),
            version: workflow.version,
            lane: workers::lane(event.workspace, workflow).to_string(),
            key: Some(key),
            input,
            parent: None,
            tags: json!({}).into(),
            search_paths: Arc::clone(&version.search_paths),
            retention_days: self.options.keep_for(retention_days.unwrap_or(version.retention_days)),
            is_test: false,
            created_at: now,
            trigger: Some(trigger(subscription, event)),
            start: None,
        };
        made.slice.results.push(EventResult::Run { subscription: subscription.id, run });
        made.slice.starts.push(StartRow { run, new, owner: None, wake_at: now, format: PENDING_FORMAT });
        made.versions.push(version);
        Ok(())
    }

    /// Adds a page of waits. Returns the position after it, unless it is the last.
    async fn add_waits(
        &self,
        event: &TopicEvent,
        after: Option<WaitPosition>,
        made: &mut MadeSlice,
    ) -> Result<Option<FanOutPosition>, Error> {
        let limit = self.rows_max - made.rows();
        let page = self.world.topics.matching_waits(event, after.as_ref(), limit).await?;
        Ok(add_page(event, page, made))
    }
}

/// Adds a page of waits. Returns the position after it, unless it is the last.
fn add_page(event: &TopicEvent, page: WaitPage, made: &mut MadeSlice) -> Option<FanOutPosition> {
    if !page.waits.is_empty() {
        let input = Input::Event { event: event.reference(), data: event.data.clone() };
        let input = serde_json::to_vec(&input).expect("inputs are plain data");
        let mut runs: BTreeSet<_> = made.slice.inputs.iter().map(|input| input.to).collect();
        for wait in page.waits {
            if runs.insert(wait.run) {
                made.slice.inputs.push(InboxInput { to: wait.run, input: input.clone() });
            }
            made.slice.results.push(EventResult::Wait { run: wait.run, step: wait.step });
        }
    }
    page.next.map(|next| FanOutPosition::Waits(Some(next)))
}

impl MadeSlice {
    /// The number of rows that the slice writes.
    fn rows(&self) -> usize {
        self.slice.results.len()
    }

    fn fail(&mut self, subscription: &Subscription, code: &str, message: String) {
        let result = EventResult::Failed { subscription: subscription.id, code: code.to_owned(), message };
        self.slice.results.push(result);
    }
}

/// The idempotency key of the run that an event starts, with its scope.
pub(crate) fn start_key(
    subscription: &Subscription,
    event: &TopicEvent,
    evaluate: &dyn Evaluate,
    meter: &Meter,
) -> Result<(String, String), Error> {
    let Target::Workflow { name, key, .. } = &subscription.target;
    let Some(template) = key else { return Ok(subscription.start_key(event.id)) };
    meter.begin_part();
    let resolved = evaluate.resolve(&json!(template), &EventView::new(event), meter);
    let resolved = resolved.map_err(|failure| Error::Invalid(format!("the key: {failure}")))?;
    let key = match resolved {
        Value::String(key) => key,
        value => value.to_string(),
    };
    let chars = key.chars().count();
    if chars == 0 || chars > limits::KEY_CHARS || key.contains('\0') {
        let message = format!("an idempotency key has 1 to {} characters", limits::KEY_CHARS);
        return Err(Error::Invalid(message));
    }
    Ok((name.clone(), key))
}

/// The trigger of the run that an event starts.
pub(crate) fn trigger(subscription: &Subscription, event: &TopicEvent) -> Trigger {
    Trigger {
        kind: TriggerKind::Event,
        id: event.id.to_string(),
        topic: Some(event.topic.clone()),
        subscription: Some(subscription.id),
        source: Some(event.source.clone()),
        depth: event.depth,
        scheduled_for: None,
    }
}
