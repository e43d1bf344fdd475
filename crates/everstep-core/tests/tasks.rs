//! The data that a step receives, and the results of the core's own steps.

use std::time::Duration;

use everstep_core::failure::{Failure, code};
use everstep_core::journal::{Event, Outcome};
use everstep_core::limits;
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::decide::decide;
use everstep_core::run::task::{self, TaskSpec};
use everstep_core::run::{Cx, Input};
use everstep_core::status::Status;
use everstep_core::workflow;
use serde_json::{Value, json};

use super::support::{Game, compile, definition};

fn play(head: &str, input: Value) -> Game {
    let mut game = Game::new(compile(&definition(head)).unwrap());
    game.input(Input::Start { input: Payload::from(input), cause: None });
    game
}

fn describe(game: &Game, step: &str) -> TaskSpec {
    task::describe(&game.workflow, &game.state, &step.into(), &game.evaluate, &Meter::new()).unwrap()
}

fn output_of(game: &Game, wanted: &str) -> Value {
    let output = game.journal.iter().find_map(|entry| match &entry.event {
        Event::StepCompleted { step, outcome, .. } if step.as_str() == wanted => Some(outcome.output.value().clone()),
        _ => None,
    });
    output.unwrap()
}

#[test]
fn templates_of_a_config_are_resolved() {
    let head = r#"start -> a -> end
        a: noop {"config": {"whole": "{{ctx.input.list}}", "mixed": "n={{ctx.input.n}}!", "number": "{{ctx.input.n}}",
        "deep": [{"x": "{{ctx.input.n}}"}], "expr": {"$expr": "ctx.input.n + 1"}, "plain": 5}}"#;
    let game = play(&head.replace("\n        \"", " \""), json!({"n": 7, "list": [1, "a"]}));
    let expected = json!({
        "whole": [1, "a"], "mixed": "n=7!", "number": 7, "deep": [{"x": 7}], "expr": 8, "plain": 5
    });
    let spec = describe(&game, "a");
    assert_eq!((spec.kind.as_str(), spec.config), ("noop", expected));
    assert!(spec.context.is_null(), "a kind that needs no context gets none");
}

