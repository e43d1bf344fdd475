//! A node that is alone on its database, while its machine is suspended or its clock is corrected, and the time of
//! decisions.

mod turns;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::dead_letter::DeadLetterSource;
use everstep_core::evaluate::{Evaluate, Fault, Lookup, Reference};
use everstep_core::failure::Failure;
use everstep_core::ids::{DeadLetterId, NodeId, RunId, WorkspaceId};
use everstep_core::meter::Meter;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::{Clock, DeadLetters, Engine, NodeClock, Options, World};
use everstep_expressions::Expressions;
use everstep_handlers::Registry;
use everstep_store::{
    ChangedLetters, DeadLetterClaim, DeadLetterFilter, DeadLetterQuery, DeadLetterResult, DeadLetterRetention,
    DeadLetterRow, DeadLetterStore, Result, TakenLetters,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::support::{WORKSPACE, chain, finish, open_sqlite, publish, start, world};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const TEN_DAYS: Duration = Duration::from_secs(864_000);

/// The clocks of a machine, moved only by the test.
struct Machine(Mutex<Hands>);

struct Hands {
    monotonic: Duration,
    /// The difference between the wall clock and the monotonic clock.
    wall_ahead: Duration,
    sleepers: Vec<(Duration, oneshot::Sender<()>)>,
}

impl Machine {
    fn new(wall_ahead: Duration) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Hands { monotonic: SECOND, wall_ahead, sleepers: Vec::new() })))
    }

    /// Time passes.
    fn advance(&self, by: Duration) {
        let mut hands = self.0.lock().unwrap();
        hands.monotonic += by;
        let now = hands.monotonic;
        let (due, later) = std::mem::take(&mut hands.sleepers).into_iter().partition(|(until, _)| *until <= now);
        hands.sleepers = later;
        let due: Vec<(Duration, oneshot::Sender<()>)> = due;
        for (_, wake) in due {
            let _ = wake.send(());
        }
    }

    /// The machine is suspended: its wall clock continues, its monotonic clock and all sleeps do not.
    fn suspend(&self, time: Duration) {
        self.0.lock().unwrap().wall_ahead += time;
    }

    fn set_wall_back(&self, by: Duration) {
        self.0.lock().unwrap().wall_ahead -= by;
    }

    /// Advances the clocks by at most `time`, until the future is ready.
    async fn advance_until<T>(&self, time: Duration, happened: impl Future<Output = T>) -> T {
        let mut happened = std::pin::pin!(happened);
        let mut passed = Duration::ZERO;
        while passed < time {
            if let Ok(value) = tokio::time::timeout(Duration::from_millis(20), &mut happened).await {
                return value;
            }
            self.advance(SECOND / 10);
            passed += SECOND / 10;
        }
        let last = tokio::time::timeout(SECOND, happened).await;
        last.unwrap_or_else(|_| panic!("it has not happened within {time:?}"))
    }
}

impl Clock for Machine {
    fn monotonic(&self) -> Duration {
        self.0.lock().unwrap().monotonic
    }

    fn wall(&self) -> Timestamp {
        let hands = self.0.lock().unwrap();
        Timestamp::EPOCH.plus(hands.monotonic + hands.wall_ahead)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut hands = self.0.lock().unwrap();
        let (wake, woken) = oneshot::channel();
        let until = hands.monotonic + duration;
        if duration.is_zero() {
            let _ = wake.send(());
        } else {
            hands.sleepers.push((until, wake));
        }
        Box::pin(async move {
            let _ = woken.await;
        })
    }
}

async fn engine_on(folder: &tempfile::TempDir, machine: &Arc<Machine>) -> Engine {
    let clock = Arc::new(NodeClock::new(Arc::clone(machine) as _));
    let world = World { clock, ..world(open_sqlite(folder.path()).await, Registry::with([])) };
    Engine::start(world, Options { shards: 2, ..Options::default() }).await.unwrap()
}

/// Starts a run that waits for some time, and waits until it does.
async fn start_delay(engine: &Engine, time: Duration) -> RunId {
    let name = format!("rest-{}", time.as_secs());
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs() % 60);
    let delay: Value = json!({"config": {"delayMinutes": minutes, "delaySeconds": seconds}});
    publish(engine, &name, &chain(&[("rest", "delay", delay)])).await;
    let run = start(engine, &name, json!({})).await;
    let rests = async {
        while engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap().status != Status::Waiting {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), rests).await.expect("the run rests");
    run
}

