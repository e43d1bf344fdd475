//! Costly decisions of a workspace: other messages of the shard come between them.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use everstep_core::actor::Actor;
use everstep_core::evaluate::{Evaluate, Fault, Lookup, Reference};
use everstep_core::failure::Failure;
use everstep_core::limits;
use everstep_core::machine::{Act, Rights};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::{Input, Reply};
use everstep_engine::{Engine, NodeClock, Options, World};
use everstep_expressions::Expressions;
use everstep_handlers::Registry;
use futures_util::future;
use serde_json::{Value, json};

use super::{Machine, TEN_DAYS};
use crate::support::{chain, open_sqlite, publish, start, world};

/// The time of one evaluation.
const EVALUATION_TIME: Duration = Duration::from_millis(5);

/// Evaluates as usual. Each evaluation takes some time and uses fuel, and the test can hold one.
struct CostlyEvaluator {
    expressions: Expressions,
    machine: Arc<Machine>,
    fuel: u64,
    hold: Mutex<Option<Hold>>,
}

/// An evaluation that is held.
struct Hold {
    /// The number of evaluations before it.
    evaluations_left: usize,
    reached: Sender<()>,
    is_released: Receiver<()>,
}

/// The test's end of a [`Hold`].
struct Held {
    is_reached: Receiver<()>,
    release: Sender<()>,
}

impl Held {
    /// Waits until the evaluation is in progress. It continues when the returned sender is used.
    async fn reached(self) -> Sender<()> {
        let wait = tokio::task::spawn_blocking(move || self.is_reached.recv_timeout(Duration::from_secs(30)));
        wait.await.unwrap().expect("an expression is evaluated");
        self.release
    }
}

impl CostlyEvaluator {
    /// Holds an evaluation, after some others.
    fn hold_after(&self, evaluations: usize) -> Held {
        let ((reached, is_reached), (release, is_released)) = (mpsc::channel(), mpsc::channel());
        *self.hold.lock().unwrap() = Some(Hold { evaluations_left: evaluations, reached, is_released });
        Held { is_reached, release }
    }

    fn take_hold(&self) -> Option<Hold> {
        let mut hold = self.hold.lock().unwrap();
        let evaluations_left = &mut hold.as_mut()?.evaluations_left;
        if *evaluations_left == 0 {
            return hold.take();
        }
        *evaluations_left -= 1;
        None
    }
}

impl Evaluate for CostlyEvaluator {
    fn resolve(&self, template: &Value, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        if let Some(hold) = self.take_hold() {
            let _ = hold.reached.send(());
            let _ = hold.is_released.recv();
        }
        self.machine.advance(EVALUATION_TIME);
        let resolved = self.expressions.resolve(template, lookup, meter);
        meter.charge(self.fuel);
        resolved
    }

    fn resolve_lenient(&self, template: &Value, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        self.expressions.resolve_lenient(template, lookup, meter)
    }

    fn expression(&self, source: &str, lookup: &dyn Lookup, meter: &Meter) -> Result<Value, Failure> {
        self.expressions.expression(source, lookup, meter)
    }

    fn check(&self, template: &Value) -> Vec<Fault> {
        self.expressions.check(template)
    }

    fn check_expression(&self, source: &str) -> Option<Fault> {
        self.expressions.check_expression(source)
    }

    fn references(&self, template: &Value) -> Vec<Reference> {
        self.expressions.references(template)
    }

    fn expression_references(&self, source: &str) -> Vec<Reference> {
        self.expressions.expression_references(source)
    }
}

/// An engine with one shard, whose evaluations use this fuel.
async fn engine_with(fuel: u64) -> (tempfile::TempDir, Engine, Arc<CostlyEvaluator>) {
    let (folder, machine) = (tempfile::tempdir().unwrap(), Machine::new(TEN_DAYS));
    let clock = Arc::new(NodeClock::new(Arc::clone(&machine) as _));
    let evaluate =
        Arc::new(CostlyEvaluator { expressions: Expressions::default(), machine, fuel, hold: Mutex::default() });
    let handlers = Registry::with([]);
    let world =
        World { clock, evaluate: Arc::clone(&evaluate) as _, ..world(open_sqlite(folder.path()).await, handlers) };
    let engine = Engine::start(world, Options { shards: 1, ..Options::default() }).await.unwrap();
    (folder, engine, evaluate)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_waits_for_few_of_many_costly_runs() {
    const RUNS: usize = 50;
    /// 60 ms: an item of a run takes 20 ms.
    const EVALUATIONS_MAX: usize = 12;
    let (_folder, engine, evaluator) = engine_with(limits::EXPRESSION_FUEL).await;
    let names: Vec<_> = (0..200).map(|n| format!("n{n}")).collect();
    let node = |name| (name, "transform", json!({"config": {"value": "{{ctx.input}}"}}));
    let nodes: Vec<_> = names.iter().map(|name| node(name.as_str())).collect();
    publish(&engine, "costly", &chain(&nodes)).await;
    let runs = future::join_all((0..RUNS).map(|_| start(&engine, "costly", json!({})))).await;
    let mut release = evaluator.hold_after(0).reached().await;
    // The verdicts on the items of all runs arrive together.
    for _ in 0..20 {
        let mut message = std::pin::pin!(engine.inspect(runs[0]));
        assert!(future::poll_immediate(&mut message).await.is_none(), "the shard is held");
        let held = evaluator.hold_after(EVALUATIONS_MAX);
        release.send(()).unwrap();
        let answered = tokio::time::timeout(Duration::from_secs(30), message).await;
        assert!(answered.is_ok(), "the shard has made {EVALUATIONS_MAX} evaluations before it has answered a message");
        release = held.reached().await;
    }
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn inputs_that_write_nothing_are_decided_in_several_turns() {
    const REQUESTS: usize = 100;
    let (_folder, engine, _evaluator) = engine_with(limits::DECISION_FUEL).await;
    let go = json!({"to": "done", "set": {"x": "{{ctx.missing}}"}});
    let states = json!([{"name": "open", "initial": true, "on": {"GO": go}}, {"name": "done", "terminal": true}]);
    publish(&engine, "gate", &json!({"states": states})).await;
    let run = start(&engine, "gate", json!({})).await;
    let act = Act {
        action: "GO".to_owned(),
        version: None,
        by: Actor::person("eve"),
        rights: Rights::default(),
        comment: None,
        data: None,
        shown: None,
        withdraw: false,
        files: Vec::new(),
        files_until: None,
        digest: String::new(),
    };
    // They wait together: first for the run, which is loaded, then for the item of the accepted input.
    let accepted = Input::SetContext { values: Payload::from(json!({"y": 1})) };
    let refused = (0..REQUESTS).map(|_| Input::Transition(Box::new(act.clone())));
    let inputs = std::iter::once(accepted).chain(refused);
    let replies = future::join_all(inputs.map(|input| engine.send(run, input))).await;
    assert_eq!(replies[0].as_ref().unwrap(), &Reply::Accepted);
    for reply in &replies[1..] {
        assert!(matches!(reply, Ok(Reply::Refused { .. })), "{reply:?}");
    }
    assert_eq!(engine.slow_decisions(), 0, "a decision has evaluated many requests");
    // The run is as usual.
    assert_eq!(engine.send(run, Input::Cancel { reason: None }).await.unwrap(), Reply::Accepted);
}
