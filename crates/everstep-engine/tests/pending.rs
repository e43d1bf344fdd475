//! Starts for a later time: rows of runs without a journal.

use std::time::Duration;

use everstep_core::actor::Actor;
use everstep_core::failure::code;
use everstep_core::ids::{CommitId, RunId};
use everstep_core::journal::Kind;
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::{Engine, Error, Fork, ForkError, Hint, RunInput, Start, StartDetail};
use everstep_store::{Gate, Item, NewRun, Projection, RunRow, StoredEntry};
use serde_json::{Value, json};

use crate::support::{WORKSPACE, chain, engine, engine_with, finish, open, options, publish};

const HOUR: Duration = Duration::from_secs(3_600);

fn quick() -> Value {
    chain(&[("work", "noop", json!({}))])
}

fn waits() -> Value {
    chain(&[("wait", "wait", json!({"config": {"event": "go"}}))])
}

async fn start_at(engine: &Engine, name: &str, begin_at: Timestamp) -> RunId {
    let start = Start { begin_at: Some(begin_at), ..Start::new(name, json!({"n": 1})) };
    engine.start_run(start).await.unwrap().run
}

async fn start_in(engine: &Engine, name: &str, time: Duration) -> RunId {
    start_at(engine, name, engine.world().clock.now().plus(time)).await
}

async fn row(engine: &Engine, run: RunId) -> RunRow {
    engine.world().runs.get_run(WORKSPACE, run).await.unwrap().unwrap()
}

async fn journal(engine: &Engine, run: RunId) -> Vec<StoredEntry> {
    engine.world().runs.journal(run, 0, 1_000).await.unwrap()
}

