//! Laws that hold for every graph and every sequence of inputs, for every function and for every machine.

mod code;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Dispatch, Entry, Event, Outcome};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::decide::decide;
use everstep_core::run::keys;
use everstep_core::run::{Cx, Input, OpenActivity, Parent, Reply};
use everstep_core::status::Status;
use serde_json::json;

use super::support::{Game, Plan, Random, compile, definition, load, now, often, timed};

#[test]
fn random_runs_keep_the_laws_and_reach_an_end() {
    let mut seen = BTreeMap::<Status, usize>::new();
    let (mut repeated, mut cancelled, mut ended) = (0, 0, 0);
    for seed in 0..often(250) {
        let mut random = Random::new(seed);
        let plan = Plan::random(&mut random);
        let mut player = Player::new(&plan, random, seed);
        player.play();
        player.finish();
        check_joins(&plan, &player.game, seed);
        *seen.entry(player.game.state.status()).or_default() += 1;
        repeated += player.repeated;
        for (_, message) in &player.game.sent_inputs {
            let is_cancel = matches!(message, Input::Cancel { .. });
            (cancelled, ended) = (cancelled + usize::from(is_cancel), ended + usize::from(!is_cancel));
        }
    }
    assert!(cancelled > 20 && ended > 20, "{cancelled} children were cancelled, {ended} parents were notified");
    assert!(repeated > 20, "{repeated}");
    for status in [Status::Completed, Status::Failed, Status::Cancelled] {
        assert!(seen.get(&status).is_some_and(|count| *count > 5), "{seen:?}");
    }
}

#[test]
fn a_fork_at_any_item_keeps_the_laws_and_reaches_an_end() {
    let mut forks = 0;
    for seed in 0..often(60) {
        let mut random = Random::new(seed);
        let plan = Plan::random(&mut random);
        let mut player = Player::new(&plan, random, seed);
        player.play();
        for at in std::mem::take(&mut player.items) {
            let mut game = player.game.fork(at);
            if game.state.has_ended() {
                continue;
            }
            let open = game.state.open().filter(|open| open.activity == OpenActivity::Task);
            let lost: Vec<_> = open.map(|open| (open.step.clone(), open.attempt)).collect();
            game.input(Input::Settle);
            for (step, attempt) in lost {
                game.input(Input::TaskLost { step, attempt });
            }
            let mut fork = Player::new(&plan, Random::new(seed ^ at), seed);
            fork.game = game;
            fork.finish();
            check_joins(&plan, &fork.game, seed);
            forks += 1;
        }
    }
    assert!(forks > 200, "{forks}");
}

/// Plays a run with random inputs, including late, repeated and invalid ones.
struct Player {
    game: Game,
    random: Random,
    /// Every task that was ever dispatched.
    tasks: Vec<(StepKey, u32)>,
    seed: u64,
    /// The number of inputs that were repeated under their key.
    repeated: usize,
    /// The length of the journal after each item.
    items: BTreeSet<u64>,
}

impl Player {
    fn new(plan: &Plan, random: Random, seed: u64) -> Self {
        // A random graph may read names that no node writes: that case is played too.
        let workflow = load(&plan.definition).unwrap_or_else(|problems| panic!("seed {seed}: {problems:#?}"));
        Self { game: Game::new(workflow), random, tasks: Vec::new(), seed, repeated: 0, items: BTreeSet::new() }
    }

    fn input(&mut self, input: Input) {
        let is_keyed = matches!(
            input,
            Input::Signal { .. } | Input::SetContext { .. } | Input::Pause { .. } | Input::Resume | Input::Retry
        );
        if self.random.chance(10) {
            self.game.record(input);
        } else if self.random.chance(if is_keyed { 60 } else { 3 }) {
            self.input_under_a_key(&input);
        } else {
            self.game.input(input);
        }
        let open = self.game.state.open().filter(|open| open.activity == OpenActivity::Task);
        let fresh: Vec<_> = open.map(|open| (open.step.clone(), open.attempt)).collect();
        self.tasks.extend(fresh);
        self.items.insert(self.game.state.seq);
    }

