//! Programs and runs that publish events, and the conditions on them. Programs publish through any server, under ids,
//! again while the outcome is not known.
//!
//! 1. An event that was answered as published exists once. No event is open at the end.
//! 2. An event has one result for each subscription that receives it, and none for any other. The run of a result exists,
//!    has the data of the event as its input, and names the event as its trigger; no other run does.
//! 3. When the fan-out of an event is done, each open wait that was open before the event, and that the event matches,
//!    has received it.
//! 4. A wait that looks back is resolved without another event, if a matching event exists that its run has not taken.
//! 5. A run takes an event once.
//! 6. The event of a run exists if the run has completed the step that publishes it, and not before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use everstep_core::contains;
use everstep_core::ids::{EventId, RunId, StepKey, SubscriptionId, WorkspaceId};
use everstep_core::journal::{Entry, Event, Resolution, codec};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::OpenActivity;
use everstep_core::time::Timestamp;
use everstep_core::topics::{EventRef, Subscription, TopicEvent};
use everstep_engine::SaveError;
use everstep_expressions::Expressions;
use everstep_store::sqlite::Database;
use everstep_store::{EventQuery, EventResult, EventRow, Item, PublishOutcome, RunFilter, WaitChange};
use serde_json::{Value, json};

use super::client::Client;
use super::event_order::Receipt;
use super::executor::OUTSIDE;
use super::judge::Judge;
use super::random::SeededRng;
use super::store::SimStore;
use crate::contract::fixtures::read_waits;

/// The topics of all events.
pub(super) const TOPICS: [&str; 2] = ["ev.one", "ev.two"];
/// The workflow that events start.
pub(super) const LISTENER: &str = "listener";
const SOURCE: &str = "sim";
/// The greatest `n` of an event's data.
pub(super) const N_MAX: u64 = 2;

/// The config of a wait for an event, with or without a match, and with or without a look back.
pub(super) fn wait_config(random: &mut SeededRng) -> Value {
    let mut config = json!({"event": *random.pick(&TOPICS)});
    let n = random.between(0, N_MAX + 1);
    if n <= N_MAX {
        config["match"] = json!({"n": n});
    }
    if random.chance(50) {
        config["sinceSeconds"] = random.between(1, 20).into();
    }
    config
}

/// The config of a node that publishes.
pub(super) fn publish_config(random: &mut SeededRng) -> Value {
    json!({"topic": *random.pick(&TOPICS), "data": {"n": random.below(N_MAX as usize + 1)}})
}

/// A definition that events start, with one task.
pub(super) fn listener(task: &str) -> Value {
    json!({
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": task, "type": "act", "retry": {"maxAttempts": 2, "baseMs": 100}},
            {"id": "end", "type": "end"},
        ],
        "edges": [{"source": "start", "target": task}, {"source": task, "target": "end"}],
    })
}

impl Client {
    /// Publishes events until the storm ends; afterwards, events for waits that no other event resolves.
    pub(super) async fn publish_events(self) {
        let slowest = if self.judge.store.ledger().is_shared { 1_500 } else { 4_000 };
        self.save_workflow(LISTENER, listener("act")).await;
        loop {
            self.sleep(20, slowest).await;
            if !self.judge.store.ledger().is_calm {
                let (topic, n) =
                    self.executor.with_random(|random| (*random.pick(&TOPICS), random.between(0, N_MAX + 1)));
                let n = if n <= N_MAX { json!(n) } else { Value::Null };
                self.executor.spawn(OUTSIDE, self.clone().publish(topic, n));
                continue;
            }
            for topic in TOPICS {
                for (run, wait) in self.judge.store.waits_for(topic) {
                    if !self.judge.finds_earlier_event(run, &wait.step) {
                        let n = wait.pattern.value().get("n").cloned().unwrap_or_default();
                        self.clone().publish(topic, n).await;
                    }
                }
            }
        }
    }

    /// Publishes an event for a wait that is about to be opened, at once.
    pub(super) async fn publish_while_opening(self) {
        let wait_opening = Arc::clone(&self.judge.store.ledger().wait_opening);
        loop {
            wait_opening.notified().await;
            let (waits, is_calm) = {
                let mut ledger = self.judge.store.ledger();
                (std::mem::take(&mut ledger.opening_waits), ledger.is_calm)
            };
            for (topic, n) in waits.into_iter().filter(|_| !is_calm) {
                self.executor.spawn(OUTSIDE, self.clone().publish(topic, n));
            }
        }
    }

