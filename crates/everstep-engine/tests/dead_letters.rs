//! Dead letters: requeues, and notices to operators.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use everstep_core::dead_letter::{DeadLetter, DeadLetterSource, DeadLetterStatus};
use everstep_core::evaluate::Fault;
use everstep_core::failure::Failure;
use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::{EventId, RunId, SubscriptionId, WorkspaceId};
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use everstep_core::payload::Payload;
use everstep_core::schema::Schema;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_core::topics::{Origin, Pattern, Subscription, Target as EventTarget, TopicEvent, TriggerKind};
use everstep_engine::{DeadLetters, Engine, Notice, Notices, World};
use everstep_handlers::{Description, Handler, Registry, Task, TaskResult};
use everstep_store::{DeadLetterFilter, DeadLetterRow, RunFilter, Stores};
use everstep_testkit::contract::fixtures::{dead_letter, write_letter};
use serde_json::{Value, json};

use crate::support::{WORKSPACE, chain, finish, open, options, publish, world};

/// A kind whose tasks fail, hang or succeed, as the config of each says and the test permits.
struct Target {
    description: Description,
    state: Arc<TargetState>,
}

#[derive(Default)]
struct TargetState {
    is_up: AtomicUsize,
    received: Mutex<Vec<Task>>,
    /// When each of them was received.
    times: Mutex<Vec<Instant>>,
}

impl TargetState {
    fn set_up(&self) {
        self.is_up.store(1, Ordering::SeqCst);
    }

    fn received(&self) -> Vec<Task> {
        self.received.lock().unwrap().clone()
    }
}

#[async_trait]
impl Handler for Target {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, _config: &Value) -> Vec<Fault> {
        Vec::new()
    }

    fn bounds(&self) -> ShareBounds {
        ShareBounds { key_max: 5, ..ShareBounds::new(256) }
    }

    fn place_key(&self, task: &Task) -> Box<str> {
        task.config["target"].as_str().unwrap_or_default().into()
    }

    async fn perform(&self, task: Task) -> TaskResult {
        let hangs = task.config["hangs"] == json!(true);
        self.state.received.lock().unwrap().push(task);
        self.state.times.lock().unwrap().push(Instant::now());
        if hangs {
            std::future::pending::<()>().await;
        }
        match self.state.is_up.load(Ordering::SeqCst) {
            0 => TaskResult::from(Err(Failure::fatal("HTTP_STATUS", "it was refused").with_status(503))),
            _ => TaskResult::from(Ok(Outcome::from_output(json!({})))),
        }
    }
}

fn target(state: &Arc<TargetState>) -> Arc<dyn Handler> {
    Arc::new(Target {
        description: Description {
            info: KindInfo { name: "webhook".to_owned(), ..KindInfo::default() },
            title: "Target",
            group: "Testing",
            icon: "door",
            summary: "A target that can be down.",
            output: "Nothing.",
            schema: Schema::built_in(&json!({"type": "object"})),
            examples: Vec::new(),
            is_internal: true,
            concurrency: 256,
        },
        state: Arc::clone(state),
    })
}

/// Operators, whose address can be down.
#[derive(Default)]
struct Operators {
    is_down: AtomicUsize,
    tried: AtomicUsize,
    notices: Mutex<Vec<Notice>>,
}

#[async_trait]
impl Notices for Operators {
    async fn send(&self, notice: &Notice) -> Result<(), String> {
        self.tried.fetch_add(1, Ordering::SeqCst);
        if self.is_down.load(Ordering::SeqCst) > 0 {
            return Err("no connection".to_owned());
        }
        self.notices.lock().unwrap().push(notice.clone());
        Ok(())
    }
}

