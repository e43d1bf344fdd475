//! Parts of machines that decision texts do not show: digests, ids, limits, causes and formats.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::actor::{Actor, ActorKind};
use everstep_core::ids::RunId;
use everstep_core::journal::{Cause, Dispatch, Entry, Event, FORMAT, Kind, Outcome, Resolution, TimerPurpose};
use everstep_core::limits;
use everstep_core::machine::{Act, Rights, evaluate, history_id, imagine, may_start, shown};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::decide::decide;
use everstep_core::run::{Cx, Input, Parent, Reply, State};
use everstep_core::status::{Status, StepStatus};
use everstep_core::story::{Story, Update};
use everstep_core::style::StyleName;
use everstep_core::time::Timestamp;
use everstep_core::workflow::{Style, Workflow};
use everstep_expressions::Expressions;
use serde_json::{Value, json};

use super::codec::entries;
use super::support::{Game, code, compile, compile_machine, definition, timed};

fn workflow(definition: &Value) -> Workflow {
    let style = Style::Machine(compile_machine(definition).unwrap());
    Workflow { name: "orders".into(), version: 3, style, is_unsaved: false, publisher: Default::default() }
}

fn review() -> Value {
    json!({"states": [
        {"name": "review", "initial": true, "show": ["order.total", "missing"],
         "on": {"APPROVE": {"to": "review"}, "CLOSE": {"to": "closed"}}},
        {"name": "closed", "terminal": true},
    ]})
}

fn request(action: &str) -> Act {
    Act {
        action: action.into(),
        version: None,
        by: Actor::person("ann"),
        rights: Rights::default(),
        comment: None,
        data: None,
        shown: None,
        withdraw: false,
        files: Vec::new(),
        files_until: None,
        digest: "d".into(),
    }
}

fn started(definition: &Value, input: Value) -> Game {
    let mut game = Game::new(workflow(definition));
    game.input(Input::Start { input: Payload::from(input), cause: Some(Actor::person("ann").into()) });
    game
}

fn act(game: &mut Game, act: Act) -> Reply {
    game.input(Input::Transition(Box::new(act))).1
}

fn code_of(reply: &Reply) -> &str {
    let Reply::Refused { code, .. } = reply else { panic!("{reply:?} is not a refusal") };
    code
}

#[test]
fn the_digest_is_of_sorted_json_without_spaces() {
    let shown_of = |input: Value| {
        let game = started(&review(), input);
        shown(&game.workflow, &game.state).unwrap()
    };
    let first = shown_of(json!({"order": {"total": {"b": [1, 2.5, "ü\n"], "a": null}}, "other": 1}));
    assert_eq!(first.fields, json!({"order.total": {"b": [1, 2.5, "ü\n"], "a": null}, "missing": null}));
    // printf '%s' '{"fields":{"missing":null,"order.total":{"a":null,"b":[1,2.5,"ü\\n"]}},"state":"review",
    // "version":3,"workflow":"orders"}' | sha256sum
    assert_eq!(first.digest, "5060ae96f74aa8a801d5904a7cef265749fc2d6ecea752ef8dcf1eeb6a1cb07d");
    assert_eq!(first, shown_of(json!({"other": 2, "order": {"total": {"a": null, "b": [1, 2.5, "ü\n"]}}})));
    assert_ne!(first.digest, shown_of(json!({"order": {"total": 6}})).digest);
    // Without `show`, all of the context is shown.
    let mut all = review();
    all["states"][0].as_object_mut().unwrap().remove("show");
    let game = started(&all, json!({"a": 1}));
    assert_eq!(shown(&game.workflow, &game.state).unwrap().fields, json!({"a": 1}));
}

#[test]
fn ids_of_history_are_of_their_time_and_their_own() {
    let at = Timestamp::from_millis(1_700_000_000_123);
    let mut seen = BTreeSet::new();
    for run in 0..20 {
        for seq in 0..50 {
            let run = RunId::new(at, run);
            let id = history_id(run, seq, at);
            assert_eq!(id, history_id(run, seq, at));
            assert_eq!((id.get_version_num(), id.as_u128() >> 80), (7, 1_700_000_000_123));
            seen.insert(id);
        }
    }
    assert_eq!(seen.len(), 1_000);
}

