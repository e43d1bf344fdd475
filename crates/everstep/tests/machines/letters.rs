//! Real servers whose targets are down: a dead letter and a notice for each side effect, and requeues, also through kill -9.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everstep_testkit::webhook_target::{TargetMode, WebhookTarget};
use serde_json::{Value, json};

use crate::alone;
use crate::office::site;
use crate::support::cluster::Site;
use crate::support::{Client, Folder, Server, call, wait_for};

/// The side effects that fail before a server is killed.
const TRANSITIONS: usize = 100;
/// Webhooks of one workspace to one host that a node sends at the same time.
const TARGET_MAX: usize = 5;
/// The webhooks reach this machine.
const REACH: (&str, &str) = ("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.1");
const OPERATORS: &str = "EVERSTEP_OPS_WEBHOOK_URL";
/// The secret that signs the webhooks. It must appear neither in answers nor in the log.
const CANARY: &str = "canary-7f3a91-signs-webhooks";

fn machine(target: &WebhookTarget) -> Value {
    let tell = json!([{
        "id": "tell", "type": "webhook", "target": target.url("/"), "secret": {"$secret": "erp"}, "timeoutSeconds": 60,
    }]);
    json!({"states": [
        {"name": "review", "initial": true, "on": {"APPROVE": {"to": "done", "events": tell}}},
        {"name": "done", "terminal": true},
    ]})
}

/// A database for nodes that share the key of secrets.
fn sealed_site() -> Site<'static> {
    let key = call(&["secrets", "key"]).stdout;
    site().set(REACH.0, REACH.1).set("EVERSTEP_SECRETS_KEY", key.trim())
}

/// Starts runs and approves them.
fn approve(admin: &Client, target: &WebhookTarget, count: usize) -> Vec<String> {
    let answer = admin.put("/v1/secrets/erp", &json!({"value": CANARY}));
    assert!(answer.status < 300, "{}", answer.body);
    admin.publish("review", &machine(target));
    let runs: Vec<_> = (0..count).map(|_| admin.start("review", &json!({}))).collect();
    for run in &runs {
        admin.post(&format!("{run}/transitions"), &json!({"action": "APPROVE"})).is(200);
    }
    runs
}

fn letters(admin: &Client) -> Vec<Value> {
    let mut page = admin.get("/v1/dead-letters?limit=500").is(200);
    assert!(!page.to_string().contains(CANARY), "{page}");
    let Value::Array(letters) = page["deadLetters"].take() else { panic!("{page}") };
    letters
}

/// Waits until there are this many dead letters, and a condition holds of each.
#[track_caller]
fn wait_for_letters(admin: &Client, what: &str, count: usize, is_so: impl Fn(&Value) -> bool) -> Vec<Value> {
    wait_for(what, || Some(letters(admin)).filter(|letters| letters.len() == count && letters.iter().all(&is_so)))
}

fn has_status(status: &str) -> impl Fn(&Value) -> bool {
    move |letter| letter["status"] == status
}

fn is_notified(letter: &Value) -> bool {
    letter["notifiedAt"].is_string()
}

fn id_of(letter: &Value) -> String {
    letter["id"].as_str().unwrap().to_owned()
}

/// The number of accepted webhooks by id.
fn accepted(target: &WebhookTarget) -> BTreeMap<String, usize> {
    let mut accepted = BTreeMap::new();
    for webhook in target.received().iter().filter(|webhook| webhook.is_accepted) {
        *accepted.entry(webhook.id().to_owned()).or_default() += 1;
    }
    accepted
}

