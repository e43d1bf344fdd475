//! The world outside: clients that start runs, people who answer, letters that arrive, and disaster.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::ids::{CommitId, NodeId, RunId, StepKey, WorkspaceId};
use everstep_core::input::Input;
use everstep_core::payload::Payload;
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use everstep_engine::NewStart;
use everstep_store::sqlite::Database;
use everstep_store::{Gate, InboxId, Item, Message, NewRun, Outcome, Projection, RunRow};
use futures_util::future::{self, Either};
use serde_json::json;

use super::executor::{Executor, Step};
use super::graphs;
use super::judge::{Judge, show};
use super::process::{Ledger, Server};
use super::store::SimStore;
use super::{Failure, Options, Report};

/// Longer than any delay or timeout in a made graph: a run that writes nothing for so long is stranded.
const LONGEST_REST: Duration = Duration::from_secs(600);

/// The process of the world outside.
const OUTSIDE: u64 = 0;

pub(super) fn play(seed: u64, options: &Options) -> Result<Report, Box<Failure>> {
    let executor = Executor::new(seed, options.has_trace);
    let mut game = Game::new(executor.clone());
    let played = game.play(options.most_polls);
    // Tasks hold the executor that holds them.
    game.server.crash();
    executor.kill(OUTSIDE);
    played
        .map(|judged| Report {
            seed,
            runs: game.planned,
            entries: judged.entries,
            polls: executor.polls(),
            crashes: game.crashes,
            faults: game.ledger.lock().expect("one thread").faults,
            digest: judged.digest,
        })
        .map_err(|message| Box::new(Failure { seed, message, trace: executor.take_trace() }))
}

struct Game {
    executor: Executor,
    store: SimStore,
    server: Server,
    ledger: Arc<Mutex<Ledger>>,
    judge: Arc<Judge>,
    planned: usize,
    crashes: u32,
}

impl Game {
    fn new(executor: Executor) -> Self {
        let mut database = Database::in_memory().expect("SQLite opens in memory");
        let clock = executor.clone();
        database.set_clock(move || clock.now());
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let store = SimStore {
            executor: executor.clone(),
            database: Arc::new(Mutex::new(database)),
            ledger: Arc::clone(&ledger),
        };
        let server = Server::new(executor.clone(), store.clone());
        let judge = Arc::new(Judge { store: store.clone(), world: server.world(OUTSIDE, 0) });
        Self { executor, store, server, ledger, judge, planned: 0, crashes: 0 }
    }

    fn play(&mut self, most_polls: u64) -> Result<super::judge::Judged, String> {
        self.server.boot();
        let workflows = self.executor.with_random(|random| random.between(1, 3));
        for index in 0..workflows {
            let definition = self.executor.with_random(graphs::make);
            let runs = self.executor.with_random(|random| random.between(1, 6));
            let name = format!("w{index}");
            for n in 0..runs {
                self.planned += 1;
                let client = Client {
                    executor: self.executor.clone(),
                    server: self.server.clone(),
                    ledger: Arc::clone(&self.ledger),
                };
                let (name, definition) = (name.clone(), definition.clone());
                self.executor.spawn(OUTSIDE, Box::pin(client.start(name, definition, n)));
            }
        }
        let person = Person {
            executor: self.executor.clone(),
            server: self.server.clone(),
            ledger: Arc::clone(&self.ledger),
            judge: Arc::clone(&self.judge),
        };
        self.executor.spawn(OUTSIDE, Box::pin(person.act()));
        let post = Post {
            executor: self.executor.clone(),
            server: self.server.clone(),
            store: self.store.clone(),
            ledger: Arc::clone(&self.ledger),
        };
        self.executor.spawn(OUTSIDE, Box::pin(post.deliver()));
        self.drive(most_polls)?;
        let (started, posted) = {
            let ledger = self.ledger.lock().expect("one thread");
            (ledger.started.clone(), ledger.posted.clone())
        };
        self.judge.verdict(&started, &posted)
    }

