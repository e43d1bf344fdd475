//! A decision ends within a bound of work, whatever the workflow and its data are.

use everstep_core::failure::code;
use everstep_core::journal::Event;
use everstep_core::limits;
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::decide::decide;
use everstep_core::run::{Cx, Input};
use everstep_core::status::Status;
use serde_json::{Value, json};

use super::support::{Game, compile, definition};

/// An expression with 500 filters.
fn costly() -> String {
    format!("ctx.input.text{}", "|upper|lower".repeat(250))
}

fn large() -> Input {
    Input::Start { input: Payload::from(json!({"text": "x".repeat(900_000)})), cause: None }
}

fn failure_of(game: &Game, step: &str) -> String {
    let failure = game.journal.iter().find_map(|entry| match &entry.event {
        Event::StepFailed { step: of, failure, .. } if of.as_str() == step => Some(failure),
        _ => None,
    });
    let failure = failure.unwrap();
    assert_eq!(failure.code, code::EXPRESSION_TOO_COSTLY);
    failure.message.clone()
}

fn run(graph: &str) -> Game {
    let mut game = Game::new(compile(&definition(graph)).unwrap());
    game.input(large());
    game
}

#[test]
fn a_costly_expression_fails_its_step_with_its_place_and_cost() {
    let config = json!({"config": {"value": {"shown": [format!("{{{{ {} }}}}", costly())]}}});
    let game = run(&format!("start -> a -> end\na: transform {config}"));
    assert_eq!(game.state.status(), Status::Failed);
    let message = failure_of(&game, "a");
    assert!(message.starts_with("at /shown/0: needs more than 5 ms of work"), "{message}");
    assert!(message.contains("units of fuel so far, in `ctx.input.text|upper|lower"), "{message}");
}

#[test]
fn a_costly_condition_fails_its_step_and_takes_no_branch() {
    let branch = json!({"id": "yes", "expression": costly()});
    let config = json!({"config": {"branches": [branch], "defaultBranch": "no"}});
    let game = run(&format!("start -> a\na -yes-> end1\na -no-> end2\na: condition {config}"));
    assert!(failure_of(&game, "a").contains("needs more than 5 ms of work"));
}

#[test]
fn many_conditions_on_large_values_fail_their_step() {
    let compare = |operator: &str, right: &str| json!({"leftValue": "{{ctx.input.text}}", "operator": operator, "rightValue": right});
    for condition in [compare("matches_regex", "(x+x+)+y"), compare("contains", "{{ctx.input.text}}y")] {
        let branch = json!({"id": "yes", "conditionLogic": "OR", "conditions": vec![condition; 200]});
        let config = json!({"config": {"branches": [branch], "defaultBranch": "no"}});
        let game = run(&format!("start -> a\na -yes-> end1\na -no-> end2\na: condition {config}"));
        assert!(failure_of(&game, "a").contains("more than 20 ms of work"));
    }
}

/// The fuel that a decision uses for one start.
fn fuel_of(graph: &str) -> u64 {
    let mut game = Game::new(compile(&definition(graph)).unwrap());
    let meter = Meter::new();
    let cx = Cx { now: game.now, evaluate: &game.evaluate, meter: &meter };
    decide(&game.workflow, &mut game.state, large(), None, cx);
    meter.used()
}

#[test]
fn ten_starts_with_a_costly_expression_use_the_fuel_of_ten_expressions() {
    let config: Value = json!({"config": {"value": format!("{{{{ {} }}}}", costly())}});
    let fuel: u64 = (0..10).map(|_| fuel_of(&format!("start -> a -> end\na: transform {config}"))).sum();
    assert!(fuel < 10 * 2 * limits::EXPRESSION_FUEL, "{fuel}");
}

#[test]
fn a_decision_that_has_used_its_fuel_ends_its_item() {
    let config = json!({"config": {"value": "{{ ctx.input.text|upper|lower|length }}"}});
    let names: Vec<_> = (0..60).map(|n| format!("n{n}")).collect();
    let nodes: String = names.iter().map(|name| format!("{name}: transform {config}\n")).collect();
    let graph = format!("start -> {} -> end\n{nodes}", names.join(" -> "));
    let mut game = Game::new(compile(&definition(&graph)).unwrap());
    let (mut input, mut items) = (large(), Vec::new());
    loop {
        let meter = Meter::new();
        let cx = Cx { now: game.now, evaluate: &game.evaluate, meter: &meter };
        let decision = decide(&game.workflow, &mut game.state, input, None, cx);
        assert!(meter.used() < 2 * limits::DECISION_FUEL, "{}", meter.used());
        items.push(decision.entries.len());
        game.journal.extend(decision.entries);
        if !decision.has_more {
            break;
        }
        input = Input::Settle;
    }
    assert_eq!(game.state.status(), Status::Completed);
    assert!(items.len() > 3 && items.iter().all(|entries| *entries > 0), "{items:?}");
    // The same entries as without a bound of fuel: one item after another.
    let mut whole = Game::new(compile(&definition(&graph)).unwrap());
    whole.input(large());
    assert!(whole.journal.iter().map(|entry| &entry.event).eq(game.journal.iter().map(|entry| &entry.event)));
}
