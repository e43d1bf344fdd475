//! Requests that no client sends, and journals that no machine writes.

use std::collections::BTreeMap;

use everstep_core::actor::{Actor, ActorKind};
use everstep_core::failure::Failure;
use everstep_core::ids::{DeliveryId, FileId};
use everstep_core::journal::{
    Assigned, AutoAction, Ballot, DecidedEnd, Delivery, Dispatch, Entry, Event, Outcome, TransitionApplied, VoteCast,
};
use everstep_core::machine::{
    Act, Assignment, AssignmentChange, History, Rights, actions, evaluate, may_read, shown, situation,
};
use everstep_core::meter::Meter;
use everstep_core::payload::Payload;
use everstep_core::run::decide::decide;
use everstep_core::run::inbox::inputs_after;
use everstep_core::run::{Child, Cx, Input, State};
use everstep_core::workflow::{Style, Workflow};
use everstep_expressions::Expressions;
use serde_json::json;

use super::{WORDS, child, purpose, wild_value};
use crate::support::{Game, Random, compile_machine, often};

const STATES: &[&str] = &["draft", "review", "charge", "done", "gone", ""];
const STEPS: &[&str] =
    &["@after[1].0", "@after[2].0", "@after[2].1", "@run[3]", "@run[1]", "", "@after[", "a", "A[2].x"];

fn workflow() -> Workflow {
    let definition = json!({"states": [
        {"name": "draft", "initial": true, "on": {"A": {"to": "review", "set": {"n": "{{ctx.n + 1}}"}}},
         "after": [{"in": "1s", "do": "A"}]},
        {"name": "review", "assign": ["{{ctx.who}}"], "entry": [{"type": "auto_action", "target": "C"}],
         "onStalemate": "B", "after": [{"in": "1s", "to": "charge"}, {"at": "{{ctx.deadline}}", "to": "done"}],
         "on": {"A": {"to": "charge", "quorum": {"of": ["ann", "bob"], "need": "ALL"}},
                "B": {"to": "draft", "quorum": {"of": ["ann", "bob"], "need": "ALL"}},
                "C": {"to": "done", "condition": {"type": "json-logic", "rule": {"var": "quick"}}}}},
        {"name": "charge", "run": {"workflow": "other", "done": "done", "saveAs": "out"}, "on": {"A": {"to": "charge"}}},
        {"name": "done", "terminal": true, "output": "{{ctx.out}}"},
    ]});
    let style = Style::Machine(compile_machine(&definition).unwrap());
    Workflow { name: "test".into(), version: 1, style, is_unsaved: false, publisher: Default::default() }
}

fn text(random: &mut Random, choices: &[&str]) -> String {
    let word: &str = if random.chance(95) { random.pick::<&str>(choices) } else { random.pick::<&str>(WORDS) };
    word.to_owned()
}

fn wild_actor(random: &mut Random) -> Actor {
    let kinds = [ActorKind::Person, ActorKind::Person, ActorKind::Key, ActorKind::Run, ActorKind::System];
    let kind = *random.pick(&kinds);
    Actor::new(kind, text(random, &["ann", "bob", "@quorum", "@auto", "@timer", "@run", ""]))
}

fn payload(random: &mut Random) -> Payload {
    match random.below(4) {
        0 => {
            Payload::from(json!({"n": 1, "who": "ann", "deadline": "1970-01-01T00:20:00Z", "quick": random.chance(30)}))
        }
        1 => Payload::from_json("[".repeat(120) + &"]".repeat(120)).unwrap(),
        _ => Payload::from(wild_value(random, 2)),
    }
}

fn wild_request(random: &mut Random) -> Input {
    let rights = Rights { can_manage: random.chance(50), ..Rights::default() };
    let (by, digest) = (wild_actor(random), text(random, &["d1", "d2"]));
    if random.chance(20) {
        let name = text(random, &["ann", "bob", "eve", ""]);
        let change = match random.below(3) {
            0 => AssignmentChange::Who(vec![name.clone(), name]),
            1 => AssignmentChange::Who(vec![]),
            _ => AssignmentChange::Voter { from: "ann".into(), to: name },
        };
        return Input::Assign(Box::new(Assignment { by, rights, change, reason: None, digest }));
    }
    let version = random.chance(40).then(|| *random.pick(&[0, 1, 2, 3, u32::MAX]));
    Input::Transition(Box::new(Act {
        action: text(random, &["A", "B", "C", "D", "@start", ""]),
        version,
        by,
        rights,
        comment: random.chance(30).then(|| "x".repeat(*random.pick(&[0, 1, 3_000]))),
        data: random.chance(50).then(|| payload(random)),
        shown: random.chance(20).then(|| "zz".into()),
        withdraw: random.chance(20),
        files: (0..*random.pick(&[0, 0, 1, 21])).map(|n| FileId::new(Game::BEGIN, n)).collect(),
        files_until: random.chance(20).then_some(Game::BEGIN),
        digest,
    }))
}

