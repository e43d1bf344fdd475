//! Runs one script on the calling thread, in a separate runtime.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rquickjs::context::EvalOptions;
use rquickjs::promise::PromiseState;
use rquickjs::runtime::RejectionTracker;
use rquickjs::{
    CatchResultExt, CaughtError, Coerced, Context, Ctx, Exception, FromJs, Function, Persistent, Promise, Runtime,
    Undefined, Value,
};
use tokio::runtime::Handle;

use crate::fetch::{Arrival, Exchange, Fetch};
use crate::log::Log;
use crate::script::{Error, Script};
use crate::{LOG_BYTES_MAX, RESULT_BYTES_MAX, RESULT_DEPTH_MAX};

/// Bytes of stack for nested calls; the pool's threads have several times as much.
const CALL_STACK_BYTES_MAX: usize = 1024 * 1024;
/// The memory of a context as objects, as a multiple of its JSON text.
const CONTEXT_MEMORY_FACTOR: usize = 16;
/// The memory of a larger context is measured, so that it does not count as the script's own.
const LARGE_CONTEXT_BYTES_MIN: usize = 256 * 1024;
/// Longer timeouts are reduced to this one.
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);
const PRELUDE: &str = include_str!("prelude.js");
const BUILT_INS: &str = include_str!("built_ins.js");
const FETCH: &str = include_str!("fetch.js");
/// File names in stack traces: of the user's code, and of ours.
const SCRIPT_FILE: &str = "script";
const HOST_FILE: &str = "everstep";

/// Ends a script: at its deadline, or as soon as its caller no longer waits for it.
#[derive(Clone)]
pub(crate) struct Cancellation {
    pub(crate) deadline: Instant,
    stop: Arc<AtomicBool>,
    /// The requests that end with the script, if it may send any.
    exchange: Option<Arc<Exchange>>,
}

