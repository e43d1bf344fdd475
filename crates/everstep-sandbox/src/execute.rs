//! Runs one script on the calling thread, in a runtime of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::{CatchResultExt, CaughtError, Coerced, Context, Ctx, Function, Promise, Runtime, Value};

use crate::log::Log;
use crate::script::{Error, Script};
use crate::{LOG_BYTES, RESULT_BYTES, RESULT_DEPTH};

/// How deep calls may nest, in bytes; the pool's threads have several times as much.
const STACK_BYTES: usize = 1024 * 1024;
/// How many times its text a context may weigh as objects.
const CONTEXT_WEIGHT: usize = 16;
/// From here on a context is weighed, so that it does not count as the script's own memory.
const LARGE_CONTEXT_BYTES: usize = 256 * 1024;
/// A longer timeout means this one.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
const PRELUDE: &str = include_str!("prelude.js");
const FILE: &str = "script";

/// When a script must end: at its deadline, or as soon as nobody waits for it.
#[derive(Clone)]
pub(crate) struct Limit {
    pub(crate) deadline: Instant,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Limit {
    pub(crate) fn new(timeout: Duration) -> Self {
        Self { deadline: Instant::now() + timeout.min(LONGEST), stop: Arc::default() }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

/// Runs a script to its end and returns its result as JSON text.
pub(crate) fn execute(script: Script, limit: &Limit, log: &Log) -> Result<String, Error> {
    let Script { code, context_json, timeout, memory_bytes } = script;
    let unavailable = |error: rquickjs::Error| Error::Unavailable(error.to_string());
    let runtime = Runtime::new().map_err(unavailable)?;
    let is_large = context_json.len() > LARGE_CONTEXT_BYTES;
    let context_bytes = if is_large { context_json.len().saturating_mul(CONTEXT_WEIGHT) } else { 0 };
    runtime.set_memory_limit(memory_bytes.saturating_add(context_bytes));
    runtime.set_max_stack_size(STACK_BYTES);
    let watched = limit.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || watched.is_over())));
    let context = Context::full(&runtime).map_err(|_| Error::OutOfMemory(memory_bytes))?;
    let tell = |fault: Fault<'_>| fault.tell(limit, timeout, memory_bytes);
    context.with(|ctx| prepare(&ctx, context_json, log).map_err(tell))?;
    if is_large {
        let used = usize::try_from(runtime.memory_usage().malloc_size).unwrap_or(0);
        runtime.set_memory_limit(memory_bytes.saturating_add(used));
    }
    context.with(|ctx| run(&ctx, &code, limit).map_err(tell))
}

enum Fault<'js> {
    Caught(CaughtError<'js>),
    Told(Error),
}

impl Fault<'_> {
    fn tell(self, limit: &Limit, timeout: Duration, memory_bytes: usize) -> Error {
        let error = match self {
            Self::Told(error) => return error,
            Self::Caught(caught) => describe(&caught, memory_bytes),
        };
        // Looked at last, since describing an error runs the script's own getters.
        if limit.is_over() { Error::Timeout(timeout) } else { error }
    }
}

impl<'js> From<CaughtError<'js>> for Fault<'js> {
    fn from(caught: CaughtError<'js>) -> Self {
        Self::Caught(caught)
    }
}

/// Gives the script all that it sees.
fn prepare<'js>(ctx: &Ctx<'js>, context_json: String, log: &Log) -> Result<(), Fault<'js>> {
    let context = ctx.json_parse(context_json).catch(ctx)?;
    let log = log.clone();
    let write = Function::new(ctx.clone(), move |line: String| log.write(&line)).catch(ctx)?;
    let prelude: Function<'js> = ctx.eval(PRELUDE).catch(ctx)?;
    prelude.call::<_, ()>((write, context, LOG_BYTES)).catch(ctx)?;
    Ok(())
}