/// Three attempts of one webhook: at 0, 0.5 and 1.5 s. An attempt is never early; on a busy machine it may be late.
fn check_attempts(target: &WebhookTarget, letter: &Value) {
    let received = target.received();
    assert_eq!(received.len(), 3, "{received:?}");
    assert!(received.iter().all(|webhook| json!(webhook.id()) == letter["deliveryId"]), "{letter}");
    for (n, (least, most)) in [(1, (490, 2_500)), (2, (990, 3_000))] {
        let since = received[n].at.duration_since(received[n - 1].at);
        assert!((Duration::from_millis(least)..Duration::from_millis(most)).contains(&since), "attempt {n}: {since:?}");
    }
    let attempts = letter["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 3, "{letter}");
    for attempt in attempts {
        assert_eq!((&attempt["code"], &attempt["status"]), (&json!("HTTP_STATUS"), &json!(503)), "{letter}");
        assert!(attempt["at"].is_string() && attempt["ms"].is_u64(), "{letter}");
    }
}

/// One side effect to a target that is down, and then up.
fn bring_down_and_up(start: impl Fn(&str) -> Server) {
    let (target, operators) = (WebhookTarget::start(), WebhookTarget::start());
    target.set_mode(TargetMode::Refuse(503));
    let server = start(&operators.url("/ops"));
    let admin = server.client();
    let run = approve(&admin, &target, 1).remove(0);
    let letter = wait_for_letters(&admin, "the notice", 1, is_notified).remove(0);
    check_attempts(&target, &letter);
    assert_eq!(letter["status"], "dead");
    assert_eq!(admin.wait(&run)["status"], "completed");
    let notice = operators.received()[0].json();
    assert_eq!(run, format!("/v1/runs/{}", notice["instanceId"].as_str().unwrap()));
    assert_eq!(
        (&notice["event"], &notice["jobId"], &notice["workflowCode"]),
        (&json!("workflow_event_failed"), &letter["id"], &json!("review"))
    );
    assert_eq!(notice["timestamp"], letter["createdAt"]);
    assert!(notice["error"].as_str().unwrap().starts_with("HTTP_STATUS: "), "{notice}");
    // A requeue that fails is not a second dead letter, and sends no second notice.
    let requeue = format!("/v1/dead-letters/{}/requeue", id_of(&letter));
    admin.post(&requeue, &Value::Null).is(202);
    let has_six = |letter: &Value| letter["status"] == "dead" && letter["attempts"].as_array().unwrap().len() == 6;
    wait_for_letters(&admin, "the requeue to fail", 1, has_six);
    target.set_mode(TargetMode::Accept);
    admin.post(&requeue, &Value::Null).is(202);
    let letter = wait_for_letters(&admin, "the requeue", 1, has_status("delivered")).remove(0);
    let last = &letter["attempts"][6];
    assert_eq!((&last["code"], &last["status"]), (&json!("DELIVERED"), &json!(204)), "{letter}");
    let received = target.received();
    assert_eq!(received.len(), 7);
    assert!(received.iter().all(|webhook| webhook.id() == received[0].id()), "{received:?}");
    assert!(received[6].is_accepted && !received[6].header("webhook-signature").is_empty());
    assert_eq!(operators.count(), 1, "one notice for one dead letter");
    let steps = admin.get(&format!("{run}/steps")).is(200);
    let step = steps["steps"].as_array().unwrap().iter().find(|step| step["deadLetter"].is_object()).unwrap();
    assert_eq!(step["deadLetter"], json!({"id": letter["id"], "status": "delivered"}), "{steps}");
    check_secret(&admin, &run, &letter);
    check_counts(&admin, &[("dead", 1), ("requeued", 1)]);
    approve(&admin, &target, 1);
    wait_for("the next webhook", || (target.count() == 8).then_some(()));
    wait_for("its count", || count_of(&admin, "delivered"));
    check_counts(&admin, &[("dead", 1), ("requeued", 1), ("delivered", 1)]);
    let said = server.stop();
    assert!(!said.contains(CANARY), "{said}");
}

/// Neither the journal of a run nor its dead letter contains the secret.
fn check_secret(admin: &Client, run: &str, letter: &Value) {
    let letter = admin.get(&format!("/v1/dead-letters/{}", id_of(letter))).is(200);
    assert_eq!(letter["config"]["secret"], json!({"$secret": "erp"}), "{letter}");
    for shown in [letter, json!(admin.journal(run)), admin.get(&format!("{run}/steps")).is(200)] {
        assert!(!shown.to_string().contains(CANARY), "{shown}");
    }
}

/// The number of webhooks of the workflow with an outcome, as the metrics show it.
fn count_of(admin: &Client, outcome: &str) -> Option<u64> {
    let page = admin.get("/metrics").is(200);
    let label = format!("workflow_events_total{{workflow_code=\"review\",type=\"webhook\",outcome=\"{outcome}\"}} ");
    page.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&label)?.parse().ok())
}

fn check_counts(admin: &Client, expected: &[(&str, u64)]) {
    for (outcome, count) in expected {
        assert_eq!(count_of(admin, outcome), Some(*count), "{outcome}");
    }
}

#[test]
fn a_target_that_is_down_makes_one_letter_and_one_notice() {
    let _turn = alone();
    let folder = Folder::new();
    let data = folder.at("data");
    bring_down_and_up(|operators| Server::with(&["--data", &data], &[REACH, (OPERATORS, operators)]));
}

#[test]
fn a_target_that_is_down_makes_one_letter_and_one_notice_on_postgres() {
    let _turn = alone();
    let site = site();
    let data = site.data();
    let key = call(&["secrets", "key"]).stdout;
    let url = site.database.url();
    bring_down_and_up(|operators| {
        let settings =
            [REACH, (OPERATORS, operators), ("EVERSTEP_DATABASE_URL", &*url), ("EVERSTEP_SECRETS_KEY", key.trim())];
        Server::with(&["--data", &data], &settings)
    });
}

#[test]
fn a_letter_exists_if_operators_cannot_be_notified() {
    let _turn = alone();
    let operators = WebhookTarget::start();
    operators.set_mode(TargetMode::Refuse(500));
    let address = operators.url("/ops");
    for settings in [vec![REACH], vec![REACH, (OPERATORS, &*address)]] {
        let (folder, target) = (Folder::new(), WebhookTarget::start());
        target.set_mode(TargetMode::Refuse(503));
        let server = Server::with(&["--data", &folder.at("data")], &settings);
        let admin = server.client();
        approve(&admin, &target, 1);
        let letter = wait_for_letters(&admin, "the dead letter", 1, has_status("dead")).remove(0);
        check_attempts(&target, &letter);
        if settings.len() > 1 {
            wait_for("all attempts of the notice", || (operators.count() == 3).then_some(()));
        }
        // Its failure blocks nothing: the dead letter is requeued.
        target.set_mode(TargetMode::Accept);
        admin.post(&format!("/v1/dead-letters/{}/requeue", id_of(&letter)), &Value::Null).is(202);
        let letter = wait_for_letters(&admin, "the requeue", 1, has_status("delivered")).remove(0);
        assert!(!is_notified(&letter), "{letter}");
    }
    assert_eq!(operators.count(), 3);
}