#[test]
fn a_repeated_request_gets_its_first_answer_although_more_followed_in_the_next_item() {
    let mut game = started(
        &json!({"states": [
            {"name": "open", "initial": true, "on": {"GO": {"to": "check"}}},
            {"name": "check", "on": {"NEXT": {"to": "done"}}, "entry": [{"type": "auto_action", "target": "NEXT"}]},
            {"name": "done", "terminal": true},
        ]}),
        json!({}),
    );
    let go = || Input::Transition(Box::new(request("GO")));
    // The inputs before it in the item have used the fuel.
    let (spent, fresh) = (Meter::new(), Meter::new());
    spent.charge(limits::DECISION_FUEL);
    let cx = Cx { now: game.now, evaluate: &game.evaluate, meter: &spent };
    let first = decide(&game.workflow, &mut game.state, go(), Some("k"), cx);
    assert!(first.has_more);
    let Reply::Applied(answer) = first.reply else { panic!("{:?}", first.reply) };
    assert_eq!(answer.next_state, "check");
    // The clock may not have advanced when the rest is decided.
    let cx = Cx { meter: &fresh, ..cx };
    let rest = decide(&game.workflow, &mut game.state, Input::Settle, None, cx);
    assert_eq!(game.state.status(), Status::Completed);
    assert!(!rest.entries.is_empty() && rest.entries[0].at > first.entries[0].at);
    let again = decide(&game.workflow, &mut game.state, go(), Some("k"), cx);
    let Reply::Applied(again) = again.reply else { panic!("{:?}", again.reply) };
    assert!(again.repeated);
    assert_eq!((again.next_state, again.is_completed), (answer.next_state, answer.is_completed));
}

#[test]
fn a_run_remembers_a_thousand_requests() {
    let mut game = started(&review(), json!({}));
    let keyed = |n: usize, game: &mut Game| {
        game.keyed(Input::Transition(Box::new(request("APPROVE"))), Some(&format!("key-{n:04}"))).1
    };
    let is_new = |reply: &Reply| matches!(reply, Reply::Applied(applied) if !applied.repeated);
    for n in 0..=limits::REMEMBERED_ACTS {
        assert!(is_new(&keyed(n, &mut game)));
    }
    let full = game.state.weight();
    for n in [1, 2, limits::REMEMBERED_ACTS] {
        let Reply::Applied(applied) = keyed(n, &mut game) else { panic!() };
        // The start is version 1.
        assert!(applied.repeated && applied.version_no as usize == n + 2);
    }
    assert!(is_new(&keyed(0, &mut game)), "the oldest key is forgotten");
    assert_eq!(game.state.weight(), full, "it is replaced");
    game.reload();
    assert!(!is_new(&keyed(2, &mut game)));
    game.now = game.now.plus(Duration::from_hours(24));
    assert!(is_new(&keyed(2, &mut game)), "a day is over");
    assert!(game.state.weight() < full / 2, "expired keys are dropped");
}

#[test]
fn keys_of_signals_keep_their_number() {
    let mut game = started(&review(), json!({}));
    let set = |n: usize| Input::SetContext { values: Payload::from(json!({ "n": n })) };
    for n in 0..=limits::REMEMBERED_KEYS {
        assert_eq!(game.keyed(set(n), Some(&format!("k{n}"))).1, Reply::Accepted);
    }
    for n in 0..300 {
        game.keyed(Input::Transition(Box::new(request("APPROVE"))), Some(&format!("a{n}")));
    }
    assert_eq!(game.keyed(set(1), Some("k1")).1, Reply::Repeated);
    assert_eq!(game.keyed(set(1), Some("k0")).1, Reply::Accepted);
}

