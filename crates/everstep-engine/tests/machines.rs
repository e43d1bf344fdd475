//! Requests to machines: one of many succeeds, at any node, and a repeated one is answered as before.
//!
//! Tests of one node use the database that `TEST_STORE` names; those of two nodes use PostgreSQL.

use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::path::Path;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use everstep_core::actor::Actor;
use everstep_core::ids::RunId;
use everstep_core::journal::Kind;
use everstep_core::machine::{Act, Applied, RefusalDetails, Rights};
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_engine::{Engine, Error, Fork, RunInput, Start};
use everstep_store::RunFilter;
use everstep_testkit::postgres::Cluster;
use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::street::{Street, join, until};
use crate::support::{self, WORKSPACE, engine, is_on_postgres, publish, url};

/// The number of persons who approve at once.
const PERSONS: u32 = 50;
/// How often each contest is repeated.
const CONTESTS: usize = 10;

/// One level of approval. A time limit keeps the run in memory; without one it is parked.
fn one_level(is_in_memory: bool) -> Value {
    let review = json!({"name": "review", "initial": true, "on": {"APPROVE": {"to": "approved"}}});
    machine(vec![limited(review, is_in_memory)])
}

/// Two levels with the same action.
fn two_levels(is_in_memory: bool) -> Value {
    let first = json!({"name": "first", "initial": true, "on": {"APPROVE": {"to": "second"}}});
    let second = json!({"name": "second", "on": {"APPROVE": {"to": "approved"}}});
    machine(vec![limited(first, is_in_memory), limited(second, is_in_memory)])
}

fn limited(mut state: Value, is_limited: bool) -> Value {
    if is_limited {
        state["after"] = json!([{"in": "20s", "to": "late"}]);
    }
    state
}

fn machine(mut states: Vec<Value>) -> Value {
    let has_limit = states.iter().any(|state| state.get("after").is_some());
    states.push(json!({"name": "approved", "terminal": true}));
    if has_limit {
        states.push(json!({"name": "late", "terminal": true}));
    }
    json!({"states": states})
}

/// A request of a person for an action.
fn request(run: RunId, action: &str, person: &str, version: Option<u32>, key: Option<&str>) -> RunInput {
    let act = Act {
        action: action.to_owned(),
        version,
        by: Actor::person(person),
        rights: Rights::default(),
        comment: None,
        data: None,
        shown: None,
        withdraw: false,
        files: Vec::new(),
        files_until: None,
        digest: format!("{action} {version:?}"),
    };
    let input = Input::Transition(Box::new(act));
    RunInput { key: key.map(str::to_owned), ..RunInput::new(WORKSPACE, run, input) }
}

fn approve(run: RunId, person: &str, version: Option<u32>) -> RunInput {
    request(run, "APPROVE", person, version, None)
}

async fn start(engine: &Engine, workflow: &str) -> RunId {
    let by = Some(Actor::person("starter"));
    engine.start_run(Start { by, ..Start::new(workflow, json!({})) }).await.unwrap().run
}

/// Waits until a run is in memory at one of the nodes, or at none of them.
async fn settle(engines: &[&Engine], run: RunId, is_in_memory: bool) {
    until("the run is in memory or parked", async || {
        let holders = join_all(engines.iter().map(|engine| engine.inspect(run))).await;
        holders.iter().any(Option::is_some) == is_in_memory
    })
    .await;
}

async fn transitions(engine: &Engine, run: RunId) -> usize {
    let journal = engine.world().runs.journal(run, 0, 1_000).await.unwrap();
    journal.iter().filter(|entry| entry.row.kind == Kind::TransitionApplied).count()
}

/// The accepted replies, and the codes and details of the others.
fn sort(replies: Vec<Result<Reply, Error>>) -> (Vec<Applied>, Vec<(String, RefusalDetails)>) {
    let (mut applied, mut refused) = (Vec::new(), Vec::new());
    for reply in replies {
        match reply.unwrap() {
            Reply::Applied(answer) => applied.push(*answer),
            Reply::Refused { code, details, .. } => refused.push((code.into_owned(), *details.unwrap())),
            reply => panic!("{reply:?}"),
        }
    }
    (applied, refused)
}

