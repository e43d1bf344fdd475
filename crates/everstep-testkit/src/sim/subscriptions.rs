//! Subscriptions that clients create, pause and delete; a workflow with triggers whose versions they activate; and the
//! conditions on both.
//!
//! 1. At every moment the subscriptions of the workflow are the triggers of its active version.
//! 2. A subscription that is in force from the publication of an event to the end of its fan-out receives the event; one
//!    that is not in force at any moment of that time does not.

use everstep_core::ids::{SubscriptionId, WorkspaceId};
use everstep_core::payload::Payload;
use everstep_core::time::Timestamp;
use everstep_core::topics::{DeclaredTrigger, Filter, Origin, Pattern, Subscription, Target};
use everstep_store::sqlite::Database;
use everstep_store::{Precondition, SubscriptionQuery};
use serde_json::{Value, json};

use super::client::Client;
use super::events::{LISTENER, N_MAX, listener};
use super::executor::BEGIN;
use super::random::SeededRng;
use super::store::SimStore;

/// The workflow whose versions declare triggers.
const REACTOR: &str = "reactor";
const REACTOR_VERSIONS: u32 = 3;
const PATTERNS: [&str; 5] = ["ev.*", "ev.one", "#", "ev.two", "other.#"];
/// The greatest number of subscriptions in a simulation.
const SUBSCRIPTIONS_MAX: usize = 8;

/// One to three subscriptions, which exist from the beginning.
pub(super) fn make_subscriptions(random: &mut SeededRng) -> Vec<Subscription> {
    (0..random.between(1, 3)).map(|_| make_subscription(random, BEGIN)).collect()
}

fn make_subscription(random: &mut SeededRng, created_at: Timestamp) -> Subscription {
    let filter = make_filter(random);
    let id = SubscriptionId::new(created_at, u128::from(random.number()));
    let pattern = *random.pick(&PATTERNS);
    Subscription {
        id,
        workspace: WorkspaceId::DEFAULT,
        pattern: Pattern::parse(pattern).expect("the pattern is valid"),
        filter: filter.map(|filter| Filter::from_stored(&Payload::from(filter)).expect("the filter is valid")),
        target: Target::Workflow { name: LISTENER.to_owned(), version: None, retention_days: None, key: None },
        input: None,
        origin: Origin::Api,
        paused_at: None,
        created_at,
    }
}

fn make_filter(random: &mut SeededRng) -> Option<Value> {
    random.chance(40).then(|| json!({"n": random.below(N_MAX as usize + 1)}))
}

/// A version of the workflow with triggers. Each version has another name of its step, so that no two are the same.
fn make_reactor(random: &mut SeededRng, version: u32) -> Value {
    let mut definition = listener(&format!("act{version}"));
    let triggers = (0..random.between(1, 2)).map(|_| {
        let mut trigger = json!({"type": "event", "topic": *random.pick(&PATTERNS)});
        if let Some(filter) = make_filter(random) {
            trigger["match"] = filter;
        }
        trigger
    });
    definition["triggers"] = triggers.collect();
    definition
}

impl Client {
    /// Creates, pauses, resumes and deletes subscriptions, and activates versions, until the storm ends.
    pub(super) async fn change_subscriptions(self) {
        for version in 1..=REACTOR_VERSIONS {
            let definition = self.executor.with_random(|random| make_reactor(random, version));
            self.save_workflow(REACTOR, definition).await;
        }
        let slowest = if self.judge.store.ledger().is_shared { 1_500 } else { 4_000 };
        loop {
            self.sleep(50, slowest).await;
            if self.judge.store.ledger().is_calm {
                return;
            }
            match self.executor.with_random(|random| random.below(100)) {
                0..40 => self.activate().await,
                40..70 => self.hold_subscription().await,
                70..85 => self.subscribe().await,
                _ => self.unsubscribe().await,
            }
        }
    }