fn wild_event(random: &mut Random) -> Event {
    let step = text(random, STEPS).into();
    let attempt = random.below(3) as u32;
    let due = Game::BEGIN;
    match random.below(18) {
        0..=3 => {
            let of = random.chance(60).then(|| vec!["ann".to_owned(), "bob".to_owned()]);
            let ballot = Ballot { of, need: random.below(3) as u32 };
            Event::TransitionApplied(Box::new(TransitionApplied {
                action: text(random, &["A", "B", "@start"]),
                from: random.chance(80).then(|| text(random, STATES)),
                to: text(random, STATES),
                version_no: *random.pick(&[0, 1, 2, 3, 4, u32::MAX]),
                by: wild_actor(random),
                on_behalf_of: random.chance(20).then(|| wild_actor(random)),
                comment: None,
                data: random.chance(30).then(|| payload(random)),
                set: random.chance(30).then(|| payload(random)),
                files: vec![],
                assigned: vec![text(random, &["ann", ""])],
                voters: BTreeMap::from([(text(random, &["A", "Z"]), ballot)]),
                votes: vec![wild_actor(random)],
                shown: None,
                auto: random.chance(30).then(|| AutoAction { action: "C".into(), data: None }),
                end: random.chance(10).then(|| DecidedEnd::Completed { output: Payload::null() }),
                request: random.chance(30).then(|| "d1".into()),
            }))
        }
        4 | 5 => Event::VoteCast(Box::new(VoteCast {
            action: text(random, &["A", "B", "C"]),
            version_no: random.below(4) as u32,
            by: wild_actor(random),
            on_behalf_of: random.chance(20).then(|| wild_actor(random)),
            comment: None,
            files: vec![],
            shown: None,
            is_withdrawn: random.chance(30),
            request: None,
        })),
        6 => {
            let change = AssignmentChange::Voter { from: "ann".into(), to: text(random, &["eve", "bob"]) };
            Event::Assigned(Box::new(Assigned { change, by: wild_actor(random), reason: None, request: None }))
        }
        7 => Event::TimerSet { step, attempt, due, why: purpose(random) },
        8 => Event::TimerFired { step, attempt },
        9 => {
            let child = Child {
                run: child(random),
                workflow: "other".into(),
                version: None,
                input: Payload::null(),
                waits: random.chance(80),
                due: random.chance(20).then_some(due),
            };
            Event::StepDispatched { step, attempt, dispatch: Dispatch::Child(child.into()) }
        }
        13 => {
            let id = DeliveryId::from_uuid(child(random).uuid());
            let kind = text(random, &["webhook", "notify", "workflow"]);
            let config = payload(random);
            let delivery = Delivery { id, kind, config, secrets: vec![], retry: None };
            Event::StepDispatched { step, attempt, dispatch: Dispatch::Delivery(delivery.into()) }
        }
        14 => Event::StepDispatched { step, attempt, dispatch: Dispatch::Task },
        15 => Event::StepSkipped { step },
        10 => Event::StepCompleted { step, attempt, outcome: Outcome::default() },
        11 => Event::failed(step, attempt, Failure::transient("A", "")),
        12 => Event::ContextSet { values: payload(random) },
        _ => (*random.pick(&[
            Event::RunPaused { reason: None },
            Event::RunResumed,
            Event::RunRetried,
            Event::run_completed(Payload::null()),
            Event::RunStarted { input: Payload::null(), cause: None, definition: None },
        ]))
        .clone(),
    }
}

/// A journal with every kind of entry of a machine.
fn sound(workflow: &Workflow) -> Vec<Event> {
    let mut game = Game::new(workflow.clone());
    let act = |by: &str, action: &str| {
        let (rights, digest) = (Rights::default(), "d".to_owned());
        let (by, action) = (Actor::person(by), action.to_owned());
        let (comment, data, shown) = (None, None, None);
        Input::Transition(Box::new(Act {
            action,
            version: None,
            by,
            rights,
            comment,
            data,
            shown,
            withdraw: false,
            files: Vec::new(),
            files_until: None,
            digest,
        }))
    };
    let input = json!({"n": 1, "who": "ann", "deadline": "1970-01-02T00:00:00Z", "out": 1});
    game.input(Input::Start { input: Payload::from(input), cause: Some(Actor::person("ann").into()) });
    for (by, action) in [("ann", "A"), ("ann", "A"), ("bob", "A"), ("eve", "A")] {
        game.input(act(by, action));
    }
    let (step, attempt, child) = game.family.all().pop().unwrap();
    game.input(Input::ChildEnded { step, attempt, child, result: Ok(Payload::null()) });
    assert!(game.state.has_ended(), "{:?}", game.journal);
    game.journal.iter().map(|entry| entry.event.clone()).collect()
}