async fn complete(engine: &Engine, run: RunId) {
    assert_eq!(engine.wait(WORKSPACE, run).await.unwrap().status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_was_suspended_fires_its_due_timers() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), Machine::new(TEN_DAYS));
    let engine = engine_on(&folder, &machine).await;
    // The first run leaves memory until it is due; the second stays in memory with an alarm.
    let (parked, held) = (start_delay(&engine, 3 * HOUR).await, start_delay(&engine, Duration::from_secs(28)).await);
    // Not yet due when the clock steps: the alarm must be set again.
    machine.suspend(Duration::from_secs(20));
    machine.advance_until(Duration::from_secs(10), complete(&engine, held)).await;
    let held = start_delay(&engine, Duration::from_secs(29)).await;
    machine.suspend(3 * HOUR);
    machine.advance_until(Duration::from_secs(6), complete(&engine, held)).await;
    machine.advance_until(Duration::from_secs(6), complete(&engine, parked)).await;
    assert_eq!(engine.world().clock.now(), machine.wall());
    assert_eq!(engine.world().clock.large_skew_seconds(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_started_ten_days_ahead_slews_back() {
    let (folder, machine) = (tempfile::tempdir().unwrap(), Machine::new(2 * TEN_DAYS));
    let engine = engine_on(&folder, &machine).await;
    let clock = &engine.world().clock;
    let is_noticed = async {
        while clock.large_skew_seconds().is_none() {
            tokio::task::yield_now().await;
        }
    };
    machine.set_wall_back(TEN_DAYS);
    machine.advance_until(Duration::from_secs(6), is_noticed).await;
    let skew = clock.large_skew_seconds().unwrap();
    assert!((-864_000.0..-863_999.0).contains(&skew), "{skew}");
    // The clock continues, at most 50 ms per second slower, and its timers with it.
    let run = start_delay(&engine, Duration::from_secs(19)).await;
    machine.advance_until(Duration::from_secs(21), complete(&engine, run)).await;
    let mut before = clock.now();
    for _ in 0..50 {
        machine.advance(SECOND);
        let passed = clock.now().since(before);
        assert_eq!(passed, Duration::from_millis(950));
        before = clock.now();
        tokio::task::yield_now().await;
    }
}

/// Evaluates as usual, and takes some time for it.
struct SlowEvaluator(Expressions, Arc<Machine>, Duration);

impl Evaluate for SlowEvaluator {
    fn resolve(&self, template: &Value, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        self.1.advance(self.2);
        self.0.resolve(template, lookup, meter)
    }

    fn resolve_lenient(&self, template: &Value, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        self.0.resolve_lenient(template, lookup, meter)
    }

    fn expression(&self, source: &str, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        self.0.expression(source, lookup, meter)
    }

    fn check(&self, template: &Value) -> Vec<Fault> {
        self.0.check(template)
    }

    fn check_expression(&self, source: &str) -> Option<Fault> {
        self.0.check_expression(source)
    }

    fn references(&self, template: &Value) -> Vec<Reference> {
        self.0.references(template)
    }

    fn expression_references(&self, source: &str) -> Vec<Reference> {
        self.0.expression_references(source)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_takes_long_is_counted() {
    for (milliseconds, slow) in [(49, 0), (51, 1)] {
        let (folder, machine) = (tempfile::tempdir().unwrap(), Machine::new(TEN_DAYS));
        let clock = Arc::new(NodeClock::new(Arc::clone(&machine) as _));
        let time = Duration::from_millis(milliseconds);
        let evaluate = Arc::new(SlowEvaluator(Expressions::default(), Arc::clone(&machine), time));
        let world = World { clock, evaluate, ..world(open_sqlite(folder.path()).await, Registry::with([])) };
        let engine = Engine::start(world, Options { shards: 2, ..Options::default() }).await.unwrap();
        publish(&engine, "slow", &chain(&[("it", "transform", json!({"config": {"value": "{{ctx.input}}"}}))])).await;
        let run = start(&engine, "slow", json!({})).await;
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
        assert_eq!(engine.slow_decisions(), slow, "after {milliseconds} ms");
    }
}

/// Counts the calls that take dead letters.
struct Counted {
    store: Arc<dyn DeadLetterStore>,
    takes: Arc<AtomicUsize>,
}

#[async_trait]
impl DeadLetterStore for Counted {
    async fn list_letters(&self, workspace: WorkspaceId, query: &DeadLetterQuery) -> Result<Vec<DeadLetterRow>> {
        self.store.list_letters(workspace, query).await
    }

    async fn letter(&self, workspace: WorkspaceId, id: DeadLetterId) -> Result<Option<DeadLetterRow>> {
        self.store.letter(workspace, id).await
    }

    async fn count_letters(&self, workspace: WorkspaceId, filter: &DeadLetterFilter, limit: usize) -> Result<u64> {
        self.store.count_letters(workspace, filter, limit).await
    }

    async fn count_dead_letters(&self) -> Result<Vec<(DeadLetterSource, u64)>> {
        self.store.count_dead_letters().await
    }

    async fn queue_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        self.store.queue_letters(workspace, filter, now, limit).await
    }

    async fn discard_letters(
        &self,
        workspace: WorkspaceId,
        filter: &DeadLetterFilter,
        reason: Option<&str>,
        now: Timestamp,
        limit: usize,
    ) -> Result<ChangedLetters> {
        self.store.discard_letters(workspace, filter, reason, now, limit).await
    }

    async fn take_letters(&self, node: NodeId, claim: &DeadLetterClaim) -> Result<TakenLetters> {
        self.takes.fetch_add(1, Ordering::SeqCst);
        self.store.take_letters(node, claim).await
    }

    async fn settle_letters(&self, node: NodeId, results: &[DeadLetterResult]) -> Result<()> {
        self.store.settle_letters(node, results).await
    }

    async fn sweep_letters(&self, retention: DeadLetterRetention, limit: usize) -> Result<usize> {
        self.store.sweep_letters(retention, limit).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_work_searches_for_dead_letters_every_thirty_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::new(TEN_DAYS);
    let stores = open_sqlite(folder.path()).await;
    let takes = Arc::new(AtomicUsize::new(0));
    let counted = Counted { store: Arc::clone(&stores.dead_letters), takes: Arc::clone(&takes) };
    let dead_letters = DeadLetters::new(Arc::new(counted), None);
    let clock = Arc::new(NodeClock::new(Arc::clone(&machine) as _));
    let world = World { clock, dead_letters, ..world(stores, Registry::with([])) };
    let _engine = Engine::start(world, Options { shards: 1, ..Options::default() }).await.unwrap();
    let reached = async |count: usize| {
        for _ in 0..1_000 {
            if takes.load(Ordering::SeqCst) >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The loop sleeps again when the call has returned.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(takes.load(Ordering::SeqCst), count);
    };
    reached(1).await;
    for count in 2..6 {
        machine.advance(29 * SECOND);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(takes.load(Ordering::SeqCst), count - 1);
        machine.advance(SECOND);
        reached(count).await;
    }
}
