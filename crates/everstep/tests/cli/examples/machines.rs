//! The stories of the state machines in `examples/`. API keys act as the persons.

use everstep_testkit::smtp_server::{ParsedMail, ReceivedMail};
use serde_json::{Value, json};

use super::Play;
use crate::support::Client;
use crate::support::http::Answer;

/// A person: an API key of their own.
struct Person {
    /// As definitions and contexts name the person.
    name: String,
    client: Client,
}

impl Person {
    fn new(play: &Play, name: &str, permissions: &[&str]) -> Self {
        let made = play.client().post("/v1/keys", &json!({"name": name, "permissions": permissions})).is(201);
        let name = format!("key:{}", made["key"]["id"].as_str().unwrap());
        Self { name, client: Client::new(play.client().address(), Some(made["secret"].as_str().unwrap())) }
    }

    /// A person who may only act.
    fn actor(play: &Play, name: &str) -> Self {
        Self::new(play, name, &["workflow:act"])
    }

    /// A person who may also start runs.
    fn starter(play: &Play, name: &str) -> Self {
        Self::new(play, name, &["workflow:view", "workflow:manage"])
    }

    fn act(&self, run: &str, request: &Value) -> Answer {
        self.client.post(&format!("{run}/transitions"), request)
    }

    /// Performs an action with the digest of the values that the person is shown.
    fn act_as_shown(&self, run: &str, action: &str) -> Answer {
        let actions = self.client.get(&format!("{run}/actions")).is(200);
        let (version, shown) = (&actions["versionNo"], &actions["shown"]["digest"]);
        self.act(run, &json!({"action": action, "version": version, "shown": shown}))
    }
}

pub(super) fn is_approved_by_two_of_three(play: &Play, name: &str) {
    let author = Person::starter(play, "author");
    let [ann, bob, cay] = ["ann", "bob", "cay"].map(|name| Person::actor(play, name));
    // The author is a reviewer too, whose vote does not count.
    let start = |reviewers: [&Person; 3]| {
        let reviewers = reviewers.map(|person| person.name.as_str());
        let addresses = json!({
            "author": "author@example.com", "reviewers": ["ann@example.com", "bob@example.com"],
            "manager": "cay@example.com",
        });
        let input = json!({
            "title": "Plan", "text": "…", "reviewers": reviewers, "manager": cay.name, "addresses": addresses,
        });
        let run = author.client.start(name, &json!({"input": input}));
        author.client.wait_for(&run, "waiting");
        assert_eq!(author.act(&run, &json!({"action": "SUBMIT"})).status, 422, "the document is a file");
        let file = author.client.post("/v1/files?name=plan.json", &json!("the plan")).is(201);
        author.act(&run, &json!({"action": "SUBMIT", "files": [file["id"]]})).is(200);
        run
    };
    let run = start([&author, &ann, &bob]);
    let asked = mail(play, "Please review: Plan");
    assert_eq!(asked.to, ["ann@example.com", "bob@example.com"]);
    assert!(asked.text.starts_with("Plan waits for your decision.\n"), "{asked:?}");
    let history = ann.client.get(&format!("{run}/history")).is(200);
    let mut files =
        history["entries"].as_array().unwrap().iter().filter_map(|entry| entry["files"][0]["name"].as_str());
    assert_eq!(files.next(), Some("plan.json"), "a reviewer sees the file");
    let shown = ann.client.get(&format!("{run}/actions")).is(200);
    assert!(shown["due"].is_string(), "the review has a deadline: {shown}");
    assert_eq!(author.act_as_shown(&run, "APPROVE").status, 403, "an author does not approve");
    assert_eq!(cay.act(&run, &json!({"action": "APPROVE"})).status, 403, "only reviewers vote");
    assert_eq!(ann.act(&run, &json!({"action": "APPROVE"})).status, 422, "a reviewer says what was shown");
    assert_eq!(ann.act_as_shown(&run, "APPROVE").is(200)["applied"], false);
    assert_eq!(ann.act_as_shown(&run, "APPROVE").status, 409, "a vote counts once");
    let last = bob.act_as_shown(&run, "APPROVE").is(200);
    assert_eq!((&last["nextState"], &last["isCompleted"]), (&json!("approved"), &json!(true)), "{last}");
    assert_eq!(author.client.wait(&run)["output"], json!({"title": "Plan", "escalated": false}));
    assert_eq!(mail(play, "Approved: Plan").to, ["author@example.com"]);

    let run = start([&ann, &bob, &cay]);
    let back = json!({"action": "REJECT", "comment": "no budget"});
    assert_eq!(ann.act(&run, &json!({"action": "REJECT"})).status, 422, "a rejection has a comment");
    ann.act(&run, &back).is(200);
    assert_eq!(bob.act(&run, &back).is(200)["nextState"], "draft");
    assert_eq!(mail(play, "Sent back: Plan").to, ["author@example.com"]);
    let reminder = &play.client().get(&format!("/v1/workflows/{name}")).is(200)["definition"]["states"][1]["after"][0];
    assert_eq!((&reminder["every"], &reminder["times"]), (&json!("12h"), &json!(3)));
}

