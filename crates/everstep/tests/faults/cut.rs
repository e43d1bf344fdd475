//! Connections to the database are cut, during a request and between a commit and its reply, or become silent.

use std::time::{Duration, Instant};

use crate::books::Books;
use crate::crowd::Crowd;
use crate::support::proxy::Proxy;
use crate::{alone, flows, site, wait_until_all_end};

#[test]
fn connections_cut_in_the_middle_of_commits_cost_nothing() {
    let _turn = alone();
    let site = site();
    let proxy = Proxy::before(site.database.cluster().port(), 7);
    let url = site.database.cluster().url_at(proxy.port(), site.database.name());
    let (one, two) = (site.start_at(&url, &[]), site.start_at(&url, &[]));
    let (a, b) = (one.client(), two.client());
    flows::publish_mix(&a);
    let members = site.database.sql("select id || ' ' || fenced from nodes order by id");
    let crowd = Crowd::new(&[&a, &b]);
    std::thread::scope(|scope| {
        let load = crowd.load(scope, flows::MIX);
        proxy.cut(12);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(6) {
            crowd.wait_for_more(1);
        }
        drop(load);
    });
    // The rest is done while connections are still cut.
    wait_until_all_end(&site.database);
    proxy.cut(0);
    let (answers, books, cuts) = (crowd.answers(), Books::from_database(&site.database), proxy.cuts());
    println!(
        "connections cut: {cuts:?}; {} runs with {} entries, {} requests refused, the longest answer took {:?}, \
         the longest pause of a run {:?}",
        answers.runs.len(),
        books.entries(),
        answers.refused,
        answers.longest,
        books.longest_pause(&["steps", "fans"])
    );
    books.check(answers.runs.values());
    assert_eq!(books.attempts_from(2), 0, "no attempt is lost");
    assert_eq!(site.database.sql("select id || ' ' || fenced from nodes order by id"), members, "no node was fenced");
    let resent = [&one, &two].map(|node| node.said().matches("commit failed; sending it again").count());
    assert!(resent.iter().all(|resent| *resent > 5), "commits sent again: {resent:?}");
    assert!(cuts.half > 20 && cuts.blind > 20 && cuts.unanswered > 40, "{cuts:?}");
    assert!(answers.runs.len() > 50, "only {} runs were started", answers.runs.len());
}

#[test]
fn connections_that_fall_silent_cost_a_node_neither_its_lease_nor_an_attempt() {
    let _turn = alone();
    let site = site();
    let proxy = Proxy::before(site.database.cluster().port(), 7);
    let url = site.database.cluster().url_at(proxy.port(), site.database.name());
    let (one, two) = (site.start_at(&url, &[]), site.start());
    let (a, b) = (one.client(), two.client());
    flows::publish_mix(&a);
    let members = site.database.sql("select id || ' ' || fenced from nodes order by id");
    let crowd = Crowd::new(&[&a, &b]);
    // The tick is the next request, and then many follow.
    let long = Crowd::new(&[&a]);
    a.publish("long", &flows::steps(1, 4_000));
    long.start_all("long", 30);
    let silenced = proxy.silence();
    std::thread::scope(|scope| {
        let load = crowd.load(scope, flows::MIX);
        crowd.wait_for_more(60);
        drop(load);
    });
    wait_until_all_end(&site.database);
    let (answers, books) = (crowd.answers(), Books::from_database(&site.database));
    println!(
        "{silenced} connections silenced: {} runs, {} requests refused, the longest answer took {:?}, \
         the longest pause of a run {:?}",
        answers.runs.len(),
        answers.refused,
        answers.longest,
        books.longest_pause(&["steps", "fans"])
    );
    books.check(answers.runs.values().chain(long.answers().runs.values()));
    assert!(silenced > 1, "{silenced}");
    assert_eq!(books.attempts_from(2), 0, "no attempt is lost");
    assert_eq!(site.database.sql("select id || ' ' || fenced from nodes order by id"), members, "no node was fenced");
}