fn run<'js>(ctx: &Ctx<'js>, code: &str, limit: &Limit) -> Result<String, Fault<'js>> {
    // The code begins on the first line, so that lines in errors are the user's own.
    let mut options = EvalOptions::default();
    options.filename = Some(FILE.to_owned());
    let source = format!("(async function () {{{code}\n}})");
    let function: Value<'js> = ctx.eval_with_options(source, options).catch(ctx)?;
    let Some(function) = function.into_function() else {
        return Err(Fault::Told(Error::Threw { message: "the code has an unmatched brace".to_owned(), line: None }));
    };
    let promise: Promise<'js> = function.call(()).catch(ctx)?;
    settle(ctx, &promise, limit)?;
    let value = promise.result::<Value<'js>>().unwrap_or(Err(rquickjs::Error::WouldBlock)).catch(ctx)?;
    to_json(ctx, value, limit)
}

/// Runs what is queued until the promise is settled. Nothing outside can settle it: without a job it never is.
fn settle<'js>(ctx: &Ctx<'js>, promise: &Promise<'js>, limit: &Limit) -> Result<(), Fault<'js>> {
    while promise.state() == PromiseState::Pending {
        let has_run = ctx.execute_pending_job();
        if limit.is_over() {
            return Err(Fault::Caught(CaughtError::Error(rquickjs::Error::WouldBlock)));
        }
        if !has_run && promise.state() == PromiseState::Pending {
            return Err(Fault::Told(Error::NeverSettles));
        }
    }
    Ok(())
}

fn to_json<'js>(ctx: &Ctx<'js>, value: Value<'js>, limit: &Limit) -> Result<String, Fault<'js>> {
    if value.is_undefined() {
        return Ok("null".to_owned());
    }
    let kind = value.type_name();
    let written = match ctx.json_stringify(value).catch(ctx) {
        Ok(Some(written)) => written.to_string().catch(ctx)?,
        Ok(None) => return Err(Fault::Told(Error::NotJson(format!("a {kind}")))),
        Err(CaughtError::Exception(exception)) if !limit.is_over() && !is_out_of_memory(&exception) => {
            return Err(Fault::Told(Error::NotJson(exception.message().unwrap_or_default())));
        }
        Err(caught) => return Err(Fault::Caught(caught)),
    };
    if written.len() > RESULT_BYTES {
        return Err(Fault::Told(Error::TooLarge(written.len())));
    }
    if depth(&written) > RESULT_DEPTH {
        return Err(Fault::Told(Error::NotJson(format!("it is nested deeper than {RESULT_DEPTH} levels"))));
    }
    Ok(written)
}

fn describe(caught: &CaughtError<'_>, memory_bytes: usize) -> Error {
    match caught {
        CaughtError::Exception(exception) if is_out_of_memory(exception) => Error::OutOfMemory(memory_bytes),
        CaughtError::Exception(exception) => {
            let name: Option<Coerced<String>> = exception.as_object().get("name").ok();
            let name = name.map(|name| name.0).filter(|name| !name.is_empty()).unwrap_or("Error".to_owned());
            let message = exception.message().unwrap_or_default();
            let line = exception.stack().as_deref().and_then(line);
            let message = if message.is_empty() { name } else { format!("{name}: {message}") };
            Error::Threw { message: shortened(message), line }
        }
        // Where memory is so short that not even an error can be made, the library throws null.
        // A script that throws null of its own will is told the same: the two cannot be told apart.
        CaughtError::Value(value) if value.is_null() => Error::OutOfMemory(memory_bytes),
        CaughtError::Value(value) => {
            let text = value.get::<Coerced<String>>().map_or_else(|_| value.type_name().to_owned(), |text| text.0);
            Error::Threw { message: shortened(text), line: None }
        }
        CaughtError::Error(rquickjs::Error::Allocation) => Error::OutOfMemory(memory_bytes),
        CaughtError::Error(error) => Error::Threw { message: error.to_string(), line: None },
    }
}

fn is_out_of_memory(exception: &rquickjs::Exception<'_>) -> bool {
    let name: Option<Coerced<String>> = exception.as_object().get("name").ok();
    name.is_some_and(|name| name.0 == "InternalError") && exception.message().as_deref() == Some("out of memory")
}

/// The line of the user's code that a stack names first, as in `at f (script:3:14)`.
fn line(stack: &str) -> Option<u32> {
    let (_, rest) = stack.split_once("script:")?;
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn shortened(mut message: String) -> String {
    const BYTES: usize = 4096;
    if message.len() > BYTES {
        message.truncate(message.floor_char_boundary(BYTES));
        message.push('…');
    }
    message
}

/// How deep JSON text is nested.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}