#[test]
fn raw_fields_are_handed_over_as_written() {
    let head = r#"start -> a -> end
        a: javascript {"config": {"code": "return '{{ctx.nowhere}}'", "note": "{{ctx.input.n}}"}}"#;
    let game = play(head, json!({"n": 7}));
    assert_eq!(describe(&game, "a").config, json!({"code": "return '{{ctx.nowhere}}'", "note": 7}));
    assert_eq!(describe(&game, "a").context.json(), r#"{"input":{"n":7}}"#);
}

#[test]
fn a_template_that_fails_is_the_tasks_failure() {
    let game = play("start -> a -> end\na: noop {\"config\": {\"x\": \"{{ctx.input.nowhere}}\"}}", json!({}));
    let failure = task::describe(&game.workflow, &game.state, &"a".into(), &game.evaluate, &Meter::new()).unwrap_err();
    assert_eq!(failure.code, code::EXPRESSION_ERROR);
    assert!(failure.message.contains("ctx.input.nowhere"), "{failure}");
    let failure =
        task::describe(&game.workflow, &game.state, &"start".into(), &game.evaluate, &Meter::new()).unwrap_err();
    assert_eq!(failure.code, code::UNKNOWN_KIND);
}

#[test]
fn a_timeout_is_the_nodes_or_the_kinds() {
    let head = r#"start -> a -> end
        start -> b -> end
        start -> c -> end
        a: javascript {"config": {"code": "1"}}
        b: javascript {"config": {"code": "1", "timeoutSeconds": 5}}
        c: noop {}"#;
    let game = play(head, json!({}));
    assert_eq!(describe(&game, "a").timeout, Some(Duration::from_secs(30)));
    assert_eq!(describe(&game, "b").timeout, Some(Duration::from_secs(5)));
    assert_eq!(describe(&game, "c").timeout, None);
}

#[test]
fn a_start_and_an_end_have_the_expected_outputs() {
    let head = r#"start -> end
        end: end {"config": {"outputParameters": [{"name": "x", "sourceVariable": "{{ctx.input.x}}"}]}}"#;
    let game = play(head, json!({"x": 1}));
    assert_eq!(output_of(&game, "start"), json!({"started": true, "inputReceived": {"x": 1}}));
    let end = json!({"status": "success", "workflowOutput": {"x": 1}, "completedAt": "1970-01-01T00:16:40Z"});
    assert_eq!(output_of(&game, "end"), end);
    assert_eq!(game.state.output().unwrap().json(), r#"{"x":1}"#);
}

#[test]
fn logs_are_stored_with_the_attempt() {
    let mut game = play("start -> a -> end", json!({}));
    let result = Ok(Outcome::from_output(json!(1)));
    let (entries, _) = game.input(Input::Result { step: "a".into(), attempt: 1, result, logs: vec!["hello".into()] });
    let Event::StepCompleted { outcome, .. } = &entries[0].event else { panic!("{entries:?}") };
    assert_eq!(outcome.logs, ["hello"]);
}

#[test]
fn a_failure_may_ask_for_a_longer_wait_within_the_policy() {
    let due = |retry_after_ms: u32| {
        let mut game = play(
            r#"start -> a -> end
            a: noop {"retry": {"maxMs": 60000}}"#,
            json!({}),
        );
        let failure = Failure { retry_after_ms: Some(retry_after_ms), ..Failure::transient("BUSY", "later") };
        let result = Err(failure);
        let (entries, _) = game.input(Input::Result { step: "a".into(), attempt: 1, result, logs: vec![] });
        let Event::TimerSet { due, .. } = &entries[1].event else { panic!("{entries:?}") };
        due.since(game.now)
    };
    assert_eq!(due(5), Duration::from_secs(1), "the policy's own wait is longer");
    assert_eq!(due(20_000), Duration::from_secs(20));
    assert_eq!(due(900_000), Duration::from_secs(60), "the policy bounds it");
}

#[test]
fn a_journal_that_grows_too_long_fails_its_run() {
    let mut game = play("start -> a -> b -> end", json!({}));
    game.state.seq = limits::JOURNAL_ENTRIES - 257;
    let input = Input::Result { step: "a".into(), attempt: 1, result: Ok(Outcome::default()), logs: vec![] };
    let decision = decide(
        &game.workflow,
        &mut game.state,
        input,
        None,
        Cx { now: game.now, evaluate: &game.evaluate, meter: &Meter::new() },
    );
    assert_eq!(game.state.status(), Status::Failed);
    assert_eq!(game.state.failure().unwrap().code, code::JOURNAL_TOO_LONG);
    assert_eq!(decision.entries.len(), 2);
    assert!(game.state.seq < limits::JOURNAL_ENTRIES);
}

#[test]
fn an_item_is_bounded_and_the_rest_follows() {
    let fan: String = (0..1_000).map(|i| format!("start -> n{i} -> end\n")).collect();
    let mut game = Game::new(compile(&definition(&fan)).unwrap());
    let input = Input::Start { input: Payload::null(), cause: None };
    let mut decision = decide(
        &game.workflow,
        &mut game.state,
        input,
        None,
        Cx { now: game.now, evaluate: &game.evaluate, meter: &Meter::new() },
    );
    let mut sizes = vec![decision.entries.len()];
    while decision.has_more {
        decision = decide(
            &game.workflow,
            &mut game.state,
            Input::Settle,
            None,
            Cx { now: game.now, evaluate: &game.evaluate, meter: &Meter::new() },
        );
        sizes.push(decision.entries.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 1_003);
    assert!(sizes.iter().all(|size| *size <= limits::EVENTS_PER_DECISION + 1), "{sizes:?}");
}

#[test]
fn a_workflows_name_is_plain() {
    for name in ["a", "order-2_x", "0", &"x".repeat(128)] {
        assert!(workflow::is_name(name), "{name}");
    }
    for name in ["", "-a", "_a", "A", "a b", "a/b", "ä", &"x".repeat(129)] {
        assert!(!workflow::is_name(name), "{name}");
    }
}