impl Cancellation {
    /// Starts the timeout. With `fetch`, call it on a runtime that can execute the requests.
    pub(crate) fn new(timeout: Duration, fetch: Option<Arc<dyn Fetch>>) -> Self {
        let deadline = Instant::now() + timeout.min(TIMEOUT_MAX);
        let exchange = fetch.map(|fetch| Exchange::new(fetch, Handle::current(), deadline));
        Self { deadline, stop: Arc::default(), exchange }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(exchange) = &self.exchange {
            exchange.end();
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

/// Runs a script to its end and returns its result as JSON text.
pub(crate) fn execute(script: Script, cancellation: &Cancellation, log: &Log) -> Result<String, Error> {
    let Script { code, context_json, timeout, memory_bytes, owner: _, fetch: _ } = script;
    let unavailable = |error: rquickjs::Error| Error::Unavailable(error.to_string());
    let runtime = Runtime::new().map_err(unavailable)?;
    let is_large = context_json.len() > LARGE_CONTEXT_BYTES_MIN;
    let context_bytes = if is_large { context_json.len().saturating_mul(CONTEXT_MEMORY_FACTOR) } else { 0 };
    runtime.set_memory_limit(memory_bytes.saturating_add(context_bytes));
    runtime.set_max_stack_size(CALL_STACK_BYTES_MAX);
    let watched = cancellation.clone();
    runtime.set_interrupt_handler(Some(Box::new(move || watched.is_over())));
    let ran_out = Arc::new(AtomicBool::new(false));
    runtime.set_host_promise_rejection_tracker(Some(watch_memory(&ran_out)));
    let context = Context::full(&runtime).map_err(|_| Error::OutOfMemory(memory_bytes))?;
    let to_error = |fault: Fault<'_>| fault.into_error(cancellation, timeout, memory_bytes);
    let answer = context.with(|ctx| prepare(&ctx, context_json, log, cancellation).map_err(to_error))?;
    if is_large {
        let used = usize::try_from(runtime.memory_usage().malloc_size).unwrap_or(0);
        runtime.set_memory_limit(memory_bytes.saturating_add(used));
    }
    let promise = context.with(|ctx| call(&ctx, &code).map_err(to_error))?;
    loop {
        let is_pending = |ctx: Ctx<'_>| Ok(promise.clone().restore(&ctx)?.state() == PromiseState::Pending);
        if !context.with(is_pending).map_err(unavailable)? {
            break;
        }
        let has_run = run_job(&runtime).map_err(|context| context.with(|ctx| to_error(thrown(&ctx))))?;
        if cancellation.is_over() {
            return Err(Error::Timeout(timeout));
        }
        if has_run {
            continue;
        }
        // Only a response can settle the promise now.
        let (Some(exchange), Some(answer)) = (cancellation.exchange.as_ref().filter(|it| !it.is_idle()), &answer)
        else {
            let has_run_out = ran_out.load(Ordering::Relaxed);
            return Err(if has_run_out { Error::OutOfMemory(memory_bytes) } else { Error::NeverSettles });
        };
        let arrival = exchange.next().ok_or(Error::Timeout(timeout))?;
        context.with(|ctx| settle_fetch(&ctx, answer, arrival).map_err(to_error))?;
    }
    context.with(|ctx| {
        let promise = promise.clone().restore(&ctx).map_err(unavailable)?;
        let value = promise.result::<Value<'_>>().unwrap_or(Err(rquickjs::Error::WouldBlock)).catch(&ctx);
        value.map_err(Fault::from).and_then(|value| to_json(&ctx, value, cancellation)).map_err(to_error)
    })
}

/// Runs the first job of the queue, and returns whether there was one. An error of the script
/// rejects a promise; a job throws only if the library is out of memory or interrupted, which ends the script.
fn run_job(runtime: &Runtime) -> Result<bool, Context> {
    runtime.execute_pending_job().map_err(|thrown| thrown.0)
}

/// Records when a promise without a handler is rejected for lack of memory: otherwise a caller would wait for it until
/// the deadline.
fn watch_memory(ran_out: &Arc<AtomicBool>) -> RejectionTracker {
    let ran_out = Arc::clone(ran_out);
    Box::new(move |_, _, reason, is_handled| {
        let is_about_memory = reason.is_null() || reason.as_exception().is_some_and(is_out_of_memory);
        if !is_handled && is_about_memory {
            ran_out.store(true, Ordering::Relaxed);
        }
    })
}

fn thrown<'js>(ctx: &Ctx<'js>) -> Fault<'js> {
    Fault::Caught(CaughtError::from_error(ctx, rquickjs::Error::Exception))
}

enum Fault<'js> {
    Caught(CaughtError<'js>),
    Described(Error),
}

impl Fault<'_> {
    fn into_error(self, cancellation: &Cancellation, timeout: Duration, memory_bytes: usize) -> Error {
        let error = match self {
            Self::Described(error) => return error,
            Self::Caught(caught) => describe(&caught, memory_bytes),
        };
        // Checked last, because describing an error runs the script's own getters.
        if cancellation.is_over() { Error::Timeout(timeout) } else { error }
    }
}

impl<'js> From<CaughtError<'js>> for Fault<'js> {
    fn from(caught: CaughtError<'js>) -> Self {
        Self::Caught(caught)
    }
}

/// Gives the script its globals. Returns the function that receives the responses to its requests.
fn prepare<'js>(
    ctx: &Ctx<'js>,
    context_json: String,
    log: &Log,
    cancellation: &Cancellation,
) -> Result<Option<Persistent<Function<'static>>>, Fault<'js>> {
    let context = ctx.json_parse(context_json).catch(ctx)?;
    let log = log.clone();
    let write = Function::new(ctx.clone(), move |line: String| log.write(&line)).catch(ctx)?;
    let prelude: Function<'js> = evaluate(ctx, PRELUDE, HOST_FILE).catch(ctx)?;
    prelude.call::<_, ()>((write, context, LOG_BYTES_MAX)).catch(ctx)?;
    let bound: Function<'js> = evaluate(ctx, BUILT_INS, HOST_FILE).catch(ctx)?;
    let watched = cancellation.clone();
    let is_over = Function::new(ctx.clone(), move || watched.is_over()).catch(ctx)?;
    bound.call::<_, ()>((is_over,)).catch(ctx)?;
    let Some(exchange) = cancellation.exchange.clone() else { return Ok(None) };
    let ask = move |ctx: Ctx<'js>, method: String, url: String, lines: Vec<String>, body: String| {
        let headers = lines.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        exchange.ask(method, url, headers, body).map_err(|message| Exception::throw_type(&ctx, &message))
    };
    let ask = Function::new(ctx.clone(), ask).catch(ctx)?;
    let fetch: Function<'js> = evaluate(ctx, FETCH, HOST_FILE).catch(ctx)?;
    let answer = fetch.call::<_, Function<'js>>((ask,)).catch(ctx)?;
    Ok(Some(Persistent::save(ctx, answer)))
}

