//! A graph opens a state machine and continues by its end.

use serde_json::{Value, json};

use crate::alone;
use crate::office::{Person, site};
use crate::support::{Client, chain_to, wait_for};

/// The run that a run has started.
fn child_of(client: &Client, run: &str) -> String {
    let id = run.trim_start_matches("/v1/runs/");
    wait_for("the child", || {
        let children = client.get(&format!("/v1/runs?parent={id}")).is(200);
        children["runs"][0]["id"].as_str().map(|id| format!("/v1/runs/{id}"))
    })
}

#[test]
fn a_graph_waits_for_the_decision_of_a_person_over_two_nodes() {
    let _turn = alone();
    let site = site();
    let ((one, a), (two, b)) = site.start_two();
    let approval = json!({"states": [
        {"name": "review", "initial": true, "on": {
            "APPROVE": {"to": "approved", "needs": {"data": ["account"]}, "require": {"notBy": ["@start"]}},
            "REJECT": {"to": "rejected"},
        }},
        {"name": "approved", "terminal": true, "output": {"account": "{{ctx.account}}", "amount": "{{ctx.amount}}"}},
        {"name": "rejected", "terminal": true, "error": true},
    ]});
    a.publish("approval", &approval);
    let ask = json!({"id": "ask", "type": "workflow", "outputVariable": "decision", "config": {
        "workflow": "approval", "input": {"amount": "{{ctx.input.amount}}"}, "wait": true,
    }, "retry": {"maxAttempts": 1}});
    let end = json!({"id": "end", "type": "end", "config": {"outputParameters": [
        {"name": "decision", "sourceVariable": "{{ctx.decision}}"},
    ]}});
    a.publish("refund", &chain_to(&[ask], end));

    let runs: Vec<_> = (0..3).map(|amount| a.start("refund", &json!({"input": {"amount": amount}}))).collect();
    let children: Vec<_> = runs.iter().map(|run| child_of(&b, run)).collect();
    let (mut ann, mut bob) = (Person::new("ann", &two), Person::new("bob", &two));
    let approve = json!({"action": "APPROVE", "data": {"account": "7"}});
    let is_approved = |answer: (u16, Value)| answer.0 == 200 && answer.1["nextState"] == "approved";
    // One while both nodes are there, one after the node of the parent was killed, one that is rejected.
    assert!(is_approved(ann.acts(&children[0], &approve, None)));
    assert_eq!(b.wait(&runs[0])["output"], json!({"decision": {"account": "7", "amount": 0}}));
    one.kill();
    assert!(is_approved(ann.acts(&children[1], &approve, None)));
    assert_eq!(bob.acts(&children[2], &json!({"action": "REJECT"}), None).0, 200);
    assert_eq!(b.wait(&runs[1])["output"], json!({"decision": {"account": "7", "amount": 1}}));
    let failed = b.wait(&runs[2]);
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("END_ERROR")), "{failed}");
}
