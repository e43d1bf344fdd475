//! The audit: actions and their actors, newest first.

use std::sync::Arc;

use everstep_core::actor::Actor;
use everstep_core::ids::RunId;
use everstep_core::payload::Payload;
use everstep_store::{AccessStore, AuditFilter, AuditRow, Stores};
use serde_json::json;
use uuid::Uuid;

use crate::contract::fixtures::*;

const DAY: i64 = 86_400;

/// An action at a time, with an id of that time.
fn done(seconds: i64, actor: &str, action: &str) -> AuditRow {
    AuditRow {
        id: RunId::new(at(seconds), new_run().uuid().as_u128()).uuid(),
        workspace: HERE,
        at: at(seconds),
        actor: Actor::from_text(actor),
        action: action.to_owned(),
        target: "/v1/runs/7 ✓'\"".to_owned(),
        details: Payload::from(json!({ "status": 200, "key": "ünïcode ✓" })),
    }
}

async fn list(store: &dyn AccessStore, filter: AuditFilter) -> Vec<AuditRow> {
    store.list_audit(HERE, filter, None, 100).await.unwrap()
}

pub async fn what_was_done_is_listed_newest_first(store: Arc<dyn AccessStore>) {
    let rows: Vec<_> = [3, 1, 2].into_iter().map(|seconds| done(seconds, "key:1", "POST /v1/runs")).collect();
    store.add_audit(&rows).await.unwrap();
    let elsewhere = AuditRow { workspace: new_workspace(), ..done(4, "key:1", "POST /v1/runs") };
    store.add_audit(std::slice::from_ref(&elsewhere)).await.unwrap();
    store.add_audit(&[]).await.unwrap();
    let [three, one, two] = rows.try_into().unwrap();
    assert_eq!(list(&*store, AuditFilter::default()).await, [three, two, one]);
    let filter = AuditFilter::default();
    assert_eq!(store.list_audit(elsewhere.workspace, filter, None, 10).await.unwrap(), [elsewhere]);
}

pub async fn the_audit_is_read_in_pages_while_it_grows(store: Arc<dyn AccessStore>) {
    let rows: Vec<_> = (0..7).map(|number| done(number / 3, "key:1", "POST /v1/runs")).collect();
    store.add_audit(&rows).await.unwrap();
    let mut expected: Vec<_> = rows.iter().map(|row| row.id).collect();
    expected.sort_unstable_by(|one, other| other.cmp(one));
    let (mut seen, mut before): (Vec<Uuid>, _) = (vec![], None);
    loop {
        let page = store.list_audit(HERE, AuditFilter::default(), before, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        seen.extend(page.iter().map(|row| row.id));
        store.add_audit(&[done(9, "key:1", "POST /v1/runs")]).await.unwrap();
    }
    assert_eq!(seen, expected);
}

pub async fn the_audit_is_filtered(store: Arc<dyn AccessStore>) {
    let (one, two, three) = (done(10, "key:1", "start"), done(20, "key:2", "start"), done(30, "key:1", "cancel"));
    store.add_audit(&[one.clone(), two.clone(), three.clone()]).await.unwrap();
    let all = AuditFilter::default;
    let by = |actor: &str| AuditFilter { actor: Some(Actor::from_text(actor)), ..all() };
    assert_eq!(list(&*store, by("key:1")).await, [three.clone(), one.clone()]);
    assert_eq!(list(&*store, by("key:%")).await, []);
    let start = || AuditFilter { action: Some("start".to_owned()), ..all() };
    assert_eq!(list(&*store, start()).await, [two.clone(), one.clone()]);
    assert_eq!(list(&*store, AuditFilter { since: Some(at(20)), ..all() }).await, [three.clone(), two.clone()]);
    assert_eq!(list(&*store, AuditFilter { until: Some(at(20)), ..all() }).await, std::slice::from_ref(&one));
    let narrow = AuditFilter { actor: Some(Actor::key("1")), since: Some(at(10)), until: Some(at(20)), ..start() };
    assert_eq!(list(&*store, narrow).await, std::slice::from_ref(&one));
    // A row of the same millisecond as the end, but before it.
    let within = AuditFilter { until: Some(at(10).plus(std::time::Duration::from_micros(1))), ..all() };
    assert_eq!(list(&*store, within).await, [one]);
}

pub async fn a_row_that_is_sent_again_is_there_once(store: Arc<dyn AccessStore>) {
    let (first, second) = (done(1, "key:1", "start"), done(2, "key:1", "start"));
    store.add_audit(std::slice::from_ref(&first)).await.unwrap();
    let changed = AuditRow { actor: Actor::system("another actor"), ..first.clone() };
    store.add_audit(&[changed, second.clone()]).await.unwrap();
    assert_eq!(list(&*store, AuditFilter::default()).await, [second, first]);
}

pub async fn the_audit_is_kept_for_a_year(stores: Stores) {
    let rows: Vec<_> = (0..3).map(|day| done(day * DAY, "key:1", "start")).collect();
    stores.access.add_audit(&rows).await.unwrap();
    stores.runs.sweep(at(365 * DAY), 10).await.unwrap();
    assert_eq!(list(&*stores.access, AuditFilter::default()).await.len(), 3);
    stores.runs.sweep(at(367 * DAY), 1).await.unwrap();
    assert_eq!(list(&*stores.access, AuditFilter::default()).await, rows[2..]);
}
