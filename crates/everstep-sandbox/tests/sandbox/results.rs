//! The input and the output of scripts.

use everstep_sandbox::{Error, LOG_BYTES_MAX, RESULT_BYTES_MAX, Sandbox, Script};
use serde_json::json;

use crate::{error, run, value};

#[tokio::test]
async fn a_script_returns_and_awaits() {
    assert_eq!(value("return ctx.n + 1").await, json!(2));
    assert_eq!(
        value("const x = await Promise.resolve(4); return { x, list: ctx.deep.list }").await,
        json!({"x": 4, "list": [1, 2]})
    );
    assert_eq!(
        value("return [1.0, 1.5, 'é\\n', true, null, undefined]").await,
        json!([1, 1.5, "é\n", true, null, null])
    );
    assert_eq!(value("return await Promise.all([1, Promise.resolve(2)]) // a comment at the end").await, json!([1, 2]));
    assert_eq!(value("return new Date(0)").await, json!("1970-01-01T00:00:00.000Z"));
}

#[tokio::test]
async fn nothing_returned_is_null() {
    for code in ["", "ctx.n", "return", "return undefined", "return null"] {
        assert_eq!(value(code).await, json!(null), "{code}");
    }
}

#[tokio::test]
async fn keys_keep_their_order() {
    assert_eq!(run("return {z: 1, a: 2}").await.unwrap().json, r#"{"z":1,"a":2}"#);
}

#[tokio::test]
async fn the_context_is_frozen() {
    for code in
        ["ctx.n = 2", "ctx.deep.list.push(3)", "ctx.deep.list[0] = 9", "delete ctx.deep", "ctx = {}", "console.log = 1"]
    {
        let Error::Threw { message, line } = error(code).await else { panic!("{code}") };
        assert!(message.starts_with("TypeError"), "{code}: {message}");
        assert_eq!(line, Some(1));
    }
    assert_eq!(value("try { ctx.n = 2 } catch {} return ctx.n").await, json!(1));
}

#[tokio::test]
async fn nothing_but_the_language_is_there() {
    let names = [
        "fetch",
        "setTimeout",
        "setInterval",
        "require",
        "process",
        "Deno",
        "std",
        "os",
        "performance",
        "queueMicrotask",
    ];
    for name in names {
        assert_eq!(value(&format!("return typeof {name}")).await, json!("undefined"), "{name}");
    }
    assert!(matches!(error("return await import('fs')").await, Error::Threw { .. }));
    assert!(matches!(error("import fs from 'fs'").await, Error::Threw { .. }));
}

#[tokio::test]
async fn scripts_leave_nothing_to_the_next() {
    let sandbox = Sandbox::new(1);
    sandbox.run(Script::new("globalThis.left = 1; Array.prototype.x = 1", "{}")).await.unwrap();
    let ran = sandbox.run(Script::new("return [typeof left, [].x === undefined]", "{}")).await.unwrap();
    assert_eq!(ran.json, r#"["undefined",true]"#);
}

#[tokio::test]
async fn a_thrown_error_has_its_message_and_line() {
    let threw = |message: &str, line| Error::Threw { message: message.to_owned(), line };
    assert_eq!(error("\n\nthrow new Error('no stock')").await, threw("Error: no stock", Some(3)));
    assert_eq!(
        error("const f = () => {\n  null.x\n}\nf()").await,
        threw("TypeError: cannot read property 'x' of null", Some(2))
    );
    assert_eq!(error("await null\nthrow new RangeError('late')").await, threw("RangeError: late", Some(2)));
    assert_eq!(error("throw 'a text'").await, threw("a text", None));
    assert_eq!(error("throw {code: 5}").await, threw("[object Object]", None));
    assert_eq!(error("await Promise.reject(new Error('rejected'))").await, threw("Error: rejected", Some(1)));
    let Error::Threw { message, line } = error("let a = 1\nlet b = = 2").await else { panic!() };
    assert!(message.starts_with("SyntaxError"), "{message}");
    assert_eq!(line, Some(2));
    assert_eq!(threw("Error: x", Some(3)).to_string(), "Error: x (line 3)");
}

#[tokio::test]
async fn what_is_not_json_is_refused_clearly() {
    for code in [
        "return () => 1",
        "return Symbol('x')",
        "return 10n",
        "return {n: 10n}",
        "const a = {}; a.a = a; return a",
        "let a = 1; for (let i = 0; i < 120; i++) a = [a]; return a",
        "return { toJSON() { throw new Error('no') } }",
    ] {
        assert!(matches!(error(code).await, Error::NotJson(_)), "{code}: {:?}", error(code).await);
    }
}

#[tokio::test]
async fn a_result_is_at_most_a_payload() {
    assert!(run(&format!("return 'x'.repeat({})", RESULT_BYTES_MAX - 2)).await.is_ok());
    assert_eq!(
        error(&format!("return 'x'.repeat({})", RESULT_BYTES_MAX - 1)).await,
        Error::TooLarge(RESULT_BYTES_MAX + 1)
    );
}

#[tokio::test]
async fn the_console_is_captured() {
    let code = "console.log('a', 1, {b: [2]}, null, undefined); console.error(new Error('x')); console.warn(); console.info(1n); console.debug(() => 1); return 1";
    let ran = run(code).await.unwrap();
    assert_eq!(ran.logs, ["a 1 {\"b\":[2]} null undefined", "Error: x", "", "1", "() => 1"]);
}

#[tokio::test]
async fn logs_outlive_a_failure() {
    let stopped = run("console.log('before'); throw new Error('x')").await.unwrap_err();
    assert_eq!(stopped.logs, ["before"]);
}

#[tokio::test]
async fn logs_are_cut_with_a_mark() {
    for code in [
        "for (let i = 0; i < 20000; i++) console.log('line ' + i)",
        "console.log('x'.repeat(10_000_000))",
        "console.log(...Array(1000).fill('x'.repeat(1000)))",
    ] {
        let ran = run(code).await.unwrap();
        let bytes: usize = ran.logs.iter().map(|line| line.len() + 1).sum();
        assert!(bytes > LOG_BYTES_MAX - 200 && bytes <= LOG_BYTES_MAX, "{code}: {bytes}");
        assert!(ran.logs.last().unwrap().starts_with('…'), "{code}");
    }
}

#[tokio::test]
async fn a_large_context_does_not_eat_the_script_s_memory() {
    let item = r#"{"name":"a name","price":12.5,"tags":["a","b"]}"#;
    let context = format!("[{}]", vec![item; 200_000].join(","));
    assert!(context.len() > 9_000_000);
    let ran = Sandbox::new(1).run(Script::new("return ctx.length", context)).await.unwrap();
    assert_eq!(ran.json, "200000");
}

#[tokio::test]
async fn a_context_that_is_not_json_is_an_error() {
    let stopped = Sandbox::new(1).run(Script::new("return 1", "{")).await.unwrap_err();
    assert!(matches!(stopped.error, Error::Threw { .. }), "{stopped:?}");
    let stopped = Sandbox::new(1).run(Script::new("return 1\0", "{}")).await.unwrap_err();
    assert!(matches!(stopped.error, Error::Threw { .. }), "{stopped:?}");
}
