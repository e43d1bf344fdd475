//! Runs that start runs.

use std::time::Duration;

use everstep_core::code::Report;
use everstep_core::failure::{Failure, code};
use everstep_core::ids::{RunId, StepKey};
use everstep_core::journal::{Dispatch, Event};
use everstep_core::limits;
use everstep_core::payload::Payload;
use everstep_core::run::inbox::{child_result, inputs_after};
use everstep_core::run::{Input, OpenActivity, Parent};
use everstep_core::status::Status;
use everstep_core::time::Timestamp;
use serde_json::json;

use super::support::{self, Game, compile, definition};

fn start(head: &str, input: Payload, parent: Option<Parent>) -> Game {
    let mut game = Game::new(compile(&definition(head)).unwrap());
    game.input(Input::Start { input, cause: parent.map(Into::into) });
    game
}

fn parent(depth: u32) -> Parent {
    Parent { run: RunId::new(Game::BEGIN, 3), step: "call".into(), attempt: 1, waits: true, depth }
}

/// The child that a run has open.
fn open_child(game: &Game) -> RunId {
    let mut children = game.state.open().filter_map(|open| match open.activity {
        OpenActivity::Child(child) => Some(child.run),
        _ => None,
    });
    children.next().unwrap()
}

#[test]
fn runs_start_one_another_up_to_a_depth() {
    for depth in [0, 1, limits::CHILD_DEPTH - 1] {
        let parent = (depth > 0).then(|| parent(depth));
        let game = start("start -> call -> end", Payload::from(json!({})), parent);
        assert_eq!(game.state.status(), Status::Waiting);
        let sent = game.state.parent_of(&"call".into(), 1).unwrap();
        assert_eq!((sent.run, sent.depth, sent.waits), (game.state.run, depth + 1, true));
        assert_eq!(game.state.parent_of(&"call".into(), 2), None);
        assert_eq!(game.state.parent_of(&"start".into(), 1), None);
    }
    let game = start("start -> call -> end", Payload::from(json!({})), Some(parent(limits::CHILD_DEPTH)));
    assert_eq!(game.state.status(), Status::Failed);
    let failure = game.state.failure().unwrap();
    assert_eq!((failure.code.as_str(), failure.retryable), (code::TOO_DEEP, false));
}

#[test]
fn a_childs_id_has_its_own_time_and_is_journaled() {
    let mut game = start("start -> a -> call -> end", Payload::from(json!({})), None);
    game.now = game.now.plus(Duration::from_secs(7));
    let result = Ok(everstep_core::journal::Outcome::default());
    game.input(Input::Result { step: "a".into(), attempt: 1, result, logs: vec![] });
    let child = open_child(&game);
    let millis = child.uuid().as_u128() >> 80;
    assert_eq!(i64::try_from(millis).unwrap(), game.now.millis());
    let last = &game.journal.last().unwrap().event;
    assert!(matches!(last, Event::StepDispatched { dispatch: Dispatch::Child(found), .. } if found.run == child));
    game.reload();
    assert_eq!(open_child(&game), child);
}

#[test]
fn a_step_that_does_not_wait_gives_the_childs_id() {
    let head = "start -> call -> end\ncall: workflow {\"config\": {\"workflow\": \"other\", \"wait\": false}}\n\
                end: end {\"config\": {\"outputParameters\": [{\"name\": \"id\", \"sourceVariable\": \"{{ctx.workflowResult.runId}}\"}]}}";
    let started = |child| Input::ChildStarted { step: "call".into(), attempt: 1, child };
    // An engine that finds the child already ended may report that too.
    let ended = |child| Input::ChildEnded { step: "call".into(), attempt: 1, child, result: Ok(json!(5).into()) };
    for news in [&started as &dyn Fn(RunId) -> Input, &ended] {
        let mut game = start(head, Payload::from(json!({})), None);
        let child = open_child(&game);
        game.input(news(child));
        assert_eq!(*game.state.output().unwrap().value(), json!({"id": child.to_string()}));
    }
}