/// Fifty persons approve one run at once, at all nodes: one of them does, and the others are refused.
async fn hold_contest(engines: &[&Engine], workflow: &str, is_in_memory: bool, version: Option<u32>) {
    let run = start(engines[0], workflow).await;
    settle(engines, run, is_in_memory).await;
    let requests = (0..PERSONS).map(|n| {
        let engine = engines[n as usize % engines.len()].clone();
        let request = approve(run, &format!("p{n}"), version);
        tokio::spawn(async move { engine.route(request).await })
    });
    let replies = join_all(requests.collect::<Vec<_>>()).await.into_iter().map(Result::unwrap).collect();
    let (applied, refused) = sort(replies);
    assert_eq!((applied.len(), refused.len()), (1, PERSONS as usize - 1), "{applied:?}");
    assert_eq!((applied[0].applied, applied[0].version_no), (true, 2));
    assert_eq!(transitions(engines[0], run).await, 2, "the start and one approval");
    let machine = engines[0].runs().load(run).await.unwrap().state.unwrap();
    let winner = &machine.machine().unwrap().last_transition().unwrap().by;
    for (code, details) in &refused {
        // The end of a run is checked before the version.
        let is_late = workflow == "one" && code == "RUN_ENDED";
        assert!(code == "CONCURRENCY_ERROR" || is_late, "{code}");
        assert_eq!((details.version_no, details.last_by.as_ref()), (Some(2), Some(winner)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_approvals_of_one_run_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    for is_in_memory in [true, false] {
        publish(&engine, "one", &one_level(is_in_memory)).await;
        publish(&engine, "two", &two_levels(is_in_memory)).await;
        for _ in 0..CONTESTS {
            hold_contest(&[&engine], "one", is_in_memory, Some(1)).await;
            hold_contest(&[&engine], "one", is_in_memory, None).await;
            hold_contest(&[&engine], "two", is_in_memory, Some(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_approvals_of_one_run_at_two_nodes_are_one() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    for is_in_memory in [true, false] {
        publish(&one, "one", &one_level(is_in_memory)).await;
        publish(&one, "two", &two_levels(is_in_memory)).await;
        for _ in 0..CONTESTS {
            for engines in [[&one, &two], [&two, &one]] {
                hold_contest(&engines, "one", is_in_memory, Some(1)).await;
                hold_contest(&engines, "one", is_in_memory, None).await;
                hold_contest(&engines, "two", is_in_memory, Some(1)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_votes_of_which_twenty_five_are_needed() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let vote = json!({"to": "approved", "quorum": {"need": 25}});
    publish(&engine, "vote", &machine(vec![json!({"name": "review", "initial": true, "on": {"APPROVE": vote}})])).await;
    for version in [Some(1), None] {
        let run = start(&engine, "vote").await;
        let votes = (0..PERSONS).map(|n| engine.route(approve(run, &format!("p{n}"), version)));
        let (applied, refused) = sort(join_all(votes).await);
        assert_eq!((applied.len(), refused.len()), (25, 25));
        assert_eq!(applied.iter().filter(|answer| answer.applied).count(), 1, "the last vote moves the machine");
        assert_eq!(transitions(&engine, run).await, 2);
    }
}

/// Delays the commits of a database until it is dropped.
enum Delay {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Delay {
    async fn begin(folder: &Path, run: RunId) -> Self {
        if !is_on_postgres() {
            let connection = rusqlite::Connection::open(folder.join("everstep.db")).unwrap();
            connection.execute_batch("begin immediate").unwrap();
            return Self::Sqlite(connection);
        }
        let (client, connection) = tokio_postgres::connect(&url(folder), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("begin; select from runs where id = '{run}' for update")).await.unwrap();
        Self::Postgres(client)
    }

    /// Polls a request until its commit is delayed.
    async fn reach(&self, mut request: Pin<&mut impl Future<Output = Result<Reply, Error>>>) {
        // On SQLite a request is with the shard after its first poll, and is decided before it can be committed.
        let Self::Postgres(client) = self else { return };
        let waiting =
            "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
        while client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx).is_ready())).await;
        }
    }

    async fn end(self) {
        match self {
            Self::Sqlite(connection) => connection.execute_batch("rollback").unwrap(),
            Self::Postgres(client) => client.batch_execute("rollback").await.unwrap(),
        }
    }
}

/// Polls a request until its input has reached the run's shard.
async fn arrive(engine: &Engine, run: RunId, mut request: Pin<&mut impl Future<Output = Result<Reply, Error>>>) {
    // Each message to the shard is answered before the next one is sent; this one comes after them.
    for _ in 0..5 {
        poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx).is_ready())).await;
        engine.inspect(run).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_approves_one_level() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    for is_in_memory in [true, false] {
        publish(&engine, "two", &two_levels(is_in_memory)).await;
        let run = start(&engine, "two").await;
        settle(&[&engine], run, is_in_memory).await;

        let delay = Delay::begin(folder.path(), run).await;
        let mut first = Box::pin(engine.route(approve(run, "ann", None)));
        arrive(&engine, run, first.as_mut()).await;
        delay.reach(first.as_mut()).await;
        let mut second = Box::pin(engine.route(approve(run, "ann", None)));
        arrive(&engine, run, second.as_mut()).await;
        delay.end().await;

        let (first, second) = tokio::join!(first, second);
        let (applied, refused) = sort(vec![first, second]);
        assert_eq!((applied.len(), applied[0].next_state.as_str(), applied[0].version_no), (1, "second", 2));
        assert_eq!(refused[0].0, "CONCURRENCY_ERROR");
        assert_eq!(refused[0].1.last_by, Some(Actor::person("ann")));
        assert_eq!(transitions(&engine, run).await, 2);
        // A request that arrives after the commit is for the second level.
        assert!(engine.route(approve(run, "ann", None)).await.unwrap().is_accepted());
    }
}

/// The second click waits in a node that loses its lease, while another node approves the first level: the request is
/// sent again with the version that it had on its arrival.
#[tokio::test(flavor = "multi_thread")]
async fn a_double_click_that_is_sent_again_approves_one_level() {
    for _ in 0..5 {
        // A node that rejoins before its shard has replied gives no reply: both clicks begin again, in a new database.
        match click_at_both_nodes().await {
            Err(Error::OutcomeUnknown(_)) => {}
            clicked => return clicked.unwrap(),
        }
    }
    panic!("the second click never had an answer");
}

async fn click_at_both_nodes() -> Result<(), Error> {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "two", &two_levels(true)).await;
    let run = start(&one, "two").await;
    settle(&[&one], run, true).await;

    let connect = async || {
        let (client, connection) = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    };
    // The commits of the first node wait for its row. It is fenced when this transaction ends.
    let (fencing, releasing, node) = (connect().await, connect().await, one.node());
    let fence = format!("update nodes set fenced = true where id = '{node}'");
    fencing.batch_execute(&format!("begin; select from nodes where id = '{node}' for update; {fence}")).await.unwrap();
    let mut second = Box::pin(one.route(approve(run, "ann", None)));
    arrive(&one, run, second.as_mut()).await;
    releasing.batch_execute(&format!("update runs set owner = null where id = '{run}'")).await.unwrap();
    let first = two.route(approve(run, "ann", Some(1))).await;
    fencing.batch_execute("commit").await.unwrap();

    let (applied, refused) = sort(vec![first, Ok(second.await?)]);
    assert_eq!((applied.len(), applied[0].next_state.as_str(), applied[0].version_no), (1, "second", 2));
    assert_eq!((refused[0].0.as_str(), refused[0].1.version_no), ("CONCURRENCY_ERROR", Some(2)));
    assert_eq!(transitions(&two, run).await, 2);
    Ok(())
}

/// The answer without the mark of a repetition.
fn answer(reply: &Result<Reply, Error>) -> Applied {
    match reply {
        Ok(Reply::Applied(applied)) => Applied { repeated: false, ..(**applied).clone() },
        reply => panic!("{reply:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_key_is_answered_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let stores = support::open(folder.path()).await;
    let mut engine = support::engine_with(stores.clone(), support::options()).await;
    for is_in_memory in [true, false] {
        publish(&engine, "two", &two_levels(is_in_memory)).await;
        let run = start(&engine, "two").await;
        settle(&[&engine], run, is_in_memory).await;
        let keyed = |person: &str| request(run, "APPROVE", person, Some(1), Some("k"));
        let first = engine.route(keyed("ann")).await;
        assert_eq!(answer(&first).next_state, "second");
        for _ in 0..2 {
            let again = engine.route(keyed("ann")).await;
            assert_eq!(answer(&again), answer(&first));
            assert!(!again.unwrap().is_recorded(), "nothing was written for it");
        }
        // The equal key of another person is another request, and its version is stale.
        let (_, refused) = sort(vec![engine.route(keyed("ben")).await]);
        assert_eq!(refused[0].0, "CONCURRENCY_ERROR");
        // Another request under the same key is refused, whatever its version is.
        let other = engine.route(request(run, "APPROVE", "ann", Some(2), Some("k"))).await;
        assert!(matches!(&other, Ok(Reply::Refused { code, .. }) if code == "IDEMPOTENCY_KEY_REUSED"), "{other:?}");
        // The answer is in the journal: another process knows it, also after the end of the run.
        engine.stop(Duration::from_secs(5)).await.unwrap();
        engine = support::engine_with(stores.clone(), support::options()).await;
        assert_eq!(answer(&engine.route(keyed("ann")).await), answer(&first));
        assert!(engine.route(approve(run, "ben", Some(2))).await.unwrap().is_accepted());
        assert_eq!(answer(&engine.route(keyed("ann")).await), answer(&first));
        assert_eq!(transitions(&engine, run).await, 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_key_is_answered_as_before_at_both_nodes() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    for is_in_memory in [true, false] {
        publish(&one, "two", &two_levels(is_in_memory)).await;
        let run = start(&one, "two").await;
        settle(&[&one, &two], run, is_in_memory).await;
        let keyed = |person: &str| request(run, "APPROVE", person, Some(1), Some("k"));
        let first = two.route(keyed("ann")).await;
        for engine in [&one, &two, &one] {
            assert_eq!(answer(&engine.route(keyed("ann")).await), answer(&first));
            let (_, refused) = sort(vec![engine.route(keyed("ben")).await]);
            assert_eq!(refused[0].0, "CONCURRENCY_ERROR");
        }
        assert_eq!(transitions(&two, run).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_request_is_refused_without_the_owner() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "two", &two_levels(true)).await;
    let run = start(&one, "two").await;
    let keyed = request(run, "APPROVE", "ann", Some(1), Some("k"));
    let first = one.route(keyed.clone()).await;
    settle(&[&one], run, true).await;
    // From now on no node reaches another.
    street.0.lock().unwrap().clear();
    let (_, refused) = sort(vec![two.route(approve(run, "ben", Some(1))).await]);
    let details = &refused[0].1;
    assert_eq!((refused[0].0.as_str(), details.state.as_deref()), ("CONCURRENCY_ERROR", Some("second")));
    assert_eq!((details.version_no, details.last_by.clone()), (Some(2), Some(Actor::person("ann"))));
    assert_eq!(answer(&two.route(keyed).await), answer(&first));
    // A request with the present version needs the owner. Nothing is written, and it is sent again before it fails.
    let began = Instant::now();
    let unreachable = two.route(approve(run, "ben", Some(2))).await;
    assert_eq!(unreachable, Err(Error::Unreachable(one.node())));
    assert!(began.elapsed() >= Duration::from_millis(1_500), "it took {:?}", began.elapsed());
    assert_eq!(transitions(&two, run).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_sent_again_until_the_owner_is_reached() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    publish(&one, "one", &one_level(true)).await;
    let run = start(&one, "one").await;
    settle(&[&one], run, true).await;
    let address = street.0.lock().unwrap().remove("one").unwrap();
    let mut request = Box::pin(two.route(approve(run, "ann", None)));
    // The first attempt fails; the owner is reached again before the last one.
    poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx).is_ready())).await;
    street.0.lock().unwrap().insert("one".to_owned(), address);
    assert!(request.await.unwrap().is_accepted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_has_no_version_in_its_row_and_takes_requests() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let (one, two) = (join(&database, &street, "one").await, join(&database, &street, "two").await);
    for is_in_memory in [true, false] {
        publish(&one, "two", &two_levels(is_in_memory)).await;
        let run = start(&one, "two").await;
        assert!(one.route(approve(run, "ann", Some(1))).await.unwrap().is_accepted());
        // Both nodes take the request, whether or not one of them has claimed the fork.
        for engine in [&one, &two] {
            let fork = engine.fork(WORKSPACE, run, Fork::default()).await.unwrap().run;
            let (_, stale) = sort(vec![engine.route(approve(fork, "ben", Some(1))).await]);
            assert_eq!(stale[0].0, "CONCURRENCY_ERROR");
            assert!(engine.route(approve(fork, "ben", None)).await.unwrap().is_accepted());
            assert_eq!(support::finish(engine, fork).await.status, Status::Completed);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_a_run_has_its_state_and_version() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let place = async |run| {
        let row = engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap();
        assert_eq!(row.format, 2);
        row.machine.map(|place| (place.state, place.version_no))
    };
    let listed = async |state: &str| {
        let filter =
            RunFilter { workflow: Some("two".to_owned()), state: Some(state.to_owned()), ..Default::default() };
        let page = engine.runs().list(WORKSPACE, filter, None, 10).await.unwrap();
        page.runs.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    for is_in_memory in [true, false] {
        publish(&engine, "two", &two_levels(is_in_memory)).await;
        let run = start(&engine, "two").await;
        assert_eq!(place(run).await, Some(("first".to_owned(), 1)));
        assert_eq!(listed("first").await, [run]);
        engine.route(approve(run, "ann", Some(1))).await.unwrap();
        assert_eq!(place(run).await, Some(("second".to_owned(), 2)));
        assert_eq!((listed("first").await, listed("second").await), (vec![], vec![run]));
        engine.route(approve(run, "ann", None)).await.unwrap();
        assert_eq!(place(run).await, Some(("approved".to_owned(), 3)));
        assert_eq!(listed("second").await, []);
    }
    // A fork has its state in its row when it was claimed, also if nothing is due in it.
    publish(&engine, "two", &two_levels(true)).await;
    let run = start(&engine, "two").await;
    let fork = engine.fork(WORKSPACE, run, Fork::default()).await.unwrap().run;
    until("the fork has a place", async || place(fork).await.is_some()).await;
    assert_eq!(place(fork).await, Some(("first".to_owned(), 1)));
}

/// Two states that lead to each other; only the first one has an assigned person.
fn endless() -> Value {
    let odd = json!({"name": "odd", "initial": true, "assign": ["ann"], "on": {"APPROVE": {"to": "even"}}});
    let even = json!({"name": "even", "on": {"APPROVE": {"to": "odd"}}});
    json!({"states": [odd, even]})
}

/// Starts a run and moves it to a version, one request at a time; it is parked after each of them.
async fn moved_to(engine: &Engine, workflow: &str, version_no: u32) -> RunId {
    let run = start(engine, workflow).await;
    for version in 1..version_no {
        answer(&engine.route(approve(run, "bob", Some(version))).await);
    }
    run
}

/// A request costs the same late in a run as early in it: a load reads few entries.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_was_moved_often_is_loaded_from_a_snapshot() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "endless", &endless()).await;
    let run = moved_to(&engine, "endless", 300).await;
    // Snapshots are written in separate tasks, after the park.
    until("the snapshots are written", async || {
        let stored = engine.world().runs.load_run(run).await.unwrap().unwrap();
        stored.snapshot.is_some() && stored.entries.len() <= 66
    })
    .await;
    let loaded = engine.runs().load(run).await.unwrap();
    let (_, folded) = engine.runs().state_at(&loaded.row, loaded.row.seq).await.unwrap();
    assert_eq!(loaded.state, Some(folded));
    assert_eq!(answer(&engine.route(approve(run, "bob", None)).await).version_no, 301);
}

/// The number of calls to the database that an action needs: the least of several, because the loops of a node send calls
/// as well.
async fn least_calls(engine: &Engine, mut action: impl AsyncFnMut()) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..10 {
        let before = engine.world().runs.calls();
        action().await;
        least = least.min(engine.world().runs.calls() - before);
    }
    least
}

/// On a shared database, a request reads the row of a parked run once and loads the run once, whether it is accepted or
/// stale; requests that arrive together share these reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_reads_a_parked_run_once() {
    let (database, street) = (Cluster::shared().migrated_database(), Street::default());
    let engine = join(&database, &street, "one").await;
    publish(&engine, "endless", &endless()).await;
    let run = start(&engine, "endless").await;
    settle(&[&engine], run, false).await;
    let store = &engine.world().runs;
    let glance = least_calls(&engine, async || _ = store.glance(WORKSPACE, run).await.unwrap()).await;
    let load = least_calls(&engine, async || _ = store.load_run(run).await.unwrap()).await;
    assert_eq!(glance, 1);

    let mut version = 0;
    let accepted = least_calls(&engine, async || {
        version += 1;
        answer(&engine.route(approve(run, "ann", Some(version))).await);
    });
    assert_eq!(accepted.await, glance + load + 1, "one commit");
    let refused = async || {
        let (_, refused) = sort(vec![engine.route(approve(run, "ben", Some(1))).await]);
        assert_eq!(refused[0].0, "CONCURRENCY_ERROR");
    };
    assert_eq!(least_calls(&engine, refused).await, glance + load);

    let race = async || {
        version += 1;
        let acts = (0..PERSONS).map(|n| engine.route(approve(run, &format!("p{n}"), Some(version))));
        let (applied, refused) = sort(join_all(acts).await);
        assert_eq!((applied.len(), refused.len()), (1, PERSONS as usize - 1));
    };
    // A read serves the requests that arrived before it began.
    let calls = least_calls(&engine, race).await;
    assert!(calls <= 3 * (glance + load) + 1, "{calls} calls for {PERSONS} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_states_that_a_run_has_left_are_found_at_any_version() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "endless", &endless()).await;
    let run = moved_to(&engine, "endless", 200).await;
    until("a snapshot is written", async || {
        engine.world().runs.load_run(run).await.unwrap().unwrap().snapshot.is_some_and(|snapshot| snapshot.seq > 100)
    })
    .await;
    let runs = engine.runs();
    let loaded = runs.load_shared(run).await.unwrap();
    // Whether the state was found, and the versions whose states were examined.
    let examine = async |versions: RangeInclusive<u32>, wanted: u32| {
        let mut examined = Vec::new();
        let was = runs.was_in_state(&loaded, versions, |_, state| {
            examined.push(state.machine().unwrap().version_no());
            examined.last() == Some(&wanted)
        });
        (was.await.unwrap(), examined)
    };
    // The last state was not left. The others are found before the snapshot and after it.
    assert_eq!(examine(199..=200, 200).await, (false, vec![199]));
    assert_eq!(examine(198..=200, 199).await, (true, vec![198, 199]));
    assert_eq!(examine(3..=5, 4).await, (true, vec![3, 4]));
    assert_eq!(examine(3..=5, 6).await, (false, vec![3, 4, 5]));
    assert_eq!(examine(201..=300, 201).await, (false, vec![]));
}

/// A parked run with a large context is not folded from its beginning for each request; the state is the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_state_is_the_fold_of_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let enough = json!({"type": "json-logic", "rule": {">": [{"var": "sum"}, 2]}});
    let states = json!([
        {"name": "open", "initial": true, "on": {"ADD": {"to": "open"}, "CLOSE": {"to": "closed", "condition": enough}}},
        {"name": "closed", "terminal": true},
    ]);
    publish(&engine, "large", &json!({ "states": states })).await;
    let input = json!({"many": (0..20_000).collect::<Vec<_>>(), "sum": 0});
    let run = engine.start_run(Start::new("large", input)).await.unwrap().run;
    for sum in 1..=3 {
        let reply = engine.route(request(run, "CLOSE", "ann", None, None)).await.unwrap();
        assert!(matches!(&reply, Reply::Refused { code, .. } if code == "CONDITION_FAILED"), "{reply:?}");
        let mut add = request(run, "ADD", "ann", None, None);
        let Input::Transition(act) = &mut add.input else { unreachable!("it is a request") };
        act.data = Some(Payload::from(json!({ "sum": sum })));
        assert!(matches!(engine.route(add).await.unwrap(), Reply::Applied(_)));
        settle(&[&engine], run, false).await;
        let loaded = engine.runs().load(run).await.unwrap();
        let (_, folded) = engine.runs().state_at(&loaded.row, u64::MAX).await.unwrap();
        assert_eq!(loaded.state, Some(folded));
    }
    let reply = engine.route(request(run, "CLOSE", "ann", None, None)).await.unwrap();
    assert!(matches!(&reply, Reply::Applied(applied) if applied.is_completed), "{reply:?}");
    engine.stop(Duration::from_secs(5)).await.unwrap();
}