struct Fixture {
    engine: Engine,
    stores: Stores,
    target: Arc<TargetState>,
    operators: Arc<Operators>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let stores = open(folder.path()).await;
        let (target_state, operators) = (Arc::<TargetState>::default(), Arc::<Operators>::default());
        let world = world(stores.clone(), Registry::with([target(&target_state)]));
        let notices: Arc<dyn Notices> = Arc::<Operators>::clone(&operators);
        let dead_letters = DeadLetters::new(Arc::clone(&stores.dead_letters), Some(notices));
        let engine = Engine::start(World { dead_letters, ..world }, options()).await.unwrap();
        Self { engine, stores, target: target_state, operators, _folder: folder }
    }

    fn now(&self) -> Timestamp {
        self.engine.world().clock.now()
    }

    /// A dead letter that was written now.
    fn letter(&self, config: Value) -> DeadLetter {
        let now = self.now();
        let run = RunId::new(now, self.engine.world().random.next());
        let letter = dead_letter(run, 0);
        let id = DeadLetter::id_of_step(run, &"APPROVE[7].tell-erp".into(), 3, now);
        DeadLetter { id, created_at: now, config: Payload::from(config), ..letter }
    }

    async fn write(&self, letter: &DeadLetter) {
        write_letter(&*self.stores.runs, self.engine.node(), letter).await;
    }

    async fn requeue(&self, letter: &DeadLetter) {
        let filter = DeadLetterFilter::by_id(letter.id);
        let queued = self.stores.dead_letters.queue_letters(letter.workspace, &filter, self.now(), 1).await.unwrap();
        assert_eq!(queued.count, 1);
        self.engine.dead_letters().wake();
    }

    async fn row(&self, letter: &DeadLetter) -> DeadLetterRow {
        self.stores.dead_letters.letter(letter.workspace, letter.id).await.unwrap().unwrap()
    }

    /// Waits until a dead letter is as expected.
    async fn until(
        &self,
        letter: &DeadLetter,
        what: &str,
        is_expected: impl Fn(&DeadLetterRow) -> bool,
    ) -> DeadLetterRow {
        for _ in 0..3_000 {
            let row = self.row(letter).await;
            if is_expected(&row) {
                return row;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not {what}: {:?}", self.row(letter).await);
    }

    async fn until_status(&self, letter: &DeadLetter, status: DeadLetterStatus) -> DeadLetterRow {
        self.until(letter, status.as_str(), |row| row.status == status).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeue_is_performed_with_the_same_config_and_key() {
    let fixture = Fixture::new().await;
    let letter = fixture.letter(json!({"target": "erp", "secret": {"$secret": "erp"}}));
    fixture.write(&letter).await;
    assert!(fixture.target.received().is_empty(), "never without a request");
    fixture.target.set_up();
    fixture.requeue(&letter).await;
    let row = fixture.until_status(&letter, DeadLetterStatus::Delivered).await;
    assert_eq!(row.letter.attempts.len(), 4);
    assert!(row.letter.attempts[3].is_delivered());
    assert_eq!(row.letter.attempts[..3], letter.attempts[..]);
    let received = fixture.target.received();
    assert_eq!(received.len(), 1);
    let task = &received[0];
    assert_eq!((&task.config, &task.secrets), (letter.config.value(), &letter.secrets));
    assert_eq!((Some(task.run), Some(&task.step)), (letter.run, letter.step.as_ref()));
    assert_eq!((task.kind.as_str(), task.timeout), ("webhook", Duration::from_secs(10)));
    assert_eq!(task.written, *letter.written.as_ref().unwrap().value());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requeue_that_fails_three_times_is_dead_again() {
    let fixture = Fixture::new().await;
    let letter = fixture.letter(json!({"target": "erp"}));
    fixture.write(&letter).await;
    fixture.requeue(&letter).await;
    let row = fixture.until(&letter, "tried", |row| row.letter.attempts.len() > 3).await;
    assert_eq!((row.status, row.letter.attempts.len(), row.taken_by), (DeadLetterStatus::Dead, 6, None));
    let added = &row.letter.attempts[3..];
    assert!(added.iter().all(|attempt| attempt.code == "HTTP_STATUS" && attempt.status == Some(503)));
    // Not by the times of the attempts: on PostgreSQL the clock of a node may run slower while it approaches the database's.
    let times = fixture.target.times.lock().unwrap().clone();
    assert!(times[1] - times[0] >= Duration::from_millis(500));
    assert!(times[2] - times[1] >= Duration::from_secs(1));
    assert!(added[0].at < added[1].at && added[1].at < added[2].at);
    let keys: BTreeSet<_> = fixture.target.received().iter().map(Task::idempotency_key).collect();
    assert_eq!(keys.len(), 1, "the key is the same for all attempts");
    // It is requeued once more, and the target is up.
    fixture.target.set_up();
    fixture.requeue(&letter).await;
    let row = fixture.until_status(&letter, DeadLetterStatus::Delivered).await;
    assert_eq!(row.letter.attempts.len(), 7);
    // One notice for all of it.
    fixture.until(&letter, "notified", |row| row.notified_at.is_some()).await;
    assert_eq!(fixture.operators.notices.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_of_a_swept_run_is_requeued() {
    let fixture = Fixture::new().await;
    let letter = fixture.letter(json!({"target": "erp"}));
    fixture.write(&letter).await;
    let much_later = fixture.now().plus(Duration::from_secs(400 * 24 * 3_600));
    assert_eq!(fixture.stores.runs.sweep(much_later, 10).await.unwrap(), 1);
    assert_eq!(fixture.stores.runs.get_run(WORKSPACE, letter.run.unwrap()).await.unwrap(), None);
    fixture.target.set_up();
    fixture.requeue(&letter).await;
    fixture.until_status(&letter, DeadLetterStatus::Delivered).await;
    assert_eq!(fixture.target.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_kind_is_a_failure_like_any() {
    let fixture = Fixture::new().await;
    let letter = DeadLetter { kind: "telegraph".to_owned(), ..fixture.letter(json!({})) };
    fixture.write(&letter).await;
    fixture.requeue(&letter).await;
    let row = fixture.until(&letter, "tried", |row| row.letter.attempts.len() > 3).await;
    assert_eq!((row.status, row.letter.error()), (DeadLetterStatus::Dead, "UNKNOWN_KIND"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_target_delays_no_other() {
    let fixture = Fixture::new().await;
    fixture.target.set_up();
    for _ in 0..100 {
        fixture.write(&fixture.letter(json!({"target": "hung", "hangs": true, "timeoutSeconds": 60}))).await;
    }
    let all = DeadLetterFilter::default();
    let store = &fixture.stores.dead_letters;
    assert_eq!(store.queue_letters(WORKSPACE, &all, fixture.now(), 1_000).await.unwrap().count, 100);
    fixture.engine.dead_letters().wake();
    for _ in 0..1_000 {
        if fixture.target.received().len() == 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Another target of the workspace, while 95 wait for the one that hangs.
    let healthy = "https://crm.example.com/hooks".to_owned();
    let letter = DeadLetter { target: healthy, ..fixture.letter(json!({"target": "healthy"})) };
    fixture.write(&letter).await;
    fixture.requeue(&letter).await;
    fixture.until_status(&letter, DeadLetterStatus::Delivered).await;
    assert_eq!(fixture.target.received().len(), 6, "five at once of one workspace and target");
    // Another workspace.
    let other = WorkspaceId::from_uuid(uuid::Uuid::from_u128(2));
    let letter = DeadLetter { workspace: other, ..fixture.letter(json!({"target": "hung"})) };
    fixture.write(&letter).await;
    fixture.requeue(&letter).await;
    fixture.until_status(&letter, DeadLetterStatus::Delivered).await;
    assert_eq!(fixture.target.received().len(), 7, "five at once of one workspace and target");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_letters_are_requeued_at_once() {
    let fixture = Fixture::new().await;
    let mut ids = BTreeSet::new();
    for _ in 0..300 {
        let letter = fixture.letter(json!({"target": "erp"}));
        fixture.write(&letter).await;
        ids.insert(letter.id);
    }
    fixture.target.set_up();
    let store = &fixture.stores.dead_letters;
    store.queue_letters(WORKSPACE, &DeadLetterFilter::default(), fixture.now(), 1_000).await.unwrap();
    fixture.engine.dead_letters().wake();
    let delivered = DeadLetterFilter { status: Some(DeadLetterStatus::Delivered), ..DeadLetterFilter::default() };
    let query = everstep_store::DeadLetterQuery { filter: delivered, before: None, limit: 1_000 };
    for _ in 0..3_000 {
        let found = store.list_letters(WORKSPACE, &query).await.unwrap();
        if found.len() == ids.len() {
            assert_eq!(fixture.target.received().len(), ids.len(), "each once");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} of {} were received", fixture.target.received().len(), ids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_are_notified_of_a_letter() {
    let fixture = Fixture::new().await;
    let letter = fixture.letter(json!({"target": "erp"}));
    fixture.write(&letter).await;
    fixture.engine.dead_letters().wake();
    fixture.until(&letter, "notified", |row| row.notified_at.is_some()).await;
    let notices = fixture.operators.notices.lock().unwrap().clone();
    assert_eq!(notices.len(), 1);
    assert_eq!(
        serde_json::to_value(&notices[0]).unwrap(),
        json!({
            "event": "workflow_event_failed",
            "jobId": letter.id.to_string(),
            "workflowCode": "orders",
            "instanceId": letter.run.unwrap().to_string(),
            "error": "HTTP_STATUS: the server answers 503",
            "timestamp": format!("{:.6}", letter.created_at),
        })
    );
    // It is not sent again.
    let second = fixture.letter(json!({"target": "erp"}));
    fixture.write(&second).await;
    fixture.engine.dead_letters().wake();
    fixture.until(&second, "notified", |row| row.notified_at.is_some()).await;
    assert_eq!(fixture.operators.notices.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_for_notices_that_is_down_blocks_nothing() {
    let fixture = Fixture::new().await;
    fixture.operators.is_down.store(1, Ordering::SeqCst);
    let letter = fixture.letter(json!({"target": "erp"}));
    fixture.write(&letter).await;
    fixture.target.set_up();
    fixture.requeue(&letter).await;
    let row = fixture.until_status(&letter, DeadLetterStatus::Delivered).await;
    assert_eq!(row.notified_at, None);
    for _ in 0..1_000 {
        if fixture.operators.tried.load(Ordering::SeqCst) == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fixture.operators.is_down.store(0, Ordering::SeqCst);
    let second = fixture.letter(json!({"target": "erp"}));
    fixture.write(&second).await;
    fixture.engine.dead_letters().wake();
    fixture.until(&second, "notified", |row| row.notified_at.is_some()).await;
    assert_eq!(fixture.operators.tried.load(Ordering::SeqCst), 4, "three attempts for the first one");
    assert_eq!(fixture.row(&letter).await.notified_at, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_that_starts_a_run_starts_it_once() {
    let fixture = Fixture::new().await;
    let config = json!({"workflow": "archive", "input": {"document": 7}});
    let letter = DeadLetter { kind: "workflow".to_owned(), secrets: vec![], ..fixture.letter(config) };
    let run = RunId::new(fixture.now(), 5);
    let letter = DeadLetter { delivery: run.to_string(), written: None, ..letter };
    fixture.write(&letter).await;
    fixture.requeue(&letter).await;
    let row = fixture.until(&letter, "tried", |row| row.letter.attempts.len() > 3).await;
    assert_eq!((row.status, row.letter.error()), (DeadLetterStatus::Dead, "WORKFLOW_NOT_FOUND"));

    publish(&fixture.engine, "archive", &chain(&[])).await;
    fixture.requeue(&letter).await;
    fixture.until_status(&letter, DeadLetterStatus::Delivered).await;
    let started = finish(&fixture.engine, run).await;
    assert_eq!((started.status, started.workflow.as_str()), (Status::Completed, "archive"));
    assert_eq!(*started.input.value(), json!({"document": 7}));

    // A second dead letter of the same delivery finds the run.
    let again = DeadLetter { delivery: run.to_string(), ..fixture.letter(json!({"workflow": "archive"})) };
    let again = DeadLetter { kind: "workflow".to_owned(), ..again };
    fixture.write(&again).await;
    fixture.requeue(&again).await;
    fixture.until_status(&again, DeadLetterStatus::Delivered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stopped_engine_held_is_taken_by_the_next() {
    let fixture = Fixture::new().await;
    let letter = fixture.letter(json!({"target": "erp", "hangs": true}));
    fixture.write(&letter).await;
    fixture.requeue(&letter).await;
    fixture.until(&letter, "taken", |row| row.taken_by.is_some()).await;
    fixture.engine.stop(Duration::from_millis(10)).await.unwrap();
    let state = Arc::<TargetState>::default();
    let world = world(fixture.stores.clone(), Registry::with([target(&state)]));
    let engine = Engine::start(world, options()).await.unwrap();
    for _ in 0..3_000 {
        if !state.received().is_empty() {
            assert_eq!(fixture.row(&letter).await.taken_by, Some(engine.node()));
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the dead letter was not taken");
}

/// Publishes an event, waits for its fan-out, and returns the dead letters of its starts.
async fn failed_starts(fixture: &Fixture, data: Value) -> (TopicEvent, Vec<DeadLetterRow>) {
    let now = fixture.now();
    let event = TopicEvent {
        id: EventId::new(now, fixture.engine.world().random.next()),
        workspace: WORKSPACE,
        topic: "order.paid".to_owned(),
        source: "test".to_owned(),
        event_id: fixture.engine.world().random.next().to_string(),
        at: now,
        data: Payload::from(data),
        depth: 0,
        subject: None,
        extensions: None,
        replay_of: None,
    };
    fixture.engine.topics().publish(event.clone()).await.unwrap();
    fixture.engine.topics().fanned(WORKSPACE, event.id).await.unwrap();
    let filter = DeadLetterFilter { source: Some(DeadLetterSource::Start), ..DeadLetterFilter::default() };
    let query = everstep_store::DeadLetterQuery { filter, before: None, limit: 100 };
    let mut rows = fixture.stores.dead_letters.list_letters(WORKSPACE, &query).await.unwrap();
    rows.retain(|row| row.letter.event == Some(event.id));
    (event, rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_that_an_event_could_not_start_is_started_by_a_requeue() {
    let fixture = Fixture::new().await;
    let now = fixture.now();
    let subscription = Subscription {
        id: SubscriptionId::new(now, fixture.engine.world().random.next()),
        workspace: WORKSPACE,
        pattern: Pattern::parse("order.*").unwrap(),
        filter: None,
        target: EventTarget::Workflow { name: "ship".to_owned(), version: None, retention_days: None, key: None },
        input: Some(Payload::from(json!({"order": {"$expr": "payload.order"}}))),
        origin: Origin::Api,
        paused_at: None,
        created_at: now,
    };
    fixture.stores.topics.add_subscription(&subscription, 10).await.unwrap();
    // A small event, and one that its dead letter does not contain.
    for note in ["", &"x".repeat(20_000)] {
        let (event, rows) = failed_starts(&fixture, json!({"order": 7, "note": note})).await;
        assert_eq!(rows.len(), 1);
        let letter = rows[0].letter.clone();
        assert_eq!((letter.error(), letter.target.as_str()), ("WORKFLOW_NOT_FOUND", "ship"));
        assert_eq!((letter.subscription, letter.workflow.as_deref()), (Some(subscription.id), Some("ship")));
        fixture.requeue(&letter).await;
        let row = fixture.until(&letter, "tried", |row| row.letter.attempts.len() > 1).await;
        assert_eq!((row.status, row.letter.attempts.len()), (DeadLetterStatus::Dead, 4));

        publish(&fixture.engine, "ship", &chain(&[])).await;
        fixture.requeue(&letter).await;
        fixture.until_status(&letter, DeadLetterStatus::Delivered).await;
        let filter = RunFilter { trigger: Some((TriggerKind::Event, event.id.to_string())), ..RunFilter::default() };
        let page = fixture.stores.runs.list_runs(WORKSPACE, filter, None, 10).await.unwrap();
        assert_eq!(page.runs.len(), 1);
        let run = finish(&fixture.engine, page.runs[0].id).await;
        assert_eq!((run.status, run.input.value()), (Status::Completed, &json!({"order": 7})));
        assert_eq!(run.key, Some(subscription.start_key(event.id)));
        fixture.stores.workflows.delete_workflow(WORKSPACE, "ship").await.unwrap();
    }
}
