//! Tasks go to the handlers that the engine is given: a bounded number of a kind at the same time, whose places the
//! workspaces share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use everstep_core::evaluate::Fault;
use everstep_core::fair_share::ShareBounds;
use everstep_core::ids::WorkspaceId;
use everstep_core::journal::Outcome;
use everstep_core::kinds::KindInfo;
use everstep_core::schema::Schema;
use everstep_core::status::Status;
use everstep_engine::{Engine, Options, Start};
use everstep_handlers::{Description, Handler, Registry, Task, TaskResult};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::support::{WORKSPACE, chain, finish, open, options, publish, start, world};

/// A kind whose tasks end when the test permits it.
struct Turnstile {
    description: Description,
    bounds: ShareBounds,
    begun: UnboundedSender<WorkspaceId>,
    let_through: Arc<Semaphore>,
    inside: AtomicUsize,
    most: Arc<AtomicUsize>,
}

#[async_trait]
impl Handler for Turnstile {
    fn describe(&self) -> &Description {
        &self.description
    }

    fn check(&self, _config: &Value) -> Vec<Fault> {
        Vec::new()
    }

    fn bounds(&self) -> ShareBounds {
        self.bounds
    }

    fn place_key(&self, task: &Task) -> Box<str> {
        task.config["door"].as_str().unwrap_or_default().into()
    }

    async fn perform(&self, task: Task) -> TaskResult {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.begun.send(task.workspace).unwrap();
        self.let_through.acquire().await.unwrap().forget();
        self.inside.fetch_sub(1, Ordering::SeqCst);
        TaskResult::from(Ok(Outcome::from_output(json!("through"))))
    }
}

fn other() -> WorkspaceId {
    WorkspaceId::from_uuid(uuid::Uuid::from_u128(2))
}

struct Fixture {
    engine: Engine,
    begun: UnboundedReceiver<WorkspaceId>,
    let_through: Arc<Semaphore>,
    most: Arc<AtomicUsize>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// An engine with one kind, of which two tasks may run at the same time.
    async fn new() -> Self {
        Self::with(ShareBounds::new(2)).await
    }

    /// An engine with one kind that has these bounds.
    async fn with(bounds: ShareBounds) -> Self {
        Self::with_options(bounds, options()).await
    }

    async fn with_options(bounds: ShareBounds, options: Options) -> Self {
        let (sender, begun) = unbounded_channel();
        let (let_through, most) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let turnstile = Turnstile {
            description: Description {
                info: KindInfo { name: "turnstile".to_owned(), timeout_seconds: 60, ..KindInfo::default() },
                title: "Turnstile",
                group: "Testing",
                icon: "door",
                summary: "Lets a number of tasks through at once.",
                output: "`through`.",
                schema: Schema::built_in(&json!({"type": "object"})),
                examples: Vec::new(),
                is_internal: true,
                concurrency: bounds.places as usize,
            },
            bounds,
            begun: sender,
            let_through: Arc::clone(&let_through),
            inside: AtomicUsize::new(0),
            most: Arc::clone(&most),
        };
        let folder = tempfile::tempdir().unwrap();
        let handlers = Registry::with([Arc::new(turnstile) as Arc<dyn Handler>]);
        let world = world(open(folder.path()).await, handlers);
        let engine = Engine::start(world, Options { shards: 1, ..options }).await.unwrap();
        for workspace in [WORKSPACE, other()] {
            let definition = chain(&[("pass", "turnstile", json!({"config": {"door": "{{ctx.input.door}}"}}))]);
            engine.library().publish(workspace, "gate", &definition).await.unwrap();
        }
        publish(&engine, "nothing", &chain(&[])).await;
        Self { engine, begun, let_through, most, _folder: folder }
    }

    /// Waits until all earlier starts were dispatched: one shard handles one run after the other.
    async fn settle(&self) {
        let run = start(&self.engine, "nothing", json!({})).await;
        assert_eq!(finish(&self.engine, run).await.status, Status::Completed);
    }

    /// Starts a run of the other workspace.
    async fn start_other(&self) {
        let start = Start { workspace: other(), ..Start::new("gate", json!({"door": ""})) };
        self.engine.start_run(start).await.unwrap();
    }

