//! Deliveries: the side effects of a machine, performed after the commit of their transition.
//!
//! The tests use the database that `TEST_STORE` names, and a target of webhooks on this machine.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::actor::Actor;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::Kind;
use everstep_core::machine::{Act, Rights};
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_engine::{CommittedItem, EndedEvent, Engine, Fork, Observe, Options, Records, RunInput, Start, World};
use everstep_handlers::{MailServer, Ports, Registry, WebhookBounds};
use everstep_net::{Client, Guard};
use everstep_store::{DeadLetterFilter, RunFilter};
use everstep_testkit::smtp_server::SmtpServer;
use everstep_testkit::webhook_target::{TargetMode, WebhookTarget};
use serde_json::{Value, json};

use crate::street::until;
use crate::support::{WORKSPACE, chain, finish, is_on_postgres, open, options, publish, start, url, world};

async fn engine(folder: &Path) -> Engine {
    engine_that_reaches_here(folder, WebhookBounds::default()).await
}

/// A review whose approval tells a target, and a terminal state that tells it again.
fn review(target: &WebhookTarget) -> Value {
    let tell = |path: &str| json!([{"id": "tell", "type": "webhook", "target": target.url(path), "payload": {"n": "{{ctx.n}}"}}]);
    json!({"states": [
        {"name": "review", "initial": true, "on": {"APPROVE": {"to": "approved", "events": tell("/approved")}}},
        {"name": "approved", "on": {"CLOSE": {"to": "closed"}, "REOPEN": {"to": "review"}}},
        {"name": "closed", "terminal": true, "entry": tell("/closed"), "output": {"closed": true}},
    ]})
}

/// An engine whose handlers may reach this machine.
async fn engine_that_reaches_here(folder: &Path, webhooks: WebhookBounds) -> Engine {
    engine_with(folder, webhooks, None).await
}

async fn engine_with(folder: &Path, webhooks: WebhookBounds, mail_server: Option<MailServer>) -> Engine {
    Engine::start(world_that_reaches_here(folder, webhooks, mail_server).await, options()).await.unwrap()
}

async fn world_that_reaches_here(folder: &Path, webhooks: WebhookBounds, mail_server: Option<MailServer>) -> World {
    let mut world = world(open(folder).await, Registry::default());
    let records = Arc::<Records>::clone(&world.records);
    let client = Client::new("127.0.0.0/8".parse::<Guard>().unwrap());
    world.handlers = Arc::new(Registry::standard(Ports { client, webhooks, mail_server, records, ..Ports::none() }));
    world
}