/// A damaged journal, or one of another workflow, is rejected; or it is folded, and then the run can be decided and read.
#[test]
fn a_damaged_journal_of_a_machine_is_refused_or_decided() {
    let workflow = workflow();
    let sound = sound(&workflow);
    let run = Game::new(workflow.clone()).state.run;
    let mut random = Random::new(11);
    let mut folded = 0;
    for _ in 0..often(7_000) {
        let mut events = sound.clone();
        events.truncate(1 + random.below(events.len()));
        for _ in 0..1 + random.below(3) {
            let at = random.below(events.len() + 1);
            match random.below(4) {
                0 if at < events.len() => drop(events.remove(at)),
                1 if at < events.len() => events.push(events[at].clone()),
                2 if at < events.len() => events[at] = wild_event(&mut random),
                _ => events.insert(at, wild_event(&mut random)),
            }
        }
        let entries = events.into_iter().enumerate();
        let mut journal: Vec<_> = entries.map(|(i, event)| Entry::new(i as u64 + 1, Game::BEGIN, event)).collect();
        if random.chance(20)
            && let Some(entry) = journal.last_mut()
        {
            entry.key = Some("k".into());
        }
        let mut history = History::new(run);
        journal.iter().for_each(|entry| drop(history.apply(entry)));
        let Ok(state) = State::fold(run, &workflow, &journal) else { continue };
        folded += 1;
        decide_on(state, &workflow, &mut random);
    }
    assert!(folded > 500, "{folded}");
}

fn decide_on(mut state: State, workflow: &Workflow, random: &mut Random) {
    let expressions = Expressions::default();
    let cx = Cx { now: Game::BEGIN, evaluate: &expressions, meter: &Meter::new() };
    for _ in 0..6 {
        let step = text(random, STEPS).into();
        let attempt = random.below(3) as u32;
        let input = match random.below(10) {
            0..=4 => wild_request(random),
            5 => Input::Timer { step, attempt },
            6 => {
                let result = if random.chance(50) { Ok(payload(random)) } else { Err(Failure::transient("A", "")) };
                Input::ChildEnded { step, attempt, child: child(random), result }
            }
            7 => Input::Resume,
            8 => Input::SetContext { values: payload(random) },
            _ => Input::Settle,
        };
        if let Input::Transition(act) = &input {
            evaluate(workflow, &state, act, cx);
        }
        let key = random.chance(20).then_some("k");
        let mut decision = decide(workflow, &mut state, input, key, cx);
        for _ in 0..20 {
            if !decision.has_more {
                break;
            }
            decision = decide(workflow, &mut state, Input::Settle, None, cx);
        }
        inputs_after(&state, &decision.entries);
        assert!(!decision.has_more, "{state:?}");
        actions(workflow, &state, &Actor::person("ann"), &Rights::default(), cx);
        may_read(workflow, &state, &Actor::person("ann"), &Rights::default(), cx);
        shown(workflow, &state);
        situation(workflow, &state);
    }
}

/// Entries of machines do not fit other styles, and those of other styles do not fit machines.
#[test]
fn entries_of_another_style_are_refused() {
    let machine = workflow();
    let graph = crate::support::compile(&crate::support::definition("start -> a -> end")).unwrap();
    let code = crate::support::code();
    let run = Game::new(machine.clone()).state.run;
    let started = Event::RunStarted { input: Payload::null(), cause: None, definition: None };
    for event in sound(&machine) {
        let is_of_machine = matches!(event, Event::TransitionApplied(_) | Event::VoteCast(_) | Event::Assigned(_));
        let journal: Vec<_> =
            [started.clone(), event].into_iter().zip(1..).map(|(e, s)| Entry::new(s, Game::BEGIN, e)).collect();
        for other in [&graph, &code] {
            let folded = State::fold(run, other, &journal);
            assert!(!is_of_machine || folded.is_err(), "{:?}", journal[1]);
        }
    }
    for event in
        [Event::RunRetried, Event::TurnStarted { turn: 1, worker: "w".into() }, Event::StepSkipped { step: "a".into() }]
    {
        let journal: Vec<_> =
            [started.clone(), event].into_iter().zip(1..).map(|(e, s)| Entry::new(s, Game::BEGIN, e)).collect();
        assert!(State::fold(run, &machine, &journal).is_err(), "{:?}", journal[1]);
    }
}