    async fn next(&mut self) -> WorkspaceId {
        tokio::time::timeout(Duration::from_secs(30), self.begun.recv()).await.expect("a task begins").unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_tasks_of_a_kind_go_on_at_once_than_it_allows() {
    let mut fixture = Fixture::new().await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(start(&fixture.engine, "gate", json!({"door": ""})).await);
    }
    fixture.settle().await;
    fixture.next().await;
    fixture.next().await;
    assert!(fixture.begun.try_recv().is_err(), "a third task has begun");
    fixture.let_through.add_permits(20);
    for run in runs {
        assert_eq!(finish(&fixture.engine, run).await.status, Status::Completed);
    }
    assert_eq!(fixture.most.load(Ordering::SeqCst), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_with_many_tasks_does_not_keep_another_waiting() {
    let mut fixture = Fixture::new().await;
    let other = other();
    for _ in 0..20 {
        start(&fixture.engine, "gate", json!({"door": ""})).await;
    }
    fixture.start_other().await;
    fixture.settle().await;
    fixture.let_through.add_permits(4);
    let mut first = Vec::new();
    for _ in 0..5 {
        first.push(fixture.next().await);
    }
    // Two tasks ran before it arrived; after at most one more it is its turn.
    assert!(first[2..4].contains(&other), "{first:?}");
    assert_eq!(first.iter().filter(|workspace| **workspace == WORKSPACE).count(), 4);
    fixture.let_through.add_permits(100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_leaves_the_last_quarter_of_a_kind_to_others() {
    let mut fixture = Fixture::with(ShareBounds::new(8)).await;
    // The other workspace is known, and has nothing in progress.
    fixture.let_through.add_permits(1);
    fixture.start_other().await;
    assert_eq!(fixture.next().await, other());
    for _ in 0..20 {
        start(&fixture.engine, "gate", json!({"door": ""})).await;
    }
    fixture.settle().await;
    for _ in 0..6 {
        assert_eq!(fixture.next().await, WORKSPACE);
    }
    assert!(fixture.begun.try_recv().is_err(), "the workspace has taken the last quarter");
    fixture.start_other().await;
    assert_eq!(fixture.next().await, other(), "it begins although the tasks of its neighbour never end");
    fixture.let_through.add_permits(100);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_that_wait_for_one_host_delay_no_tasks_for_another() {
    let mut fixture = Fixture::with(ShareBounds { places: 100, workspace_max: 6, key_max: 4 }).await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(start(&fixture.engine, "gate", json!({"door": "slow"})).await);
    }
    fixture.settle().await;
    for _ in 0..4 {
        fixture.next().await;
    }
    assert!(fixture.begun.try_recv().is_err(), "the bound of a host is four");
    for _ in 0..4 {
        runs.push(start(&fixture.engine, "gate", json!({"door": "fast"})).await);
    }
    fixture.settle().await;
    for _ in 0..2 {
        fixture.next().await;
    }
    assert!(fixture.begun.try_recv().is_err(), "the bound of a workspace is six");
    fixture.start_other().await;
    assert_eq!(fixture.next().await, other());
    fixture.let_through.add_permits(100);
    for run in runs {
        assert_eq!(finish(&fixture.engine, run).await.status, Status::Completed);
    }
    assert_eq!(fixture.most.load(Ordering::SeqCst), 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_leaves_the_last_quarter_of_the_active_runs_to_others() {
    let options = Options { max_active_runs: 16, ..options() };
    let mut fixture = Fixture::with_options(ShareBounds::new(100), options).await;
    fixture.settle().await;
    for _ in 0..40 {
        fixture.start_other().await;
    }
    for _ in 0..12 {
        assert_eq!(fixture.next().await, other());
    }
    // A plain run ends although the runs of its neighbour never do.
    fixture.settle().await;
    assert!(fixture.begun.try_recv().is_err(), "the workspace has taken the last quarter");
    fixture.let_through.add_permits(40);
    for _ in 0..28 {
        assert_eq!(fixture.next().await, other(), "the other runs begin as permits become free");
    }
}