    /// A key is known after its input was accepted; a repeated or rejected input leaves nothing.
    fn input_under_a_key(&mut self, input: &Input) {
        let key = format!("k{}", self.random.below(6));
        let (entries, reply) = self.game.keyed(input.clone(), Some(&key));
        let kept = entries.iter().filter(|entry| entry.key.as_deref() == Some(&*key)).count();
        assert_eq!(kept, usize::from(reply == Reply::Accepted), "seed {}: {reply:?} to {input:?}", self.seed);
        if reply.is_accepted() {
            assert_eq!(
                keys::answer(&self.game.state, input, &key, self.game.now),
                Some(Reply::Repeated),
                "seed {}",
                self.seed
            );
            self.repeated += usize::from(reply == Reply::Repeated);
        }
    }

    fn play(&mut self) {
        let run = RunId::new(Game::BEGIN, 99);
        let waits = self.random.chance(70);
        let parent = Parent { run, step: "call".into(), attempt: 1, waits, depth: 1 };
        let parent = self.random.chance(30).then_some(parent);
        self.game.input(Input::Start {
            input: Payload::from(json!({"n": self.random.below(10)})),
            cause: parent.map(Into::into),
        });
        self.items.insert(self.game.state.seq);
        for _ in 0..self.random.below(120) {
            let input = self.news();
            self.input(input);
            if self.random.chance(5) {
                self.game.reload();
            }
        }
    }

    fn open_task(&mut self) -> Option<(StepKey, u32)> {
        let open = self.game.state.open().filter(|open| open.activity == OpenActivity::Task);
        let open: Vec<_> = open.map(|open| (open.step.clone(), open.attempt)).collect();
        if open.is_empty() { None } else { Some(self.random.pick(&open).clone()) }
    }

    /// A task that is open, or was open, or never existed.
    fn any_task(&mut self) -> (StepKey, u32) {
        if self.tasks.is_empty() || self.random.chance(5) {
            return (format!("n{}", self.random.below(20)).into(), 1 + self.random.below(3) as u32);
        }
        self.random.pick(&self.tasks).clone()
    }

    fn open_child(&mut self) -> Option<(StepKey, u32, RunId)> {
        let open = self.game.state.open().filter_map(|open| match open.activity {
            OpenActivity::Child(child) => Some((open.step.clone(), open.attempt, child.run)),
            _ => None,
        });
        let open: Vec<_> = open.collect();
        if open.is_empty() { None } else { Some(self.random.pick(&open).clone()) }
    }

    /// An input about a child that is open, or was open, or belongs to another run.
    fn news_of_a_child(&mut self) -> Input {
        let all = self.game.family.all();
        let any = if all.is_empty() || self.random.chance(70) { None } else { Some(self.random.pick(&all).clone()) };
        let Some((step, attempt, child)) = any.or_else(|| self.open_child()) else { return Input::Settle };
        let child = if self.random.chance(5) { self.game.state.run } else { child };
        if self.random.chance(30) {
            return Input::ChildStarted { step, attempt, child };
        }
        let result = self.result().map(|outcome| outcome.output);
        Input::ChildEnded { step, attempt, child, result }
    }

    fn result(&mut self) -> Result<Outcome, Failure> {
        match self.random.below(10) {
            0..=5 => Ok(Outcome::from_output(json!({"n": self.random.below(3), "v1": self.random.chance(50)}))),
            6 | 7 => Err(Failure::transient("FLAKY", "again")),
            8 => Err(Failure::fatal("BROKEN", "no")),
            _ => Ok(Outcome::default().by("nowhere")),
        }
    }