#[test]
fn requests_are_bounded() {
    let mut game = started(&review(), json!({}));
    let comment = |chars: usize| Act { comment: Some("ü".repeat(chars)), ..request("APPROVE") };
    assert_eq!(code_of(&act(&mut game, comment(2_001))), "VALIDATION_ERROR");
    assert!(act(&mut game, comment(2_000)).is_accepted());
    let data = |data: Payload| Act { data: Some(data), ..request("APPROVE") };
    let deep = Payload::from_json(format!("{{\"a\":{}{}}}", "[".repeat(120), "]".repeat(120))).unwrap();
    assert_eq!(code_of(&act(&mut game, data(deep))), "VALIDATION_ERROR");
    let large = Payload::from(json!({"a": "x".repeat(limits::PAYLOAD_BYTES)}));
    assert_eq!(code_of(&act(&mut game, data(large))), "VALIDATION_ERROR");
    // One entry fills most of the context: a request for each part would write all earlier parts again.
    let Game { workflow, mut state, evaluate, now, .. } = game;
    let part = || Value::from("x".repeat(limits::PAYLOAD_BYTES - 100));
    let last = limits::CONTEXT_BYTES / limits::PAYLOAD_BYTES - 1;
    let values = (0..last).map(|n| (format!("f{n}"), part())).collect::<Value>();
    let entry = Entry::new(state.seq + 1, now, Event::ContextSet { values: Payload::from(values) });
    state.apply(&workflow, &entry).unwrap();
    let mut large = |n: usize| {
        let (values, cx) =
            (Payload::from(json!({ format!("f{n}"): part() })), Cx { now, evaluate: &evaluate, meter: &Meter::new() });
        decide(&workflow, &mut state, Input::Transition(Box::new(data(values))), None, cx).reply
    };
    assert!(large(last).is_accepted());
    assert_eq!(code_of(&large(last + 1)), "CONTEXT_TOO_LARGE");
    assert_eq!(state.status(), Status::Waiting);
}

#[test]
fn long_lists_of_persons_need_little_time() {
    /// Far more than a build without optimization needs, and far less than it needs if each name is compared with all
    /// others.
    const TIME_MAX: Duration = Duration::from_secs(2);
    let definition = json!({"states": [
        {"name": "vote", "initial": true, "assign": ["{{ctx.persons}}"], "onStalemate": "NO", "on": {
            "YES": {"to": "done", "quorum": {"of": ["{{ctx.persons}}"], "need": "ALL"}},
            "NO": {"to": "done", "quorum": {"of": ["{{ctx.persons}}"], "need": "ALL"}}}},
        {"name": "done", "terminal": true},
    ]});
    let (workflow, evaluate) = (workflow(&definition), Expressions::default());
    let cx = Cx { now: Game::BEGIN, evaluate: &evaluate, meter: &Meter::new() };
    let start = |persons: Vec<usize>| {
        let input = Payload::from(json!({ "persons": persons }));
        let mut state = State::new(RunId::new(Game::BEGIN, 1), &workflow);
        let (_, took) = timed(|| decide(&workflow, &mut state, Input::Start { input, cause: None }, None, cx));
        assert!(took < TIME_MAX, "took {took:?}");
        state
    };
    let state = start((0..100_000).collect());
    assert_eq!(state.status(), Status::Failed);
    assert!(state.failure().unwrap().message.contains("more than 1000 names"), "{:?}", state.failure());
    let state = start((0..100_000).map(|n| n % limits::PERSONS).collect());
    assert_eq!(state.machine().unwrap().assigned().len(), limits::PERSONS);

    // Each vote is compared with the voters, to find a stalemate.
    let mut state = start((0..500).collect());
    let vote = |n: usize, action: &str, state: &mut State| {
        let act = Act { by: Actor::person(n.to_string()), ..request(action) };
        decide(&workflow, state, Input::Transition(Box::new(act)), None, cx).reply
    };
    let (_, took) = timed(|| assert!((0..499).all(|n| vote(n, "YES", &mut state).is_accepted())));
    assert!(took < TIME_MAX, "took {took:?}");
    assert_eq!(state.status(), Status::Waiting);
    assert!(vote(499, "NO", &mut state).is_accepted());
    assert_eq!(state.machine().unwrap().last_transition().unwrap().by, Actor::system(Actor::STALEMATE));
}

#[test]
fn a_condition_that_is_too_costly_does_not_hold() {
    let rule = json!({"all": [{"var": "list"}, {"all": [{"var": "$data.list"}, {"==": [{"var": ""}, 1]}]}]});
    let definition = json!({"states": [
        {"name": "open", "initial": true, "on": {
            "GO": {"to": "done", "condition": {"type": "json-logic", "rule": rule}, "message": "not now"}}},
        {"name": "done", "terminal": true},
    ]});
    let mut game = started(&definition, json!({"list": vec![1; 500]}));
    let data = Payload::from(json!({"list": vec![1; 500]}));
    let reply = act(&mut game, Act { data: Some(data), ..request("GO") });
    assert_eq!(code_of(&reply), "CONDITION_TOO_COSTLY");
    assert_eq!(game.journal.len(), 2);
}

