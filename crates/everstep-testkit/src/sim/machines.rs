//! Random machines that are valid by construction, and the persons who act on them.

use std::collections::BTreeMap;
use std::sync::Arc;

use everstep_core::machine::Rights;
use serde_json::{Value, json};

use super::graphs;
use super::random::SeededRng;
use super::targets;

/// The definitions of the machines of a simulation, by their names.
pub(super) type Machines = Arc<BTreeMap<String, Value>>;

/// All persons. The first one starts the runs.
pub(super) const PERSONS: &[&str] = &["p0", "p1", "p2", "p3", "p4"];
pub(super) const STARTER: &str = "p0";
/// The number of voters that the context of a run names.
pub(super) const VOTERS: usize = 3;
/// The action that leads toward the end. Every state in which persons act has it.
pub(super) const GO: &str = "GO";
/// The action that leads to an earlier state, or to the same one.
pub(super) const BACK: &str = "BACK";
const ROLE: &str = "Manager";

/// The rights of a person: two are managers.
pub(super) fn rights_of(person: &str) -> Rights {
    let granted = if matches!(person, "p1" | "p2") { [ROLE.to_owned()].into() } else { Default::default() };
    Rights { granted, known: [ROLE.to_owned()].into(), can_manage: true, ..Rights::default() }
}

/// A definition with two to five states: guards, requirements, votes, timers, choices, actions that follow at once, and
/// runs that states start. In a brief one no timer lasts longer than a few seconds. Every state leads toward the end, so
/// every run ends if the persons want it.
pub(super) fn make(random: &mut SeededRng, is_brief: bool) -> Value {
    let count = random.between(1, 4) as usize;
    let name = |index: usize| if index == count { "done".to_owned() } else { format!("s{index}") };
    let mut states = Vec::new();
    for index in 0..count {
        let next = name(index + 1);
        let mut state = json!({"name": name(index)});
        if index == 0 {
            state["initial"] = true.into();
        }
        let has_run = random.chance(15);
        if has_run {
            let input = json!({"n": "{{ctx.n}}", "items": [1, 2]});
            let run =
                json!({"workflow": graphs::CHILD, "input": input, "saveAs": "child", "done": next, "error": next});
            state["run"] = run;
        }
        let has_actions = !has_run || random.chance(50);
        if has_actions {
            let earlier = name(random.below(index + 1));
            add_actions(random, &mut state, &next, &earlier);
        }
        if random.chance(35) {
            let seconds = random.between(1, if is_brief { 6 } else { 90 });
            let mut timer = json!({"in": format!("{seconds}s")});
            if has_actions && random.chance(50) {
                timer["do"] = GO.into();
            } else {
                timer["to"] = next.clone().into();
            }
            state["after"] = json!([timer]);
        }
        if random.chance(25) {
            state["exit"] = json!([targets::effect("left")]);
        }
        if has_actions && random.chance(25) {
            state["on"][GO]["events"] = json!([targets::effect("gone")]);
        }
        states.push(state);
    }
    let mut done = json!({"name": "done", "terminal": true});
    if random.chance(40) {
        done["entry"] = json!([targets::effect("done")]);
    }
    states.push(done);
    json!({"states": states})
}

fn add_actions(random: &mut SeededRng, state: &mut Value, next: &str, earlier: &str) {
    let mut go = json!({"to": next});
    let mut back = json!({"to": earlier});
    let voters = json!(["{{ctx.voters}}"]);
    if random.chance(8) {
        state["entry"] = json!([{"type": "auto_action", "target": GO}]);
    }
    match random.below(9) {
        0 => go["require"] = json!({"role": [ROLE]}),
        1 => go["require"] = json!({"user": ["p3", "{{ctx.boss}}"]}),
        2 => {
            go["require"] = json!({"assigned": true});
            state["assign"] = json!(["p2", "{{ctx.boss}}"]);
        }
        3 => go["require"] = json!({"notBy": ["@start"]}),
        4 => {
            let rule = json!({"==": [{"var": "$data.ok"}, true]});
            go["condition"] = json!({"type": "json-logic", "rule": rule});
        }
        5 => {
            let is_small = json!({"type": "json-logic", "rule": {"<": [{"var": "n"}, 2]}});
            go = json!({"choose": [{"condition": is_small, "to": "done"}, {"to": next}]});
        }
        6 | 7 => {
            let need = random.pick(&[json!(2), json!("ALL"), json!("MAJORITY"), json!("60%")]).clone();
            go["quorum"] = json!({"of": voters, "need": need});
            if random.chance(40) {
                back["quorum"] = json!({"of": voters, "need": 2});
                state["onStalemate"] = GO.into();
            }
        }
        _ => go["quorum"] = json!({"need": random.between(1, 3)}),
    }
    state["on"] = json!({GO: go});
    if random.chance(60) || state.get("onStalemate").is_some() {
        state["on"][BACK] = back;
    }
}

/// The context that the templates of all machines read, as fields of the input of a run.
pub(super) fn context() -> Value {
    json!({"voters": ["p1", "p2", "p3"], "boss": "p4"})
}

/// A state of a definition.
pub(super) fn state<'a>(definition: &'a Value, name: &str) -> Option<&'a Value> {
    definition["states"].as_array()?.iter().find(|state| state["name"] == name)
}

/// An action of a state of a definition.
pub(super) fn action<'a>(definition: &'a Value, state: &str, action: &str) -> Option<&'a Value> {
    self::state(definition, state)?.get("on")?.get(action)
}
