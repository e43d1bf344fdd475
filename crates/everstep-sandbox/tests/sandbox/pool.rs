//! How scripts share threads.

use std::time::{Duration, Instant};

use everstep_sandbox::{Error, Sandbox, Script};

use crate::CLOCK;

fn script(code: &str, timeout: u64) -> Script {
    Script { timeout: Duration::from_millis(timeout), ..Script::new(code, "{}") }
}

const SPIN: &str = "const end = Date.now() + 200; while (Date.now() < end); return 1";
/// A built-in that does not check the deadline, and ends after a second or two.
const STUCK: &str = "return 'a'.repeat(9e5).indexOf('a'.repeat(1e3) + 'b')";

#[tokio::test]
async fn waiting_for_a_thread_does_not_count() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(1);
    let scripts = (0..5).map(|_| {
        let sandbox = sandbox.clone();
        tokio::spawn(async move { sandbox.run(script(SPIN, 600)).await })
    });
    for running in scripts.collect::<Vec<_>>() {
        assert_eq!(running.await.unwrap().unwrap().json, "1");
    }
}

#[tokio::test]
async fn two_threads_run_two_scripts_at_once() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(2);
    let code = "const end = Date.now() + 300; while (Date.now() < end); return 1";
    let begin = Instant::now();
    let (one, two) = tokio::join!(sandbox.run(script(code, 2000)), sandbox.run(script(code, 2000)));
    assert!(one.is_ok() && two.is_ok());
    assert!(begin.elapsed() < Duration::from_millis(580), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_dropped_future_stops_its_script() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(1);
    let endless = tokio::time::timeout(Duration::from_millis(100), sandbox.run(script("for (;;) {}", 60_000)));
    assert!(endless.await.is_err());
    let begin = Instant::now();
    assert_eq!(sandbox.run(script("return 1", 5_000)).await.unwrap().json, "1");
    assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_stuck_thread_is_replaced() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(1);
    let begin = Instant::now();
    let stopped = sandbox.run(script(STUCK, 100)).await.unwrap_err();
    assert_eq!(stopped.error, Error::Timeout(Duration::from_millis(100)));
    assert_eq!(sandbox.run(script("return 1", 5_000)).await.unwrap().json, "1");
    assert!(begin.elapsed() < Duration::from_millis(600), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_stuck_thread_is_replaced_without_a_waiting_caller() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(1);
    let dropped = tokio::time::timeout(Duration::from_millis(100), sandbox.run(script(STUCK, 60_000)));
    assert!(dropped.await.is_err());
    let begin = Instant::now();
    assert_eq!(sandbox.run(script("return 1", 5_000)).await.unwrap().json, "1");
    assert!(begin.elapsed() < Duration::from_millis(1_000), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn a_script_that_waits_can_be_dropped() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(1);
    let (first, second) = tokio::join!(
        sandbox.run(script(SPIN, 2_000)),
        tokio::time::timeout(Duration::from_millis(50), sandbox.run(script("return 2", 2_000))),
    );
    assert!(first.is_ok() && second.is_err());
    assert_eq!(sandbox.run(script("return 3", 2_000)).await.unwrap().json, "3");
}

#[tokio::test]
async fn many_scripts_take_turns() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(2);
    let scripts = (0..300).map(|number| {
        let sandbox = sandbox.clone();
        tokio::spawn(async move { sandbox.run(script(&format!("return {number}"), 5_000)).await })
    });
    for (number, running) in scripts.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(running.await.unwrap().unwrap().json, number.to_string());
    }
}

#[tokio::test]
async fn an_owner_of_stuck_scripts_runs_no_more_and_others_do() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(1);
    let owned_script = |owner: u128, code: &str| Script { owner, ..script(code, 50) };
    for _ in 0..2 {
        let begin = Instant::now();
        let stopped = sandbox.run(owned_script(1, STUCK)).await.unwrap_err();
        assert_eq!(stopped.error, Error::Timeout(Duration::from_millis(50)));
        assert!(begin.elapsed() <= Duration::from_millis(550), "{:?}", begin.elapsed());
    }
    assert_eq!(sandbox.run(owned_script(1, "return 1")).await.unwrap_err().error, Error::Stuck(2));
    let ran = sandbox.run(Script { owner: 2, ..script("return 1", 5_000) }).await;
    assert_eq!(ran.unwrap().json, "1");
}

