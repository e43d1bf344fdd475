//! When all voters of a state may have voted without any quorum reached.

use serde_json::{Value, json};

use crate::support::{Random, compile_machine, machine_with, often};

/// Whether a definition has a problem with the code of a stalemate, and no other problem.
fn is_reported(definition: &Value) -> bool {
    let problems = compile_machine(definition).err().unwrap_or_default();
    let codes: Vec<_> = problems.iter().map(|problem| problem.code.unwrap_or_default()).collect();
    assert!(codes.iter().all(|code| *code == "QUORUM_STALEMATE"), "{problems:?}");
    !codes.is_empty()
}

fn votes(need: &Value, voters: usize) -> usize {
    match need.as_str() {
        Some("ALL") => voters,
        Some("MAJORITY") => voters / 2 + 1,
        Some("ANY") => 1,
        Some(percent) => (voters * percent.trim_end_matches('%').parse::<usize>().unwrap()).div_ceil(100),
        None => need.as_u64().unwrap() as usize,
    }
}

/// Tries every way in which all voters can vote.
fn may_stall(quorums: &[(Vec<&str>, Value)], voters: &[&str], given: &mut Vec<usize>) -> bool {
    let Some(voter) = voters.get(given.len()) else {
        let count = |action: usize| given.iter().filter(|choice| **choice == action).count();
        return quorums.iter().enumerate().all(|(action, (of, need))| count(action) < votes(need, of.len()));
    };
    (0..quorums.len()).any(|action| {
        if !quorums[action].0.contains(voter) {
            return false;
        }
        given.push(action);
        let found = may_stall(quorums, voters, given);
        given.pop();
        found
    })
}

#[test]
fn a_stalemate_of_named_voters_is_found_exactly() {
    const PEOPLE: [&str; 5] = ["ann", "bob", "cay", "dan", "eve"];
    let mut random = Random::new(7);
    let mut verdicts = [0, 0];
    for _ in 0..often(2_000) {
        let mut quorums = Vec::new();
        for _ in 0..1 + random.below(3) {
            let mut of: Vec<_> = PEOPLE.into_iter().filter(|_| random.chance(60)).collect();
            if of.is_empty() {
                of.push("ann");
            }
            let number = json!(1 + random.below(of.len()));
            let needs = [json!("ALL"), json!("MAJORITY"), json!("ANY"), json!("60%"), number];
            quorums.push((of, random.pick(&needs).clone()));
        }
        let on: serde_json::Map<_, _> = quorums
            .iter()
            .enumerate()
            .map(|(n, (of, need))| (format!("A{n}"), json!({"to": "closed", "quorum": {"of": of, "need": need}})))
            .collect();
        let definition = machine_with(&[json!({"name": "open", "initial": true, "on": on})]);
        let voters: Vec<_> =
            PEOPLE.into_iter().filter(|name| quorums.iter().any(|(of, _)| of.contains(name))).collect();
        let expected = may_stall(&quorums, &voters, &mut Vec::new());
        assert_eq!(is_reported(&definition), expected, "{definition}");
        verdicts[usize::from(expected)] += 1;
    }
    assert!(verdicts.iter().all(|count| *count > 200), "{verdicts:?}");
}

#[test]
fn a_stalemate_of_voters_in_the_context_is_possible_for_some_number_of_them() {
    let with = |approve: Value, reject: Value, more: Value| {
        let action = |need: Value| json!({"to": "closed", "quorum": {"of": ["{{ctx.reviewers}}"], "need": need}});
        let mut state =
            json!({"name": "open", "initial": true, "on": {"APPROVE": action(approve), "REJECT": action(reject)}});
        state.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        machine_with(&[state])
    };
    // Two of two reviewers, one for each.
    assert!(is_reported(&with(json!(2), json!(2), json!({}))));
    assert!(is_reported(&with(json!("MAJORITY"), json!("MAJORITY"), json!({}))));
    assert!(!is_reported(&with(json!("ALL"), json!("ANY"), json!({}))));
    assert!(!is_reported(&with(json!(2), json!(1), json!({}))));
    assert!(!is_reported(&with(json!("60%"), json!("ANY"), json!({}))));
    assert!(is_reported(&with(json!("60%"), json!("50%"), json!({}))));
    // Ways out of it.
    assert!(!is_reported(&with(json!(2), json!(2), json!({"onStalemate": "REJECT"}))));
    assert!(!is_reported(&with(json!(2), json!(2), json!({"after": [{"in": "1d", "do": "REJECT"}]}))));
    let reminder = json!({"after": [{"in": "1d", "events": [{"type": "assign", "target": "ann"}]}]});
    assert!(is_reported(&with(json!(2), json!(2), reminder)));
}

#[test]
fn quorums_of_any_caller_have_no_stalemate() {
    let open = |need: Value| json!({"to": "closed", "quorum": {"need": need}});
    let state = json!({"name": "open", "initial": true, "on": {"APPROVE": open(json!(3)), "REJECT": open(json!(2))}});
    assert!(!is_reported(&machine_with(&[state])));
}
