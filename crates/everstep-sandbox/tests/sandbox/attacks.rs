//! Malicious scripts. Each ends within its limit plus half a second.

use std::time::{Duration, Instant};

use everstep_sandbox::{Error, Sandbox, Script};

use crate::CLOCK;

/// For scripts that end at the deadline.
const SCRIPT_TIMEOUT: Duration = Duration::from_millis(300);
/// For scripts that end before the deadline, even on a busy machine.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);
const OVERRUN_MAX: Duration = Duration::from_millis(500);
/// Other processes only add to a measured time, so the shortest of a few measurements is compared with the bound.
const MEASUREMENTS_MAX: usize = 3;

async fn attack_within(limit: Duration, code: &str) -> Error {
    stop_within(limit, Script::new(code, "{}")).await
}

async fn stop_within(limit: Duration, script: Script) -> Error {
    let _clock = CLOCK.lock().await;
    let code = script.code.clone();
    let script = Script { timeout: limit, ..script };
    let mut measured = Vec::new();
    while measured.len() < MEASUREMENTS_MAX {
        let sandbox = Sandbox::new(1);
        let begin = Instant::now();
        let result = sandbox.run(script.clone()).await;
        let took = begin.elapsed();
        if took <= limit + OVERRUN_MAX {
            return result.expect_err(&code).error;
        }
        measured.push(took);
    }
    panic!("{code} took {measured:?}");
}

async fn times_out(code: &str) {
    assert_eq!(attack_within(SCRIPT_TIMEOUT, code).await, Error::Timeout(SCRIPT_TIMEOUT), "{code}");
}

/// Ends at the deadline or earlier.
async fn is_stopped(code: &str) {
    attack_within(SCRIPT_TIMEOUT, code).await;
}

/// Ends before the deadline.
async fn attack(code: &str) -> Error {
    let error = attack_within(LONG_TIMEOUT, code).await;
    assert_ne!(error, Error::Timeout(LONG_TIMEOUT), "{code}");
    error
}

/// Ends at once with an error that names a limit.
async fn is_refused(code: &str) {
    let error = attack(code).await;
    assert!(matches!(&error, Error::Threw { message, .. } if message.starts_with("RangeError")), "{code}: {error:?}");
}

async fn runs_out_of_memory(code: &str) {
    assert_eq!(attack(code).await, Error::OutOfMemory(everstep_sandbox::MEMORY_BYTES_DEFAULT), "{code}");
}

#[tokio::test]
async fn an_endless_loop_is_interrupted() {
    times_out("for (;;) {}").await;
}

#[tokio::test]
async fn an_interrupt_cannot_be_caught() {
    times_out("for (;;) { try { for (;;) {} } catch {} finally { continue } }").await;
    times_out("for (;;) { try { await (async () => { for (;;) {} })() } catch {} }").await;
    times_out("await new Promise(() => { for (;;) {} }).catch(() => {}).finally(() => { for (;;) {} })").await;
}

#[tokio::test]
async fn a_microtask_storm_is_interrupted() {
    times_out("for (;;) await null").await;
    // Its chain of promises outgrows the usual limit in this time; with enough memory, the deadline ends it.
    let storm = "const f = () => Promise.resolve().then(f); f(); await new Promise(() => {})";
    let script = Script { memory_bytes: 4 * everstep_sandbox::MEMORY_BYTES_DEFAULT, ..Script::new(storm, "{}") };
    assert_eq!(stop_within(SCRIPT_TIMEOUT, script).await, Error::Timeout(SCRIPT_TIMEOUT));
}

#[tokio::test]
async fn a_promise_that_never_settles_ends_at_once() {
    assert_eq!(attack("await new Promise(() => {})").await, Error::NeverSettles);
    assert_eq!(attack("return { then() {} }").await, Error::NeverSettles);
    times_out("return { then() { for (;;) {} } }").await;
    is_stopped("const f = async () => { await null; return Promise.all([f(), f()]) }; await f()").await;
}

#[tokio::test]
async fn memory_that_runs_out_between_awaits_is_reported() {
    runs_out_of_memory("const f = () => Promise.resolve().then(f); f(); await new Promise(() => {})").await;
    runs_out_of_memory("await null; const a = []; for (;;) a.push(new Array(1000).fill(1))").await;
    runs_out_of_memory("const a = []; for (;;) { await null; a.push(new Uint8Array(100_000)) }").await;
    runs_out_of_memory("let p = Promise.resolve(); for (;;) p = p.then(() => new Array(1e5).fill(1))").await;
}

#[tokio::test]
async fn evaluated_code_is_bounded_likewise() {
    times_out("eval('for (;;) {}')").await;
    times_out("new Function('for (;;) {}')()").await;
    times_out("(async () => {}).constructor('for (;;) {}')()").await;
    runs_out_of_memory("return eval('const a = []; for (;;) a.push([1])')").await;
}

