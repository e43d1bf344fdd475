//! Compiles a script without running it.

use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::{CatchResultExt, CaughtError, Coerced, Context, Ctx, Runtime, Value};

use crate::MEMORY_BYTES_DEFAULT;

/// Bytes of stack for nested syntax. The caller's thread may be a small one; code that is nested deeper is not checked.
const STACK_BYTES_MAX: usize = 256 * 1024;
/// The engine compiles the whole source first. Then it runs this statement, so that nothing of the script runs, not
/// even of a script that closes its function and continues after it.
const PREFIX: &str = "throw 0; (async function () {";
const SUFFIX: &str = "\n})";
const FILE: &str = "script";

/// Why a script cannot be compiled, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line}, column {column}")]
pub struct SyntaxError {
    pub message: String,
    /// Both count from 1.
    pub line: u32,
    pub column: u32,
}

/// Finds the first error in the syntax of a script. Code that cannot be compiled within these limits has no error
/// here: its run reports the failure.
pub(crate) fn check(code: &str) -> Option<SyntaxError> {
    let runtime = Runtime::new().ok()?;
    runtime.set_memory_limit(MEMORY_BYTES_DEFAULT);
    runtime.set_max_stack_size(STACK_BYTES_MAX);
    let context = Context::custom::<(intrinsic::Eval, intrinsic::RegExpCompiler, intrinsic::RegExp)>(&runtime).ok()?;
    context.with(|ctx| compile(&ctx, code))
}

fn compile(ctx: &Ctx<'_>, code: &str) -> Option<SyntaxError> {
    let mut options = EvalOptions::default();
    options.filename = Some(FILE.to_owned());
    let source = format!("{PREFIX}{code}{SUFFIX}");
    let Err(CaughtError::Exception(exception)) = ctx.eval_with_options::<Value<'_>, _>(source, options).catch(ctx)
    else {
        return None;
    };
    let name: Option<Coerced<String>> = exception.as_object().get("name").ok();
    if name.is_none_or(|name| name.0 != "SyntaxError") {
        return None;
    }
    let stack = exception.stack().unwrap_or_default();
    let (line, column) = position(&stack).unwrap_or((1, 1));
    let message = format!("SyntaxError: {}", exception.message().unwrap_or_default());
    Some(locate(code, message, line, column))
}

/// The place in the source that a stack names, as in `at script:3:14`.
fn position(stack: &str) -> Option<(u32, u32)> {
    let (_, rest) = stack.split_once("script:")?;
    let mut numbers = rest.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The error at its position in the user's code, without the prefix and the suffix.
fn locate(code: &str, message: String, line: u32, column: u32) -> SyntaxError {
    let last_line = 1 + u32::try_from(code.matches('\n').count()).unwrap_or(u32::MAX);
    if line > last_line {
        let last = code.rsplit('\n').next().unwrap_or_default();
        let column = 1 + u32::try_from(last.chars().count()).unwrap_or(u32::MAX - 1);
        let message = "SyntaxError: a brace, bracket or parenthesis has no counterpart".to_owned();
        return SyntaxError { message, line: last_line, column };
    }
    let before = if line == 1 { u32::try_from(PREFIX.len()).unwrap_or(0) } else { 0 };
    SyntaxError { message, line, column: column.saturating_sub(before).max(1) }
}
