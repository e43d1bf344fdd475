//! Scripts that tamper with their globals. They affect only themselves.

use everstep_sandbox::Error;
use serde_json::json;

use crate::{error, run, value};

#[tokio::test]
async fn overwritten_built_ins_change_neither_result_nor_log() {
    let code = "JSON.stringify = () => 'tampered'; JSON.parse = null; Object.keys = () => []; Object.freeze = null;
        console.log({ a: 1 }); return { a: [1], b: 'x' }";
    let ran = run(code).await.unwrap();
    assert_eq!(ran.json, r#"{"a":[1],"b":"x"}"#);
    assert_eq!(ran.logs, [r#"{"a":1}"#]);
}

#[tokio::test]
async fn overwritten_promises_do_not_keep_a_script_from_its_end() {
    let code = "globalThis.Promise = class {}; Promise.prototype.then = null; await null; return 1";
    assert_eq!(value(code).await, json!(1));
    let code = "Object.getPrototypeOf((async () => {})()).then = () => {}; await null; return 2";
    assert_eq!(value(code).await, json!(2));
}

#[tokio::test]
async fn getters_of_all_objects_are_the_script_s_own_trouble() {
    let code = "Object.defineProperty(Object.prototype, 'name', { get() { return 'InternalError' }, set() {} });
        Object.defineProperty(Object.prototype, 'message', { get() { return 'out of memory' }, set() {} });
        throw new Error('mine')";
    assert!(matches!(error(code).await, Error::Threw { .. }), "{:?}", error(code).await);
    assert_eq!(value("Object.prototype.toJSON = () => 'all alike'; return { a: 1 }").await, json!("all alike"));
    assert!(matches!(
        error("Object.prototype.toJSON = () => { throw 1 }; return {}").await,
        Error::NotJson(_) | Error::Threw { .. }
    ));
}

#[tokio::test]
async fn errors_with_hostile_parts_are_reported() {
    for code in [
        "throw { toString() { throw 1 } }",
        "throw { [Symbol.toPrimitive]() { throw new Error('no') } }",
        "throw Object.create(null)",
        "throw Symbol('x')",
        "throw new Proxy(new Error('x'), { get() { throw 1 }, getPrototypeOf() { throw 2 } })",
        "throw Object.defineProperty(new Error('x'), 'message', { get() { throw 1 } })",
        "throw Object.defineProperty(new Error('x'), 'name', { get() { throw 1 } })",
        "throw Object.defineProperty(new Error('x'), 'stack', { get() { throw 1 } })",
        "throw Object.assign(new Error('x'), { message: { toString() { throw 1 } } })",
        "throw Object.assign(new Error('x'), { message: 'm'.repeat(1e6), stack: 'script:99999999999999:1' })",
        "throw undefined",
    ] {
        let Error::Threw { message, .. } = error(code).await else { panic!("{code}: {:?}", error(code).await) };
        assert!(message.len() < 5_000, "{code}");
    }
}

#[tokio::test]
async fn the_context_is_frozen_in_every_depth() {
    for code in [
        "ctx.deep.list[0] = 9",
        "ctx.deep.list.length = 0",
        "ctx.deep.new = 1",
        "Object.defineProperty(ctx.deep, 'list', { value: 1 })",
        "Object.setPrototypeOf(ctx.deep, {})",
        "ctx.deep.list.sort((a, b) => b - a)",
        "ctx.__proto__ = {}",
        "globalThis.ctx = {}",
        "Object.defineProperty(globalThis, 'ctx', { value: 1 })",
        "delete globalThis.ctx",
    ] {
        // In strict mode a write to a frozen object throws a TypeError; in sloppy mode it is ignored silently.
        let code =
            format!("'use strict'; try {{ {code} }} catch (e) {{ return [e instanceof TypeError, ctx] }} return ctx");
        let found = value(&code).await;
        let whole = json!({"n": 1, "deep": {"list": [1, 2]}});
        assert!(found == whole || found == json!([true, whole]), "{code}: {found}");
    }
}

#[tokio::test]
async fn evaluated_code_works() {
    assert_eq!(value("return eval('1 + 1') + new Function('a', 'return a')(2)").await, json!(4));
    assert_eq!(value("return (0, eval)('typeof ctx')").await, json!("object"));
}

#[tokio::test]
async fn code_that_closes_its_own_function_gains_nothing() {
    assert!(matches!(error("}); (function () { return 1").await, Error::Threw { .. }));
    assert_eq!(value("}, async function () { return typeof require").await, json!("undefined"));
}