#[tokio::test]
async fn deep_recursion_is_an_error() {
    let Error::Threw { message, .. } = attack("const f = () => f() + 1; f()").await else { panic!() };
    assert!(message.contains("call stack"), "{message}");
    let code = "let s = '['.repeat(200000); return JSON.parse(s)";
    assert!(matches!(attack(code).await, Error::Threw { .. }));
    let code = "let a = []; for (let i = 0; i < 200000; i++) a = [a]; return a";
    let error = attack(code).await;
    assert!(matches!(error, Error::Threw { .. } | Error::NotJson(_)), "{error:?}");
    let code = "return eval('('.repeat(100000) + ')'.repeat(100000))";
    assert!(matches!(attack(code).await, Error::Threw { .. }));
}

#[tokio::test]
async fn an_array_bomb_runs_out_of_memory() {
    runs_out_of_memory("const a = []; for (;;) a.push(new Array(10000).fill(1))").await;
    runs_out_of_memory("let a = null; for (;;) a = { a }").await;
    runs_out_of_memory("const a = []; for (;;) a.push('x' + a.length)").await;
    runs_out_of_memory("const m = new Map(); for (let i = 0; ; i++) m.set(i, [i])").await;
    runs_out_of_memory("return new ArrayBuffer(1 << 30)").await;
    runs_out_of_memory("return new Uint8Array(200_000_000)").await;
    runs_out_of_memory("const a = []; for (;;) a.push(new ArrayBuffer(1 << 20))").await;
    runs_out_of_memory("return Array.from({ length: 2 ** 32 - 1 })").await;
}

#[tokio::test]
async fn memory_cannot_be_had_by_catching() {
    let code = "const a = []; for (;;) { try { a.push(new Uint8Array(1 << 20)) } catch {} }";
    times_out(code).await;
}

#[tokio::test]
async fn a_huge_string_is_an_error() {
    let error = attack("let s = 'x'; for (;;) s += s").await;
    assert!(matches!(error, Error::Threw { .. } | Error::OutOfMemory(_)), "{error:?}");
    is_stopped("return 'ab'.repeat(5e6).split('').join('-')").await;
    is_stopped("let s = 'x'.repeat(1e7); const a = []; for (;;) a.push(s.padEnd(2e7, 'yz') + a.length)").await;
}

#[tokio::test]
async fn a_regex_bomb_is_interrupted() {
    times_out("return /^(a+)+$/.test('a'.repeat(40) + '!')").await;
    times_out("return /(x+x+)+y/.test('x'.repeat(60))").await;
}

#[tokio::test]
async fn a_result_cannot_run_for_ever() {
    times_out("return { toJSON() { for (;;) {} } }").await;
    times_out("return new Proxy({}, { ownKeys() { for (;;) {} } })").await;
    times_out("return { get a() { for (;;) {} } }").await;
    times_out("Object.defineProperty(Object.prototype, 'toJSON', { get() { for (;;) {} } }); return {}").await;
    is_stopped("return { toJSON() { return 'x'.repeat(5e7) } }").await;
    is_stopped("const bomb = () => ({ toJSON: bomb, a: bomb() }); return bomb()").await;
    is_stopped("return new Proxy([], { get: (_, name) => name === 'length' ? 2 ** 32 : [] })").await;
}

#[tokio::test]
async fn an_error_cannot_run_for_ever() {
    times_out("throw { toString() { for (;;) {} } }").await;
    times_out("throw { [Symbol.toPrimitive]() { for (;;) {} } }").await;
    times_out("throw new Proxy(new Error('x'), { get() { for (;;) {} } })").await;
    times_out("throw Object.defineProperty(new Error('x'), 'stack', { get() { for (;;) {} } })").await;
    times_out("throw Object.defineProperty(new Error('x'), 'message', { get() { for (;;) {} } })").await;
    times_out("class E extends Error { get name() { for (;;) {} } } throw new E('x')").await;
}

#[tokio::test]
async fn a_log_cannot_run_for_ever() {
    times_out("for (;;) console.log('x'.repeat(100000))").await;
    times_out("console.log({ toJSON() { for (;;) {} } })").await;
    times_out("for (let i = 0; ; i++) console.error({ i }, [i], 'x')").await;
}

#[tokio::test]
async fn a_big_number_cannot_run_for_ever() {
    is_stopped("let n = 3n; for (;;) n = n * n").await;
    is_stopped("return String(7n ** 300000n).length > 0 ? (() => { for (;;) {} })() : 0").await;
}

#[tokio::test]
async fn no_script_blocks_the_thread() {
    let code = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)";
    assert!(matches!(attack(code).await, Error::Threw { .. }));
}

#[tokio::test]
async fn built_ins_that_overlook_the_clock_are_left_behind() {
    times_out("return 'a'.repeat(9e5).indexOf('a'.repeat(1e3) + 'b')").await;
    is_refused("return Array.prototype.reverse.call({ length: 4e7 }).length").await;
    is_refused("return new Array(4e7).sort().length").await;
    is_refused("return 'a'.repeat(1e5).indexOf('a'.repeat(5e4) + 'b')").await;
    is_stopped("const a = Array.from({length: 300000}, (_, i) => -i); for (;;) a.sort((x, y) => x - y)").await;
    is_stopped("const a = 'ab'.repeat(2e6); for (;;) a.split('').reverse().join('')").await;
    is_stopped("for (;;) 'x'.repeat(1e7).split('x').join('yy')").await;
    is_stopped("for (;;) new Float64Array(2e6).map(Math.random).sort()").await;
}
