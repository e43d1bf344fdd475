//! Heavy scripts and conditions do not stall the engine: the duration of a neighbour's run while others attack.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use everstep_core::actor::Actor;
use everstep_core::ids::RunId;
use everstep_core::machine::{Act, Rights};
use everstep_core::run::{Input, Reply};
use everstep_engine::{Engine, RunInput};
use serde_json::{Value, json};
use support::{WORKSPACE, chain, engine, finish, publish, start};

const ROUNDS: usize = 6;
const RUNS: usize = 60;
/// The factor by which a neighbour may be slower.
const FACTOR: u32 = 3;
const SLOWEST: Duration = Duration::from_millis(100);

/// Scripts that consume all resources that they can get.
const ATTACKS: &[&str] = &[
    "for (;;) {}",
    "const a = []; for (;;) { try { a.push(new Array(1e4).fill(1)) } catch { a.length = 0 } }",
    "for (;;) await null",
    "return /^(a+)+$/.test('a'.repeat(40) + '!')",
    "return [].reverse.call({ length: 1e8 }).length",
    "for (;;) console.log('x'.repeat(1000))",
    "let s = 'x'; for (;;) { s += s; if (s.length > 1e6) s = s.split('').reverse().join('').slice(0, 1) }",
    "const f = () => f() + 1; for (;;) { try { f() } catch {} }",
];

#[derive(Debug)]
struct Figures {
    p50: Duration,
    p99: Duration,
}

/// The duration of runs of three tasks, one after the other.
async fn measure(engine: &Engine) -> Figures {
    let mut took = Vec::new();
    for _ in 0..RUNS {
        let begin = Instant::now();
        let run = start(engine, "neighbour", json!({})).await;
        finish(engine, run).await;
        took.push(begin.elapsed());
    }
    took.sort_unstable();
    Figures { p50: took[RUNS / 2], p99: took[RUNS * 99 / 100] }
}

fn attack(code: &str) -> Value {
    chain(&[(
        "attack",
        "javascript",
        json!({"config": {"code": code}, "timeoutSeconds": 2, "retry": {"maxAttempts": 1}}),
    )])
}

async fn publish_neighbour(engine: &Engine) {
    let work = json!({"config": {}});
    let steps = chain(&[("a", "noop", work.clone()), ("b", "noop", work.clone()), ("c", "noop", work)]);
    publish(engine, "neighbour", &steps).await;
}

/// Other processes share the machine, so the best of several rounds counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_s_run_is_little_slower_while_scripts_attack() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish_neighbour(&engine).await;
    for (number, code) in ATTACKS.iter().enumerate() {
        publish(&engine, &format!("attack{number}"), &attack(code)).await;
    }
    measure(&engine).await;
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        let quiet = measure(&engine).await;
        let mut running = Vec::new();
        for number in 0..ATTACKS.len() * 2 {
            running.push(start(&engine, &format!("attack{}", number % ATTACKS.len()), json!({})).await);
        }
        let under_attack = measure(&engine).await;
        assert!(engine.active_runs() > 0, "the attack is over before it was measured");
        let is_held = under_attack.p50 <= quiet.p50 * FACTOR && under_attack.p99 <= SLOWEST;
        seen.push((quiet, under_attack));
        for run in running {
            // A run that has already ended is not cancelled, which is equally good.
            engine.send(run, Input::Cancel { reason: None }).await.unwrap();
        }
        if is_held {
            engine.stop(Duration::from_secs(5)).await.unwrap();
            return;
        }
    }
    panic!("a neighbour suffers in every round (quiet, under attack): {seen:#?}");
}

/// Conditions that would need endless memory, depth or work.
fn bombs() -> Vec<Value> {
    let accumulator = json!({"var": "accumulator"});
    let reduce = |rule: Value, initial: Value| json!({"reduce": [{"var": "items"}, rule, initial]});
    vec![
        reduce(json!({"cat": [accumulator, accumulator]}), json!("xxxxxxxx")),
        reduce(json!({"merge": [accumulator, accumulator]}), json!([1, 2, 3])),
        reduce(json!([accumulator, accumulator]), json!(1)),
        json!({"all": [{"var": "many"}, {"==": [1, 1]}]}),
        json!({"some": [{"var": "many"}, {"in": ["nothing", {"cat": [{"var": ""}, "x"]}]}]}),
        json!({"==": [{"var": "many"}, "1"]}),
    ]
}

/// A state machine with an action per bomb, `GO0` and so on.
fn bombed_machine() -> Value {
    let actions = bombs().into_iter().enumerate().map(|(number, rule)| {
        (format!("GO{number}"), json!({"to": "done", "condition": {"type": "json-logic", "rule": rule}}))
    });
    let on = actions.collect::<serde_json::Map<_, _>>();
    json!({"states": [{"name": "open", "initial": true, "on": on}, {"name": "done", "terminal": true}]})
}

fn request(run: RunId, action: String) -> RunInput {
    let act = Act {
        action,
        version: None,
        by: Actor::person("eve"),
        rights: Rights::default(),
        comment: None,
        data: None,
        shown: None,
        withdraw: false,
        files: Vec::new(),
        files_until: None,
        digest: String::new(),
    };
    RunInput::new(WORKSPACE, run, Input::Transition(Box::new(act)))
}

/// Guards are decided on the loops that own the runs of all workspaces.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(debug_assertions, ignore = "its times are those of an optimized build: `make test-long` plays it")]
async fn a_neighbour_s_run_is_fast_while_conditions_attack() {
    const ATTACKERS: usize = 4;
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    publish_neighbour(&engine).await;
    publish(&engine, "bombed", &bombed_machine()).await;
    let input = json!({"items": (0..100).collect::<Vec<_>>(), "many": (0..50_000).collect::<Vec<_>>()});
    let (is_over, refused) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut attackers = Vec::new();
    for attacker in 0..ATTACKERS {
        let run = start(&engine, "bombed", input.clone()).await;
        let (engine, is_over, refused) = (engine.clone(), Arc::clone(&is_over), Arc::clone(&refused));
        attackers.push(tokio::spawn(async move {
            for number in (attacker..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let action = format!("GO{}", number % bombs().len());
                let reply = engine.route(request(run, action)).await.unwrap();
                let Reply::Refused { code, .. } = reply else { panic!("{reply:?}") };
                assert_eq!(code, "CONDITION_TOO_COSTLY");
                refused.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let mut seen = Vec::new();
    let is_held = loop {
        let before = refused.load(Ordering::Relaxed);
        let figures = measure(&engine).await;
        assert!(refused.load(Ordering::Relaxed) > before + RUNS, "the attack is too slow to be measured");
        let is_held = figures.p99 <= SLOWEST;
        seen.push(figures);
        if is_held || seen.len() == ROUNDS {
            break is_held;
        }
    };
    is_over.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.await.unwrap();
    }
    assert!(is_held, "a neighbour suffers in every round: {seen:#?}");
}
