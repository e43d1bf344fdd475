//! Random and damaged definitions, inputs and journals: none of them may panic, hang or be accepted as something else.

mod code;
mod machine;

use everstep_core::failure::Failure;
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Dispatch, Entry, Event, Outcome, TimerPurpose};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::decide::decide;
use everstep_core::run::inbox::inputs_after;
use everstep_core::run::{Child, Cx, Input, OpenActivity, Parent, State};
use serde_json::{Map, Value, json};

use super::support::{Game, Plan, Random, compile, definition, often};

const WORDS: &[&str] = &[
    "nodes",
    "edges",
    "id",
    "nodeID",
    "type",
    "config",
    "source",
    "target",
    "sourceHandle",
    "options",
    "retry",
    "start",
    "end",
    "loop",
    "scope",
    "delay",
    "wait",
    "condition",
    "transform",
    "workflow",
    "version",
    "input",
    "noop",
    "javascript",
    "branches",
    "conditions",
    "sourceVariable",
    "outputVariable",
    "joinMode",
    "any",
    "success",
    "error",
    "body",
    "done",
    "{{ctx.x}}",
    "{{",
    "$expr",
    "n0",
    "n1",
    "n2",
    "",
    "__proto__",
    "a/b~c",
    "\u{0}",
    "ä",
    "event",
    "match",
    "value",
    "delayMs",
    "maxAttempts",
];

pub(crate) fn wild_value(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => random.chance(50).into(),
        2 => json!(random.next() as i64 % 100_000),
        3 => json!(f64::from_bits(random.next())),
        4 | 5 => (*random.pick(WORDS)).into(),
        6 => (0..random.below(4)).map(|_| wild_value(random, depth - 1)).collect(),
        _ => Value::Object(
            (0..random.below(6))
                .map(|_| ((*random.pick(WORDS)).to_owned(), wild_value(random, depth - 1)))
                .collect::<Map<_, _>>(),
        ),
    }
}

#[test]
fn any_json_is_compiled_or_refused() {
    let mut random = Random::new(1);
    for _ in 0..often(3_000) {
        let value = wild_value(&mut random, 4);
        let nodes: Vec<_> = (0..random.below(4)).map(|_| wild_value(&mut random, 3)).collect();
        let edges: Vec<_> = (0..random.below(4)).map(|_| wild_value(&mut random, 2)).collect();
        for definition in [value, json!({"nodes": nodes, "edges": edges})] {
            let problems = compile(&definition).map(|_| ()).expect_err("random JSON never forms a valid graph");
            assert!(!problems.is_empty());
            for problem in problems {
                assert!(!problem.message.is_empty() && problem.hint.is_some(), "{problem:?}");
                assert!(problem.path.is_empty() || problem.path.starts_with('/'), "{problem:?}");
            }
        }
    }
}

/// Changes one place of a value.
fn spoil(value: &mut Value, random: &mut Random) {
    match value {
        Value::Array(items) if !items.is_empty() && random.chance(80) => {
            let at = random.below(items.len());
            match random.below(8) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => spoil(&mut items[at], random),
            }
        }
        Value::Object(fields) if !fields.is_empty() && random.chance(80) => {
            let key = fields.keys().nth(random.below(fields.len())).unwrap().clone();
            match random.below(8) {
                0 => drop(fields.remove(&key)),
                1 => drop(fields.insert((*random.pick(WORDS)).to_owned(), wild_value(random, 1))),
                _ => spoil(fields.get_mut(&key).unwrap(), random),
            }
        }
        other => *other = wild_value(random, 1),
    }
}

