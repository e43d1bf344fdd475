//! Many persons act in one run at the same moment.

use std::sync::Barrier;
use std::thread;

use serde_json::{Value, json};

use crate::alone;
use crate::office::{Office, Person, entries, levels, name};

const PERSONS: usize = 50;
/// How often each contest is repeated.
const REPETITIONS: usize = 100;

/// All persons send a request at the same moment, again and again: `prepare` makes the run of each round, `judge` gets
/// the answers with the names of the persons.
fn repeat(
    persons: &mut [Person],
    rounds: usize,
    request: &Value,
    mut prepare: impl FnMut() -> String,
    judge: impl Fn(&str, Vec<(String, u16, Value)>),
) {
    for _ in 0..rounds {
        let run = prepare();
        let start = Barrier::new(persons.len());
        let act = |person: &mut Person| {
            start.wait();
            let (status, body) = person.acts(&run, request, None);
            (person.name.clone(), status, body)
        };
        let answers = thread::scope(|scope| {
            let act = &act;
            let acting: Vec<_> = persons.iter_mut().map(|person| scope.spawn(move || act(person))).collect();
            acting.into_iter().map(|acting| acting.join().unwrap()).collect()
        });
        judge(&run, answers);
    }
}

fn has(answers: &[(String, u16, Value)], status: u16) -> usize {
    answers.iter().filter(|(_, answered, _)| *answered == status).count()
}

/// One person approves, and all others learn who it was.
fn contest(office: &Office, workflow: &str, is_in_memory: bool, version: Option<u32>, rounds: usize) {
    let mut request = json!({"action": "APPROVE"});
    if let Some(version) = version {
        request["version"] = json!(version);
    }
    let mut persons = office.persons(PERSONS);
    // The connections are open, and the tokens are verified.
    for person in &mut persons {
        person.get("/v1/me").unwrap();
    }
    let judge = |run: &str, answers: Vec<(String, u16, Value)>| {
        assert_eq!((has(&answers, 200), has(&answers, 409)), (1, PERSONS - 1), "{answers:?}");
        let (winner, ..) = answers.iter().find(|(_, status, _)| *status == 200).unwrap();
        for (_, _, body) in answers.iter().filter(|(_, status, _)| *status == 409) {
            assert_eq!(body["lastBy"], json!({"kind": "person", "id": winner}), "{body}");
            assert_eq!((&body["versionNo"], body["lastAt"].is_string()), (&json!(2), true), "{body}");
        }
        assert_eq!(entries(&office.admin(), run, "TransitionApplied").len(), 2);
    };
    repeat(&mut persons, rounds, &request, || office.start_run(workflow, is_in_memory), judge);
}

fn approve_at_once(office: &Office) {
    let admin = office.admin();
    // A limit that is due within the time after which nodes park runs.
    for (kind, limit) in [("memory", Some("25s")), ("parked", None)] {
        admin.publish(&format!("one-{kind}"), &levels(&["review"], limit));
        admin.publish(&format!("two-{kind}"), &levels(&["review", "again"], limit));
    }
    for (kind, is_in_memory) in [("memory", true), ("parked", false)] {
        contest(office, &format!("one-{kind}"), is_in_memory, Some(1), REPETITIONS);
        contest(office, &format!("one-{kind}"), is_in_memory, None, REPETITIONS);
        contest(office, &format!("two-{kind}"), is_in_memory, Some(1), REPETITIONS);
    }
}

#[test]
fn fifty_approvals_of_one_run_are_one() {
    let _turn = alone();
    approve_at_once(&Office::on_sqlite());
}

#[test]
fn fifty_approvals_of_one_run_at_two_nodes_are_one() {
    let _turn = alone();
    approve_at_once(&Office::on_postgres());
}

#[test]
fn fifty_votes_of_which_twenty_five_are_needed() {
    let _turn = alone();
    for office in [Office::on_sqlite(), Office::on_postgres()] {
        let voters: Vec<_> = (0..PERSONS).map(name).collect();
        let vote = json!({"states": [
            {"name": "vote", "initial": true, "on": {"YES": {"to": "done", "quorum": {"of": voters, "need": 25}}}},
            {"name": "done", "terminal": true},
        ]});
        office.admin().publish("vote", &vote);
        let judge = |run: &str, answers: Vec<(String, u16, Value)>| {
            assert_eq!((has(&answers, 200), has(&answers, 409)), (25, 25), "{answers:?}");
            let moved: Vec<_> = answers.iter().filter(|(_, _, body)| body["applied"] == true).collect();
            assert_eq!(moved.len(), 1, "{moved:?}");
            let admin = office.admin();
            assert_eq!(entries(&admin, run, "VoteCast").len(), 25);
            let applied = entries(&admin, run, "TransitionApplied");
            assert_eq!((applied.len(), applied[1]["data"]["votes"].as_array().unwrap().len()), (2, 25));
        };
        for request in [json!({"action": "YES", "version": 1}), json!({"action": "YES"})] {
            repeat(&mut office.persons(PERSONS), 5, &request, || office.start_run("vote", false), judge);
        }
    }
}