/// Records the ends of side effects: the workflow, the kind and the outcome of each.
#[derive(Default)]
struct Ends(Mutex<Vec<(String, String, &'static str)>>);

impl Observe for Ends {
    fn committed(&self, _item: &CommittedItem<'_>) {}

    fn event_ended(&self, event: &EndedEvent<'_>) {
        let workflow = event.workflow.unwrap_or_default().to_owned();
        self.0.lock().unwrap().push((workflow, event.kind.to_owned(), event.outcome.as_str()));
    }
}

async fn engine_with_ends(folder: &Path) -> (Engine, Arc<Ends>) {
    let ends = Arc::<Ends>::default();
    let world = world_that_reaches_here(folder, WebhookBounds::default(), None).await;
    let world = World { observe: Arc::<Ends>::clone(&ends), ..world };
    (Engine::start(world, options()).await.unwrap(), ends)
}

async fn act(engine: &Engine, run: RunId, action: &str, version: Option<u32>) -> Reply {
    let act = Act {
        action: action.to_owned(),
        version,
        by: Actor::person("ann"),
        rights: Rights::default(),
        comment: None,
        data: None,
        shown: None,
        withdraw: false,
        files: Vec::new(),
        files_until: None,
        digest: action.to_owned(),
    };
    engine.route(RunInput::new(WORKSPACE, run, Input::Transition(Box::new(act)))).await.unwrap()
}

#[track_caller]
fn is_applied(reply: &Reply) {
    assert!(matches!(reply, Reply::Applied(_)), "{reply:?}");
}

async fn send(engine: &Engine, run: RunId, input: Input) {
    let reply = engine.route(RunInput::new(WORKSPACE, run, input)).await.unwrap();
    assert!(matches!(reply, Reply::Accepted), "{reply:?}");
}

/// The steps of the entries of a kind.
async fn steps(engine: &Engine, run: RunId, kind: Kind) -> Vec<StepKey> {
    let journal = engine.world().runs.journal(run, 0, 1_000).await.unwrap();
    journal.into_iter().filter(|entry| entry.row.kind == kind).filter_map(|entry| entry.row.step).collect()
}

async fn status(engine: &Engine, run: RunId) -> Status {
    engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap().status
}

/// The steps, delivery ids and errors of the dead letters of a database.
async fn dead_letters(folder: &Path) -> Vec<(String, String, String)> {
    let query = "select step, delivery, error from dead_letters order by step, delivery";
    if !is_on_postgres() {
        let connection = rusqlite::Connection::open(folder.join("everstep.db")).unwrap();
        let mut statement = connection.prepare(query).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        return rows.map(Result::unwrap).collect();
    }
    let (client, connection) = tokio_postgres::connect(&url(folder), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let rows = client.query(query, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_follows_its_transition() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, target) = (engine(folder.path()).await, WebhookTarget::start());
    publish(&engine, "review", &review(&target)).await;
    let run = start(&engine, "review", json!({"n": 7})).await;
    is_applied(&act(&engine, run, "APPROVE", Some(1)).await);
    until("the webhook arrives", async || target.count() == 1).await;
    let webhook = target.received().remove(0);
    let body = webhook.json();
    assert_eq!((webhook.path.as_str(), &body["type"]), ("/approved", &json!("workflow.transition")));
    assert_eq!(webhook.id(), webhook.header("idempotency-key"));
    let data = &body["data"];
    assert_eq!((&data["runId"], &data["workflow"]), (&json!(run.to_string()), &json!("review")));
    assert_eq!(
        (&data["action"], &data["fromState"], &data["toState"]),
        (&json!("APPROVE"), &json!("review"), &json!("approved"))
    );
    assert_eq!((&data["versionNo"], &data["by"], &data["payload"]), (&json!(2), &json!("ann"), &json!({"n": 7})));
    assert!(data["historyId"].is_string() && data["seq"].is_u64(), "{data}");
    until("the delivery is complete", async || !steps(&engine, run, Kind::StepCompleted).await.is_empty()).await;
    assert_eq!(status(&engine, run).await, Status::Waiting);
    is_applied(&act(&engine, run, "CLOSE", Some(2)).await);
    let row = finish(&engine, run).await;
    assert_eq!((row.status, row.output.unwrap().value()), (Status::Completed, &json!({"closed": true})));
    assert_eq!(dead_letters(folder.path()).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_leaves_letters() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, target) = (engine(folder.path()).await, WebhookTarget::start());
    target.set_mode(TargetMode::Hang);
    publish(&engine, "review", &review(&target)).await;
    let run = start(&engine, "review", json!({"n": 1})).await;
    is_applied(&act(&engine, run, "APPROVE", None).await);
    is_applied(&act(&engine, run, "CLOSE", None).await);
    until("both webhooks hang", async || target.count() == 2).await;
    send(&engine, run, Input::Cancel { reason: None }).await;
    assert_eq!(finish(&engine, run).await.status, Status::Cancelled);
    let letters = dead_letters(folder.path()).await;
    let ids: Vec<_> = target.received().iter().map(|webhook| webhook.id().to_owned()).collect();
    assert_eq!(letters.len(), 2, "{letters:?}");
    for (step, delivery, error) in &letters {
        assert!(["@entry[3].tell", "APPROVE[2].tell"].contains(&&**step), "{step}");
        assert!(ids.contains(delivery) && error == "RUN_CANCELLED", "{letters:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_is_down_makes_one_letter() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, target) = (engine(folder.path()).await, WebhookTarget::start());
    target.set_mode(TargetMode::Refuse(404));
    publish(&engine, "review", &review(&target)).await;
    let run = start(&engine, "review", json!({"n": 1})).await;
    is_applied(&act(&engine, run, "APPROVE", None).await);
    until("the last attempt has failed", async || !dead_letters(folder.path()).await.is_empty()).await;
    let received = target.received();
    assert_eq!(received.len(), 3);
    assert!(received.iter().all(|webhook| webhook.id() == received[0].id()));
    let since = |n: usize| received[n].at.duration_since(received[n - 1].at);
    assert!(since(1) >= Duration::from_millis(490) && since(2) >= Duration::from_millis(990), "{received:?}");
    let letters = dead_letters(folder.path()).await;
    assert_eq!(letters, [("APPROVE[2].tell".into(), received[0].id().to_owned(), "HTTP_STATUS".into())]);
    assert_eq!(status(&engine, run).await, Status::Waiting);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_delivers_nothing_of_its_original() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, target) = (engine(folder.path()).await, WebhookTarget::start());
    target.set_mode(TargetMode::Hang);
    publish(&engine, "review", &review(&target)).await;
    let run = start(&engine, "review", json!({"n": 1})).await;
    is_applied(&act(&engine, run, "APPROVE", None).await);
    until("the webhook hangs", async || target.count() == 1).await;
    let fork = engine.fork(WORKSPACE, run, Fork::default()).await.unwrap();
    assert_eq!(fork.repeated, []);
    until("the fork skips it", async || steps(&engine, fork.run, Kind::StepSkipped).await.len() == 1).await;
    is_applied(&act(&engine, fork.run, "CLOSE", None).await);
    until("the fork delivers its own", async || target.count() == 2).await;
    let received = target.received();
    assert_eq!((&*received[0].path, &*received[1].path), ("/approved", "/closed"));
    assert_eq!(received[1].json()["data"]["runId"], json!(fork.run.to_string()));
    // The target answers the second attempts.
    target.set_mode(TargetMode::Accept);
    assert_eq!(finish(&engine, fork.run).await.status, Status::Completed);
    until("the original delivers", async || steps(&engine, run, Kind::StepCompleted).await.len() == 1).await;
    let ids: std::collections::BTreeSet<_> = target.received().iter().map(|webhook| webhook.id().to_owned()).collect();
    assert_eq!(ids.len(), 2, "one id for each delivery");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_goes_on_before_the_last_webhook() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, target) = (engine(folder.path()).await, WebhookTarget::start());
    target.set_mode(TargetMode::Hang);
    let tell = json!([{"type": "webhook", "target": target.url("/")}]);
    publish(
        &engine,
        "child",
        &json!({"states": [
            {"name": "open", "initial": true, "entry": [{"type": "auto_action", "target": "CLOSE"}], "on": {"CLOSE": {"to": "closed"}}},
            {"name": "closed", "terminal": true, "entry": tell, "output": 5},
        ]}),
    )
    .await;
    publish(&engine, "parent", &chain(&[("call", "workflow", json!({"config": {"workflow": "child"}}))])).await;
    let parent = start(&engine, "parent", json!({})).await;
    assert_eq!(finish(&engine, parent).await.status, Status::Completed);
    let state = engine.runs().load(parent).await.unwrap();
    assert!(state.state.unwrap().has_ended());
    until("the webhook hangs", async || target.count() >= 1).await;
    let child: RunId = target.received()[0].json()["data"]["runId"].as_str().unwrap().parse().unwrap();
    assert_eq!(status(&engine, child).await, Status::Waiting);
    target.set_mode(TargetMode::Accept);
    let row = finish(&engine, child).await;
    assert_eq!((row.status, row.output.unwrap().value()), (Status::Completed, &json!(5)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_delivers_when_it_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, target) = (engine(folder.path()).await, WebhookTarget::start());
    target.set_mode(TargetMode::Refuse(500));
    publish(&engine, "review", &review(&target)).await;
    let run = start(&engine, "review", json!({"n": 1})).await;
    is_applied(&act(&engine, run, "APPROVE", None).await);
    until("an attempt has failed", async || !steps(&engine, run, Kind::StepFailed).await.is_empty()).await;
    send(&engine, run, Input::Pause { reason: None }).await;
    let before = target.count();
    target.set_mode(TargetMode::Accept);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert_eq!(target.count(), before, "a paused run begins no delivery");
    send(&engine, run, Input::Resume).await;
    until("it is delivered", async || steps(&engine, run, Kind::StepCompleted).await.len() == 1).await;
    assert_eq!(dead_letters(folder.path()).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_during_deliveries_is_no_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, target) = (engine(folder.path()).await, WebhookTarget::start());
    target.set_mode(TargetMode::Late(Duration::from_millis(20)));
    publish(&engine, "review", &review(&target)).await;
    let run = start(&engine, "review", json!({"n": 1})).await;
    for round in 0..20 {
        is_applied(&act(&engine, run, "APPROVE", Some(1 + 2 * round)).await);
        is_applied(&act(&engine, run, "REOPEN", Some(2 + 2 * round)).await);
    }
    until("all are delivered", async || steps(&engine, run, Kind::StepCompleted).await.len() == 20).await;
    assert_eq!(target.count(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_target_slows_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_that_reaches_here(folder.path(), WebhookBounds { target_max: 2, places: 64 }).await;
    // The bound is per host.
    let hosts = (2..=21).map(|host| format!("127.0.0.{host}"));
    let (hung, healthy) =
        (hosts.map(|host| WebhookTarget::start_on(&host)).collect::<Vec<_>>(), WebhookTarget::start());
    hung.iter().for_each(|target| target.set_mode(TargetMode::Hang));
    let names = hung.iter().enumerate().map(|(n, target)| (format!("hung{n}"), target));
    for (name, target) in names.chain([("healthy".to_owned(), &healthy)]) {
        let tell = json!([{"type": "webhook", "target": target.url("/"), "timeoutSeconds": 60}]);
        let states = json!([
            {"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed", "events": tell}}},
            {"name": "closed", "terminal": true},
        ]);
        publish(&engine, &name, &json!({ "states": states })).await;
    }
    // More webhooks for each target than may be under way.
    let mut runs = Vec::new();
    for n in (0..hung.len()).cycle().take(4 * hung.len()) {
        runs.push(start(&engine, &format!("hung{n}"), json!({})).await);
    }
    for run in &runs {
        is_applied(&act(&engine, *run, "CLOSE", None).await);
    }
    let counts = || hung.iter().map(WebhookTarget::count).collect::<Vec<_>>();
    until("the hung targets have their requests", async || counts() == [2; 20]).await;
    for _ in 0..20 {
        let run = start(&engine, "healthy", json!({})).await;
        is_applied(&act(&engine, run, "CLOSE", None).await);
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
    assert_eq!(counts(), [2; 20], "a webhook that waits for its target holds no place");
    assert_eq!(healthy.count(), 20);
    for run in runs {
        send(&engine, run, Input::Cancel { reason: None }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_mail_server_slows_no_webhook() {
    let folder = tempfile::tempdir().unwrap();
    let (hung, healthy) = (SmtpServer::start(), WebhookTarget::start());
    hung.set_mode(TargetMode::Hang);
    let mail_server = MailServer::new(&hung.url(), "no-reply@example.com").unwrap();
    let engine = engine_with(folder.path(), WebhookBounds { target_max: 2, places: 64 }, Some(mail_server)).await;
    let mail = json!({"type": "notify", "target": "ann@example.com", "timeoutSeconds": 60, "template": {"subject": "a", "text": "b"}});
    let webhook = json!({"type": "webhook", "target": healthy.url("/")});
    for (name, effect) in [("hung", mail), ("healthy", webhook)] {
        let states = json!([
            {"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed", "events": [effect]}}},
            {"name": "closed", "terminal": true},
        ]);
        publish(&engine, name, &json!({ "states": states })).await;
    }
    let mut runs = Vec::new();
    for _ in 0..20 {
        let run = start(&engine, "hung", json!({})).await;
        is_applied(&act(&engine, run, "CLOSE", None).await);
        runs.push(run);
    }
    until("the mail server has its mails", async || hung.count() == 2).await;
    for _ in 0..20 {
        let run = start(&engine, "healthy", json!({})).await;
        is_applied(&act(&engine, run, "CLOSE", None).await);
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
    assert_eq!((hung.count(), healthy.count()), (2, 20), "the bound of a target is that of the mail server");
    // Every mail is delivered when the server answers.
    hung.set_mode(TargetMode::Accept);
    for run in runs {
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
    let accepted = hung.received().into_iter().filter(|mail| mail.is_accepted).count();
    assert_eq!(accepted, 20);
    assert_eq!(dead_letters(folder.path()).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reminder_repeats_at_most_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, target) = (engine(folder.path()).await, WebhookTarget::start());
    let remind = json!([{"every": "100ms", "times": 3, "events": [{"id": "remind", "type": "webhook", "target": target.url("/")}]}]);
    publish(
        &engine,
        "review",
        &json!({"states": [
            {"name": "review", "initial": true, "on": {"APPROVE": {"to": "done"}}, "after": remind},
            {"name": "done", "terminal": true},
        ]}),
    )
    .await;
    let run = start(&engine, "review", json!({})).await;
    until("three reminders arrive", async || target.count() == 3).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(target.count(), 3);
    let mut done: Vec<_> = steps(&engine, run, Kind::StepCompleted).await.iter().map(ToString::to_string).collect();
    done.sort();
    assert_eq!(done, ["@after[1].0[1].remind", "@after[1].0[2].remind", "@after[1].0[3].remind"]);
    is_applied(&act(&engine, run, "APPROVE", Some(1)).await);
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_side_effect_starts_a_run_and_does_not_wait_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let events = json!([
        {"id": "known", "type": "workflow", "target": "waits", "payload": {"n": "{{ctx.n}}"}},
        {"id": "unknown", "type": "workflow", "target": "missing"},
    ]);
    publish(&engine, "waits", &chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])).await;
    publish(
        &engine,
        "review",
        &json!({"states": [
            {"name": "review", "initial": true, "on": {"APPROVE": {"to": "done", "events": events}}},
            {"name": "done", "terminal": true},
        ]}),
    )
    .await;
    let run = start(&engine, "review", json!({"n": 3})).await;
    is_applied(&act(&engine, run, "APPROVE", None).await);
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    let letters = dead_letters(folder.path()).await;
    assert_eq!(letters.len(), 1, "{letters:?}");
    assert_eq!((&*letters[0].0, &*letters[0].2), ("APPROVE[2].unknown", "WORKFLOW_NOT_FOUND"));
    assert_eq!(steps(&engine, run, Kind::StepCompleted).await, [StepKey::from("APPROVE[2].known")]);

    // A requeue starts it under the id of the delivery, as the transition would have.
    let started: RunId = letters[0].1.parse().unwrap();
    publish(&engine, "missing", &chain(&[])).await;
    let all = DeadLetterFilter::default();
    let now = engine.world().clock.now();
    let queued = engine.dead_letters().store().queue_letters(WORKSPACE, &all, now, 10).await.unwrap();
    assert_eq!(queued.count, 1);
    engine.dead_letters().wake();
    until("the run exists", async || engine.world().runs.get_run(WORKSPACE, started).await.unwrap().is_some()).await;
    let row = finish(&engine, started).await;
    assert_eq!((row.status, row.workflow.as_str(), row.parent), (Status::Completed, "missing", Some(run)));
    let children = RunFilter { parent: Some(run), ..RunFilter::default() };
    let children = engine.world().runs.list_runs(WORKSPACE, children, None, 10).await.unwrap().runs;
    let known = children.iter().find(|row| row.workflow == "waits").unwrap();
    let state = async |run| engine.runs().load(run).await.unwrap().state.unwrap();
    let (requeued, delivered) = (state(started).await, state(known.id).await);
    let (parent, expected) = (requeued.parent().unwrap(), delivered.parent().unwrap());
    assert_eq!((parent.run, parent.waits, parent.depth), (expected.run, expected.waits, expected.depth));
    assert_eq!(parent.step.as_str(), "APPROVE[2].unknown");
    assert_eq!(requeued.started_by(), delivered.started_by());
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_wait_for_a_hung_target_do_not_stop_starts() {
    let folder = tempfile::tempdir().unwrap();
    let world = world_that_reaches_here(folder.path(), WebhookBounds { target_max: 2, places: 64 }, None).await;
    let engine = Engine::start(world, Options { max_active_runs: 4, ..options() }).await.unwrap();
    let target = WebhookTarget::start();
    target.set_mode(TargetMode::Hang);
    let tell = json!([{"type": "webhook", "target": target.url("/"), "timeoutSeconds": 60}]);
    publish(
        &engine,
        "tells",
        &json!({"states": [
            {"name": "open", "initial": true, "entry": tell, "on": {"CLOSE": {"to": "closed"}}},
            {"name": "closed", "terminal": true, "output": {"closed": true}},
        ]}),
    )
    .await;
    publish(&engine, "works", &chain(&[("a", "noop", json!({}))])).await;
    let mut waiting = Vec::new();
    for _ in 0..12 {
        let run = start(&engine, "tells", json!({})).await;
        until("the run has begun", async || steps(&engine, run, Kind::StepDispatched).await.len() == 1).await;
        waiting.push(run);
    }
    until("two webhooks hang", async || target.count() == 2).await;
    for _ in 0..8 {
        let run = start(&engine, "works", json!({})).await;
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
    // A run leaves the memory of its node after its end is committed.
    until("only the waiting runs to be owned by the node", async || engine.active_runs() == 12).await;
    // They still act, and end with their webhooks.
    for run in &waiting {
        is_applied(&act(&engine, *run, "CLOSE", Some(1)).await);
    }
    target.set_mode(TargetMode::Accept);
    for run in waiting {
        assert_eq!(finish(&engine, run).await.status, Status::Completed);
    }
    assert_eq!(dead_letters(folder.path()).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_test_run_leaves_no_letter() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, ends) = engine_with_ends(folder.path()).await;
    let target = WebhookTarget::start();
    target.set_mode(TargetMode::Refuse(404));
    let version = engine.library().compile_test(&review(&target), None).unwrap();
    let run = engine.start_run(Start::of_version(&version, json!({"n": 1}))).await.unwrap().run;
    is_applied(&act(&engine, run, "APPROVE", None).await);
    until("the last attempt has failed", async || steps(&engine, run, Kind::StepFailed).await.len() == 3).await;
    target.set_mode(TargetMode::Hang);
    is_applied(&act(&engine, run, "CLOSE", None).await);
    until("the second webhook hangs", async || target.count() == 4).await;
    send(&engine, run, Input::Cancel { reason: None }).await;
    assert_eq!(finish(&engine, run).await.status, Status::Cancelled);
    assert_eq!(dead_letters(folder.path()).await, []);
    assert_eq!(*ends.0.lock().unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_counted_under_its_own_kind() {
    let folder = tempfile::tempdir().unwrap();
    let (engine, ends) = engine_with_ends(folder.path()).await;
    let target = WebhookTarget::start();
    publish(&engine, "works", &chain(&[("a", "noop", json!({}))])).await;
    // Ids are unique in their list: two states have a side effect `tell` each, of different kinds.
    publish(
        &engine,
        "review",
        &json!({"states": [
            {"name": "open", "initial": true, "entry": [{"id": "tell", "type": "workflow", "target": "works"}],
             "on": {"CLOSE": {"to": "closed"}}},
            {"name": "closed", "terminal": true, "entry": [{"id": "tell", "type": "webhook", "target": target.url("/")}]},
        ]}),
    )
    .await;
    let run = start(&engine, "review", json!({})).await;
    let ended = || ends.0.lock().unwrap().clone();
    let end = |kind: &str| ("review".to_owned(), kind.to_owned(), "delivered");
    until("the run is started", async || ended() == [end("workflow")]).await;
    is_applied(&act(&engine, run, "CLOSE", None).await);
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
    until("the webhook is counted", async || ended() == [end("workflow"), end("webhook")]).await;
}
