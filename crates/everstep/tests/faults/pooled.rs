//! PgBouncer in transaction mode before the database.

use everstep_testkit::postgres::Cluster;

use crate::books::Books;
use crate::crowd::Crowd;
use crate::support::cluster::Site;
use crate::support::{Folder, call};
use crate::{alone, flows, site, wait_until_all_end};

#[test]
fn a_mixed_load_completes_through_a_pooler() {
    let _turn = alone();
    let site = site().set("EVERSTEP_DATABASE_POOLED", "true");
    let pooler = site.database.cluster().pooler("");
    let url = pooler.url(site.database.name());
    let (one, two) = (site.start_at(&url, &[]), site.start_at(&url, &[]));
    let (a, b) = (one.client(), two.client());
    flows::publish_mix(&a);
    let crowd = Crowd::new(&[&a, &b]);
    std::thread::scope(|scope| {
        let _load = crowd.load(scope, flows::MIX);
        crowd.wait_for_more(100);
    });
    wait_until_all_end(&site.database);
    let (answers, books) = (crowd.answers(), Books::from_database(&site.database));
    println!(
        "through PgBouncer: {} runs with {} entries over 4 connections, the longest answer took {:?}",
        answers.runs.len(),
        books.entries(),
        answers.longest
    );
    books.check(answers.runs.values());
    assert_eq!((books.attempts_from(2), answers.refused), (0, 0));
    for said in [one.stop(), two.stop()] {
        let is_expected = |line: &&str| !line.contains("EVERSTEP_OPS_WEBHOOK_URL is not set");
        let warnings = said.lines().filter(is_expected).filter(|line| line.contains("WARN") || line.contains("ERROR"));
        assert_eq!(warnings.count(), 0, "{said}");
    }
}

#[test]
fn an_unconfigured_pooler_is_detected_at_the_start() {
    let _turn = alone();
    // By default PgBouncer rejects settings of a connection; with this option it drops them.
    for settings in ["", "ignore_startup_parameters = options"] {
        let (site, folder) = (Site::on(Cluster::shared()), Folder::new());
        let pooler = site.database.cluster().pooler(settings);
        let url = pooler.url(site.database.name());
        let output = call(&["serve", "--listen", "127.0.0.1:0", "--data", &folder.at("data"), "--database-url", &url]);
        output
            .exits(2)
            .says("a connection pooler is between this node and PostgreSQL")
            .says("EVERSTEP_DATABASE_POOLED=true");
    }
}