    fn news(&mut self) -> Input {
        match self.random.below(100) {
            0..=9 => self.news_of_a_child(),
            10..=44 => match self.open_task() {
                Some((step, attempt)) => Input::Result { step, attempt, result: self.result(), logs: vec![] },
                None => Input::Settle,
            },
            45..=54 => {
                let (step, attempt) = self.any_task();
                Input::Result { step, attempt, result: self.result(), logs: vec!["late".into()] }
            }
            55..=61 => {
                let (step, attempt) = self.any_task();
                Input::TaskLost { step, attempt }
            }
            62..=78 => {
                self.game.now = self.game.now.plus(Duration::from_millis(self.random.below(200) as u64));
                let due = self.game.state.due(self.game.now);
                if due.is_empty() {
                    return Input::Settle;
                }
                let (step, attempt) = self.random.pick(&due).clone();
                Input::Timer { step, attempt }
            }
            79 => {
                let (step, attempt) = self.any_task();
                Input::Timer { step, attempt }
            }
            80..=87 => {
                let payload = self.random.pick(&[json!({"x": 1}), json!({"x": 2}), json!(null)]).clone();
                Input::Signal { event: "go".into(), payload: Payload::from(payload) }
            }
            88 => Input::SetContext { values: Payload::from(json!({"v0": self.random.below(5)})) },
            89 | 90 => Input::Pause { reason: None },
            91..=93 => Input::Resume,
            94..=97 => Input::Retry,
            98 if self.random.chance(20) => Input::Cancel { reason: None },
            99 if self.random.chance(20) => Input::Fail { failure: Failure::fatal("STORE_REFUSED", "no") },
            _ => Input::Settle,
        }
    }

    /// From here on every input succeeds: the run must end.
    fn finish(&mut self) {
        self.game.input(Input::Resume);
        self.game.input(Input::Retry);
        for _ in 0..5_000 {
            if self.game.state.has_ended() {
                self.game.check(false);
                return;
            }
            if let Some((step, attempt)) = self.open_task() {
                self.game.input(Input::Result { step, attempt, result: Ok(Outcome::default()), logs: vec![] });
                continue;
            }
            if let Some((step, attempt, child)) = self.open_child() {
                self.game.input(Input::ChildStarted { step: step.clone(), attempt, child });
                self.game.input(Input::ChildEnded { step, attempt, child, result: Ok(Payload::null()) });
                continue;
            }
            self.game.input(Input::Signal { event: "go".into(), payload: Payload::from(json!({"x": 1})) });
            if let Some(due) = self.game.state.next_due() {
                self.game.now = self.game.now.max(due);
                for (step, attempt) in self.game.state.due(self.game.now) {
                    self.game.input(Input::Timer { step, attempt });
                }
            }
        }
        panic!("seed {}: the run does not end: {:?}", self.seed, self.game.state);
    }
}

/// The history of one step, read from the journal alone.
#[derive(Default)]
struct Story {
    dispatched: Vec<(u64, u32)>,
    /// Completed with a handle, or failed finally, or skipped.
    settled: Option<(u64, Fate)>,
}

enum Fate {
    Completed(Option<String>),
    Failed,
    Skipped,
}

