//! The context of a run, and its limits.

use std::borrow::Cow;

use everstep_core::evaluate::{Evaluate, Lookup};
use everstep_core::failure::code;
use everstep_core::graph::{GraphRun, ScopeContext, ScopePath};
use everstep_core::journal::codec;
use everstep_core::journal::{Entry, Event, Outcome};
use everstep_core::limits;
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::decide::decide;
use everstep_core::run::{Cx, Input, Reply, State};
use everstep_core::status::{Status, StepStatus};
use serde_json::{Value, json};

use super::support::{Game, compile, definition};

fn play(head: &str, input: Value) -> Game {
    let mut game = Game::new(compile(&definition(head)).unwrap());
    game.input(Input::Start { input: Payload::from(input), cause: None });
    game
}

fn done(game: &mut Game, step: &str, output: Payload) -> Vec<Entry> {
    let outcome = Outcome::from_output(output);
    game.input(Input::Result { step: step.into(), attempt: 1, result: Ok(outcome), logs: vec![] }).0
}

/// A JSON string of this many bytes, its quotes included.
fn text_of(bytes: usize) -> Payload {
    Payload::from(Value::from("x".repeat(bytes - 2)))
}

fn nested(depth: usize) -> Payload {
    Payload::from_json("[".repeat(depth) + &"]".repeat(depth)).unwrap()
}

/// The code of the failure in an entry.
fn failure_of(entry: &Entry) -> Option<&str> {
    match &entry.event {
        Event::StepFailed { failure, .. } => Some(&failure.code),
        _ => None,
    }
}

#[test]
fn an_output_over_a_mebibyte_fails_its_step() {
    let head = "start -> a -> end\na -error-> end2";
    let mut game = play(head, json!({}));
    let entries = done(&mut game, "a", text_of(limits::PAYLOAD_BYTES));
    assert_eq!(failure_of(&entries[0]), None);
    let mut game = play(head, json!({}));
    let entries = done(&mut game, "a", text_of(limits::PAYLOAD_BYTES + 1));
    assert_eq!(failure_of(&entries[0]), Some(code::PAYLOAD_TOO_LARGE));
    assert_eq!(game.state.status(), Status::Completed);
}

#[test]
fn a_context_over_sixteen_mebibytes_fails_the_step_that_fills_it() {
    let steps: Vec<_> = (0..17).map(|i| format!("n{i}")).collect();
    let mut head = format!("start -> {} -> end\n", steps.join(" -> "));
    for step in &steps {
        head += &format!("{step}: noop {{\"outputVariable\": \"{step}\"}}\n");
    }
    let mut game = play(&head, json!({}));
    for step in &steps[..15] {
        assert_eq!(failure_of(&done(&mut game, step, text_of(limits::PAYLOAD_BYTES))[0]), None);
    }
    let entries = done(&mut game, "n15", text_of(limits::PAYLOAD_BYTES));
    assert_eq!(failure_of(&entries[0]), Some(code::CONTEXT_TOO_LARGE));
    assert_eq!(game.state.status(), Status::Failed);
}

#[test]
fn a_variable_that_is_written_again_counts_once() {
    let steps: Vec<_> = (0..18).map(|i| format!("n{i}")).collect();
    let mut head = format!("start -> {} -> end\n", steps.join(" -> "));
    for step in &steps {
        head += &format!("{step}: noop {{\"outputVariable\": \"same\"}}\n");
    }
    let mut game = play(&head, json!({}));
    for step in &steps {
        assert_eq!(failure_of(&done(&mut game, step, text_of(limits::PAYLOAD_BYTES))[0]), None);
    }
    assert_eq!(game.state.status(), Status::Completed);
}

#[test]
fn a_loop_leaves_no_trace_of_its_iterations_variables() {
    let head = "start -> loop -loop-> a -> b\nloop -done-> end\na: noop {\"outputVariable\": \"big\"}";
    let mut game = play(head, json!({"items": vec![0; 18]}));
    for item in 0..18 {
        let entries = done(&mut game, &format!("loop[{item}].a"), text_of(limits::PAYLOAD_BYTES));
        assert_eq!(failure_of(&entries[0]), None, "item {item}");
        done(&mut game, &format!("loop[{item}].b"), Payload::null());
    }
    assert_eq!(game.state.status(), Status::Completed);
    assert!(game.state.weight() < 10_000, "{}", game.state.weight());
}

#[test]
fn dropped_iterations_leave_no_trace_either() {
    let head = "start -> loop -loop-> a -> b\nloop -done-> end\nloop -error-> end2\n\
                a: noop {\"outputVariable\": \"big\"}\nb: noop {\"retry\": {\"maxAttempts\": 1}}\n\
                loop: loop {\"config\": {\"sourceVariable\": \"{{ctx.input.items}}\", \"concurrency\": 8}}";
    let mut game = play(head, json!({"items": vec![0; 8]}));
    let before = game.state.weight();
    for item in 0..8 {
        done(&mut game, &format!("loop[{item}].a"), text_of(limits::PAYLOAD_BYTES));
    }
    assert!(game.state.weight() > before + 8 * limits::PAYLOAD_BYTES);
    let failure = everstep_core::failure::Failure::fatal("BROKEN", "");
    game.input(Input::Result { step: "loop[3].b".into(), attempt: 1, result: Err(failure), logs: vec![] });
    assert_eq!(game.state.status(), Status::Completed);
    assert!(game.state.weight() < before, "{}", game.state.weight());
}