#[test]
fn a_start_may_be_open_to_some() {
    let expressions = Expressions::default();
    let cx = Cx { now: Game::BEGIN, evaluate: &expressions, meter: &Meter::new() };
    let ann = Actor::person("ann");
    let manager = Rights { can_manage: true, ..Rights::default() };
    let plain = workflow(&review());
    let machine = plain.style.machine().unwrap();
    let input = Payload::from(json!({"owner": "ann"}));
    assert!(!may_start(machine, &ann, &Rights::default(), &input, cx));
    assert!(may_start(machine, &ann, &manager, &input, cx));
    let mut definition = review();
    definition["start"] = json!({"require": {"role": ["Clerk"], "user": "{{ctx.owner}}"}});
    let limited = workflow(&definition);
    let machine = limited.style.machine().unwrap();
    let clerk = Rights {
        granted: BTreeSet::from(["Clerk".to_owned()]),
        known: BTreeSet::from(["Clerk".to_owned()]),
        ..Rights::default()
    };
    let bob = Actor::person("bob");
    assert!(may_start(machine, &bob, &clerk, &input, cx));
    assert!(may_start(machine, &ann, &Rights::default(), &input, cx));
    assert!(!may_start(machine, &bob, &Rights::default(), &input, cx));
    assert!(!may_start(machine, &bob, &manager, &input, cx), "there is no way around a requirement");
}

#[test]
fn a_definition_is_evaluated_without_a_run() {
    let expressions = Expressions::default();
    let cx = Cx { now: Game::BEGIN, evaluate: &expressions, meter: &Meter::new() };
    let definition = json!({"states": [
        {"name": "draft", "initial": true, "on": {"SUBMIT": {"to": "review"}}},
        {"name": "review", "assign": ["{{ctx.boss}}"], "after": [{"in": "1h", "to": "done"}],
         "on": {"APPROVE": {"to": "done", "require": {"assigned": true}, "set": {"paid": "{{ctx.n * 2}}"}}}},
        {"name": "done", "terminal": true, "output": "{{ctx.paid}}"},
    ]});
    let workflow = workflow(&definition);
    let context = Payload::from(json!({"boss": "ann", "n": 4}));
    let state = imagine(&workflow, "review", &context, &Actor::person("eve"), cx).unwrap();
    assert_eq!(state.place_of_machine(), Some(("review", 1)));
    let foreseen = evaluate(&workflow, &state, &request("APPROVE"), cx);
    assert!(foreseen.reasons.is_empty() && foreseen.applied && foreseen.is_completed);
    assert_eq!(foreseen.output.unwrap().json(), "8");
    let by = Actor::person("bob");
    let foreseen = evaluate(&workflow, &state, &Act { by, ..request("APPROVE") }, cx);
    assert_eq!(foreseen.reasons[0].code, "PERMISSION_DENIED");
    let ended = imagine(&workflow, "done", &Payload::from(json!({"paid": 1})), &Actor::person("eve"), cx).unwrap();
    assert_eq!(ended.place_of_machine(), Some(("done", 1)));
    for (name, context) in [("gone", json!({})), ("review", json!({})), ("review", json!([])), ("done", json!({}))] {
        let failure = imagine(&workflow, name, &Payload::from(context), &Actor::person("eve"), cx).unwrap_err();
        assert!(["VALIDATION_ERROR", "EXPRESSION_ERROR"].contains(&failure.code.as_str()), "{failure}");
    }
}

#[test]
fn a_child_has_the_starter_of_its_parent() {
    let definition = definition("start -> call -> end");
    let mut graph = Game::new(compile(&definition).unwrap());
    let cause = Some(Cause::from(Actor::person("ann")));
    graph.input(Input::Start { input: Payload::from(json!({})), cause });
    let cause = graph.state.cause_of(&"call".into(), 1).unwrap();
    assert_eq!(cause.by, Some(Actor::person("ann")));
    let machine = json!({"states": [
        {"name": "review", "initial": true, "on": {"APPROVE": {"to": "done", "require": {"notBy": ["@start"]}}}},
        {"name": "done", "terminal": true},
    ]});
    let mut child = Game::new(workflow(&machine));
    child.input(Input::Start { input: Payload::from(json!({})), cause: Some(cause) });
    assert_eq!(code_of(&act(&mut child, request("APPROVE"))), "PERMISSION_DENIED");
    let by = Actor::person("bob");
    assert!(act(&mut child, Act { by, ..request("APPROVE") }).is_accepted());
    let orphan = graph.state.cause_of(&"start".into(), 1);
    assert_eq!(orphan, None);
    let parent = Parent { run: graph.state.run, step: "call".into(), attempt: 1, waits: true, depth: 1 };
    assert_eq!(Cause::from(parent).by, None);
}

