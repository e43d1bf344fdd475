//! Runs that call runs on other nodes.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::books::Books;
use crate::support::cluster::Site;
use crate::support::{Client, Server, wait_for};
use crate::{LEASE, alone, flows, site, wait_until_all_end};

/// A parent at a node that has room for one run, and the child at another.
struct Family {
    parent: String,
    child: String,
    full: Server,
    free: Server,
}

/// The clients: of the parent's node, and of the child's.
fn clients(family: &Family) -> (Client, Client) {
    (family.full.client(), family.free.client())
}

fn family(site: &Site<'_>, child: &Value) -> Family {
    let (full, free) = (site.start_with(&["--max-active-runs", "1"]), site.start());
    let client = full.client();
    client.publish("child", child);
    client.publish("parent", &flows::calls_at_work("child", 1_000));
    let parent = client.start("parent", &json!({}));
    assert_eq!(client.get(&parent).is(200)["owner"], json!(full.node()), "the parent is where it was started");
    let child = wait_for("the child to be elsewhere", || {
        let sql = format!("select id from runs where parent is not null and owner = '{}'", free.node());
        site.database.sql(&sql).first().map(|id| format!("/v1/runs/{id}"))
    });
    Family { parent, child, full, free }
}

#[test]
fn a_child_at_another_node_comes_home() {
    let _turn = alone();
    let site = site();
    let family = family(&site, &flows::steps(2, 300));
    let (a, b) = clients(&family);
    assert_eq!(b.wait(&family.parent)["status"], "completed");
    assert_eq!(a.get(&family.child).is(200)["status"], "completed");
    let writers = |run: &str| a.journal(run).iter().map(|entry| entry["writer"].clone()).collect::<Vec<_>>();
    // The node without room has written the run; the other node does the rest.
    let (first, rest) = (writers(&family.child)[0].clone(), writers(&family.child)[1..].to_vec());
    assert_eq!(first, json!(family.full.node()));
    assert!(rest.iter().all(|writer| *writer == json!(family.free.node())), "{rest:?}");
    wait_until_all_end(&site.database);
    Books::from_database(&site.database).check([&family.parent]);
}

#[test]
fn a_parent_completes_though_the_node_of_its_child_was_killed() {
    let _turn = alone();
    let site = site();
    let Family { parent, child, full, free } = family(&site, &flows::steps(2, 1_500));
    let a = full.client();
    free.kill();
    let killed = Instant::now();
    wait_for("the child to be taken up", || (a.get(&child).is(200)["owner"] == json!(full.node())).then_some(()));
    let adopted = killed.elapsed();
    assert_eq!(a.wait(&parent)["status"], "completed");
    println!(
        "kill -9 of a child's node: the child went on after {adopted:?}, the parent ended after {:?}",
        killed.elapsed()
    );
    assert!(adopted < 2 * LEASE, "the child went on after {adopted:?}");
    wait_until_all_end(&site.database);
    Books::from_database(&site.database).check([&parent]);
}

#[test]
fn cancelling_a_parent_at_any_node_cancels_a_child_at_any_other() {
    let _turn = alone();
    let site = site();
    let family = family(&site, &flows::steps(1, 25_000));
    let (_, b) = clients(&family);
    let began = Instant::now();
    // The other node owns the parent, or no node while it waits.
    assert_eq!(b.post(&format!("{}/cancel", family.parent), &Value::Null).is(200)["outcome"], "accepted");
    assert_eq!(b.wait(&family.child)["status"], "cancelled");
    println!("a parent cancelled at the child's node: the child ended after {:?}", began.elapsed());
    assert_eq!(b.get(&family.parent).is(200)["status"], "cancelled");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}
