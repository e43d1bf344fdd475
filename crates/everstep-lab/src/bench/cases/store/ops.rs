//! Ops as steps of runs make them, and the records among which their counters are.

use std::time::Duration;

use everstep_core::ids::{RunId, StepKey, WorkspaceId};
use everstep_core::records::{Author, IncrementRequest, Op, OpAction, OpKey};
use everstep_engine::{NodeClock, Random, SystemRng};
use everstep_store::RecordStore;

pub(super) const NAMESPACE: &str = "bench";
/// The number of counters that are incremented.
pub(super) const COUNTERS: usize = 1_000;
/// The maximum number of ops in a batch of the record writer.
const BATCH_OPS_MAX: usize = 512;
/// How long changes are kept.
pub(super) const CHANGES_KEPT_FOR: Duration = Duration::from_secs(30 * 86_400);

/// Makes batches of increments, over all counters in turn.
pub(super) struct Ops {
    clock: NodeClock,
    random: SystemRng,
    counters: Vec<String>,
    next: usize,
}

impl Ops {
    pub(super) fn new(counters: Vec<String>) -> Self {
        Self { clock: NodeClock::system(), random: SystemRng::default(), counters, next: 0 }
    }

    /// As many increments as the record writer sends together.
    pub(super) fn next_batch(&mut self) -> Vec<Op> {
        (0..BATCH_OPS_MAX).map(|_| self.next_increment()).collect()
    }

    fn next_increment(&mut self) -> Op {
        let key = self.counters[self.next % self.counters.len()].clone();
        self.next += 1;
        self.op(increment(key))
    }

    /// An op of a step of a new run.
    pub(super) fn op(&self, action: OpAction) -> Op {
        let (run, step) = (RunId::new(self.clock.now(), self.random.next()), StepKey::from("step"));
        Op {
            workspace: WorkspaceId::DEFAULT,
            namespace: NAMESPACE.to_owned(),
            key: OpKey::of_step(run, &step),
            digest: None,
            random: self.random.next(),
            author: Author { run: Some(run), step: Some(step), actor: "key:bench".to_owned() },
            action,
        }
    }

    /// Applies a batch; each of its ops must succeed.
    pub(super) async fn apply(&self, store: &dyn RecordStore, ops: &[Op]) -> anyhow::Result<()> {
        let now = self.clock.now();
        let applied = store.apply(ops, now, now.plus(CHANGES_KEPT_FOR)).await?;
        let failure = applied.outcomes.into_iter().find_map(Result::err);
        failure.map_or(Ok(()), |failure| Err(anyhow::anyhow!("an op of the benchmark failed: {failure}")))
    }
}

pub(super) fn increment(key: String) -> OpAction {
    OpAction::Increment(IncrementRequest { key, by: 1.into(), initial: 0.into(), ttl_seconds: None })
}

pub(super) fn counter(number: usize) -> String {
    format!("counter-{number}")
}

pub(super) fn counters() -> Vec<String> {
    (0..COUNTERS).map(counter).collect()
}

pub(super) fn record_key(number: usize) -> String {
    format!("record-{number:08}")
}

/// Counters that are spread evenly over all records.
pub(super) fn spread_counters(records: usize) -> Vec<String> {
    (0..COUNTERS).map(|number| record_key(number * (records / COUNTERS).max(1))).collect()
}