#[test]
fn the_results_of_a_loop_are_counted_while_it_runs() {
    let head = "start -> loop -loop-> a\nloop -done-> end";
    let mut game = play(head, json!({"items": vec![0; 40]}));
    let failed = (0..40).find(|item| {
        let entries = done(&mut game, &format!("loop[{item}].a"), text_of(limits::PAYLOAD_BYTES));
        failure_of(&entries[0]) == Some(code::CONTEXT_TOO_LARGE)
    });
    assert_eq!(failed, Some(15));
}

#[test]
fn a_loops_results_over_a_mebibyte_fail_it() {
    let head = "start -> loop -loop-> a\nloop -done-> end\nloop -error-> end2";
    let mut game = play(head, json!({"items": [1, 2]}));
    done(&mut game, "loop[0].a", text_of(limits::PAYLOAD_BYTES / 2));
    let entries = done(&mut game, "loop[1].a", text_of(limits::PAYLOAD_BYTES / 2));
    assert_eq!(failure_of(&entries[1]), Some(code::PAYLOAD_TOO_LARGE));
    assert_eq!(game.state.status(), Status::Completed);
}

#[test]
fn what_is_nested_too_deep_is_refused_where_it_enters() {
    let head = "start -> a -> end\na -error-> end2\nstart -> wait -> end";
    let mut game = play(head, json!({}));
    let refused = |reply: Reply| matches!(reply, Reply::Refused { code, .. } if code == "PAYLOAD_TOO_DEEP");
    let deep = Payload::from_json(format!("{{\"x\": {}}}", nested(100).json())).unwrap();
    assert!(refused(game.input(Input::SetContext { values: deep.clone() }).1));
    assert!(refused(game.input(Input::Signal { event: "go".into(), payload: deep }).1));
    assert!(game.input(Input::Signal { event: "go".into(), payload: nested(100) }).1.is_accepted());
    let entries = done(&mut game, "a", nested(101));
    assert_eq!(failure_of(&entries[0]), Some(code::PAYLOAD_TOO_DEEP));
}

#[test]
fn the_deepest_input_is_seen_whole() {
    let head = "start -> loop -loop-> work\nloop -done-> end\n\
                work: transform {\"config\": {\"value\": \"{{item[0]}}\"}}\n\
                loop: loop {\"config\": {\"sourceVariable\": \"{{ctx.input}}\"}}";
    let mut game = Game::new(compile(&definition(head)).unwrap());
    game.input(Input::Start { input: nested(limits::JSON_DEPTH), cause: None });
    assert_eq!(game.state.status(), Status::Completed);
    let run = GraphRun::from_state(&game.workflow, game.workflow.graph().unwrap(), &game.state);
    let document = ScopeContext::new(run, &ScopePath::default()).document(true);
    assert_ne!(*document.value(), Value::Null);
}

#[test]
fn a_signal_over_a_mebibyte_is_refused() {
    let mut game = play("start -> wait -> end", json!({}));
    let payload = text_of(limits::PAYLOAD_BYTES + 1);
    let (entries, reply) = game.input(Input::Signal { event: "go".into(), payload });
    assert!(matches!(reply, Reply::Refused { code, .. } if code == "PAYLOAD_TOO_LARGE"));
    assert_eq!(entries, []);
}

#[test]
fn values_that_would_fill_the_context_are_refused() {
    let mut game = play("start -> a -> end", json!({}));
    let accepted = (0..18).filter(|i| {
        let values = Payload::from(json!({format!("v{i}"): "x".repeat(limits::PAYLOAD_BYTES - 20)}));
        game.input(Input::SetContext { values }).1.is_accepted()
    });
    assert_eq!(accepted.count(), 16);
}

#[test]
fn numbers_are_the_same_after_a_reload() {
    // One in ten of these numbers would change when it is written as text and read back, if the conversion were not
    // exact.
    let head = "start -> a -> b -> end\n\
                a: transform {\"config\": {\"value\": \"{{ctx.input.x / 13}}\"}, \"outputVariable\": \"x\"}\n\
                end: end {\"config\": {\"outputParameters\": [{\"name\": \"x\", \"sourceVariable\": \"{{ctx.x}}\"}]}}";
    for x in 1..30 {
        let mut game = play(head, json!({"x": x}));
        let rows: Vec<_> = game.journal.iter().map(|entry| (entry.seq, entry.at, codec::encode(entry))).collect();
        let entries: Vec<_> = rows.into_iter().map(|(seq, at, row)| codec::decode(seq, at, row).unwrap()).collect();
        let mut reloaded = Game::new(compile(&definition(head)).unwrap());
        reloaded.state = State::fold(game.state.run, &game.workflow, &entries).unwrap();
        let end = done(&mut game, "b", Payload::null());
        let input = Input::Result { step: "b".into(), attempt: 1, result: Ok(Outcome::default()), logs: vec![] };
        let decision = decide(
            &reloaded.workflow,
            &mut reloaded.state,
            input,
            None,
            Cx { now: reloaded.now, evaluate: &reloaded.evaluate, meter: &Meter::new() },
        );
        assert_eq!(end, decision.entries, "{x}");
        assert_eq!(game.state, reloaded.state);
    }
}

