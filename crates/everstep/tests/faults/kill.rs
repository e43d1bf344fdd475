//! A node is killed without a warning.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::books::Books;
use crate::crowd::Crowd;
use crate::support::wait_for;
use crate::{LEASE, alone, flows, site, wait_until_all_end};

/// Runs of each kind.
const EACH: usize = 48;

#[test]
fn the_runs_of_a_killed_node_go_on_elsewhere_within_two_leases() {
    let _turn = alone();
    let site = site();
    let ((one, a), (two, b)) = site.start_two();
    a.publish("steps", &flows::steps(2, 3_000));
    a.publish("sleeps", &flows::sleeps(7_000));
    a.publish("naps", &flows::sleeps(4_500));
    a.publish("waits", &flows::waits());
    a.publish("works", &flows::waits_at_work(4_000));
    let crowd = Crowd::new(&[&a]);
    let kinds = ["sleeps", "waits", "works", "steps", "naps"];
    let runs: BTreeMap<_, _> = kinds.iter().map(|kind| (*kind, crowd.start_all(kind, EACH))).collect();

    let (dead, heir) = (one.node(), two.node());
    let live = site.database.sql("select count(*) from runs where ended_at is null");
    let owned = site.database.sql(&format!(
        "select workflow, count(*) from runs where ended_at is null and owner = '{dead}' group by 1 order by 1"
    ));
    assert_eq!(owned, ["naps|48", "steps|48", "works|48"], "the others are parked");
    one.kill();
    let killed = Instant::now();
    crowd.ask(&[&b]);
    // A run in a step continues when the step is dispatched again, a sleeping run when another node has its timer.
    let left = format!(
        "select
            (select count(*) from runs where owner = '{dead}'),
            (select count(*) from runs where ended_at is null and owner is null and wake_at <= extract(epoch from now()) * 1e6),
            (select count(*) from runs where workflow in ('steps', 'works') and not exists (
                select from journal where run_id = runs.id and writer = '{heir}' and kind = 2 and attempt = 2))"
    );
    wait_for("every run to go on", || (site.database.sql(&left) == ["0|0|0"]).then_some(()));
    let took = killed.elapsed();
    println!("kill -9 of a node: {} live runs; the last of its {} went on after {took:?}", live[0], 3 * EACH);
    assert!(took < 2 * LEASE, "the last run went on after {took:?}");
    assert!(live[0].parse::<usize>().unwrap() >= 200, "only {} runs were alive", live[0]);

    crowd.signal_all(&runs["waits"]);
    crowd.signal_all(&runs["works"]);
    wait_until_all_end(&site.database);
    let books = Books::from_database(&site.database);
    books.check(runs.values().flatten());
    // Only steps in progress at the kill are repeated.
    assert_eq!((books.attempts_from(2), books.attempts_from(3)), (2 * EACH, 0));
    drop(two);
}

#[test]
fn a_node_that_is_killed_and_started_again_finds_its_runs() {
    let _turn = alone();
    let site = site();
    let node = site.start();
    let client = node.client();
    client.publish("steps", &flows::steps(2, 1_000));
    client.publish("waits", &flows::waits());
    let crowd = Crowd::new(&[&client]);
    let waiting = crowd.start_all("waits", 10);
    crowd.start_all("steps", 20);
    let dead = node.node();
    node.kill();
    let killed = Instant::now();
    let node = site.start();
    crowd.ask(&[&node.client()]);
    // No node owns a parked run: it need not wait for the end of a lease.
    crowd.signal_all(&waiting);
    let signalled = killed.elapsed();
    let left = format!("select count(*) from runs where owner = '{dead}'");
    wait_for("its runs to be taken up", || (site.database.sql(&left) == ["0"]).then_some(()));
    let adopted = killed.elapsed();
    println!("kill -9 of the only node: parked runs signalled after {signalled:?}, its own taken up after {adopted:?}");
    assert!(adopted < 2 * LEASE, "its runs were taken up after {adopted:?}");
    wait_until_all_end(&site.database);
    let books = Books::from_database(&site.database);
    books.check(crowd.answers().runs.values());
    assert_eq!((books.attempts_from(2), books.attempts_from(3)), (20, 0));
}
