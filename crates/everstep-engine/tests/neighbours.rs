//! Heavy scripts do not stall the engine: the duration of a neighbour's run while others attack.

mod support;

use std::time::{Duration, Instant};

use everstep_core::run::Input;
use everstep_engine::Engine;
use serde_json::{Value, json};
use support::{chain, engine, finish, publish, start};

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

/// Other processes share the machine, so the best of several rounds counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_neighbour_s_run_is_little_slower_while_scripts_attack() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path()).await;
    let work = json!({"config": {}});
    publish(
        &engine,
        "neighbour",
        &chain(&[("a", "noop", work.clone()), ("b", "noop", work.clone()), ("c", "noop", work)]),
    )
    .await;
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