/// Leads one edge elsewhere.
fn bend(definition: &mut Value, random: &mut Random) {
    let ids: Vec<_> = definition
        .get("nodes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|node| node["id"].clone())
        .collect();
    let Some(edges) =
        definition.get_mut("edges").and_then(Value::as_array_mut).filter(|edges| !edges.is_empty() && !ids.is_empty())
    else {
        return;
    };
    let at = random.below(edges.len());
    if edges[at].is_object() {
        let field = *random.pick(&["source", "target"]);
        edges[at][field] = random.pick(&ids).clone();
    }
}

#[test]
fn a_spoiled_definition_is_refused_or_runs() {
    let mut random = Random::new(2);
    let mut runs = 0;
    for _ in 0..often(1_500) {
        let mut definition = Plan::random(&mut random).definition;
        for _ in 0..1 + random.below(3) {
            if random.chance(60) {
                bend(&mut definition, &mut random);
            } else {
                spoil(&mut definition, &mut random);
            }
        }
        if let Ok(workflow) = compile(&definition) {
            runs += 1;
            run_to_an_end(&mut Game::new(workflow), &definition);
        }
    }
    assert!(runs > 50, "{runs}");
}

/// Edges between any two nodes with any handle. A definition that is accepted as a graph must run to its end.
#[test]
fn a_graph_of_any_edges_is_refused_or_runs() {
    let mut random = Random::new(3);
    let mut runs = 0;
    for _ in 0..often(6_000) {
        let count = 3 + random.below(5);
        let mut nodes = vec![json!({"id": "n0", "type": "start"}), json!({"id": "n1", "type": "end"})];
        for i in 2..count {
            nodes.push(match random.below(4) {
                0 => json!({"id": format!("n{i}"), "type": "loop", "config": {"sourceVariable": [1, 2]}}),
                1 => json!({"id": format!("n{i}"), "type": "scope"}),
                _ => json!({"id": format!("n{i}"), "type": "noop"}),
            });
        }
        let mut edges = Vec::new();
        for (i, node) in nodes.iter().enumerate().filter(|(_, node)| node["type"] != "end") {
            let handles: &[&str] = match node["type"].as_str().unwrap() {
                "loop" => &["loop", "done", "loop", "done", "error"],
                "scope" => &["body", "success", "body", "success", "error"],
                "start" => &["output"],
                _ => &["success", "success", "error"],
            };
            for handle in handles.iter().take(1 + random.below(2)) {
                let to = if random.chance(25) { 1 } else { 1 + random.below(count - 1) };
                edges.push(json!({"source": format!("n{i}"), "target": format!("n{to}"), "sourceHandle": handle}));
            }
        }
        let definition = json!({"nodes": nodes, "edges": edges});
        if let Ok(workflow) = compile(&definition) {
            runs += 1;
            run_to_an_end(&mut Game::new(workflow), &definition);
        }
    }
    assert!(runs > 50, "{runs}");
}

fn run_to_an_end(game: &mut Game, definition: &Value) {
    game.input(Input::Start { input: Payload::from(json!({"n": 7})), cause: None });
    for _ in 0..2_000 {
        if game.state.has_ended() {
            return;
        }
        let open: Vec<_> = game
            .state
            .open()
            .filter(|open| open.activity == OpenActivity::Task)
            .map(|open| (open.step.clone(), open.attempt))
            .collect();
        for (step, attempt) in open {
            game.input(Input::Result { step, attempt, result: Ok(Outcome::default()), logs: vec![] });
        }
        let waits: Vec<_> = game
            .state
            .open()
            .filter_map(|open| match open.activity {
                OpenActivity::Wait { event, pattern, .. } => Some((event.to_owned(), pattern.clone())),
                _ => None,
            })
            .collect();
        for (event, payload) in waits {
            game.input(Input::Signal { event, payload });
        }
        for (step, attempt, child) in game.family.all() {
            game.input(Input::ChildStarted { step: step.clone(), attempt, child });
            game.input(Input::ChildEnded { step, attempt, child, result: Ok(Payload::null()) });
        }
        if let Some(due) = game.state.next_due() {
            game.now = game.now.max(due);
            for (step, attempt) in game.state.due(game.now) {
                game.input(Input::Timer { step, attempt });
            }
        }
    }
    panic!("this does not end: {definition}\n{:?}", game.state);
}

fn wild_key(random: &mut Random, keys: &[StepKey]) -> StepKey {
    if random.chance(80) {
        return random.pick(keys).clone();
    }
    (*random.pick(&[
        "",
        ".",
        "loop[",
        "loop[x].a",
        "loop[-1].a",
        "loop[01].a",
        "loop[4294967295].a",
        "loop[0]",
        "a.b",
        "end[0].a",
        "loop[0].loop",
    ]))
    .into()
}

fn child(random: &mut Random) -> RunId {
    RunId::new(Game::BEGIN, random.below(3) as u128)
}

/// Mostly a purpose that some style sets a timer for.
fn purpose(random: &mut Random) -> TimerPurpose {
    let common = [TimerPurpose::Sleep, TimerPurpose::Retry, TimerPurpose::Pace];
    if random.chance(90) { *random.pick(&common) } else { TimerPurpose::After }
}

fn wild_event(random: &mut Random, keys: &[StepKey]) -> Event {
    let step = wild_key(random, keys);
    let attempt = random.below(4) as u32;
    let due = Game::BEGIN;
    match random.below(16) {
        0 => {
            let parent = Parent { run: child(random), step: step.clone(), attempt, waits: true, depth: attempt };
            Event::RunStarted {
                input: Payload::null(),
                cause: random.chance(50).then(|| parent.into()),
                definition: None,
            }
        }
        1..=3 => {
            let dispatch = match random.below(6) {
                0 => Dispatch::Task,
                1 => Dispatch::Instant,
                2 => Dispatch::Delay { due },
                3 => {
                    let (run, waits) = (child(random), random.chance(70));
                    let (input, due) = (Payload::null(), random.chance(50).then_some(due));
                    Dispatch::Child(Child { run, workflow: "other".into(), version: None, input, waits, due }.into())
                }
                4 => Dispatch::Wait { event: "go".into(), pattern: Payload::null(), due: Some(due), since: None },
                _ => Dispatch::Body { items: vec![Payload::null(); random.below(3)] },
            };
            Event::StepDispatched { step, attempt, dispatch }
        }
        4 | 5 => {
            let handle = random.chance(50).then(|| (*random.pick(WORDS)).to_owned());
            Event::StepCompleted { step, attempt, outcome: Outcome { handle, ..Outcome::default() } }
        }
        6 | 7 => {
            let failure = if random.chance(50) { Failure::fatal("A", "") } else { Failure::transient("B", "") };
            Event::failed(step, attempt, failure)
        }
        8 => Event::StepSkipped { step },
        9 => Event::TimerSet { step, attempt, due, why: purpose(random) },
        10 => Event::TimerFired { step, attempt },
        11 => Event::ContextSet { values: Payload::from(wild_value(random, 1)) },
        12 => Event::RunPaused { reason: None },
        13 => Event::RunResumed,
        14 => Event::RunRetried,
        _ => (*random.pick(&[
            Event::run_completed(Payload::null()),
            Event::run_failed(Failure::fatal("A", ""), None),
            Event::RunCancelled { reason: None },
        ]))
        .clone(),
    }
}

/// A damaged journal, or one of another workflow, is rejected; or it is folded, and then the run can be decided.
#[test]
fn a_damaged_journal_is_refused_or_decided() {
    let head = "start -> loop -loop-> a -> b\nloop -loop-> scope -body-> c\nscope -body-> call\n\
                loop -done-> wait -> delay -> call2 -> end\n\
                loop: loop {\"config\": {\"sourceVariable\": [1, 2], \"concurrency\": 2, \"delayBetweenItems\": 10}}";
    let workflow = compile(&definition(head)).unwrap();
    let mut sound = Game::new(compile(&definition(head)).unwrap());
    run_to_an_end(&mut sound, &json!(head));
    let keys: Vec<_> = sound.journal.iter().filter_map(|entry| Some(entry.event.step()?.0.clone())).collect();
    let mut random = Random::new(5);
    let mut folded = 0;
    for _ in 0..often(7_000) {
        let mut events: Vec<_> = sound.journal.iter().map(|entry| entry.event.clone()).collect();
        events.truncate(1 + random.below(events.len()));
        for _ in 0..1 + random.below(3) {
            let at = random.below(events.len() + 1);
            match random.below(4) {
                0 if at < events.len() => drop(events.remove(at)),
                1 if at < events.len() => events.push(events[at].clone()),
                2 if at < events.len() => events[at] = wild_event(&mut random, &keys),
                _ => events.insert(at, wild_event(&mut random, &keys)),
            }
        }
        let entries = events.into_iter().enumerate();
        let mut journal: Vec<_> = entries.map(|(i, event)| Entry::new(i as u64 + 1, Game::BEGIN, event)).collect();
        if random.chance(20)
            && let Some(entry) = journal.last_mut()
        {
            entry.key = Some("k".into());
        }
        let Ok(state) = State::fold(sound.state.run, &workflow, &journal) else { continue };
        folded += 1;
        decide_on(state, &workflow, &mut random, &keys);
    }
    assert!(folded > 500, "{folded}");
}

fn decide_on(mut state: State, workflow: &everstep_core::workflow::Workflow, random: &mut Random, keys: &[StepKey]) {
    let evaluate = everstep_expressions::Expressions::default();
    for _ in 0..6 {
        let step = wild_key(random, keys);
        let attempt = random.below(4) as u32;
        let input = match random.below(12) {
            0 => Input::Start { input: Payload::null(), cause: None },
            1..=3 => Input::Result { step, attempt, result: Ok(Outcome::default()), logs: vec![] },
            4 => Input::Result { step, attempt, result: Err(Failure::transient("A", "")), logs: vec![] },
            5 => Input::TaskLost { step, attempt },
            6 => Input::Timer { step, attempt },
            7 => Input::Signal { event: "go".into(), payload: Payload::null() },
            8 => Input::Retry,
            9 => Input::ChildStarted { step, attempt, child: child(random) },
            10 => {
                let result = if random.chance(50) { Ok(Payload::null()) } else { Err(Failure::transient("A", "")) };
                Input::ChildEnded { step, attempt, child: child(random), result }
            }
            _ => Input::Resume,
        };
        let key = random.chance(20).then_some("k");
        let mut decision = decide(
            workflow,
            &mut state,
            input,
            key,
            Cx { now: Game::BEGIN, evaluate: &evaluate, meter: &Meter::new() },
        );
        for _ in 0..20 {
            if !decision.has_more {
                break;
            }
            decision = decide(
                workflow,
                &mut state,
                Input::Settle,
                None,
                Cx { now: Game::BEGIN, evaluate: &evaluate, meter: &Meter::new() },
            );
        }
        inputs_after(&state, &decision.entries);
        assert!(!decision.has_more, "{state:?}");
    }
}