#[tokio::test]
async fn an_owner_of_scripts_that_would_run_for_years_can_run_others() {
    let _clock = CLOCK.lock().await;
    let sandbox = Sandbox::new(1);
    let owned_script = |code: &str, timeout| Script { owner: 1, ..script(code, timeout) };
    for code in [
        "return [].reverse.call({ length: 2 ** 53 - 1 })",
        "return new Array(2 ** 32 - 1).join('')",
        "return [].slice.call({ length: 2 ** 53 - 1 })",
        "return [].concat(new Array(2 ** 32 - 1), new Array(2 ** 32 - 1))",
        "return [new Array(2 ** 32 - 1)].flat()",
        "const inner = [1]; inner.length = 2 ** 32 - 1; return [0].flatMap(() => inner)",
        "return new Array(2 ** 32 - 1).sort()",
        "const a = 'x'.repeat(2e7) + 'a', b = 'x'.repeat(2e7) + 'b'; return Array(1e6).fill(a).fill(b, 5e5).sort()",
        "return [].fill.call(Object.assign(Object.create(new Uint8Array(1)), { length: 2 ** 53 - 1 }), 0)",
        "let n = 0; return [].reverse.call({ get length() { return n++ ? 2 ** 53 - 1 : 0 } })",
        "let n = 0; return new Proxy([], { get: (_, name) => name === 'length' && n++ ? 2 ** 53 - 1 : 0 }).reverse()",
        "const { proxy } = Proxy.revocable({ length: 2 ** 53 - 1 }, {}); return [].reverse.call(proxy)",
        "const a = []; Object.defineProperty(a, Symbol.isConcatSpreadable, { get() { a.length = 4e9; return true } }); \
         return [].concat(a)",
        "const a = []; const b = []; Object.defineProperty(a, 'constructor', { get() { b.length = 4e9 } }); \
         return a.concat(b)",
        "return 'a'.repeat(1e7).indexOf('a'.repeat(5e6) + 'b')",
        "const text = 'a'.repeat(1e5); const part = 'a'.repeat(300) + 'b'; for (;;) text.indexOf(part)",
        "const list = new Array(1e5); for (;;) { try { list.reverse() } catch {} }",
        "return 'a'.repeat(1e7).split({ toString: () => 'a'.repeat(5e6) + 'b' })",
        "let n = 0; return 'a'.repeat(1e7).replaceAll({ get [Symbol.replace]() { return n++ ? null : undefined }, \
         toString: () => 'a'.repeat(5e6) + 'b' }, '')",
    ] {
        let begin = Instant::now();
        let _ = sandbox.run(owned_script(code, 100)).await;
        assert!(begin.elapsed() <= Duration::from_millis(600), "{code}: {:?}", begin.elapsed());
        let ran = sandbox.run(owned_script("return 1", 5_000)).await;
        assert_eq!(ran.map(|ran| ran.json), Ok("1".to_owned()), "{code}");
        assert!(begin.elapsed() <= Duration::from_secs(2), "{code}: {:?}", begin.elapsed());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn scripts_have_a_lower_priority_than_the_rest() {
    let _clock = CLOCK.lock().await;
    let nice = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path().join("stat"));
        let threads = threads.filter_map(|stat| std::fs::read_to_string(stat).ok());
        // After the name in parentheses the 17th field is the niceness.
        let of_script = |stat: String| {
            let (head, tail) = stat.rsplit_once(") ")?;
            head.ends_with("(everstep-script").then(|| tail.split(' ').nth(16)?.parse::<i32>().ok())?
        };
        threads.filter_map(of_script).collect::<Vec<_>>()
    };
    let sandbox = Sandbox::new(1);
    assert_eq!(sandbox.run(script("return 1", 5_000)).await.unwrap().json, "1");
    // Threads of other tests may just be starting, so the check is repeated until all have it.
    let begin = Instant::now();
    while nice().is_empty() || nice().iter().any(|nice| *nice < 10) {
        assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", nice());
        tokio::task::yield_now().await;
    }
    assert!(sandbox.run(script(STUCK, 100)).await.is_err());
    assert!(nice().contains(&19), "a thread that was given up has the lowest");
}
