//! Nodes are killed while persons approve: every answer is true.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::alone;
use crate::office::{Person, entries, levels, site};
use crate::support::{Server, wait_for};

const TRANSITIONS: usize = 200;
const PERSONS: usize = 8;
/// A node is killed after each of these many requests.
const KILL_EVERY: usize = 25;

/// What a person knows of a request.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    Answered(Value),
    Refused(u16),
    /// The connection broke, or the outcome is unknown.
    Unknown,
}

#[test]
fn a_killed_owner_s_approval_is_known_or_not_written() {
    let _turn = alone();
    let site = site();
    let servers = RwLock::new([site.start(), site.start()]);
    let admin = servers.read().unwrap()[0].client();
    admin.publish("held", &levels(&["review"], Some("25s")));
    admin.publish("parked", &levels(&["review"], None));
    let workflow = |n: usize| if n.is_multiple_of(2) { "held" } else { "parked" };
    let runs: Vec<_> = (0..TRANSITIONS).map(|n| admin.start(workflow(n), &json!({}))).collect();
    let (next, fates) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let request = json!({"action": "APPROVE", "version": 1});
    thread::scope(|scope| {
        for n in 0..PERSONS {
            let (servers, next, fates, runs, request) = (&servers, &next, &fates, &runs, &request);
            scope.spawn(move || {
                let mut person = Person::new(&format!("person-{n}"), &servers.read().unwrap()[n % 2]);
                loop {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    let Some(run) = runs.get(index) else { return };
                    person.turn_to(&servers.read().unwrap()[(n + index) % 2]);
                    let fate = match person.act(run, request, Some(&format!("k{index}"))) {
                        Ok((200, body)) => Fate::Answered(body),
                        Ok((504, _)) | Err(_) => Fate::Unknown,
                        Ok((status, _)) => Fate::Refused(status),
                    };
                    fates.lock().unwrap().insert(index, (person.name.clone(), fate));
                }
            });
        }
        for round in 1..TRANSITIONS / KILL_EVERY {
            wait_for("some requests", || (next.load(Ordering::SeqCst) >= round * KILL_EVERY).then_some(()));
            let dead = round % 2;
            let started = {
                let mut servers = servers.write().unwrap();
                let fresh = site.start();
                std::mem::replace(&mut servers[dead], fresh)
            };
            started.kill();
        }
    });
    let servers = servers.into_inner().unwrap();
    let (admin, fates) = (servers[0].client(), fates.into_inner().unwrap());
    let (mut answered, mut unknown) = (0, 0);
    for (index, run) in runs.iter().enumerate() {
        let (person, fate) = &fates[&index];
        let written: Vec<_> = entries(&admin, run, "TransitionApplied").split_off(1);
        match fate {
            Fate::Answered(body) => {
                answered += 1;
                assert_eq!(written.len(), 1, "{run}: an approval was answered, and is not written once");
                assert_eq!(written[0]["data"]["by"], json!(person), "{run}");
                // The repeated request is answered as before, also if another node owns the run by now.
                let mut again = Person::new(person, &servers[index % 2]);
                let repeated = settle(&mut again, run, &request, &format!("k{index}"));
                assert_eq!(&repeated.1, body, "{run}");
            }
            Fate::Refused(status) => {
                assert_eq!((written.len(), *status), (0, 503), "{run}: a refused approval is written");
            }
            Fate::Unknown => {
                unknown += 1;
                assert!(written.len() <= 1, "{run}: {written:?}");
                // The same request again learns the outcome, or performs it once.
                let mut again = Person::new(person, &servers[index % 2]);
                assert_eq!(settle(&mut again, run, &request, &format!("k{index}")).0, 200, "{run}");
                assert_eq!(entries(&admin, run, "TransitionApplied").len(), 2, "{run}");
            }
        }
    }
    println!("{answered} of {TRANSITIONS} approvals were answered, {unknown} are unknown");
    assert!(answered > TRANSITIONS / 2, "{answered} approvals were answered");
}

/// Repeats a request until a node that was killed has lost its runs.
fn settle(person: &mut Person, run: &str, request: &Value, key: &str) -> (u16, Value) {
    wait_for("an answer", || person.act(run, request, Some(key)).ok().filter(|(status, _)| *status < 500))
}

#[test]
fn parked_approvals_go_on_at_once_when_a_node_is_killed() {
    let _turn = alone();
    let site = site();
    let ((one, a), (two, b)) = site.start_two();
    a.publish("parked", &levels(&["review"], None));
    let runs: Vec<_> = (0..20).map(|_| a.start("parked", &json!({}))).collect();
    let is_parked = |run: &String| a.get(run).is(200)["owner"].is_null();
    wait_for("the runs to be parked", || runs.iter().all(is_parked).then_some(()));
    one.kill();
    let (mut ann, began) = (Person::new("ann", &two), Instant::now());
    for run in &runs {
        let (status, body) = ann.acts(run, &json!({"action": "APPROVE"}), None);
        assert_eq!((status, &body["isCompleted"]), (200, &json!(true)), "{body}");
    }
    // No run waits for the end of the dead node's lease.
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(runs.iter().all(|run| b.get(run).is(200)["status"] == "completed"));
    drop::<Server>(two);
}