    /// Saves a definition and activates it, again while the outcome is not known.
    pub(super) async fn save_workflow(&self, name: &'static str, definition: Value) {
        loop {
            let definition = definition.clone();
            let saved = self
                .server()
                .ask(|engine| async move { engine.library().publish(WorkspaceId::DEFAULT, name, &definition).await });
            match saved.await {
                Some(Ok(_)) => return,
                Some(Err(SaveError::Invalid(problems))) => {
                    let text = format!("{name} is invalid: {problems:?}");
                    return self.judge.store.ledger().violation(text);
                }
                Some(Err(SaveError::Engine(_))) | None => self.sleep(1, 500).await,
            }
        }
    }

    /// Publishes one event, again while the outcome is not known, and sometimes after that. The data of an event without
    /// an `n` is not an object.
    async fn publish(self, topic: &'static str, n: Value) {
        let (number, wanted) = self.executor.with_random(|random| (random.number() >> 12, random.between(1, 2)));
        let data = match n {
            Value::Null if number % 2 == 0 => Value::Null,
            Value::Null => json!(number.to_string()),
            n => json!({"n": n, "number": number}),
        };
        let mut answers = 0;
        while answers < wanted {
            let now = self.executor.now();
            let random = self.executor.with_random(|random| u128::from(random.number()));
            let event = TopicEvent {
                id: EventId::new(now, random << 64 | random),
                workspace: WorkspaceId::DEFAULT,
                topic: topic.to_owned(),
                source: SOURCE.to_owned(),
                event_id: number.to_string(),
                at: now,
                data: Payload::from(data.clone()),
                depth: 0,
                subject: None,
                extensions: None,
                replay_of: None,
            };
            let id = event.id;
            let server = self.server();
            let reply = server.ask(|engine| async move { engine.topics().publish(event).await }).await;
            self.executor.note(|| format!("event {number} by server {}: {reply:?}", server.index));
            let known = match reply {
                Some(Ok(PublishOutcome::Published | PublishOutcome::Unmatched)) => id,
                Some(Ok(PublishOutcome::Known(row))) => row.event.id,
                Some(Ok(PublishOutcome::Reused(_))) => {
                    let text = format!("event {number} was refused for other data, which it does not have");
                    return self.judge.store.ledger().violation(text);
                }
                Some(Err(_)) | None => {
                    self.sleep(1, 500).await;
                    continue;
                }
            };
            answers += 1;
            let mut ledger = self.judge.store.ledger();
            let before = ledger.published.insert(number, known);
            if before.is_some_and(|before| before != known) {
                ledger.violation(format!("event {number} was published as two events"));
            }
        }
    }
}

impl SimStore {
    /// Records that items are about to open waits for events. Returns whether one is.
    pub(super) fn note_opening_waits(&self, items: &[Item]) -> bool {
        let mut is_opening = false;
        for change in items.iter().flat_map(|item| &item.waits) {
            let WaitChange::Open(wait) = change else { continue };
            let Some(topic) = TOPICS.into_iter().find(|topic| *topic == wait.event) else { continue };
            is_opening = true;
            if self.executor.chance(40) {
                let n = wait.pattern.value().get("n").cloned().unwrap_or_default();
                let mut ledger = self.ledger();
                ledger.opening_waits.push((topic, n));
                ledger.wait_opening.notify_one();
            }
        }
        is_opening
    }

    /// An event of a run exists only together with the step that publishes it.
    pub(super) fn watch_source(&self, db: &Database, id: EventId) {
        let Ok(Some(row)) = db.event(WorkspaceId::DEFAULT, id) else { return };
        let Some(run) = publishing_run(&row.event) else { return };
        let stored = db.journal(run, 0, 1_000_000).unwrap_or_default();
        let journal: Vec<_> =
            stored.into_iter().filter_map(|entry| codec::decode(entry.seq, entry.at, entry.row).ok()).collect();
        if !publishing_steps(&journal, 0).contains(row.event.event_id.as_str()) {
            let text = format!("event {id} exists, and {run} has not completed {}", row.event.event_id);
            self.ledger().violation(text);
        }
    }