async fn kinds(engine: &Engine, run: RunId) -> Vec<Kind> {
    journal(engine, run).await.iter().map(|entry| entry.row.kind).collect()
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

fn signal(event: &str) -> Input {
    Input::BufferedSignal { event: event.to_owned(), payload: Payload::from(json!({})) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_start_begins_as_if_it_were_started_now() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &quick()).await;
    let by = || Some(Actor::person("ann"));
    let now = engine.start_run(Start { by: by(), ..Start::new("w", json!({"n": 1})) }).await.unwrap().run;
    let begin_at = engine.world().clock.now().plus(Duration::from_millis(300));
    let detail = StartDetail::Beginning;
    let start = Start { by: by(), begin_at: Some(begin_at), detail, ..Start::new("w", json!({"n": 1})) };
    let reply = engine.start_run(start).await.unwrap();
    let (later, began) = (reply.run, reply.began.unwrap().row);
    assert_eq!((began.status, began.seq, began.wake_at, began.owner), (Status::Pending, 0, begin_at, None));
    assert_eq!(row(&engine, later).await, began);

    let (one, two) = (finish(&engine, now).await, finish(&engine, later).await);
    assert_eq!((one.status, two.status), (Status::Completed, Status::Completed));
    assert_eq!((one.format, two.format), (1, 3));
    assert_eq!(one.input, two.input);
    let (one, two) = (journal(&engine, now).await, journal(&engine, later).await);
    // The output of the end contains the time.
    let steps = |journal: &[StoredEntry]| {
        let rows = journal.iter().map(|entry| (entry.seq, entry.row.kind, entry.row.step.clone()));
        rows.collect::<Vec<_>>()
    };
    assert_eq!(steps(&one), steps(&two));
    assert_eq!(one[0].row, two[0].row);
    assert!(two[0].at >= begin_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_time_has_passed_begins_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &quick()).await;
    let run = start_at(&engine, "w", Timestamp::EPOCH).await;
    let row = finish(&engine, run).await;
    assert_eq!((row.status, row.format, row.start), (Status::Completed, 1, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_and_claim_of_a_pending_start_in_any_order_leave_one_journal() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &waits()).await;
    let mut cancelled = Vec::new();
    for n in 0..40_u64 {
        let engine = engine.clone();
        cancelled.push(tokio::spawn(async move {
            let run = start_in(&engine, "w", Duration::from_millis(n % 20)).await;
            let input = RunInput::new(WORKSPACE, run, Input::Cancel { reason: None });
            assert_eq!(engine.route(input).await, Ok(Reply::Accepted));
            run
        }));
    }
    for run in cancelled {
        let run = run.await.unwrap();
        assert_eq!(row(&engine, run).await.status, Status::Cancelled);
        let journal = journal(&engine, run).await;
        let seqs: Vec<_> = journal.iter().map(|entry| entry.seq).collect();
        assert_eq!(seqs, (1..=journal.len() as u64).collect::<Vec<_>>());
        let of_kind = |kind| journal.iter().filter(|entry| entry.row.kind == kind).count();
        assert_eq!((of_kind(Kind::RunStarted), of_kind(Kind::RunCancelled)), (1, 1));
        assert_eq!(journal[0].row.kind, Kind::RunStarted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_is_cancelled_before_its_time_dispatches_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &quick()).await;
    let run = start_in(&engine, "w", HOUR).await;
    let cancel = Input::Cancel { reason: Some("no longer wanted".to_owned()) };
    let late = engine.send_at(run, cancel.clone(), Some(7)).await.unwrap();
    assert!(matches!(late, Reply::Refused { ref code, .. } if code == "CONCURRENCY_ERROR"), "{late:?}");
    assert_eq!(kinds(&engine, run).await, []);
    assert_eq!(engine.send_at(run, cancel, Some(0)).await, Ok(Reply::Accepted));
    assert_eq!(kinds(&engine, run).await, [Kind::RunStarted, Kind::RunCancelled]);
    assert_eq!(finish(&engine, run).await.status, Status::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_start_is_paused_and_resumed_without_a_journal() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &quick()).await;
    let begin_at = engine.world().clock.now().plus(HOUR);
    let run = start_at(&engine, "w", begin_at).await;
    let send = async |input| engine.route(RunInput::new(WORKSPACE, run, input)).await.unwrap();
    let refused = send(Input::Resume).await;
    assert!(matches!(refused, Reply::Refused { ref code, .. } if code == "INVALID_TRANSITION"), "{refused:?}");
    assert_eq!(send(Input::Pause { reason: None }).await, Reply::Accepted);
    let paused = row(&engine, run).await;
    assert_eq!((paused.status, paused.wake_at, paused.seq), (Status::Paused, Timestamp::NEVER, 0));
    assert!(matches!(send(Input::Pause { reason: None }).await, Reply::Ignored(_)));
    assert_eq!(send(Input::Resume).await, Reply::Accepted);
    let resumed = row(&engine, run).await;
    assert_eq!((resumed.status, resumed.wake_at, resumed.seq), (Status::Pending, begin_at, 0));

    // A caller that waits for the run learns that it is paused. The wait has begun when it has read the row.
    let (waiting, reads) = (engine.clone(), engine.world().runs.calls());
    let halt = tokio::spawn(async move { waiting.wait_for_halt(WORKSPACE, None, run).await });
    until("the row is read", async || engine.world().runs.calls() > reads).await;
    assert_eq!(send(Input::Pause { reason: None }).await, Reply::Accepted);
    let halt = tokio::time::timeout(Duration::from_secs(10), halt).await.expect("the wait ends").unwrap().unwrap();
    assert_eq!(halt.into_row().status, Status::Paused);

    // While it is paused its time passes; it begins when it is resumed.
    let run = start_in(&engine, "w", Duration::from_millis(50)).await;
    let send = async |input| engine.route(RunInput::new(WORKSPACE, run, input)).await.unwrap();
    if send(Input::Pause { reason: None }).await == Reply::Accepted {
        assert_eq!(send(Input::Resume).await, Reply::Accepted);
    }
    assert_eq!(finish(&engine, run).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_before_the_beginning_has_its_effect_once_under_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &waits()).await;
    let run = start_in(&engine, "w", HOUR).await;
    let send = async |input, key: &str| {
        let input = RunInput { key: Some(key.to_owned()), ..RunInput::new(WORKSPACE, run, input) };
        engine.route(input).await.unwrap()
    };
    let pause = || Input::Pause { reason: None };
    assert_eq!(send(pause(), "a").await, Reply::Accepted);
    assert_eq!(send(Input::Resume, "b").await, Reply::Accepted);
    // The caller has not received the first answer.
    assert_eq!(send(pause(), "a").await, Reply::Repeated);
    assert_eq!(row(&engine, run).await.status, Status::Pending);
    let reused = send(Input::Resume, "a").await;
    assert!(matches!(reused, Reply::Refused { ref code, .. } if code == "IDEMPOTENCY_KEY_REUSED"), "{reused:?}");
    let long = send(pause(), &"k".repeat(256)).await;
    assert!(matches!(long, Reply::Refused { ref code, .. } if code == "VALIDATION_ERROR"), "{long:?}");

    // The run knows the keys after it has begun.
    let run = start_in(&engine, "w", Duration::from_millis(500)).await;
    let send = async |input, key: &str| {
        let input = RunInput { key: Some(key.to_owned()), ..RunInput::new(WORKSPACE, run, input) };
        engine.route(input).await.unwrap()
    };
    assert_eq!(send(pause(), "a").await, Reply::Accepted);
    assert_eq!(send(Input::Resume, "b").await, Reply::Accepted);
    until("the run waits", async || row(&engine, run).await.status == Status::Waiting).await;
    assert_eq!(send(pause(), "a").await, Reply::Repeated);
    assert_eq!(send(Input::Resume, "b").await, Reply::Repeated);
    assert_eq!(row(&engine, run).await.status, Status::Waiting);
    assert_eq!(send(pause(), "c").await, Reply::Accepted);
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_need_a_journal_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "w", &waits()).await;
    let run = start_in(&engine, "w", HOUR).await;
    let plain = Input::Signal { event: "go".to_owned(), payload: Payload::from(json!({})) };
    let values = Payload::from(json!({"a": 1}));
    for (input, expected) in
        [(plain, "RUN_PENDING"), (Input::SetContext { values }, "RUN_PENDING"), (Input::Retry, "INVALID_TRANSITION")]
    {
        let reply = engine.send(run, input).await.unwrap();
        assert!(matches!(reply, Reply::Refused { ref code, .. } if code == expected), "{reply:?}");
    }
    let forked = engine.fork(WORKSPACE, run, Fork::default()).await;
    assert_eq!(forked.unwrap_err(), ForkError::Engine(Error::NotBegun(run)));
    assert_eq!(kinds(&engine, run).await, []);
    let untouched = row(&engine, run).await;
    assert_eq!((untouched.status, untouched.owner), (Status::Pending, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_buffered_before_the_start_if_the_run_buffers_signals() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish(&engine, "graph", &waits()).await;
    let begin_at = Some(engine.world().clock.now().plus(HOUR));
    let send = async |run, key: Option<&str>| {
        let input = RunInput { key: key.map(str::to_owned), ..RunInput::new(WORKSPACE, run, signal("go")) };
        engine.route(input).await.unwrap()
    };
    let graph = start_in(&engine, "graph", HOUR).await;
    let refused = send(graph, None).await;
    assert!(matches!(refused, Reply::Refused { ref code, .. } if code == "VALIDATION_ERROR"), "{refused:?}");
    let start = Start { begin_at, allow_unserved: true, ..Start::new("function", json!({})) };
    let code = engine.start_run(start).await.unwrap().run;
    // The sender does not know the outcome of its first request, and repeats it.
    assert_eq!(send(code, Some("k")).await, Reply::Buffered);
    assert_eq!(send(code, Some("k")).await, Reply::Repeated);
    assert_eq!(send(code, Some("other")).await, Reply::Buffered);
    for (run, rows) in [(graph, 0), (code, 2)] {
        assert_eq!(engine.world().runs.arrivals(run).await.unwrap().len(), rows);
        assert_eq!((row(&engine, run).await.status, row(&engine, run).await.seq), (Status::Pending, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_start_of_a_version_that_is_gone_fails() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let (now, random) = (engine.world().clock.now(), engine.world().random.next());
    let run = RunId::new(now, random);
    let new = NewRun {
        workflow: "gone".to_owned(),
        version: 7,
        lane: String::new(),
        key: None,
        input: Payload::from(json!({"n": 1})),
        parent: None,
        tags: Payload::from(json!({})),
        search_paths: std::sync::Arc::default(),
        retention_days: 1,
        is_test: false,
        created_at: now,
        trigger: None,
        start: None,
    };
    let item = Item {
        commit: CommitId::new(now, random),
        run,
        workspace: WORKSPACE,
        gate: Gate::Start(Box::new(new)),
        format: 3,
        entries: Vec::new(),
        projection: Some(Projection {
            status: Status::Pending,
            owner: None,
            wake_at: now,
            output: None,
            error: None,
            ended_at: None,
            machine: None,
        }),
        waits: Vec::new(),
        taken: Vec::new(),
        inbox_inputs: Vec::new(),
        side: None,
    };
    engine.world().runs.commit(engine.node(), &[item]).await.unwrap();
    engine.hinted(Hint::Work);
    let ended = finish(&engine, run).await;
    assert_eq!((ended.status, ended.error.unwrap().code.as_ref()), (Status::Failed, code::WORKFLOW_NOT_FOUND));
    assert_eq!(kinds(&engine, run).await, [Kind::RunStarted, Kind::RunFailed]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_start_survives_its_node() {
    let folder = tempfile::tempdir().unwrap();
    let first = engine(folder.path()).await;
    publish(&first, "w", &quick()).await;
    let run = start_in(&first, "w", Duration::from_millis(400)).await;
    let key = Some(("w".to_owned(), "once".to_owned()));
    let keyed = || Start { begin_at: Some(Timestamp::NEVER), key: key.clone(), ..Start::new("w", json!({})) };
    let known = first.start_run(keyed()).await.unwrap();
    assert!(known.created);
    first.stop(Duration::from_secs(1)).await.unwrap();
    drop(first);
    let second = engine(folder.path()).await;
    assert_eq!(finish(&second, run).await.status, Status::Completed);
    let again = second.start_run(keyed()).await.unwrap();
    assert_eq!((again.run, again.created), (known.run, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_starts_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine_with(open(folder.path()).await, options()).await;
    publish(&engine, "w", &quick()).await;
    let (first, second) = (start_in(&engine, "w", HOUR).await, start_in(&engine, "w", HOUR).await);
    let count = async |status: Status| {
        let counts = engine.world().runs.counts(WORKSPACE).await.unwrap();
        counts.iter().filter(|count| count.status == status).map(|count| count.n).sum::<i64>()
    };
    until("two are pending", async || count(Status::Pending).await == 2).await;
    assert_eq!(engine.send(first, Input::Pause { reason: None }).await, Ok(Reply::Accepted));
    until("one is paused", async || (count(Status::Pending).await, count(Status::Paused).await) == (1, 1)).await;
    assert_eq!(engine.send(second, Input::Cancel { reason: None }).await, Ok(Reply::Accepted));
    until("one is cancelled", async || (count(Status::Pending).await, count(Status::Cancelled).await) == (0, 1)).await;
    engine.world().runs.recount().await.unwrap();
    assert_eq!((count(Status::Paused).await, count(Status::Cancelled).await), (1, 1));
}
