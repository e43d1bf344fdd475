//! The database crashes, or is unavailable for longer than every lease.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use everstep_core::time::Timestamp;
use everstep_testkit::postgres::{Cluster, Durability, TestDatabase};
use serde_json::{Value, json};

use crate::books::Books;
use crate::crowd::Crowd;
use crate::support::cluster::Site;
use crate::{LEASE, alone, flows, hasty, wait_until_all_end};

/// A server that waits for its disk, and that is stopped.
fn breakable() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(Durability::Synced))
}

/// All nodes that ever joined, and whether they are fenced.
fn nodes(database: &TestDatabase<'_>) -> Vec<String> {
    database.sql("select id || ' ' || fenced from nodes order by id")
}

#[test]
fn a_crash_of_the_database_under_load_costs_no_run_no_node_and_no_attempt() {
    let _turn = alone();
    let site = hasty(Site::on(breakable()));
    let ((one, a), (two, b)) = site.start_two();
    flows::publish_mix(&a);
    let members = nodes(&site.database);
    let crowd = Crowd::new(&[&a, &b]);
    let mut down = Vec::new();
    std::thread::scope(|scope| {
        let _load = crowd.load(scope, flows::MIX);
        for _ in 0..3 {
            crowd.wait_for_more(40);
            let began = Instant::now();
            breakable().restart_immediately();
            down.push(began.elapsed());
        }
        crowd.wait_for_more(40);
    });
    wait_until_all_end(&site.database);
    let (answers, books) = (crowd.answers(), Books::from_database(&site.database));
    println!(
        "restart -m immediate under load: down for {down:?}; {} runs, {} requests refused, \
         the longest answer took {:?}, the longest pause of a run {:?}",
        answers.runs.len(),
        answers.refused,
        answers.longest,
        books.longest_pause(&["steps", "fans"])
    );
    books.check(answers.runs.values());
    assert_eq!(books.attempts_from(2), 0, "no attempt is lost");
    assert_eq!(nodes(&site.database), members, "no node was fenced");
    assert!(members.iter().all(|node| node.ends_with("false")), "{members:?}");
    drop((one, two));
}

#[test]
fn an_outage_of_two_leases_fences_no_node_and_costs_no_attempt() {
    let _turn = alone();
    let site = hasty(Site::on(breakable()));
    let ((one, a), (two, b)) = site.start_two();
    let three = site.start();
    flows::publish_mix(&a);
    a.publish("long", &flows::steps(24, 250));
    a.publish("dreams", &flows::sleeps(3_000));
    let members = nodes(&site.database);
    let crowd = Crowd::new(&[&a, &b]);
    for workflow in ["long", "dreams", "calls"] {
        crowd.start_all(workflow, 30);
    }
    // A start during the outage is rejected at once.
    let ask = |node: usize, key: &str| {
        let start = json!({"definitionId": "steps", "idempotencyKey": key});
        [&a, &b][node % 2].post("/v1/workflow-runs", &start)
    };
    breakable().stop();
    let stopped = Instant::now();
    let mut keys = Vec::new();
    while stopped.elapsed() < 2 * LEASE {
        let (began, key) = (Instant::now(), format!("outage {}", keys.len()));
        let answer = ask(keys.len(), &key);
        assert_eq!(answer.header("retry-after"), Some("1"));
        answer.refuses(503, "UNAVAILABLE");
        assert!(began.elapsed() < Duration::from_secs(3), "a refusal took {:?}", began.elapsed());
        assert_eq!(one.stranger().get("/readyz").status, 503);
        keys.push(key);
        std::thread::sleep(Duration::from_millis(100));
    }
    // One of them returns a little after the others, which must not fence it.
    two.signal("STOP");
    breakable().start_again();
    let down = stopped.elapsed();
    let back = site.database.sql("select (extract(epoch from clock_timestamp()) * 1e6)::bigint");
    let back = Timestamp::from_micros(back[0].parse().unwrap());
    one.wait_until_ready();
    three.wait_until_ready();
    two.signal("CONT");
    two.wait_until_ready();
    let of_outage = "select count(*) from runs where idempotency_key like 'outage %'";
    assert_eq!(site.database.sql(of_outage), ["0"], "a rejected start was not written");
    let starts: Vec<Value> = keys.iter().enumerate().map(|(n, key)| ask(n, key).is(201)).collect();
    let again: Vec<Value> = keys.iter().enumerate().map(|(n, key)| ask(n + 1, key).is(200)).collect();
    let id = |answer: &Value| format!("/v1/runs/{}", answer["run"]["id"].as_str().unwrap());
    let late: Vec<_> = starts.iter().map(id).collect();
    assert_eq!(late, again.iter().map(id).collect::<Vec<_>>());

    wait_until_all_end(&site.database);
    let books = Books::from_database(&site.database);
    let answers = crowd.answers();
    books.check(answers.runs.values().chain(&late));
    assert_eq!(books.attempts_from(2), 0, "no attempt is lost");
    assert_eq!(nodes(&site.database), members, "no node was fenced");
    let live = books.accounts.iter().filter(|run| run.row.created_at < back && run.row.ended_at > Some(back));
    let pauses: Vec<_> = live.map(|run| run.first_since(back).unwrap().at.since(back)).collect();
    let longest = pauses.iter().max().unwrap();
    println!(
        "PostgreSQL stopped for {down:?}: {} starts refused; the last of {} live runs went on {longest:?} after it was back",
        keys.len(),
        pauses.len(),
    );
    assert!(pauses.len() >= 30, "only {} runs were alive", pauses.len());
    assert!(*longest < Duration::from_secs(3), "a run went on {longest:?} after the database was back");
}