    /// The events of the database, oldest first.
    fn events(db: &Database) -> Result<Vec<EventRow>, String> {
        let query = EventQuery { limit: 100_000, ..EventQuery::default() };
        let listed = db.list_events(WorkspaceId::DEFAULT, &query).map_err(|error| error.to_string())?;
        let rows = listed.into_iter().rev().map(|event| db.event(WorkspaceId::DEFAULT, event.id));
        rows.filter_map(Result::transpose).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// The fan-out of an event is done: no wait that was open before the event is without it.
    pub(super) fn watch_fanned(&self, db: &Database, id: EventId) {
        let Ok(Some(row)) = db.event(WorkspaceId::DEFAULT, id) else { return };
        let event = &row.event;
        let waits = read_waits(db.connection(), WorkspaceId::DEFAULT, &event.topic, 1_000).unwrap_or_default();
        for (run, wait) in waits {
            let is_first = self.ledger().order.is_wait_first(run, &wait.step, id);
            if !is_first || !contains::matches(&event.data, &wait.pattern) {
                continue;
            }
            let text = id.to_string();
            let has_id = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains(&text);
            let is_sent = db.arrivals(run).is_ok_and(|rows| rows.iter().any(|row| has_id(&row.input)));
            let is_taken = || {
                let journal = db.journal(run, 0, 1_000_000).unwrap_or_default();
                journal.iter().any(|entry| has_id(&entry.row.payload))
            };
            if !is_sent && !is_taken() {
                let text = format!("{run}: {} waits for event {id}, whose fan-out is done without it", wait.step);
                self.ledger().violation(text);
            }
        }
    }
}

impl Judge {
    /// Whether a wait looks back to an event that its run has not taken: then no other event is necessary.
    fn finds_earlier_event(&self, run: RunId, step: &StepKey) -> bool {
        let (Ok(row), Ok(journal)) = (self.row(run), self.journal(run)) else { return false };
        let Ok(state) = self.fold(&row, &journal) else { return false };
        let taken: BTreeSet<EventId> = taken_events(&journal).map(|(_, event)| event.id).collect();
        let Some((topic, pattern, since)) = state.open().find_map(|open| match open.activity {
            OpenActivity::Wait { event, pattern, since: Some(since), .. } if open.step == step => {
                Some((event.to_owned(), pattern.clone(), since))
            }
            _ => None,
        }) else {
            return false;
        };
        let events = self.store.direct(|db| SimStore::events(db)).unwrap_or_default();
        events.iter().any(|row| {
            let TopicEvent { id, topic: of, at, data, .. } = &row.event;
            *of == topic && *at >= since && !taken.contains(id) && contains::matches(data, &pattern)
        })
    }
}

/// The events that a run has taken, with the times of their entries.
fn taken_events(journal: &[Entry]) -> impl Iterator<Item = (Timestamp, &EventRef)> {
    journal.iter().filter_map(|entry| match &entry.event {
        Event::StepCompleted { outcome, .. } => Some((entry.at, outcome.event.as_deref()?)),
        Event::WaitResolved { by: Resolution::Event { event, .. }, .. } => Some((entry.at, event)),
        _ => None,
    })
}

/// The run that has published an event.
fn publishing_run(event: &TopicEvent) -> Option<RunId> {
    event.source.strip_prefix("run:")?.parse().ok()
}

/// The steps of a journal after a seq that have published an event.
fn publishing_steps(journal: &[Entry], after: u64) -> BTreeSet<&str> {
    let own = journal.iter().filter(|entry| entry.seq > after);
    let steps = own.filter_map(|entry| match &entry.event {
        Event::StepCompleted { step, outcome, .. } => outcome.published.as_ref().map(|_| step.as_str()),
        _ => None,
    });
    steps.collect()
}

/// Checks all events and the runs that they have started.
pub(super) fn check(store: &SimStore, judge: &Judge) -> Result<(), String> {
    let published = store.ledger().published.clone();
    let events = store.direct(|db| SimStore::events(db))?;
    let mut ids: BTreeMap<(&str, &str), EventId> = BTreeMap::new();
    for row in &events {
        if row.fanned_at.is_none() {
            return Err(format!("event {} is open", row.event.id));
        }
        if ids.insert((&row.event.source, &row.event.event_id), row.event.id).is_some() {
            return Err(format!("event {} of {} was published twice", row.event.event_id, row.event.source));
        }
    }
    for (number, id) in published {
        let text = number.to_string();
        let known = ids.get(&(SOURCE, text.as_str())).copied();
        if known != Some(id) {
            return Err(format!("event {number} was answered as {id}, and is {known:?}"));
        }
    }
    let mut triggered = BTreeSet::new();
    for row in &events {
        check_event(store, judge, row, &mut triggered)?;
    }
    let known = store.ledger().triggered.clone();
    if known != triggered {
        return Err(format!("{known:?} were created by events, and {triggered:?} are their results"));
    }
    let runs = store.ledger().runs();
    for run in runs {
        let journal = judge.journal(run)?;
        let copied = store.ledger().copied(run);
        let of_run = events.iter().map(|row| &row.event).filter(|event| publishing_run(event) == Some(run));
        let of_run: BTreeSet<_> = of_run.map(|event| event.event_id.as_str()).collect();
        let steps = publishing_steps(&journal, copied);
        if steps != of_run {
            return Err(format!("{run} has completed {steps:?}, and the events of {of_run:?} exist"));
        }
        let mut taken: BTreeMap<EventId, Timestamp> = BTreeMap::new();
        for (at, event) in taken_events(&journal) {
            if taken.insert(event.id, at).is_some_and(|before| before != at) {
                return Err(format!("{run} has taken event {} twice", event.id));
            }
            if !ids.values().any(|id| *id == event.id) {
                return Err(format!("{run} has taken event {}, which does not exist", event.id));
            }
        }
    }
    Ok(())
}

fn check_event(store: &SimStore, judge: &Judge, row: &EventRow, triggered: &mut BTreeSet<RunId>) -> Result<(), String> {
    let event = &row.event;
    let results = store.direct(|db| db.event_results(WorkspaceId::DEFAULT, event.id, None, 1_000));
    let results = results.map_err(|error| error.to_string())?.results;
    let evaluate = Expressions::default();
    let mut runs = BTreeSet::new();
    let passes = |subscription: &Subscription| {
        subscription
            .filter
            .as_ref()
            .is_none_or(|filter| filter.matches(event, &evaluate, &Meter::new()).unwrap_or(false))
    };
    let receipts = store.ledger().order.receipts(event, passes);
    let mut received: BTreeMap<SubscriptionId, usize> = BTreeMap::new();
    for result in &results {
        match result {
            EventResult::Run { subscription, .. } | EventResult::Failed { subscription, .. } => {
                *received.entry(*subscription).or_default() += 1;
            }
            EventResult::Wait { .. } => {}
        }
    }
    for (subscription, receipt) in &receipts {
        let count = received.remove(subscription).unwrap_or(0);
        if count > 1 || (count == 0 && *receipt == Receipt::Certain) {
            let event = event.id;
            return Err(format!("event {event} has {count} results for subscription {subscription}: {results:?}"));
        }
    }
    if let Some((subscription, _)) = received.first_key_value() {
        let event = event.id;
        return Err(format!("event {event} has a result for {subscription}, which was not in force: {results:?}"));
    }
    for result in &results {
        let EventResult::Run { subscription, run } = result else { continue };
        let started = judge.row(*run)?;
        let trigger = started.trigger.as_ref().ok_or_else(|| format!("{run} has no trigger"))?;
        if trigger.id != event.id.to_string() || trigger.subscription != Some(*subscription) {
            return Err(format!("{run} is a result of event {}, and has the trigger {trigger:?}", event.id));
        }
        if started.input.value() != event.data.value() {
            return Err(format!("{run} has another input than the data of event {}", event.id));
        }
        runs.insert(*run);
    }
    let trigger = Some((everstep_core::topics::TriggerKind::Event, event.id.to_string()));
    let filter = RunFilter { trigger, ..RunFilter::default() };
    let page = store.direct(|db| db.list_runs(WorkspaceId::DEFAULT, &filter, None, 1_000));
    let listed: BTreeSet<_> = page.map_err(|error| error.to_string())?.runs.into_iter().map(|run| run.id).collect();
    if listed != runs {
        return Err(format!("event {} has started {listed:?}, and its results are {runs:?}", event.id));
    }
    triggered.extend(runs);
    Ok(())
}