/// A state whose timer performs an action that enters the state again.
fn self_performing(timer: &Value) -> Value {
    let mut after = timer.clone();
    after["events"] = json!([{"type": "auto_action", "target": "AGAIN"}]);
    json!({"states": [
        {"name": "open", "initial": true, "after": [after], "on": {"AGAIN": {"to": "open"}, "STOP": {"to": "done"}}},
        {"name": "done", "terminal": true},
    ]})
}

/// Fires the timers that are due, as an engine does; at most so many.
fn fire_due(game: &mut Game, timers: usize) {
    for _ in 0..timers {
        let Some((step, attempt)) = game.state.first_due(game.now) else { return };
        game.input(Input::Timer { step, attempt });
    }
}

#[test]
fn actions_of_timers_that_are_due_at_once_are_a_loop() {
    let mut game = Game::new(workflow(&self_performing(&json!({"at": "1970-01-01T00:00:00Z"}))));
    game.input(Input::Start { input: Payload::from(json!({})), cause: None });
    fire_due(&mut game, 100);
    assert_eq!(game.state.status(), Status::Paused);
    assert_eq!(game.state.failure().map(|failure| failure.code.as_str()), Some("AUTO_LOOP"));
    assert_eq!(game.state.place_of_machine(), Some(("open", 1 + limits::AUTO_TRANSITIONS)));
}

#[test]
fn actions_of_timers_that_are_due_once_a_day_are_no_loop() {
    let mut game = Game::new(workflow(&self_performing(&json!({"in": "1d"}))));
    game.input(Input::Start { input: Payload::from(json!({})), cause: None });
    for day in 1..=40 {
        game.now = game.now.plus(Duration::from_hours(24));
        fire_due(&mut game, 1);
        assert_eq!(game.state.place_of_machine(), Some(("open", 1 + day)));
    }
    assert_eq!(game.state.status(), Status::Waiting);
}

#[test]
fn all_conditions_of_a_transition_share_their_work() {
    let bomb = json!({"type": "json-logic", "rule": {"all": [{"var": "many"}, {"==": [1, 1]}]}});
    let holds = json!({"type": "json-logic", "rule": {"==": [1, 1]}});
    let play = |bombs: usize| {
        let mut branches = vec![json!({"condition": bomb, "to": "done"}); bombs];
        branches.push(json!({"condition": holds, "to": "done"}));
        let machine = json!({"states": [
            {"name": "open", "initial": true, "on": {"GO": {"choose": branches}}},
            {"name": "done", "terminal": true},
        ]});
        let mut game = Game::new(workflow(&machine));
        let input = Payload::from(json!({"many": vec![1; 50_000]}));
        game.input(Input::Start { input, cause: None });
        timed(|| act(&mut game, request("GO")))
    };
    assert!(play(4).0.is_accepted());
    for bombs in [5, 49] {
        let (reply, time) = play(bombs);
        assert_eq!(code_of(&reply), "CONDITION_TOO_COSTLY");
        assert!(time.as_millis() < 500, "{time:?}");
    }
}

#[test]
fn a_person_who_forks_a_run_is_a_starter_of_the_fork() {
    let machine = json!({"states": [
        {"name": "review", "initial": true, "on": {"APPROVE": {"to": "done", "require": {"notBy": ["@start"]}}}},
        {"name": "done", "terminal": true},
    ]});
    let [ann, bob, cid] = ["ann", "bob", "cid"].map(Actor::person);
    let cause = Cause::from(ann.clone()).forked(bob.clone()).forked(ann.clone()).forked(bob.clone());
    assert_eq!(cause.forked_by, vec![bob.clone()], "each actor once");
    // A child of the fork has the same starters.
    let mut graph = Game::new(compile(&definition("start -> call -> end")).unwrap());
    graph.input(Input::Start { input: Payload::from(json!({})), cause: Some(cause.clone()) });
    let of_child = graph.state.cause_of(&"call".into(), 1).unwrap();
    for cause in [cause, of_child] {
        let mut fork = Game::new(workflow(&machine));
        fork.input(Input::Start { input: Payload::from(json!({})), cause: Some(cause) });
        for (by, reason) in [(&ann, "you started this run"), (&bob, "you forked this run")] {
            let reply = act(&mut fork, Act { by: by.clone(), ..request("APPROVE") });
            let Reply::Refused { code, message, .. } = &reply else { panic!("{reply:?}") };
            assert_eq!(code, "PERMISSION_DENIED");
            assert!(message.contains(reason), "{message}");
        }
        assert!(act(&mut fork, Act { by: cid.clone(), ..request("APPROVE") }).is_accepted());
    }
}

