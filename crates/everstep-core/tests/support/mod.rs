//! Shared code of the core's tests.

mod code;
mod family;
mod game;
mod graphs;
mod machine_plans;
mod machines;
mod people;
mod random;
mod story;
mod text;
mod texts;

use std::time::{Duration, Instant};

use everstep_core::evaluate::Fault;
use everstep_core::graph::{self, Problem};
use everstep_core::kinds::{KindInfo, Kinds};
use everstep_core::workflow::{Style, Workflow};
use everstep_expressions::Expressions;
use serde_json::Value;

pub(crate) use self::code::{code, steady};
pub(crate) use self::family::Family;
pub(crate) use self::game::Game;
pub(crate) use self::graphs::Plan;
pub(crate) use self::machine_plans::{ACTIONS, PERSONS, random_machine};
pub(crate) use self::machines::{compile_definition, compile_machine, load_machine, machine_with};
pub(crate) use self::people::actor;
pub(crate) use self::random::{Random, often};
pub(crate) use self::text::{definition, is_code, play};
pub(crate) use self::texts::{check_names, play_text, texts};

/// The kinds of the tests that a handler performs: `noop` accepts any config, `javascript` is like the product's kind,
/// `ask` has a handle of its own and accepts secrets.
pub(crate) struct TestKinds(Vec<KindInfo>);

impl TestKinds {
    pub(crate) fn new() -> Self {
        let noop = KindInfo { name: "noop".into(), ..KindInfo::default() };
        let places = ["/key", "/headers/*", "/any", "/any/**"];
        let ask = KindInfo {
            name: "ask".into(),
            handles: vec!["unsure".into()],
            secret_places: places.map(str::to_owned).into(),
            ..KindInfo::default()
        };
        let javascript = KindInfo {
            name: "javascript".into(),
            output_variable: Some("jsResult".into()),
            raw_fields: vec!["code".into()],
            needs_context: true,
            timeout_seconds: 30,
            ..KindInfo::default()
        };
        Self(vec![noop, ask, javascript])
    }
}

impl Kinds for TestKinds {
    fn find(&self, name: &str) -> Option<&KindInfo> {
        self.0.iter().find(|kind| kind.name == name)
    }

    fn check(&self, name: &str, config: &Value) -> Vec<Fault> {
        let is_empty = config.get("code").and_then(Value::as_str).is_none_or(|code| code.trim().is_empty());
        if name == "javascript" && is_empty {
            return vec![Fault { pointer: "/code".into(), message: "code is empty".into() }];
        }
        Vec::new()
    }

    /// Code with `!!` in it does not compile.
    fn check_code(&self, _: &str, config: &Value) -> Vec<Fault> {
        let is_broken = config.get("code").and_then(Value::as_str).is_some_and(|code| code.contains("!!"));
        let message = "SyntaxError: unexpected !! at line 2, column 3".to_owned();
        is_broken.then(|| Fault { pointer: "/code".into(), message }).into_iter().collect()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|kind| kind.name.clone()).collect()
    }
}

/// A definition with `states` is a machine, any other a graph.
pub(crate) fn compile(definition: &Value) -> Result<Workflow, Vec<Problem>> {
    if definition.get("states").is_some() {
        let style = Style::Machine(compile_machine(definition)?);
        return Ok(Workflow {
            name: "test".into(),
            version: 1,
            style,
            is_unsaved: false,
            publisher: Default::default(),
        });
    }
    let graph = graph::compile(definition, &TestKinds::new(), &Expressions::default())?;
    Ok(Workflow {
        name: "test".into(),
        version: 1,
        style: Style::Graph(graph),
        is_unsaved: false,
        publisher: Default::default(),
    })
}

/// Like `compile`, for a definition that an earlier version of the server saved.
pub(crate) fn load(definition: &Value) -> Result<Workflow, Vec<Problem>> {
    let graph = graph::load(definition, &TestKinds::new(), &Expressions::default())?;
    Ok(Workflow {
        name: "test".into(),
        version: 1,
        style: Style::Graph(graph),
        is_unsaved: false,
        publisher: Default::default(),
    })
}

/// The time of the machine, for tests of speed.
#[expect(clippy::disallowed_methods, reason = "tests of speed look at the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Measures the duration of a call: the CPU time of this thread if the system reports it, so that a busy machine causes
/// no failure.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let (begin, begin_of_thread) = (now(), thread_time());
    let result = work();
    let took = thread_time().zip(begin_of_thread).map(|(end, begin)| end.saturating_sub(begin));
    (result, took.unwrap_or_else(|| begin.elapsed()))
}

/// The CPU time of this thread.
fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}