    /// Activates a version of the workflow with triggers, or none.
    async fn activate(&self) {
        let version = self.executor.with_random(|random| random.between(0, u64::from(REACTOR_VERSIONS)) as u32);
        let version = Some(version).filter(|version| *version > 0);
        let server = self.server();
        let chosen = server.ask(|engine| async move {
            let workflows = &engine.world().workflows;
            workflows.choose_version(WorkspaceId::DEFAULT, REACTOR, version, Precondition::Anything, None).await
        });
        let chosen = chosen.await;
        self.executor.note(|| format!("version {version:?} of {REACTOR} by server {}: {chosen:?}", server.index));
    }

    /// Pauses a subscription that is in force, or resumes one that is paused.
    async fn hold_subscription(&self) {
        let Some(subscription) = self.any_subscription(|_| true) else { return };
        let paused_at = subscription.paused_at.is_none().then(|| self.executor.now());
        let id = subscription.id;
        let held = self.server().ask(|engine| async move {
            engine.world().topics.pause_subscription(WorkspaceId::DEFAULT, id, paused_at).await
        });
        held.await;
        self.executor.note(|| format!("subscription {id} is paused since {paused_at:?}"));
    }

    async fn subscribe(&self) {
        let now = self.executor.now();
        let subscription = self.executor.with_random(|random| make_subscription(random, now));
        let added = self.server().ask(|engine| async move {
            engine.world().topics.add_subscription(&subscription, SUBSCRIPTIONS_MAX).await
        });
        added.await;
    }

    async fn unsubscribe(&self) {
        let is_own = |subscription: &Subscription| subscription.origin == Origin::Api;
        let Some(subscription) = self.any_subscription(is_own) else { return };
        let deleted = self.server().ask(|engine| async move {
            engine.world().topics.delete_subscription(WorkspaceId::DEFAULT, subscription.id).await
        });
        deleted.await;
    }

    fn any_subscription(&self, is_wanted: impl Fn(&Subscription) -> bool) -> Option<Subscription> {
        let mut subscriptions = self.judge.store.direct(|db| read_subscriptions(db));
        subscriptions.retain(is_wanted);
        if subscriptions.is_empty() {
            return None;
        }
        let place = self.executor.with_random(|random| random.below(subscriptions.len()));
        Some(subscriptions.swap_remove(place))
    }
}

impl SimStore {
    /// Records the subscriptions that are in force after a change, and compares the triggers with the active version.
    pub(super) fn watch_subscriptions(&self, db: &Database) {
        if !self.ledger().has_events {
            return;
        }
        let subscriptions = read_subscriptions(db);
        let active = db.workflow(WorkspaceId::DEFAULT, REACTOR, None).ok().flatten();
        let declared = active.as_ref().map(|row| DeclaredTrigger::of_definition(&row.definition)).unwrap_or_default();
        let mut declared: Vec<_> =
            declared.iter().map(|trigger| in_words(&trigger.pattern, trigger.filter.as_ref())).collect();
        let is_trigger = |subscription: &&Subscription| subscription.origin == Origin::Workflow(REACTOR.to_owned());
        let mut triggers: Vec<_> = subscriptions
            .iter()
            .filter(is_trigger)
            .map(|subscription| in_words(&subscription.pattern, subscription.filter.as_ref()))
            .collect();
        declared.sort();
        triggers.sort();
        let mut ledger = self.ledger();
        if declared != triggers {
            let version = active.map_or(0, |row| row.version);
            let text = format!("version {version} of {REACTOR} is active with {declared:?}, and {triggers:?} exist");
            ledger.violation(text);
        }
        ledger.order.note_subscriptions(subscriptions);
    }
}

fn read_subscriptions(db: &Database) -> Vec<Subscription> {
    let query = SubscriptionQuery { limit: 1_000, ..SubscriptionQuery::default() };
    db.list_subscriptions(WorkspaceId::DEFAULT, &query).unwrap_or_default()
}

fn in_words(pattern: &Pattern, filter: Option<&Filter>) -> String {
    format!("{} {}", pattern.as_str(), filter.map_or("", |filter| filter.written().json()))
}