    fn drive(&mut self, most_polls: u64) -> Result<(), String> {
        let storm = self.executor.with_random(|random| random.between(100, 1_500));
        let crash_every = self.executor.with_random(|random| random.between(40, 800)) as usize;
        let mut progress = (0, self.executor.now());
        loop {
            let polls = self.executor.polls();
            let is_storm = polls < storm;
            let is_up = !self.server.is_stopping();
            if is_storm && is_up && self.executor.with_random(|random| random.below(crash_every)) == 0 {
                self.crashes += 1;
                if self.executor.chance(25) {
                    self.server.restart();
                } else {
                    self.server.crash();
                    self.server.boot();
                }
            }
            if is_storm && self.executor.with_random(|random| random.below(700)) == 0 {
                let by = self.executor.with_random(|random| random.between(1, 120));
                self.executor.note(|| format!("the clock jumps by {by} s"));
                self.executor.jump(Duration::from_secs(by));
            }
            if !is_storm && !std::mem::replace(&mut self.ledger.lock().expect("one thread").is_calm, true) {
                // A last death: what is restored now gets no more pushes from outside.
                if is_up && self.executor.chance(50) {
                    self.crashes += 1;
                    self.server.crash();
                    self.server.boot();
                }
            }
            if let Step::Stuck = self.executor.step() {
                return Err(format!("nothing is ready and nothing will be\n{}", self.open_runs()));
            }
            if let Some(violation) = self.ledger.lock().expect("one thread").violations.first() {
                return Err(violation.clone());
            }
            if polls.is_multiple_of(64) && self.is_over() {
                return Ok(());
            }
            if is_storm {
                progress.1 = self.executor.now();
            } else if polls.is_multiple_of(64) {
                let entries = self.store.direct(|db| db.count_entries()).unwrap_or_default();
                if entries != progress.0 {
                    progress = (entries, self.executor.now());
                }
            }
            if polls > most_polls || self.executor.now().since(progress.1) > LONGEST_REST {
                return Err(format!("it does not end\n{}", self.open_runs()));
            }
        }
    }

    fn is_over(&self) -> bool {
        let started = self.ledger.lock().expect("one thread").started.clone();
        started.len() == self.planned
            && started.values().all(|run| self.judge.row(*run).is_ok_and(|row| row.ended_at.is_some()))
    }

    fn open_runs(&self) -> String {
        let started = self.ledger.lock().expect("one thread").started.clone();
        let mut lines = vec![format!("{} of {} were started", started.len(), self.planned)];
        for (key, run) in started {
            let Ok(row) = self.judge.row(run) else { continue };
            if row.ended_at.is_none() {
                let owner = row.owner.map_or("nobody".to_owned(), |owner| owner.to_string());
                lines.push(format!("{key} {run} is {}, owned by {owner}, wakes {}", row.status, row.wake_at));
                lines.push(show(&self.judge.journal(run).unwrap_or_default()));
            }
        }
        lines.join("\n")
    }
}

struct Client {
    executor: Executor,
    server: Server,
    ledger: Arc<Mutex<Ledger>>,
}

impl Client {
    /// Starts one run and insists until it is answered, more than once if it likes.
    async fn start(self, name: String, definition: serde_json::Value, n: u64) {
        let key = format!("{name}-{n}");
        let items: Vec<u64> = (0..self.executor.with_random(|random| random.between(0, 5))).collect();
        let mut answers = 0;
        let wanted = self.executor.with_random(|random| random.between(1, 3));
        while answers < wanted {
            let millis = self.executor.with_random(|random| random.between(0, 4_000));
            self.executor.sleep(Duration::from_millis(millis)).await;
            let Some(engine) = self.server.engine() else { continue };
            match engine.library().publish(WorkspaceId::DEFAULT, &name, &definition).await {
                Ok(Ok(_)) => {}
                Ok(Err(problems)) => {
                    let text = format!("a made graph is invalid: {problems:?}\n{definition}");
                    self.ledger.lock().expect("one thread").violations.push(text);
                    return;
                }
                Err(_) => continue,
            }
            let start = NewStart {
                key: Some((name.clone(), key.clone())),
                ..NewStart::new(name.clone(), json!({"n": n, "items": items}))
            };
            let Ok(started) = engine.start_run(start).await else { continue };
            answers += 1;
            let mut ledger = self.ledger.lock().expect("one thread");
            let before = ledger.started.insert(key.clone(), started.run);
            if before.is_some_and(|before| before != started.run) {
                ledger.violations.push(format!("key {key} was answered with two runs"));
            }
        }
    }
}

/// Somebody who signals, pauses, resumes, cancels, retries and looks.
struct Person {
    executor: Executor,
    server: Server,
    ledger: Arc<Mutex<Ledger>>,
    judge: Arc<Judge>,
}

