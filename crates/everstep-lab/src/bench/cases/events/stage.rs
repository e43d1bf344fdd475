//! An engine whose items are observed, and the events that are published there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use everstep_core::ids::{EventId, RunId, WorkspaceId};
use everstep_core::journal::Event;
use everstep_core::payload::Payload;
use everstep_core::topics::TopicEvent;
use everstep_engine::{CommittedItem, Engine, Observe};
use everstep_store::Stores;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::bench::{drive, ground};

/// The topic of all events.
pub(super) const TOPIC: &str = "bench.paid";
/// An event that reaches nothing within this time was lost.
const REACH_TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct Stage {
    pub(super) engine: Engine,
    reached: mpsc::UnboundedReceiver<(Reached, Instant)>,
}

/// The durable effect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    Begun(RunId),
    Resolved(RunId),
}

/// Reports the effects of events.
struct Probe(mpsc::UnboundedSender<(Reached, Instant)>);

impl Observe for Probe {
    fn committed(&self, item: &CommittedItem<'_>) {
        for entry in item.entries {
            let reached = match &entry.event {
                Event::RunStarted { .. } => Reached::Begun(item.run),
                Event::StepCompleted { outcome, .. } if outcome.event.is_some() => Reached::Resolved(item.run),
                _ => continue,
            };
            let _ = self.0.send((reached, Instant::now()));
        }
    }
}

impl Stage {
    /// Starts an engine with workflows.
    pub(super) async fn set(stores: Stores, workflows: &[(String, Value)]) -> anyhow::Result<Self> {
        let (sender, reached) = mpsc::unbounded_channel();
        let engine = ground::start_observed_engine(stores, Arc::new(Probe(sender))).await?;
        for (name, definition) in workflows {
            ground::publish(&engine, name, definition).await?;
        }
        Ok(Self { engine, reached })
    }

    /// Publishes an event. Returns after its commit.
    pub(super) async fn publish(&self, data: Value) -> anyhow::Result<()> {
        publish(&self.engine, TOPIC, data).await
    }

    /// Forgets the effects so far.
    pub(super) fn forget(&mut self) {
        while self.reached.try_recv().is_ok() {}
    }

    /// Waits for this number of effects. Returns the time of the last one.
    pub(super) async fn reach(&mut self, count: usize, is_wanted: impl Fn(Reached) -> bool) -> anyhow::Result<Instant> {
        let mut last = Instant::now();
        let waiting = async {
            let mut left = count;
            while left > 0 {
                let Some((reached, at)) = self.reached.recv().await else { break };
                if is_wanted(reached) {
                    (left, last) = (left - 1, at);
                }
            }
            left
        };
        let left =
            tokio::time::timeout(REACH_TIMEOUT, waiting).await.context("an event has not reached all targets")?;
        anyhow::ensure!(left == 0, "the engine has ended");
        Ok(last)
    }

    pub(super) async fn end(self) -> anyhow::Result<()> {
        Ok(self.engine.stop(drive::END_TIMEOUT).await?)
    }
}

/// Publishes an event to a topic.
pub(super) async fn publish(engine: &Engine, topic: &str, data: Value) -> anyhow::Result<()> {
    let world = engine.world();
    let at = world.clock.now();
    let id = EventId::new(at, world.random.next());
    let event = TopicEvent {
        id,
        workspace: WorkspaceId::DEFAULT,
        topic: topic.to_owned(),
        source: "bench".to_owned(),
        event_id: id.to_string(),
        at,
        data: Payload::from(data),
        depth: 0,
        subject: None,
        extensions: None,
        replay_of: None,
    };
    let outcome = engine.topics().publish(event).await?;
    anyhow::ensure!(outcome.is_published(), "an event of the benchmark was published before");
    Ok(())
}