#[test]
fn what_a_child_is_given_and_gives_is_bounded() {
    let head =
        "start -> call -> end\ncall: workflow {\"config\": {\"workflow\": \"other\", \"input\": \"{{ctx.input}}\"}}";
    let nested = |levels: usize| Payload::from_json("[".repeat(levels) + &"]".repeat(levels)).unwrap();
    let big = || Payload::from(json!("x".repeat(limits::PAYLOAD_BYTES)));
    let code = |game: &Game| game.state.failure().unwrap().code.clone();
    assert_eq!(code(&start(head, big(), None)), code::PAYLOAD_TOO_LARGE);
    for (output, expected) in
        [(big(), code::PAYLOAD_TOO_LARGE), (nested(limits::JSON_DEPTH + 1), code::PAYLOAD_TOO_DEEP)]
    {
        let mut game = start(head, nested(limits::JSON_DEPTH), None);
        let child = open_child(&game);
        game.input(Input::ChildEnded { step: "call".into(), attempt: 1, child, result: Ok(output) });
        assert_eq!(code(&game), expected);
    }
}

#[test]
fn open_children_are_weighed() {
    let head = "start -> call -> a -> end\ncall: workflow {\"config\": {\"workflow\": \"other\", \"input\": \"{{ctx.input}}\"}}";
    let text = "x".repeat(10_000);
    let mut game = start(head, Payload::from(json!(text)), None);
    let with = game.state.weight();
    let child = open_child(&game);
    game.input(Input::ChildEnded { step: "call".into(), attempt: 1, child, result: Ok(Payload::null()) });
    assert!(with - game.state.weight() > 9_000);
}

#[test]
fn the_end_of_a_child_is_reported_as_in_its_row() {
    let child = RunId::new(Game::BEGIN, 5);
    for status in [Status::Pending, Status::Running, Status::Waiting, Status::Paused] {
        assert_eq!(child_result(child, status, None, None, None), None);
    }
    let output = Payload::from(json!({"x": 1}));
    assert_eq!(child_result(child, Status::Completed, Some(&output), None, None), Some(Ok(output)));
    assert_eq!(child_result(child, Status::Completed, None, None, None), Some(Ok(Payload::null())));
    let failure = Failure::transient("FLAKY", "no luck");
    let sent = child_result(child, Status::Failed, None, Some(&failure), None).unwrap().unwrap_err();
    assert_eq!(sent, Failure::transient("FLAKY", format!("child run {child} failed: no luck")));
    let sent = child_result(child, Status::Failed, None, None, None).unwrap().unwrap_err();
    assert_eq!(sent.code, code::CHILD_FAILED);
    let sent = child_result(child, Status::Cancelled, None, None, Some("not needed")).unwrap().unwrap_err();
    assert_eq!(sent, Failure::fatal(code::CHILD_CANCELLED, format!("child run {child} was cancelled: not needed")));
}

#[test]
fn only_the_items_own_entries_cause_inputs() {
    let mut game = start("start -> call -> end\nstart -> a -> end", Payload::from(json!({})), Some(parent(1)));
    let before = game.journal.clone();
    assert!(inputs_after(&game.state, &before).is_empty());
    let (entries, _) = game.input(Input::Cancel { reason: None });
    let sent = inputs_after(&game.state, &entries);
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].0, game.family.find(&"call".into(), 1).unwrap());
    assert_eq!(sent[1].0, parent(1).run);
    assert!(inputs_after(&game.state, &[]).is_empty());
    // An item that is decided again after a reload sends the same inputs.
    game.reload();
    assert_eq!(inputs_after(&game.state, &entries), sent);
}