/// Checks the numbered rules against a journal, without code of the core.
///
/// 1. Attempts count up by one; a step is dispatched again only after a failure, a crash or a retry.
/// 2. No entry concerns a step after it completed or was skipped.
/// 3. `all`: dispatched or skipped after every edge into it was settled; `any`: after the first live one.
/// 4. Dispatched with a live edge, skipped with none.
fn check_joins(plan: &Plan, game: &Game, seed: u64) {
    let mut stories = BTreeMap::<&str, Story>::new();
    for Entry { seq, event, .. } in &game.journal {
        let Some((step, attempt)) = event.step() else { continue };
        let story = stories.entry(step.as_str()).or_default();
        let was_failure = matches!(story.settled, Some((_, Fate::Failed)));
        assert!(story.settled.is_none() || was_failure, "seed {seed}: {step} goes on at {seq}");
        match event {
            Event::StepDispatched { dispatch, .. } => {
                let before = story.dispatched.last().map_or(0, |(_, attempt)| *attempt);
                assert_eq!(attempt, before + 1, "seed {seed}: attempts of {step} count up");
                let id = step.as_str().rsplit('.').next().unwrap();
                let acts = plan.nodes[id].acts;
                assert_eq!(*dispatch == Dispatch::Task, acts, "seed {seed}: {step} has the right performer");
                story.dispatched.push((*seq, attempt));
                story.settled = None;
            }
            Event::StepCompleted { outcome, .. } => {
                story.settled = Some((*seq, Fate::Completed(outcome.handle.clone())));
            }
            Event::StepFailed { .. } => story.settled = Some((*seq, Fate::Failed)),
            Event::StepSkipped { .. } => story.settled = Some((*seq, Fate::Skipped)),
            _ => {}
        }
    }
    for (key, story) in &stories {
        let (prefix, id) = key.rsplit_once('.').map_or(("", *key), |(prefix, id)| (prefix, id));
        let node = &plan.nodes[id];
        assert_eq!(
            prefix.rsplit_once('.').map_or(prefix, |(_, last)| last).split('[').next(),
            Some(node.owner.as_deref().unwrap_or(""))
        );
        let begun = story.dispatched.first().map(|(seq, _)| *seq);
        let skipped = story.settled.as_ref().filter(|(_, fate)| matches!(fate, Fate::Skipped)).map(|(seq, _)| *seq);
        let decided = begun.or(skipped).expect("a step in the journal was dispatched or skipped");
        // The edges into it that were settled when it was decided, and whether each was live.
        let lives: Vec<_> = node
            .incoming
            .iter()
            .filter_map(|edge| {
                let Some((source, handle)) = edge else { return Some(true) };
                let source_key = if prefix.is_empty() { source.clone() } else { format!("{prefix}.{source}") };
                let (seq, fate) = stories.get(source_key.as_str())?.settled.as_ref()?;
                let default = plan.nodes[source].default_handle;
                let is_live = match fate {
                    Fate::Completed(by) => by.as_deref().unwrap_or(default) == handle,
                    Fate::Failed => handle == "error",
                    Fate::Skipped => false,
                };
                (*seq < decided).then_some(is_live)
            })
            .collect();
        let has_live = lives.contains(&true) || id == "start";
        assert_eq!(begun.is_some(), has_live, "seed {seed}: {key} has a live edge or is skipped");
        if !node.is_any || skipped.is_some() {
            assert_eq!(lives.len(), node.incoming.len(), "seed {seed}: {key} waits for every edge");
        }
    }
}

#[test]
fn every_shape_of_graph_was_played() {
    let mut kinds = BTreeSet::new();
    for seed in 0..250 {
        let plan = Plan::random(&mut Random::new(seed));
        for node in plan.definition["nodes"].as_array().unwrap() {
            kinds.insert(node["type"].as_str().unwrap().to_owned());
        }
    }
    let known = ["condition", "delay", "end", "loop", "noop", "scope", "start", "transform", "wait", "workflow"];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), known);
}

#[test]
fn a_thousand_branches_join_once_in_any_order() {
    let fan: String = (0..1_000).map(|i| format!("start -> n{i} -> join\n")).collect();
    let mut game = Game::new(compile(&definition(&(fan + "join -> end"))).unwrap());
    game.input(Input::Start { input: Payload::null(), cause: None });
    let mut random = Random::new(1);
    let mut left: Vec<_> = (0..1_000).collect();
    while !left.is_empty() {
        let step = StepKey::from(format!("n{}", left.swap_remove(random.below(left.len()))));
        for _ in 0..2 {
            let result = Ok(Outcome::default());
            game.input(Input::Result { step: step.clone(), attempt: 1, result, logs: vec![] });
        }
    }
    let joins = game
        .journal
        .iter()
        .filter(|entry| matches!(&entry.event, Event::StepDispatched { step, .. } if step.as_str() == "join"));
    assert_eq!(joins.count(), 1);
    assert!(game.state.has_open_task(&"join".into(), 1));
    game.check(false);
}