#[test]
fn only_entries_of_machines_topics_and_deliveries_have_their_formats() {
    let of_machines = [Kind::TransitionApplied, Kind::VoteCast, Kind::Assigned];
    for entry in entries() {
        let is_after = matches!(entry.event, Event::TimerSet { why: TimerPurpose::After, .. });
        let expected = match &entry.event {
            event if uses_deliveries(event) => 4,
            event if uses_topics(event) => 3,
            event if is_after || of_machines.contains(&event.kind()) => 2,
            _ => 1,
        };
        assert_eq!(entry.event.format(), expected, "{entry:?}");
        assert!(entry.event.format() <= FORMAT);
    }
    assert_eq!(workflow(&review()).style.format(), 2);
    let mut delivers = review();
    delivers["states"][0]["entry"] = json!([{"type": "webhook", "target": "https://erp.example.com/"}]);
    assert_eq!(workflow(&delivers).style.format(), 4);
    assert_eq!((code().style.format(), compile(&definition("start -> end")).unwrap().style.format()), (1, 1));
}

#[test]
fn a_story_keeps_the_kind_of_a_delivery_and_not_its_config() {
    let mut delivers = review();
    delivers["states"][0]["entry"] = json!([{"type": "webhook", "target": "https://erp.example.com/"}]);
    let game = started(&delivers, json!({}));
    let delivery = game.journal.iter().find_map(|entry| entry.event.delivery()).unwrap();
    let owners = Arc::strong_count(delivery);
    let mut story = Story::new(Some(&Arc::new(workflow(&delivers))));
    for entry in &game.journal {
        story.apply(entry);
    }
    assert_eq!(Arc::strong_count(delivery), owners);
    let kinds: Vec<_> = story.steps().filter_map(|step| step.kind.as_deref()).collect();
    assert_eq!(kinds, ["webhook"]);
    // A reader that begins later reads the open deliveries of the state.
    let story = Story::live(Some(&Arc::new(workflow(&delivers))), Some(&game.state));
    assert_eq!(Arc::strong_count(delivery), owners);
    drop(story);
}

/// Whether an entry decides a delivery, the end of a run that delivers, or repeats a timer.
fn uses_deliveries(event: &Event) -> bool {
    match event {
        Event::StepDispatched { dispatch, .. } => matches!(dispatch, Dispatch::Delivery(_)),
        Event::TimerSet { attempt, why, .. } => *attempt > 1 && *why == TimerPurpose::After,
        Event::TransitionApplied(applied) => applied.end.is_some(),
        _ => false,
    }
}

/// Whether an entry has a trigger or a look-back, is of a published event, or publishes one.
fn uses_topics(event: &Event) -> bool {
    match event {
        Event::RunStarted { cause, .. } => cause.as_ref().is_some_and(|cause| cause.trigger.is_some()),
        Event::StepDispatched { dispatch, .. } => {
            matches!(dispatch, Dispatch::Publish | Dispatch::Wait { since: Some(_), .. })
        }
        Event::StepCompleted { outcome, .. } => outcome.event.is_some() || outcome.published.is_some(),
        Event::WaitOpened { since, .. } => since.is_some(),
        Event::WaitResolved { by, .. } => matches!(by, Resolution::Event { .. }),
        _ => false,
    }
}

#[test]
fn a_machine_in_a_terminal_state_is_completed_before_its_last_delivery() {
    let tell = json!([{"type": "webhook", "target": "https://erp.example.com/"}]);
    let machine = json!({"states": [
        {"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed"}, "DROP": {"to": "dropped"}}, "exit": tell},
        {"name": "closed", "terminal": true},
        {"name": "dropped", "terminal": true, "error": true},
    ]});
    for (action, decided) in [("CLOSE", Status::Completed), ("DROP", Status::Failed)] {
        let mut game = started(&machine, json!({}));
        assert_eq!(game.state.decided_status(), Status::Waiting);
        assert!(act(&mut game, request(action)).is_accepted());
        assert_eq!((game.state.status(), game.state.decided_status()), (Status::Waiting, decided));
        game.input(Input::Cancel { reason: None });
        assert_eq!(game.state.decided_status(), Status::Cancelled);
    }
}