fn evaluate<'js, T: FromJs<'js>>(ctx: &Ctx<'js>, source: impl Into<Vec<u8>>, file: &str) -> rquickjs::Result<T> {
    let mut options = EvalOptions::default();
    options.filename = Some(file.to_owned());
    ctx.eval_with_options(source, options)
}

/// Calls the code and returns its promise.
fn call<'js>(ctx: &Ctx<'js>, code: &str) -> Result<Persistent<Promise<'static>>, Fault<'js>> {
    // The code begins on the first line, so that line numbers in errors are those of the user.
    let source = format!("(async function () {{{code}\n}})");
    let function: Value<'js> = evaluate(ctx, source, SCRIPT_FILE).catch(ctx)?;
    let Some(function) = function.into_function() else {
        return Err(Fault::Described(Error::Threw {
            message: "the code has an unmatched brace".to_owned(),
            line: None,
        }));
    };
    let promise: Promise<'js> = function.call(()).catch(ctx)?;
    Ok(Persistent::save(ctx, promise))
}

/// Settles the promise of one of the script's requests.
fn settle_fetch<'js>(
    ctx: &Ctx<'js>,
    answer: &Persistent<Function<'static>>,
    arrival: Arrival,
) -> Result<(), Fault<'js>> {
    let answer = answer.clone().restore(ctx).catch(ctx)?;
    let (id, result) = arrival;
    let called = match result {
        Ok(response) => {
            let lines: Vec<String> = response.headers.into_iter().flat_map(|(name, value)| [name, value]).collect();
            let body = String::from_utf8_lossy(&response.body).into_owned();
            answer.call::<_, ()>((id, Undefined, response.status, response.url, lines, body))
        }
        Err(message) => answer.call::<_, ()>((id, message)),
    };
    called.catch(ctx).map_err(Fault::from)
}

fn to_json<'js>(ctx: &Ctx<'js>, value: Value<'js>, cancellation: &Cancellation) -> Result<String, Fault<'js>> {
    if value.is_undefined() {
        return Ok("null".to_owned());
    }
    let kind = value.type_name();
    let written = match ctx.json_stringify(value).catch(ctx) {
        Ok(Some(written)) => written.to_string().catch(ctx)?,
        Ok(None) => return Err(Fault::Described(Error::NotJson(format!("a {kind}")))),
        Err(CaughtError::Exception(exception)) if !cancellation.is_over() && !is_out_of_memory(&exception) => {
            return Err(Fault::Described(Error::NotJson(exception.message().unwrap_or_default())));
        }
        Err(caught) => return Err(Fault::Caught(caught)),
    };
    if written.len() > RESULT_BYTES_MAX {
        return Err(Fault::Described(Error::TooLarge(written.len())));
    }
    if depth(&written) > RESULT_DEPTH_MAX {
        return Err(Fault::Described(Error::NotJson(format!("it is nested deeper than {RESULT_DEPTH_MAX} levels"))));
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
        // If the memory does not suffice to create an error, the library throws null. A script that throws null itself
        // gets the same message: the two cases cannot be distinguished.
        CaughtError::Value(value) if value.is_null() => Error::OutOfMemory(memory_bytes),
        CaughtError::Value(value) => {
            let text = value.get::<Coerced<String>>().map_or_else(|_| value.type_name().to_owned(), |text| text.0);
            Error::Threw { message: shortened(text), line: None }
        }
        CaughtError::Error(rquickjs::Error::Allocation) => Error::OutOfMemory(memory_bytes),
        CaughtError::Error(error) => Error::Threw { message: error.to_string(), line: None },
    }
}

fn is_out_of_memory(exception: &Exception<'_>) -> bool {
    let name: Option<Coerced<String>> = exception.as_object().get("name").ok();
    name.is_some_and(|name| name.0 == "InternalError") && exception.message().as_deref() == Some("out of memory")
}

/// The first line of the user's code in a stack trace, as in `at f (script:3:14)`.
fn line(stack: &str) -> Option<u32> {
    let (_, rest) = stack.split_once("script:")?;
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn shortened(mut message: String) -> String {
    const MESSAGE_BYTES_MAX: usize = 4096;
    if message.len() > MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        message.push('…');
    }
    message
}

/// The nesting depth of JSON text.
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