#[test]
fn the_input_never_changes() {
    let mut game = play("start -> a -> b -> end", json!({"x": 1}));
    let reply = game.input(Input::SetContext { values: Payload::from(json!({"input": 5})) }).1;
    assert!(matches!(reply, Reply::Refused { code, .. } if code == "VALIDATION_ERROR"));
    game.input(Input::SetContext { values: Payload::from(json!({"y": 2})) });
    done(&mut game, "a", Payload::from(json!({"input": 6})));
    let document = game.state.context(&game.workflow);
    assert_eq!(document.json(), r#"{"input":{"x":1},"y":2}"#);
}

#[test]
fn the_statuses_follow_their_table() {
    use Status::{Cancelled, Completed, Failed, Paused, Pending, Running, Waiting};
    let table: &[(Status, &[Status])] = &[
        (Pending, &[Running, Paused, Completed, Failed, Cancelled]),
        (Running, &[Waiting, Paused, Completed, Failed, Cancelled]),
        (Waiting, &[Running, Paused, Completed, Failed, Cancelled]),
        (Paused, &[Pending, Running, Failed, Cancelled]),
        (Completed, &[]),
        (Failed, &[Running]),
        (Cancelled, &[]),
    ];
    assert_eq!(table.len(), Status::ALL.len());
    for (status, next) in table {
        for other in Status::ALL {
            assert_eq!(status.may_become(*other), next.contains(other), "{status} → {other}");
        }
        assert_eq!(status.as_str().parse::<Status>().as_ref(), Ok(status));
    }
    assert!("SUCCEEDED".parse::<Status>().unwrap_err().contains("pending, running"));
}

#[test]
fn the_statuses_of_steps_follow_their_table() {
    use StepStatus::{Cancelled, Completed, Failed, Pending, Running, Skipped, Waiting};
    let table: &[(StepStatus, &[StepStatus])] = &[
        (Pending, &[Running, Skipped, Cancelled]),
        (Running, &[Waiting, Completed, Failed, Cancelled]),
        (Waiting, &[Running, Completed, Failed, Cancelled]),
        (Completed, &[]),
        (Failed, &[Running]),
        (Skipped, &[]),
        (Cancelled, &[]),
    ];
    assert_eq!(table.len(), StepStatus::ALL.len());
    for (status, next) in table {
        for other in StepStatus::ALL {
            assert_eq!(status.may_become(*other), next.contains(other), "{status} → {other}");
        }
    }
}

#[test]
fn the_output_of_a_node_is_read_by_reference() {
    let mut game = play("start -> a -> wait -> end", json!({}));
    done(&mut game, "a", Payload::from(json!({"large": "x".repeat(900_000), "small": 7})));
    let run = GraphRun::from_state(&game.workflow, game.workflow.graph().unwrap(), &game.state);
    let (path, meter) = (ScopePath::default(), Meter::new());
    let context = ScopeContext::new(run, &path);
    let fields = context.variable_fields("__node_a").expect("the node has completed");
    let output = fields.iter().find(|(name, _)| name == "output").map(|(_, value)| value).unwrap();
    assert!(matches!(output, Cow::Borrowed(_)), "the output is copied");
    let small = game.evaluate.expression("ctx.__node_a.output.small", &context, &meter).unwrap();
    assert_eq!(small, json!(7));
    assert!(meter.used() < 1_000, "{}", meter.used());
    assert!(context.variable_fields("__node_wait").is_none() && context.variable_fields("a").is_none());
}

#[test]
fn a_signal_is_compared_with_open_waits_within_a_budget() {
    // Each comparison with such a pattern needs half of the budget: the last number is missing.
    let numbers: Vec<_> = (0..1_000).chain([5_000]).collect();
    let wait = json!({"config": {"event": "go", "match": {"numbers": numbers}}});
    let head: String = (0..20).map(|n| format!("start -> w{n} -> end\nw{n}: wait {wait}\n")).collect();
    let mut game = play(&head, json!({}));
    let meter = Meter::new();
    let payload = Payload::from(json!({"numbers": (0..1_000).collect::<Vec<_>>()}));
    let cx = Cx { now: game.now, evaluate: &game.evaluate, meter: &meter };
    let signal = Input::Signal { event: "go".into(), payload };
    let decision = decide(&game.workflow, &mut game.state, signal, None, cx);
    assert_eq!(decision.entries, []);
    assert_eq!(meter.used(), limits::DECISION_FUEL);
}