impl Person {
    async fn act(self) {
        loop {
            let millis = self.executor.with_random(|random| random.between(50, 5_000));
            self.executor.sleep(Duration::from_millis(millis)).await;
            let (runs, is_calm, result) = {
                let ledger = self.ledger.lock().expect("one thread");
                let runs: Vec<RunId> = ledger.started.values().copied().collect();
                let result = (!ledger.results.is_empty()).then(|| {
                    ledger.results[self.executor.with_random(|random| random.below(ledger.results.len()))].clone()
                });
                (runs, ledger.is_calm, result)
            };
            let Some(engine) = self.server.engine() else { continue };
            for run in runs {
                let Ok(row) = self.judge.row(run) else { continue };
                let luck = self.executor.with_random(|random| random.below(100));
                if is_calm && !self.is_wanted(&row) {
                    continue;
                }
                let input = match (row.status, luck) {
                    (Status::Completed | Status::Cancelled, _) => continue,
                    (Status::Failed, 0..20) if !is_calm => Input::Retry,
                    (Status::Failed, _) => continue,
                    (Status::Paused, 0..40) => Input::Resume,
                    (Status::Paused, _) if is_calm => Input::Resume,
                    (_, 0..3) if !is_calm => Input::Cancel { reason: Some("no longer wanted".into()) },
                    (_, 3..8) if !is_calm => Input::Pause { reason: None },
                    (_, 8..20) if !is_calm => {
                        if let Some(state) = engine.inspect(run).await
                            && let Err(fault) = self.judge.compare(&state)
                        {
                            self.ledger.lock().expect("one thread").violations.push(fault);
                        }
                        continue;
                    }
                    _ => Input::Signal { event: "person".into(), payload: Payload::from(json!({"ok": true})) },
                };
                let is_retry = input == Input::Retry;
                // Whether it arrived is not known; people try again.
                let _ = engine.send(run, input).await;
                if is_retry {
                    // A letter to the failed run was lost; its wait, opened again, gets another.
                    self.ledger.lock().expect("one thread").letters.retain(|(of, _)| *of != run);
                }
            }
            if let Some((run, input)) = result.filter(|_| !is_calm && self.executor.chance(50)) {
                // A result that is delivered again.
                let _ = engine.send(run, input).await;
            }
        }
    }
}

impl Person {
    /// In the calm nobody touches a run that does not wait for a person: it must go on by itself.
    fn is_wanted(&self, row: &RunRow) -> bool {
        let waits = self.judge.store.direct(|db| db.waits_for(WorkspaceId::DEFAULT, "person", 1_000));
        row.status == Status::Paused || waits.is_ok_and(|waits| waits.iter().any(|(run, _)| *run == row.id))
    }
}

/// Letters: signals that arrive through the inbox, once.
struct Post {
    executor: Executor,
    server: Server,
    store: SimStore,
    ledger: Arc<Mutex<Ledger>>,
}

impl Post {
    async fn deliver(self) {
        let mailbox = Arc::clone(&self.ledger.lock().expect("one thread").mailbox);
        loop {
            let millis = self.executor.with_random(|random| random.between(100, 20_000));
            let sleep = std::pin::pin!(self.executor.sleep(Duration::from_millis(millis)));
            let urgent = std::pin::pin!(mailbox.notified());
            let letters = match future::select(sleep, urgent).await {
                Either::Left(_) => self.open_letters(),
                Either::Right(_) => std::mem::take(&mut self.ledger.lock().expect("one thread").urgent),
            };
            let mut has_posted = false;
            for (run, step, event) in letters {
                let is_new = !self.ledger.lock().expect("one thread").letters.contains(&(run, step.clone()));
                if is_new && self.post(run, &event) {
                    let mut ledger = self.ledger.lock().expect("one thread");
                    ledger.letters.insert((run, step));
                    *ledger.posted.entry(run).or_default() += 1;
                    has_posted = true;
                }
            }
            if has_posted && let Some(engine) = self.server.engine() {
                engine.hint_inbox();
            }
        }
    }

    fn open_letters(&self) -> Vec<(RunId, StepKey, String)> {
        let waits = self.store.direct(|db| db.waits_for(WorkspaceId::DEFAULT, "letter", 1_000)).unwrap_or_default();
        waits.into_iter().map(|(run, wait)| (run, wait.step, wait.event)).collect()
    }

    /// Writes the letter in the item of a run of the sender's, as a child's end would.
    fn post(&self, to: RunId, event: &str) -> bool {
        let now = self.executor.now();
        let random =
            || self.executor.with_random(|random| u128::from(random.number()) << 64 | u128::from(random.number()));
        let sender = NodeId::new(now, random());
        let input = Input::Signal { event: event.to_owned(), payload: Payload::from(json!({"letter": true})) };
        let item = Item {
            commit: CommitId::new(now, random()),
            run: RunId::new(now, random()),
            workspace: WorkspaceId::from_uuid(uuid::Uuid::from_u128(99)),
            gate: Gate::Start(Box::new(NewRun {
                workflow: "sender".into(),
                version: 1,
                lane: "nowhere".into(),
                key: None,
                input: Payload::null(),
                parent: None,
                tags: Payload::from(json!({})),
                retention_days: 1,
                is_test: false,
                created_at: now,
            })),
            entries: Vec::new(),
            projection: Some(Projection {
                status: Status::Completed,
                owner: None,
                wake_at: Timestamp::NEVER,
                output: None,
                error: None,
                ended_at: Some(now),
            }),
            waits: Vec::new(),
            taken: Vec::new(),
            messages: vec![Message { to, input: serde_json::to_vec(&input).expect("inputs are plain data") }],
        };
        self.store.direct(|db| {
            let outcomes = db.join(sender, Duration::from_secs(60), None).and_then(|_| db.commit(sender, &[item]));
            // A run that has ended gets no letters.
            outcomes.is_ok_and(|outcomes| matches!(&outcomes[..], [Outcome::Applied(sent)] if sent[0].id != InboxId(0)))
        })
    }
}
