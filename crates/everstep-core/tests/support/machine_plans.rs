//! Random machines: guards, votes, timers, actions that follow at once, and runs.

use serde_json::{Map, Value, json};

use super::Random;

pub(crate) const PERSONS: &[&str] = &["ann", "bob", "cid", "dora", "key:7"];
pub(crate) const ACTIONS: &[&str] = &["A", "B", "C", "D"];

/// A definition of up to five states. Every state is reachable, and every way leads on.
pub(crate) fn random_machine(random: &mut Random) -> Value {
    let count = 2 + random.below(4);
    let mut states: Vec<_> = (0..count).map(|at| state(random, at, count)).collect();
    let mut end = json!({"name": "end", "terminal": true});
    if random.chance(50) {
        let last = json!({"id": "last", "type": "webhook", "target": "https://erp.example.com/"});
        end["entry"] = json!([delivery(random), last]);
    }
    states.push(end);
    states.push(json!({"name": "bad", "terminal": true, "error": true}));
    states[0]["initial"] = true.into();
    // Some way leads to the second end.
    states[count - 1]["on"]["DROP"] = json!({"to": "bad"});
    json!({ "states": states })
}

fn name(at: usize, count: usize) -> String {
    if at < count { format!("s{at}") } else { "end".to_owned() }
}

fn state(random: &mut Random, at: usize, count: usize) -> Value {
    let mut on = Map::new();
    let first = random.below(ACTIONS.len());
    let actions = 1 + random.below(3);
    for n in 0..actions {
        let to = if n == 0 { name(at + 1, count) } else { name(random.below(count + 1), count) };
        let action = action(random, &to, n > 0, count);
        on.insert(ACTIONS[(first + n) % ACTIONS.len()].to_owned(), action);
    }
    let mut state = json!({"name": name(at, count), "on": on});
    if random.chance(30) {
        let who = ["ann", "{{ctx.boss}}", "{{ctx.team}}"];
        state["assign"] = json!([random.pick(&who)]);
    }
    let of_state: Vec<_> = state["on"].as_object().unwrap().keys().cloned().collect();
    if random.chance(15) {
        state["onStalemate"] = random.pick(&of_state).clone().into();
    }
    if random.chance(10) {
        let event = json!({"type": "auto_action", "target": random.pick(&of_state), "payload": {"auto": true}});
        state["entry"] = json!([event]);
    }
    if state["entry"].is_null() && random.chance(20) {
        state["entry"] = json!([delivery(random)]);
    }
    if random.chance(20) {
        state["exit"] = json!([{"type": "assign", "target": ["bob", "{{ctx.team}}"]}]);
    }
    if random.chance(40) {
        let timers: Vec<_> = (0..1 + random.below(2)).map(|_| timer(random, &of_state, count)).collect();
        state["after"] = timers.into();
    }
    if random.chance(15) {
        state["run"] = json!({"workflow": "other", "saveAs": "result", "done": name(at + 1, count)});
        if random.chance(50) {
            state["run"]["error"] = name(random.below(count), count).into();
        }
    }
    state
}

fn action(random: &mut Random, to: &str, may_be_hard: bool, count: usize) -> Value {
    let mut action = json!({ "to": to });
    if random.chance(30) {
        let requirements = [
            json!({"role": ["Manager"]}),
            json!({"role": ["__assigned__"], "notBy": ["@start"]}),
            json!({"assigned": true, "role": ["Clerk"]}),
            json!({"user": ["bob", "{{ctx.boss}}"], "notBy": ["A"]}),
            json!({"notBy": ["@start", "B"]}),
        ];
        action["require"] = random.pick(&requirements).clone();
    }
    if random.chance(30) {
        let quorums = [
            json!({"need": 2}),
            json!({"of": ["ann", "bob", "cid"], "need": "MAJORITY"}),
            json!({"of": ["{{ctx.team}}", "key:7"], "need": "ALL"}),
            json!({"of": ["ann", "dora"], "need": "60%"}),
        ];
        action["quorum"] = random.pick(&quorums).clone();
    }
    if random.chance(30) {
        let rules = [
            json!({"<": [{"var": "n"}, 6]}),
            json!({"!=": [{"var": "$user.id"}, {"var": "$startedBy"}]}),
            json!({"or": [{"var": "$comment"}, {">": [{"var": "$versionNo"}, 3]}]}),
        ];
        action["condition"] = json!({"type": "json-logic", "rule": random.pick(&rules)});
    }
    if may_be_hard && random.chance(20) {
        let to = name(random.below(count), count);
        let rule = json!({"type": "json-logic", "rule": {">": [{"var": "n"}, 2]}});
        action["choose"] = json!([{"condition": rule, "to": to}, {"to": action["to"], "set": {"chosen": true}}]);
        action.as_object_mut().unwrap().remove("to");
    }
    if random.chance(15) {
        action["needs"] = json!({"comment": true});
    }
    if random.chance(25) {
        action["set"] = json!({"n": "{{ctx.n + 1}}"});
    }
    if random.chance(20) {
        action["events"] = json!([delivery(random)]);
    }
    action
}

/// A side effect that is performed after the commit.
fn delivery(random: &mut Random) -> Value {
    let events = [
        json!({"type": "webhook", "target": "https://erp.example.com/", "payload": {"n": "{{ctx.n}}"}}),
        json!({"id": "tell", "type": "webhook", "target": "https://erp.example.com/", "retry": {"maxAttempts": 1}}),
        json!({"type": "workflow", "target": "other", "payload": {"n": "{{ctx.n}}"}}),
        json!({"type": "notify", "target": "ann@example.com", "template": {"subject": "{{ctx.n}}", "text": "{{ctx.n}}"}}),
    ];
    random.pick(&events).clone()
}

fn timer(random: &mut Random, actions: &[String], count: usize) -> Value {
    let mut timer = match random.below(4) {
        0 => json!({"at": "{{ctx.deadline}}"}),
        1 => json!({"in": "1s"}),
        _ => json!({"in": format!("{}m", 1 + random.below(5))}),
    };
    match random.below(4) {
        0 => timer["to"] = name(random.below(count), count).into(),
        1 => timer["do"] = random.pick(actions).clone().into(),
        2 => timer["events"] = json!([{"type": "assign", "target": "cid"}]),
        _ => {
            timer["events"] = json!([delivery(random)]);
            if random.chance(60) {
                (timer["every"], timer["times"]) = ("1m".into(), (1 + random.below(3)).into());
            }
        }
    }
    timer
}
