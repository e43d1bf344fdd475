//! Servers are killed between the commit of a transition and its side effects: every side effect happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use everstep_testkit::webhook_target::{ReceivedWebhook, TargetMode, WebhookTarget};
use serde_json::{Value, json};

use crate::alone;
use crate::office::{IDENTITY, entries, site};
use crate::support::{Client, Folder, Server, wait_for};

const TRANSITIONS: usize = 100;
/// A server is killed after each of these many transitions.
const KILL_EVERY: usize = 20;
/// The webhooks reach this machine.
const REACH: (&str, &str) = ("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.1");

fn machine(target: &WebhookTarget) -> Value {
    let tell = json!([{"id": "tell", "type": "webhook", "target": target.url("/")}]);
    json!({"states": [
        {"name": "review", "initial": true, "on": {"APPROVE": {"to": "done", "events": tell}}},
        {"name": "done", "terminal": true},
    ]})
}

fn run_of(webhook: &ReceivedWebhook) -> String {
    format!("/v1/runs/{}", webhook.json()["data"]["runId"].as_str().unwrap())
}

/// Approves each run once; the answer of a server that is killed may be lost. `kill` is called between approvals.
fn approve_all(runs: &[String], client: impl Fn(usize) -> Client, mut kill: impl FnMut(usize)) {
    for (n, run) in runs.iter().enumerate() {
        let (path, body) = (format!("{run}/transitions"), json!({"action": "APPROVE"}));
        let client = client(n);
        wait_for("an answer", || {
            let answer = client.try_ask("POST", &path, &[], &body).ok()?;
            (answer.status < 500).then_some(())
        });
        if (n + 1).is_multiple_of(KILL_EVERY) {
            kill(n / KILL_EVERY);
        }
    }
}

/// Every transition has its webhook, a repeated one has the same id, and none has no transition.
fn check(admin: &Client, target: &WebhookTarget, runs: &[String]) {
    for run in runs {
        assert_eq!(admin.wait(run)["status"], "completed", "{run}");
    }
    let mut ids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for webhook in target.received() {
        assert_eq!(webhook.json()["data"]["versionNo"], 2);
        ids.entry(run_of(&webhook)).or_default().insert(webhook.id().to_owned());
    }
    for run in runs {
        assert_eq!(entries(admin, run, "TransitionApplied").len(), 2, "{run}");
        let dispatched = entries(admin, run, "StepDispatched").remove(0);
        let id = dispatched["data"]["id"].as_str().map(str::to_owned);
        let id = id.unwrap_or_else(|| panic!("{dispatched}"));
        assert_eq!(ids.get(run), Some(&BTreeSet::from([id])), "{run}");
    }
    assert_eq!(ids.len(), runs.len(), "a webhook without its transition");
    eprintln!("{} webhooks of {} transitions arrived", target.count(), runs.len());
}

/// Kills the only server again and again, and starts the next one on the same database.
fn kill_the_only_server(start: impl Fn() -> Server) {
    let target = WebhookTarget::start();
    target.set_mode(TargetMode::Late(Duration::from_millis(50)));
    let server = std::cell::RefCell::new(Some(start()));
    let client = || server.borrow().as_ref().unwrap().client();
    client().publish("review", &machine(&target));
    let runs: Vec<_> = (0..TRANSITIONS).map(|_| client().start("review", &json!({}))).collect();
    approve_all(
        &runs,
        |_| client(),
        |_| {
            server.borrow_mut().take().unwrap().kill();
            *server.borrow_mut() = Some(start());
        },
    );
    check(&client(), &target, &runs);
}

#[test]
fn kill_9_between_commit_and_delivery() {
    let _turn = alone();
    let folder = Folder::new();
    let mut settings = IDENTITY.to_vec();
    settings.push(REACH);
    kill_the_only_server(|| Server::with(&["--data", &folder.at("data")], &settings));
}

#[test]
fn kill_9_between_commit_and_delivery_on_postgres() {
    let _turn = alone();
    let site = site().set(REACH.0, REACH.1);
    kill_the_only_server(|| site.start());
}

#[test]
fn kill_9_of_one_node_of_two_between_commit_and_delivery() {
    let _turn = alone();
    let (site, target) = (site().set(REACH.0, REACH.1), WebhookTarget::start());
    target.set_mode(TargetMode::Late(Duration::from_millis(50)));
    let servers = std::cell::RefCell::new([site.start(), site.start()]);
    let client = |n: usize| servers.borrow()[n % 2].client();
    client(0).publish("review", &machine(&target));
    let runs: Vec<_> = (0..TRANSITIONS).map(|n| client(n).start("review", &json!({}))).collect();
    approve_all(&runs, client, |round| {
        let fresh = site.start();
        std::mem::replace(&mut servers.borrow_mut()[round % 2], fresh).kill();
    });
    check(&client(0), &target, &runs);
}