#[test]
fn a_delivery_whose_output_does_not_fit_was_performed() {
    let tell = json!([{"id": "tell", "type": "webhook", "target": "https://erp.example.com/"}]);
    let machine = json!({"states": [
        {"name": "open", "initial": true, "on": {"CLOSE": {"to": "closed", "events": tell}}},
        {"name": "closed", "terminal": true},
    ]});
    let mut game = started(&machine, json!({}));
    assert!(act(&mut game, request("CLOSE")).is_accepted());
    let outcome = Outcome::from_output(json!("x".repeat(limits::PAYLOAD_BYTES)));
    let (step, logs) = ("CLOSE[2].tell".into(), vec!["sent".to_owned()]);
    let (entries, _) = game.input(Input::Result { step, attempt: 1, result: Ok(outcome), logs });
    let Event::StepCompleted { outcome, .. } = &entries[0].event else { panic!("{entries:?}") };
    assert_eq!((outcome.output.value(), &outcome.logs), (&Value::Null, &vec!["sent".to_owned()]));
    assert_eq!(game.state.status(), Status::Completed);
    assert!(game.dead_letters.is_empty());
}

#[test]
fn a_machine_answers_the_questions_of_a_style() {
    let workflow = workflow(&review());
    assert_eq!(StyleName::parse("machine"), Some(StyleName::Machine));
    assert_eq!(workflow.style.name(), StyleName::Machine);
    assert!(StyleName::Machine.has_definition() && !workflow.needs_worker());
    let mut game = started(&review(), json!({"a": 1}));
    let message = |reply: Reply| match reply {
        Reply::Refused { message, .. } => message,
        other => panic!("{other:?}"),
    };
    let signal = game.input(Input::Signal { event: "go".into(), payload: Payload::null() }).1;
    assert!(message(signal).contains("POST /v1/runs/{id}/transitions"));
    assert!(message(game.input(Input::Retry).1).contains("POST /v1/runs/{id}/fork"));
    // A test run carries its definition.
    let style = workflow.style.clone();
    let mut test = Game::new(Workflow { is_unsaved: true, style, ..workflow });
    test.input(Input::Start { input: Payload::from(json!({})), cause: None });
    let Event::RunStarted { definition, .. } = &test.journal[0].event else { panic!() };
    assert_eq!(definition.as_ref().unwrap().value()["states"][0]["name"], "review");
    // A graph and a function take no actions.
    let mut graph = Game::new(compile(&super::support::definition("start -> a -> end")).unwrap());
    graph.input(Input::Start { input: Payload::null(), cause: None });
    assert!(message(act(&mut graph, request("GO"))).contains("signal"));
    assert_eq!(graph.state.place_of_machine(), None);
    assert!(imagine(&code(), "a", &Payload::null(), &Actor::person("a"), cx_of(&graph, &Meter::new())).is_err());
}

fn cx_of<'a>(game: &'a Game, meter: &'a Meter) -> Cx<'a> {
    Cx { now: game.now, evaluate: &game.evaluate, meter }
}

#[test]
fn an_actor_is_named_by_its_kind() {
    assert!(Actor::person("ann").is_named("ann") && !Actor::person("ann").is_named("key:ann"));
    assert!(Actor::key("7").is_named("key:7") && !Actor::key("7").is_named("7"));
    // A person whose id looks like the name of another actor is not taken for that one.
    for id in ["key:7", "@timer", "run:r", "worker:w", "person:ann"] {
        let person = Actor::person(id);
        assert!(!person.is_named(id) && person.is_named(&format!("person:{id}")), "{id}");
        assert!(!person.is_system(id) && person.to_string() != id);
    }
    assert!(!Actor::person("ann").is_named("person:ann"));
    for kind in [ActorKind::Worker, ActorKind::Run, ActorKind::System] {
        assert!(!Actor::new(kind, "ann").is_named("ann"), "{kind:?}");
    }
    let texts = [Actor::person("ann"), Actor::key("7"), Actor::new(ActorKind::Run, "r"), Actor::system(Actor::TIMER)];
    let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["ann", "key:7", "run:r", "@timer"]);
}

