//! Nodes are replaced one after the other under load.

use std::time::{Duration, Instant};

use crate::books::Books;
use crate::crowd::Crowd;
use crate::{alone, flows, site, wait_until_all_end};

#[test]
fn a_rolling_restart_under_load_is_hardly_felt() {
    let _turn = alone();
    let site = site();
    let ((one, a), (two, b)) = site.start_two();
    flows::publish_mix(&a);
    let crowd = Crowd::new(&[&a, &b]);
    let mut stops = Vec::new();
    std::thread::scope(|scope| {
        let load = crowd.load(scope, flows::MIX);
        let mut nodes = vec![(one, a), (two, b)];
        for _ in 0..2 {
            crowd.wait_for_more(40);
            // Clients continue to use the node that stops until there is another in its place.
            let (old, _) = nodes.remove(0);
            let began = Instant::now();
            old.stop();
            stops.push(began.elapsed());
            let new = site.start();
            let client = new.client();
            nodes.push((new, client));
            crowd.ask(&[&nodes[0].1, &nodes[1].1]);
        }
        crowd.wait_for_more(40);
        drop(load);
        wait_until_all_end(&site.database);
    });
    let (answers, books) = (crowd.answers(), Books::from_database(&site.database));
    let pause = books.longest_pause(&["steps", "fans", "naps"]);
    println!(
        "rolling restart: stops took {stops:?}; {} runs, {} requests refused, the longest answer took {:?}, \
         the longest pause of a run {pause:?}, {} steps dispatched again",
        answers.runs.len(),
        answers.refused,
        answers.longest,
        books.attempts_from(2)
    );
    books.check(answers.runs.values());
    // The longest sleep of a run is half a second.
    assert!(pause < Duration::from_millis(2_500), "a run stood still for {pause:?}");
    assert!(answers.longest < Duration::from_secs(5), "a request was refused for {:?}", answers.longest);
}
