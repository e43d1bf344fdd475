//! Scripts are compiled without being run.

use everstep_sandbox::Sandbox;

use super::{error, value};

fn place(code: &str) -> Option<(u32, u32)> {
    Sandbox::check(code).map(|error| (error.line, error.column))
}

#[tokio::test]
async fn a_script_that_compiles_has_no_error() {
    for code in [
        "return 1;",
        "const {n} = ctx;\nfor await (const x of [Promise.resolve(n)]) return x;",
        "return /a{2,3}(?<name>b)/u.test('aab') ? 1 : 2; // a comment at the end",
        "return 10n ** 2n > 1 ? `${1}` : String.raw`\\d`;",
        "class A { #x = 1; static { this.y = 2; } get x() { return this.#x; } }\nreturn new A().x;",
        "return {a: 1, ...{b: 2}}?.a ?? 0;",
        "return",
        "",
    ] {
        assert_eq!(Sandbox::check(code), None, "{code}");
        value(code).await;
    }
}

#[test]
fn an_error_has_its_line_and_column() {
    assert_eq!(place("const x = ;"), Some((1, 11)));
    assert_eq!(place("const a = 1;\nconst b = 2;\n  return a +* b;\n"), Some((3, 13)));
    // A second declaration is noticed at the token after the name.
    assert_eq!(place("let a;\nlet a;"), Some((2, 6)));
    let error = Sandbox::check("return 1 +* 2;").unwrap();
    assert!(error.to_string().starts_with("SyntaxError: "), "{error}");
    assert!(error.to_string().ends_with(" at line 1, column 11"), "{error}");
}

#[test]
fn an_unmatched_brace_is_reported_at_the_end_of_the_code() {
    for code in ["if (ctx.n) {\n  return 1;", "return [1, 2", "return f(1;", "}", "return 1; }"] {
        let error = Sandbox::check(code).unwrap_or_else(|| panic!("{code}"));
        let lines = u32::try_from(code.lines().count()).unwrap();
        assert!(error.line <= lines, "{code}: {error}");
    }
    assert_eq!(place("if (ctx.n) {\n  return 1;"), Some((2, 12)));
    assert!(Sandbox::check("}").unwrap().message.contains("has no counterpart"));
}

#[tokio::test]
async fn a_script_and_its_check_agree() {
    // Scripts run in strict mode, so that these do not compile.
    for code in ["with (ctx) { return n; }", "return 010;", "const x = ;", "return 'a", "await = 1", "import 'x'"] {
        assert!(Sandbox::check(code).is_some(), "{code}");
        assert!(error(code).await.to_string().contains("SyntaxError"), "{code}");
    }
}

#[test]
fn nothing_of_a_script_runs() {
    // A script that closes its function continues outside it. An endless loop there would never return.
    assert_eq!(Sandbox::check("}); while (true) {} (async function () {"), None);
    assert_eq!(Sandbox::check("}); function f() { f(); } f(); (async function () {"), None);
    assert_eq!(Sandbox::check("}); throw new SyntaxError('made up'); (async function () {"), None);
}

#[test]
fn code_beyond_the_limits_of_the_check_has_no_error() {
    let deep = format!("return {}1{};", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(Sandbox::check(&deep), None);
    let long = format!("return [{}];", "1,".repeat(1_000_000));
    assert_eq!(Sandbox::check(&long), None);
}