/// Every order of the results of two diamonds, each result sent twice.
#[test]
fn a_join_runs_once_in_every_order() {
    let head = "start -> a -> c\nstart -> b -> c\nstart -> d -> f\nc -> e -> f\nstart -> g -> f\nf -> end";
    let mut orders = vec![Vec::new()];
    for step in ["a", "b", "d", "g"] {
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<&str>| {
                (0..=order.len()).map(move |at| {
                    let mut order = order.clone();
                    order.insert(at, step);
                    order
                })
            })
            .collect();
    }
    assert_eq!(orders.len(), 24);
    for order in orders {
        let mut game = Game::new(compile(&definition(head)).unwrap());
        game.input(Input::Start { input: Payload::null(), cause: None });
        for step in order.iter().chain(["c", "e", "f"].iter()) {
            for _ in 0..2 {
                let result = Ok(Outcome::default());
                game.input(Input::Result { step: (*step).into(), attempt: 1, result, logs: vec![] });
            }
        }
        assert_eq!(game.state.status(), Status::Completed, "{order:?}");
        // Nine nodes, each dispatched and completed once; the beginning and the end of the run.
        assert_eq!(game.state.seq, 20, "{order:?}");
    }
}

#[test]
fn a_loop_of_a_hundred_thousand_pure_iterations_completes() {
    let head = "start -> loop -loop-> work\nloop -done-> end\nwork: transform {\"config\": {\"value\": \"{{index}}\"}}\n\
                loop: loop {\"config\": {\"sourceVariable\": \"{{ctx.input.items}}\", \"maxIterations\": 100000}}";
    let workflow = compile(&definition(head)).unwrap();
    let mut game = Game::new(workflow);
    let input = Input::Start { input: Payload::from(json!({"items": vec![0; 100_000]})), cause: None };
    let (items, time) = timed(|| {
        let mut decision = decide(
            &game.workflow,
            &mut game.state,
            input,
            None,
            Cx { now: game.now, evaluate: &game.evaluate, meter: &Meter::new() },
        );
        let mut items = 1;
        while decision.has_more {
            assert!(decision.entries.len() <= 257);
            decision = decide(
                &game.workflow,
                &mut game.state,
                Input::Settle,
                None,
                Cx { now: game.now, evaluate: &game.evaluate, meter: &Meter::new() },
            );
            items += 1;
        }
        items
    });
    assert_eq!(game.state.status(), Status::Completed);
    assert_eq!(game.state.seq, 200_008);
    assert!(items > 700, "{items}");
    assert!(time < Duration::from_secs(20), "{time:?}");
}

#[test]
fn a_decision_costs_the_same_early_and_late() {
    let head = "start -> loop -loop-> a -> b\nloop -done-> end\n\
                a: noop {\"outputVariable\": \"x\"}\n\
                loop: loop {\"config\": {\"sourceVariable\": \"{{ctx.input.items}}\", \"maxIterations\": 100000}}";
    let mut game = Game::new(compile(&definition(head)).unwrap());
    let input = Input::Start { input: Payload::from(json!({"items": vec![0; 20_000]})), cause: None };
    decide(
        &game.workflow,
        &mut game.state,
        input,
        None,
        Cx { now: game.now, evaluate: &game.evaluate, meter: &Meter::new() },
    );
    let mut iteration = 0;
    let mut run = |count: usize| {
        // The work is shorter than a tick of the thread's clock; the best of ten measurements counts.
        let began = now();
        for _ in 0..count {
            for node in ["a", "b"] {
                let step = format!("loop[{iteration}].{node}").into();
                let result = Ok(Outcome::from_output(json!({"n": iteration})));
                let input = Input::Result { step, attempt: 1, result, logs: vec![] };
                let decision = decide(
                    &game.workflow,
                    &mut game.state,
                    input,
                    None,
                    Cx { now: game.now, evaluate: &game.evaluate, meter: &Meter::new() },
                );
                assert_eq!(decision.entries.len(), 2);
            }
            iteration += 1;
        }
        began.elapsed()
    };
    run(20);
    let early = (0..10).map(|_| run(20)).min().unwrap();
    run(18_000);
    let late = (0..10).map(|_| run(20)).min().unwrap();
    // The journal is a hundred times as long.
    assert!(late < early * 8, "early {early:?}, late {late:?}");
}