#[test]
fn a_snapshot_of_a_machine_keeps_its_answers() {
    let mut game = started(&review(), json!({"a": [1, 2]}));
    game.keyed(Input::Transition(Box::new(request("APPROVE"))), Some("k"));
    let snapshot = serde_json::to_vec(&game.state).unwrap();
    let mut state = State::from_snapshot(&game.workflow, &snapshot).unwrap();
    assert_eq!(state, game.state);
    std::mem::swap(&mut state, &mut game.state);
    let reply = game.keyed(Input::Transition(Box::new(request("APPROVE"))), Some("k")).1;
    assert!(matches!(reply, Reply::Applied(applied) if applied.repeated));
    let graph = compile(&definition("start -> end")).unwrap();
    assert!(State::from_snapshot(&graph, &snapshot).is_err());
}

#[test]
fn a_story_follows_the_states_of_a_machine() {
    let definition = json!({"states": [
        {"name": "review", "initial": true, "after": [{"in": "1h", "to": "late"}], "on": {
            "SIGN": {"to": "done", "quorum": {"need": 2}}, "SKIP": {"to": "charge"}}},
        {"name": "late", "on": {"SKIP": {"to": "charge"}}},
        {"name": "charge", "run": {"workflow": "payment", "done": "done"}, "on": {"STOP": {"to": "done"}}},
        {"name": "done", "terminal": true},
    ]});
    let mut game = started(&definition, json!({}));
    act(&mut game, request("SIGN"));
    game.now = game.now.plus(Duration::from_hours(1));
    game.input(Input::Timer { step: "@after[1].0".into(), attempt: 1 });
    act(&mut game, request("SKIP"));
    act(&mut game, request("STOP"));
    let workflow = Arc::new(game.workflow.clone());
    let mut story = Story::new(Some(&workflow));
    let (mut seen, mut statuses) = (Vec::new(), Vec::new());
    for entry in &game.journal {
        for update in story.apply(entry) {
            seen.push(match update {
                Update::Run(update) => match &update.machine {
                    Some(machine) => format!("{:?} {}", update.change, machine.to.or(machine.action).unwrap()),
                    None => format!("{:?}", update.change),
                },
                Update::Step(update) => format!("{} {:?}", update.step, update.change),
            });
        }
        if let Some((state, version_no)) = story.run.machine.as_ref().map(|at| (at.state.clone(), at.version_no)) {
            assert!(version_no >= 1 && definition["states"].to_string().contains(&state));
        }
        statuses.push(story.status());
    }
    assert_eq!(statuses[0], Status::Running, "the machine has not entered its first state");
    assert!(statuses[1..statuses.len() - 1].iter().all(|status| *status == Status::Waiting), "{statuses:?}");
    assert_eq!(
        seen,
        [
            "Started",
            "Moved review",
            "@after[1].0 Began",
            "Voted SIGN",
            "@after[1].0 Completed",
            "Moved late",
            "Moved charge",
            "@run[3] Began",
            "Moved done",
            "@run[3] Cancelled",
            "Completed",
        ]
    );
    let kinds: Vec<_> = story.steps().map(|step| (step.kind.clone().unwrap(), step.status)).collect();
    assert_eq!(kinds, [("after".to_owned(), StepStatus::Completed), ("workflow".to_owned(), StepStatus::Cancelled)]);
    let place = story.run.machine.unwrap();
    assert_eq!((place.state.as_str(), place.version_no, place.by), ("done", 4, Actor::person("ann")));
}

#[test]
fn a_long_history_does_not_slow_down_a_transition() {
    let Game { workflow, mut state, evaluate, now, .. } = started(&review(), json!({"order": {"total": 5}}));
    let hundred = |from: u32, state: &mut State| {
        let work = || {
            for n in from..from + 100 {
                let input = Input::Transition(Box::new(request("APPROVE")));
                let cx = Cx { now, evaluate: &evaluate, meter: &Meter::new() };
                decide(&workflow, state, input, Some(&format!("key-{n}")), cx);
            }
        };
        timed(work).1
    };
    let times: Vec<_> = (0..2_100).step_by(100).map(|n| hundred(n, &mut state)).collect();
    // The clock of processor time advances in steps of some milliseconds, so that whole thirds are compared.
    let (early, late): (Duration, Duration) = (times[..7].iter().sum(), times[14..].iter().sum());
    assert_eq!(state.machine().unwrap().version_no(), 2_101);
    // The keys of a thousand requests are compared, which takes some microseconds in a build that is not optimized.
    assert!(late < early.max(Duration::from_millis(10)) * 3, "{times:?}");
}
