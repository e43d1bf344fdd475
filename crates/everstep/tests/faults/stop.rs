//! A node is suspended for longer than its lease, does not notice it, and resumes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::books::Books;
use crate::crowd::Crowd;
use crate::support::wait_for;
use crate::{LEASE, alone, flows, site, wait_until_all_end};

#[test]
fn a_node_that_was_stopped_past_its_lease_writes_nothing_when_it_wakes() {
    let _turn = alone();
    let site = site();
    let ((one, a), (two, b)) = site.start_two();
    flows::publish_mix(&a);
    a.publish("long", &flows::steps(8, 500));
    a.publish("works", &flows::waits_at_work(3_000));
    let old = one.node();
    let row =
        format!("select fenced, (select count(*) from runs where owner = nodes.id) from nodes where id = '{old}'");
    let written = format!("select count(*) from journal where writer = '{old}'");

    let here = Crowd::new(&[&a]);
    here.start_all("long", 40);
    let waiting = here.start_all("works", 20);
    let crowd = Crowd::new(&[&a, &b]);
    let late = std::thread::scope(|scope| {
        let load = crowd.load(scope, flows::MIX);
        crowd.wait_for_more(30);
        one.signal("STOP");
        let stopped = Instant::now();
        crowd.ask(&[&b]);
        wait_for("its runs to be adopted", || (site.database.sql(&row) == ["t|0"]).then_some(()));
        let adopted = stopped.elapsed();
        let before = site.database.sql(&written);
        // A request to a suspended node is answered when it resumes.
        let late = scope.spawn(|| {
            let start = json!({"definitionId": "steps", "idempotencyKey": "late"});
            let answer = a.post("/v1/workflow-runs", &start);
            assert!([200, 201, 503, 504].contains(&answer.status), "{} {}", answer.status, answer.body);
            crowd.start("steps", "late")
        });
        let signal = scope.spawn(|| {
            let answer = a.post_with(&format!("{}/signals/go", waiting[0]), &[("idempotency-key", "go")], &json!({}));
            assert!([200, 503, 504].contains(&answer.status), "{} {}", answer.status, answer.body);
        });
        one.signal("CONT");
        let woken = Instant::now();
        wait_for("it to join again", || {
            let answer = one.stranger().get("/readyz");
            (answer.status == 200 && answer.body["node"] != json!(old)).then_some(())
        });
        let joined = woken.elapsed();
        println!(
            "SIGSTOP past the lease: runs adopted after {adopted:?}, {} entries by the old id, \
             a member again {joined:?} after SIGCONT",
            before[0]
        );
        assert!(adopted < 2 * LEASE, "its runs were adopted after {adopted:?}");
        assert!(joined < Duration::from_secs(5), "it joined again after {joined:?}");
        signal.join().unwrap();
        // It serves again, under another id.
        crowd.ask(&[&a, &b]);
        let run = a.start("steps", &json!({"idempotencyKey": "again"}));
        crowd.wait_for_more(10);
        drop(load);
        here.ask(&[&a]);
        here.signal_all(&waiting);
        assert_eq!(a.wait(&run)["status"], "completed");
        assert!(a.journal(&run).iter().all(|entry| entry["writer"] == json!(one.node())));
        wait_until_all_end(&site.database);
        assert_eq!(site.database.sql(&written), before, "it wrote nothing under its old id");
        late.join().unwrap();
        run
    });
    wait_until_all_end(&site.database);
    assert_eq!(site.database.sql(&row), ["t|0"], "once fenced, always fenced");
    let fenced = site.database.sql("select count(*) from nodes where fenced");
    assert_eq!((fenced, one.node() == old), (vec!["1".to_owned()], false));
    let (here, crowd) = (here.answers().runs, crowd.answers().runs);
    Books::from_database(&site.database).check(here.values().chain(crowd.values()).chain([&late]));
    drop(two);
}
