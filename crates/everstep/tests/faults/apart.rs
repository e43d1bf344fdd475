//! Nodes that reach the database and not each other: everything is correct, and slower.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use everstep_core::time::Timestamp;
use serde_json::{Value, json};

use crate::books::Books;
use crate::support::cluster::Site;
use crate::support::wait_for;
use crate::{alone, flows, wait_until_all_end};

#[test]
fn nodes_that_cannot_reach_each_other_do_the_same_work() {
    let _turn = alone();
    // A port that is closed again: no process listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let site = Site::new().set("EVERSTEP_ADVERTISE_URL", &format!("http://127.0.0.1:{port}"));
    let ((one, a), (two, b)) = site.start_two();
    a.publish("works", &flows::waits_at_work(500));
    a.publish("held", &flows::waits_at_work(2_500));
    a.publish("waits", &flows::waits());
    a.publish("steps", &flows::steps(2, 400));
    let mut runs = Vec::new();

    // A run of another node: nothing is written, and its owner still listens.
    let held = a.start("held", &json!({}));
    let version = b.get(&held).is(200)["version"].clone();
    let began = Instant::now();
    let answer = b.post(&format!("{held}/signals/go"), &json!({}));
    let refused = began.elapsed();
    assert_eq!(answer.header("retry-after"), Some("1"));
    answer.refuses(503, "UNAVAILABLE");
    b.post(&format!("{held}/cancel"), &Value::Null).refuses(503, "UNAVAILABLE");
    let shown = b.get(&held).is(200);
    assert_eq!((&shown["version"], &shown["owner"]), (&version, &json!(one.node())));
    assert!(refused < Duration::from_secs(2), "the refusal took {refused:?}");
    assert_eq!(a.post(&format!("{held}/signals/go"), &json!({})).is(200)["outcome"], "accepted");
    runs.push(held);

    // A parked run is handled by the node that receives the request.
    let parked = a.start("waits", &json!({}));
    wait_for("the run to be parked", || b.get(&parked).is(200)["owner"].is_null().then_some(()));
    let began = Instant::now();
    assert_eq!(b.post(&format!("{parked}/signals/go"), &json!({})).is(200)["outcome"], "accepted");
    assert_eq!(b.wait(&parked)["status"], "completed");
    let signalled = began.elapsed();
    runs.push(parked);

    // A node that watches a run of another node polls.
    let late: Vec<_> = (0..3)
        .map(|_| {
            let run = a.start("steps", &json!({}));
            let ended = b.wait(&run);
            let heard_at = Timestamp::EPOCH.plus(SystemTime::now().duration_since(UNIX_EPOCH).unwrap());
            let ended_at: Timestamp = ended["endedAt"].as_str().unwrap().parse().unwrap();
            runs.push(run);
            heard_at.since(ended_at)
        })
        .collect();
    println!(
        "nodes apart: another's run refused after {refused:?}, a parked one signalled and done after {signalled:?}, \
         the end of a run elsewhere seen after {late:?}"
    );
    assert!(signalled < Duration::from_secs(1), "{signalled:?}");
    assert!(late.iter().all(|late| *late < Duration::from_millis(1_500)), "{late:?}");
    wait_until_all_end(&site.database);
    Books::from_database(&site.database).check(&runs);
    drop((one, two));
}

#[test]
fn children_come_home_between_nodes_that_cannot_reach_each_other() {
    let _turn = alone();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let site = Site::new().set("EVERSTEP_ADVERTISE_URL", &format!("http://127.0.0.1:{port}"));
    // The nodes of the parents have no room for the children.
    let one = site.start_with(&["--max-active-runs", "1"]);
    let two = site.start();
    let (a, b) = (one.client(), two.client());
    a.publish("steps", &flows::steps(2, 300));
    a.publish("calls", &flows::calls("steps"));
    let began = Instant::now();
    let runs: Vec<_> = (0..6).map(|_| a.start("calls", &json!({}))).collect();
    for run in &runs {
        assert_eq!(b.wait(run)["status"], "completed");
    }
    println!("nodes apart: 6 parents with a child each took {:?}", began.elapsed());
    let books = Books::from_database(&site.database);
    books.check(&runs);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
