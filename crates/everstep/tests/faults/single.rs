//! The same on SQLite, where a server is alone: it may be suspended for any time, and a kill costs only the steps in
//! progress.

use std::time::{Duration, Instant};

use crate::books::Books;
use crate::crowd::Crowd;
use crate::support::{Client, Folder, Server, wait_for};
use crate::{LEASE, alone, flows};

fn wait_until_all_end(client: &Client) {
    for status in ["pending", "running", "waiting"] {
        let list = format!("/v1/runs?status={status}&limit=1");
        wait_for("every run to end", || client.get(&list).is(200)["runs"].as_array().unwrap().is_empty().then_some(()));
    }
}

#[test]
fn a_server_alone_is_stopped_for_two_leases_and_nothing_happens() {
    let _turn = alone();
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let client = server.client();
    flows::publish_mix(&client);
    let crowd = Crowd::new(&[&client]);
    let node = server.node();
    std::thread::scope(|scope| {
        let _load = crowd.load(scope, flows::MIX);
        crowd.wait_for_more(40);
        server.signal("STOP");
        std::thread::sleep(2 * LEASE);
        server.signal("CONT");
        crowd.wait_for_more(20);
    });
    wait_until_all_end(&client);
    assert_eq!(server.node(), node, "no other node exists that could have fenced it");
    server.stop();
    let (answers, books) = (crowd.answers(), Books::from_folder(&folder.path().join("data")));
    println!("SQLite, SIGSTOP for {:?}: {} runs, {} requests refused", 2 * LEASE, answers.runs.len(), answers.refused);
    books.check(answers.runs.values());
    assert_eq!((books.attempts_from(2), answers.refused), (0, 0));
}

#[test]
fn a_server_killed_under_load_again_and_again_loses_nothing_that_it_answered() {
    let _turn = alone();
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let client = server.client();
    flows::publish_mix(&client);
    let crowd = Crowd::new(&[&client]);
    let mut ready = Vec::new();
    let server = std::thread::scope(|scope| {
        let mut server = server;
        let _load = crowd.load(scope, flows::MIX);
        for _ in 0..4 {
            crowd.wait_for_more(25);
            server.kill();
            let began = Instant::now();
            server = Server::start(&data);
            ready.push(began.elapsed());
            crowd.ask(&[&server.client()]);
        }
        crowd.wait_for_more(25);
        server
    });
    wait_until_all_end(&server.client());
    let said = server.stop();
    let (answers, books) = (crowd.answers(), Books::from_folder(&folder.path().join("data")));
    println!(
        "SQLite, kill -9 under load: ready again after {ready:?}; {} runs, {} requests refused, \
         {} steps done again, the longest pause of a run {:?}",
        answers.runs.len(),
        answers.refused,
        books.attempts_from(2),
        books.longest_pause(&["steps", "fans", "naps"])
    );
    books.check(answers.runs.values());
    assert!(books.attempts_from(2) > 0, "something was under way at a kill");
    assert!(ready.iter().all(|ready| *ready < Duration::from_secs(5)), "{ready:?}");
    assert!(!said.contains("ERROR"), "{said}");
}