#[test]
fn a_run_that_fails_and_is_retried_in_one_item_notifies_only_its_children() {
    let head = "start -> call -> end\nstart -> a -> end\na: noop {\"retry\": {\"maxAttempts\": 1}}";
    let mut game = start(head, Payload::from(json!({})), Some(parent(1)));
    let child = open_child(&game);
    let result = Err(Failure::fatal("BROKEN", "no"));
    let (mut entries, _) = game.input(Input::Result { step: "a".into(), attempt: 1, result, logs: vec![] });
    entries.extend(game.input(Input::Retry).0);
    let sent = inputs_after(&game.state, &entries);
    assert!(matches!(sent.as_slice(), [(run, Input::Cancel { .. })] if *run == child), "{sent:?}");
}

#[test]
fn children_of_an_earlier_time_are_forgotten() {
    let head = "start -> loop -loop-> call\nloop -done-> end\n\
                call: workflow {\"config\": {\"workflow\": \"other\"}, \"timeoutSeconds\": 1, \"retry\": {\"maxAttempts\": 1}}\n\
                loop: loop {\"config\": {\"sourceVariable\": \"{{ctx.input.items}}\", \"onItemError\": \"continue\"}}";
    let mut game = start(head, Payload::from(json!({"items": vec![0; 300]})), None);
    while let Some(due) = game.state.next_due() {
        game.now = due;
        for (step, attempt) in game.state.due(game.now) {
            game.input(Input::Timer { step, attempt });
        }
    }
    assert_eq!(game.state.status(), Status::Completed);
    assert_eq!(game.sent_inputs.len(), 300);
    // The inputs of the last item are all that must be sent.
    let snapshot = serde_json::to_value(&game.state).unwrap();
    assert_eq!(snapshot["open"]["children"]["left"].as_array().map(Vec::len), Some(1));
}

#[test]
fn inputs_travel_as_json() {
    let (step, attempt, child) = ("each[3].call".into(), 2, RunId::new(Timestamp::EPOCH, 5));
    let inputs = [
        Input::Start { input: Payload::from(json!({"x": 1})), cause: None },
        Input::Start { input: Payload::null(), cause: Some(parent(2).into()) },
        Input::ChildEnded { step, attempt, child, result: Ok(Payload::from(json!({"y": [1]}))) },
        Input::ChildEnded { step: "call".into(), attempt, child, result: Err(Failure::transient("A", "no")) },
        Input::ChildStarted { step: "call".into(), attempt, child },
        Input::Cancel { reason: Some("not needed".into()) },
        Input::Resume,
    ];
    for input in inputs {
        let text = serde_json::to_string(&input).unwrap();
        assert_eq!(serde_json::from_str::<Input>(&text).unwrap(), input, "{text}");
    }
    // The row as it was written before runs had parents.
    let old: Input = serde_json::from_str(r#"{"start":{"input":{"x":1}}}"#).unwrap();
    assert_eq!(old, Input::Start { input: Payload::from(json!({"x": 1})), cause: None });
}

/// The parent receives the failure of the function, without the function's step: the failed step of the parent is its
/// own.
#[test]
fn a_parent_receives_the_failure_of_a_function_without_its_step() {
    let mut game = Game::new(support::code());
    game.input(Input::Start { input: Payload::null(), cause: Some(parent(1).into()) });
    game.input(Input::BeginTurn { worker: "w1".into() });
    let report = |report| Input::Report { turn: 1, report: Box::new(report) };
    let failure = Failure::fatal("NO_STOCK", "none left");
    let (step, retry) = (StepKey::from("ship"), support::steady());
    let failed =
        Report::Failed { step: step.clone(), attempt: 1, failure: failure.clone(), retry, logs: vec![], took: 0 };
    game.input(report(failed));
    game.input(report(Report::threw(failure, Some(step.clone()))));
    let known = game.state.failure().unwrap();
    assert_eq!((known.code.as_str(), &known.step, known.attempts), ("NO_STOCK", &Some(step), Some(1)));
    let [(_, Input::ChildEnded { result: Err(sent), .. })] = game.sent_inputs.as_slice() else {
        panic!("{:?}", game.sent_inputs)
    };
    assert_eq!((sent.code.as_str(), &sent.step, sent.attempts), ("NO_STOCK", &None, None));
    assert!(sent.message.ends_with("failed: none left"), "{sent}");
}