/// Kills a server while the requeues of all dead letters hang; the next one performs them with the same ids.
fn kill_during_requeues(first: Server, next: impl FnOnce() -> Server) {
    let target = WebhookTarget::start();
    target.set_mode(TargetMode::Refuse(503));
    let admin = first.client();
    approve(&admin, &target, TRANSITIONS);
    let dead = wait_for_letters(&admin, "the dead letters", TRANSITIONS, has_status("dead"));
    let attempts = target.count();
    assert_eq!(attempts, 3 * TRANSITIONS);
    target.set_mode(TargetMode::Hang);
    let requeued = admin.post("/v1/dead-letters/requeue", &json!({"filter": {"workflow": "review"}})).is(200);
    assert_eq!(requeued["matched"], json!(TRANSITIONS));
    wait_for("requeues to hang", || (target.count() >= attempts + TARGET_MAX).then_some(()));
    let said = first.kill();
    assert!(!said.contains(CANARY), "{said}");
    target.set_mode(TargetMode::Accept);
    let server = next();
    let delivered = wait_for_letters(&server.client(), "the requeues", TRANSITIONS, has_status("delivered"));
    let accepted = accepted(&target);
    let ids: BTreeSet<_> = dead.iter().map(|letter| letter["deliveryId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(accepted.keys().cloned().collect::<BTreeSet<_>>(), ids);
    assert!(accepted.values().all(|count| *count == 1), "{accepted:?}");
    for letter in &delivered {
        let attempts = letter["attempts"].as_array().unwrap();
        assert_eq!(attempts.last().unwrap()["code"], "DELIVERED", "{letter}");
    }
    eprintln!("kill -9 during {TRANSITIONS} requeues: {} requests", target.count() - attempts);
}

#[test]
fn kill_9_during_a_requeue() {
    let _turn = alone();
    let folder = Folder::new();
    let start = || Server::with(&["--data", &folder.at("data")], &[REACH]);
    kill_during_requeues(start(), start);
}

#[test]
fn kill_9_during_a_requeue_on_postgres() {
    let _turn = alone();
    let site = sealed_site();
    kill_during_requeues(site.start(), || site.start());
}

#[test]
fn kill_9_of_one_node_of_two_during_a_requeue() {
    let _turn = alone();
    let site = sealed_site();
    let (first, second) = (site.start(), site.start());
    kill_during_requeues(first, || second);
}

/// Kills a server after the last failures, while the notices hang; the next one sends them.
fn kill_before_notices(operators: &WebhookTarget, first: Server, next: impl FnOnce() -> Server) {
    let target = WebhookTarget::start();
    target.set_mode(TargetMode::Refuse(503));
    operators.set_mode(TargetMode::Hang);
    let admin = first.client();
    approve(&admin, &target, TRANSITIONS);
    let dead = wait_for_letters(&admin, "the dead letters", TRANSITIONS, has_status("dead"));
    wait_for("a notice to hang", || (operators.count() > 0).then_some(()));
    assert!(!dead.iter().any(is_notified));
    first.kill();
    let attempts = target.count();
    operators.set_mode(TargetMode::Accept);
    let server = next();
    wait_for_letters(&server.client(), "the notices", TRANSITIONS, is_notified);
    let mut notified: BTreeMap<String, usize> = BTreeMap::new();
    for notice in operators.received().iter().filter(|notice| notice.is_accepted) {
        *notified.entry(notice.json()["jobId"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let ids: BTreeSet<_> = dead.iter().map(id_of).collect();
    assert_eq!(notified.keys().cloned().collect::<BTreeSet<_>>(), ids);
    assert!(notified.values().all(|count| *count == 1), "{notified:?}");
    assert_eq!(target.count(), attempts, "a notice repeats no attempt");
}

#[test]
fn kill_9_between_the_last_failure_and_the_notice() {
    let _turn = alone();
    let (folder, operators) = (Folder::new(), WebhookTarget::start());
    let address = operators.url("/ops");
    let start = || Server::with(&["--data", &folder.at("data")], &[REACH, (OPERATORS, &address)]);
    kill_before_notices(&operators, start(), start);
}

#[test]
fn kill_9_of_one_node_of_two_between_the_last_failure_and_the_notice() {
    let _turn = alone();
    let operators = WebhookTarget::start();
    let site = sealed_site().set(OPERATORS, &operators.url("/ops"));
    let (first, second) = (site.start(), site.start());
    kill_before_notices(&operators, first, || second);
}