/// Waits for a mail with this subject.
fn mail(play: &Play, subject: &str) -> ParsedMail {
    let find = || play.mails.received().iter().map(ReceivedMail::parse).find(|mail| mail.subject == subject);
    crate::support::wait_for(subject, find)
}

pub(super) fn is_approved_by_its_amount(play: &Play, name: &str) {
    let [eve, boss] = ["eve", "boss"].map(|name| Person::actor(play, name));
    let employee = Person::starter(play, "employee");
    let submit = |amount: u32| {
        let input = json!({"purpose": "trip", "amount": amount, "manager": boss.name, "controller": eve.name});
        let run = employee.client.start(name, &json!({"input": input}));
        employee.client.wait_for(&run, "waiting");
        let answer = employee.act(&run, &json!({"action": "SUBMIT"}));
        (run, answer)
    };
    let (run, small) = submit(99);
    assert_eq!(small.is(200)["nextState"], "paid");
    let output = employee.client.wait(&run)["output"].clone();
    assert_eq!(output, json!({"amount": 99, "approvedBy": "rule", "account": "4900"}));

    let (run, medium) = submit(100);
    assert_eq!(medium.is(200)["nextState"], "manager");
    assert_eq!(employee.act(&run, &json!({"action": "APPROVE"})).status, 403);
    let refused = boss.act(&run, &json!({"action": "APPROVE", "data": {"amount": 40_000}})).is(422);
    assert_eq!(refused["detail"], "an approval does not change the expense", "{refused}");
    boss.act(&run, &json!({"action": "APPROVE"})).is(200);
    assert_eq!(employee.client.wait(&run)["output"]["approvedBy"], boss.name);

    let (run, large) = submit(1_000);
    assert_eq!(large.is(200)["nextState"], "controller");
    assert_eq!(eve.act(&run, &json!({"action": "APPROVE"})).status, 422, "an account is missing");
    let raised = json!({"action": "APPROVE", "data": {"account": "6600", "amount": 40_000}});
    assert_eq!(eve.act(&run, &raised).is(422)["code"], "CONDITION_FAILED", "an approval does not change the amount");
    eve.act(&run, &json!({"action": "APPROVE", "data": {"account": "6600"}})).is(200);
    assert_eq!(employee.client.wait(&run)["output"]["account"], "6600");

    let (_, excessive) = submit(50_001);
    let refused = excessive.is(422);
    assert_eq!(refused["code"], "CONDITION_FAILED", "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("needs a contract"), "{refused}");
}

pub(super) fn is_opened_by_the_refund(play: &Play, name: &str) {
    let saved = play.client().get(&format!("/v1/workflows/{name}")).is(200);
    assert_eq!(saved["style"], "machine");
}

pub(super) fn continues_with_the_decision(play: &Play, name: &str) {
    let [clerk, other] = ["clerk", "other"].map(|name| Person::actor(play, name));
    let shop = Person::starter(play, "shop");
    let ask = |amount: u32, answer: Value| {
        let clerks = [&clerk.name, &shop.name];
        let run = shop.client.start(name, &json!({"input": {"order": "o-1", "amount": amount, "clerks": clerks}}));
        let id = run.rsplit('/').next().unwrap();
        let decision = crate::support::wait_for("the decision to be open", || {
            let children = shop.client.get(&format!("/v1/runs?parent={id}")).is(200);
            let child = children["runs"].as_array().unwrap().iter().find(|run| run["status"] == "waiting")?;
            Some(format!("/v1/runs/{}", child["id"].as_str().unwrap()))
        });
        // Neither a stranger nor the person whose graph opened it decides.
        assert_eq!(other.act(&decision, &json!({"action": "APPROVE"})).status, 403);
        assert_eq!(shop.act(&decision, &json!({"action": "APPROVE"})).status, 403);
        clerk.act(&decision, &answer).is(200);
        shop.client.wait(&run)["output"].clone()
    };
    assert_eq!(
        play.output(name, &json!({"order": "o-0", "amount": 5, "clerks": [clerk.name]})),
        json!({"refund": {"status": "paid", "amount": 5, "by": "rule"}})
    );
    let approved = ask(80, json!({"action": "APPROVE"}));
    assert_eq!(approved, json!({"refund": {"status": "paid", "amount": 80, "by": clerk.name}}));
    let rejected = ask(90, json!({"action": "REJECT", "data": {"reason": "too late"}}));
    assert_eq!(rejected, json!({"refund": {"status": "declined", "because": "too late"}}));
}
