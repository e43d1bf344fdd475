//! Transitions: what moves a run, what is refused, and what the history says.

use axum::http::Method;
use serde_json::{Value, json};

use super::{act, act_with_key, approval, history, start_as, start_server};
use crate::people as tokens;

#[tokio::test]
async fn a_person_approves_and_the_history_says_so() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    let shown = server.get(&run).await.is(200);
    assert_eq!(shown["status"], "waiting");
    assert_eq!((&shown["machine"]["state"], &shown["machine"]["versionNo"]), (&json!("review"), &json!(1)));
    assert_eq!(shown["machine"]["assigned"], json!(["mia"]));
    assert!(shown["machine"]["due"].is_string() && shown["machine"]["enteredAt"].is_string(), "{shown}");
    let sentence = shown["waitingFor"].as_str().unwrap();
    assert!(sentence.starts_with("is in review since 20"), "{sentence}");
    assert!(
        sentence.contains(": APPROVE by Boss or assigned or REJECT by Boss or assigned; goes to rejected at "),
        "{sentence}"
    );
    let listed = server.get("/v1/runs?workflow=expense&state=review").await.is(200);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);

    let moved = act(&server, "mia", &run, &approval()).await.is(200);
    let expected = json!({
        "success": true, "applied": true, "previousState": "review", "nextState": "approved", "isCompleted": true,
        "versionNo": 2, "historyId": moved["historyId"],
    });
    assert_eq!(moved, expected);
    let ended = server.get(&run).await.is(200);
    assert_eq!((&ended["status"], &ended["output"]), (&json!("completed"), &json!({"booked": 20})));
    assert_eq!((&ended["machine"]["state"], &ended["machine"]["versionNo"]), (&json!("approved"), &json!(2)));
    assert_eq!(ended["waitingFor"], Value::Null);

    let entries = history(&server, &run).await;
    let [started, approved] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(
        (&started["action"], &started["from"], &started["to"]),
        (&json!("@start"), &Value::Null, &json!("review"))
    );
    assert_eq!(started["by"], json!({"kind": "person", "id": "ann"}));
    assert_eq!(approved["id"], moved["historyId"]);
    assert_eq!(approved["by"], json!({"kind": "person", "id": "mia"}));
    assert_eq!((&approved["kind"], &approved["action"]), (&json!("transition"), &json!("APPROVE")));
    let changes = json!([{"path": "account", "after": "4711"}, {"path": "booked", "after": 20}]);
    assert_eq!(approved["changes"], changes);
    // The id of an entry is a UUID v7 of its time.
    let id: uuid::Uuid = moved["historyId"].as_str().unwrap().parse().unwrap();
    let (seconds, _) = id.get_timestamp().unwrap().to_unix();
    let at: everstep_core::time::Timestamp = approved["at"].as_str().unwrap().parse().unwrap();
    assert_eq!((id.get_version_num(), i64::try_from(seconds).unwrap()), (7, at.millis() / 1_000));
}

#[tokio::test]
async fn a_waiting_run_names_the_persons_of_its_templates() {
    let server = start_server().await;
    let states = json!([
        {"name": "draft", "initial": true, "on": {
            "SUBMIT": {"to": "done", "require": {"user": "{{meta.startedBy}}"}},
            "CANCEL": {"to": "done", "require": {"user": "{{ctx.deputy | default('mia')}}"}},
        }},
        {"name": "done", "terminal": true},
    ]);
    server.publish("note", &json!({"states": states})).await;
    let token = tokens::token(&server, "ann", &["workflow:manage"]);
    let started = tokens::ask(&server, &token, Method::POST, "/v1/workflows/note/runs", &json!({})).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let shown = server.get(&run).await.is(200);
    let sentence = shown["waitingFor"].as_str().unwrap();
    let choices = ": SUBMIT by user ann or CANCEL by a user that the definition names";
    assert!(sentence.starts_with("is in draft since 20") && sentence.ends_with(choices), "{sentence}");
    // A caller who may not read the run learns who may act as the definition has it, and nothing of the run.
    let refused = act(&server, "bob", &run, &json!({"action": "SUBMIT", "version": 1})).await;
    assert_eq!(refused.refuses(403, "PERMISSION_DENIED")["required"], json!(["user {{meta.startedBy}}"]));
}

#[tokio::test]
async fn a_refusal_names_the_state_and_the_person_who_acted_first() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    act(&server, "mia", &run, &approval()).await.is(200);
    let late = act(&server, "mia", &run, &approval()).await.refuses(409, "RUN_ENDED");
    assert_eq!((&late["state"], &late["versionNo"]), (&json!("approved"), &json!(2)));
    assert_eq!(late["lastBy"], json!({"kind": "person", "id": "mia"}));
    assert!(late["lastAt"].is_string(), "{late}");

    let run = start_as(&server, "ann", 20).await;
    for (request, status, code) in [
        (json!({"action": "APPROVE", "version": 2, "data": {"account": "1"}}), 409, "CONCURRENCY_ERROR"),
        (json!({"action": "SHIP"}), 422, "UNKNOWN_ACTION"),
        (json!({"action": "APPROVE"}), 422, "VALIDATION_ERROR"),
        (json!({"action": "APPROVE", "data": {"account": 5}}), 422, "VALIDATION_ERROR"),
        (json!({"action": "APPROVE", "data": {"account": "1", "amount": 2000}}), 422, "CONDITION_FAILED"),
        (json!({"action": "APPROVE", "data": {"account": "1"}, "shown": "00"}), 409, "SHOWN_CHANGED"),
        (json!({"action": "REJECT"}), 422, "VALIDATION_ERROR"),
        (json!({"action": "REJECT", "comment": "x".repeat(2_001)}), 422, "VALIDATION_ERROR"),
    ] {
        let problem = act(&server, "mia", &run, &request).await.refuses(status, code);
        assert_eq!((&problem["state"], &problem["versionNo"]), (&json!("review"), &json!(1)), "{problem}");
        assert_eq!(problem["lastBy"], json!({"kind": "person", "id": "ann"}), "{problem}");
    }
    let problem = act(&server, "mia", &run, &json!({"action": "APPROVE"})).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(problem["errors"], json!([{"field": "data.account", "message": "required field missing"}]));
    let dear = json!({"action": "APPROVE", "data": {"account": "1", "amount": 2000}});
    let problem = act(&server, "mia", &run, &dear).await.refuses(422, "CONDITION_FAILED");
    assert!(problem["detail"].as_str().unwrap().contains("more than 1,000 need a contract"), "{problem}");
    assert!(problem["explanation"].to_string().contains("2000"), "{problem}");
    let typo = act(&server, "mia", &run, &json!({"action": "APROVE"})).await.refuses(422, "UNKNOWN_ACTION");
    assert!(typo["detail"].as_str().unwrap().contains("APPROVE"), "{typo}");
    // Nothing was written by any of them.
    assert_eq!(history(&server, &run).await.len(), 1);
    let paused = server.post(&format!("{run}/pause"), &Value::Null).await.is(200);
    assert_eq!(paused["outcome"], "accepted");
    act(&server, "mia", &run, &approval()).await.refuses(409, "RUN_PAUSED");
}

#[tokio::test]
async fn a_request_that_is_not_understood_is_refused() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    for request in [
        json!({}),
        json!({"action": 5}),
        json!({"action": "APPROVE", "when": "now"}),
        json!({"action": "APPROVE", "version": 1, "versionNo": 1}),
        json!({"action": "APPROVE", "version": -1}),
        json!({"action": "APPROVE", "files": "one"}),
        json!({"action": "APPROVE", "files": [], "attachments": []}),
        // A later release has this.
        json!({"action": "APPROVE", "onBehalfOf": "mia"}),
    ] {
        act(&server, "mia", &run, &request).await.refuses(400, "VALIDATION_ERROR");
    }
    let large = json!({"action": "APPROVE", "data": {"account": "x".repeat(256 * 1024)}});
    act(&server, "mia", &run, &large).await.refuses(413, "PAYLOAD_TOO_LARGE");
    act(&server, "mia", &run, &json!({"action": "APPROVE", "data": [1]})).await.refuses(422, "VALIDATION_ERROR");
    let missing = "/v1/runs/019a0000-0000-7000-8000-000000000000";
    act(&server, "mia", missing, &approval()).await.refuses(404, "NOT_FOUND");
    act(&server, "mia", "/v1/runs/7", &approval()).await.refuses(404, "NOT_FOUND");
    // A graph has no actions.
    let graph = server.start_chain("waits", &[crate::support::wait_for_go()]).await;
    server.post(&format!("{graph}/transitions"), &approval()).await.refuses(409, "INVALID_TRANSITION");
    for path in ["actions", "history"] {
        server.get(&format!("{graph}/{path}")).await.refuses(409, "INVALID_TRANSITION");
    }
    // A machine takes neither signals nor retries.
    server.post(&format!("{run}/signals/go"), &json!({})).await.refuses(409, "INVALID_TRANSITION");
    server.post(&format!("{run}/retry"), &Value::Null).await.refuses(409, "INVALID_TRANSITION");
}

#[tokio::test]
async fn a_repeated_key_of_a_caller_is_answered_as_before() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    let first = act_with_key(&server, "mia", &run, "k", &approval()).await.is(200);
    // The version is stale by now, and the order of the fields is another.
    let again = json!({"data": {"account": "4711"}, "version_no": 1, "action": "APPROVE"});
    assert_eq!(act_with_key(&server, "mia", &run, "k", &again).await.is(200), first);
    let other = json!({"action": "APPROVE", "version": 1, "data": {"account": "4712"}});
    let reused = act_with_key(&server, "mia", &run, "k", &other).await.refuses(409, "IDEMPOTENCY_KEY_REUSED");
    assert!(reused["hint"].is_string() && reused["lastAt"].is_string(), "{reused}");
    let last = (&reused["state"], &reused["versionNo"], &reused["lastBy"]["id"]);
    assert_eq!(last, (&json!("approved"), &json!(2), &json!("mia")));
    // An equal key of another caller is another request.
    act_with_key(&server, "ann", &run, "k", &approval()).await.refuses(409, "RUN_ENDED");
    assert_eq!(history(&server, &run).await.len(), 2);
    // A refused request leaves no key.
    let run = start_as(&server, "ann", 20).await;
    act_with_key(&server, "mia", &run, "k", &json!({"action": "APPROVE"})).await.refuses(422, "VALIDATION_ERROR");
    act_with_key(&server, "mia", &run, "k", &approval()).await.is(200);
}

#[tokio::test]
async fn a_history_is_read_page_by_page_and_contains_votes_and_assignments() {
    let server = start_server().await;
    let vote = json!({
        "states": [
            {"name": "vote", "initial": true, "assign": ["ann"], "on": {
                "YES": {"to": "done", "quorum": {"of": ["ann", "bob", "cid"], "need": 2}},
                "NO": {"to": "done", "quorum": {"of": ["ann", "bob", "cid"], "need": 2}},
            }, "after": [{"in": "1d", "to": "done"}]},
            {"name": "done", "terminal": true},
        ],
    });
    server.publish("vote", &vote).await;
    let started = server.post("/v1/workflows/vote/runs", &json!({})).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let counted = act(&server, "ann", &run, &json!({"action": "YES", "comment": "fine"})).await.is(200);
    assert_eq!((&counted["applied"], &counted["versionNo"]), (&json!(false), &json!(1)));
    let ann = json!({"kind": "person", "id": "ann"});
    let votes = json!({"action": "YES", "count": 1, "need": 2, "of": ["ann", "bob", "cid"], "by": [ann]});
    assert_eq!(counted["votes"], votes);
    act(&server, "ann", &run, &json!({"action": "YES"})).await.refuses(409, "ALREADY_VOTED");
    act(&server, "ann", &run, &json!({"action": "YES", "data": {}})).await.refuses(409, "ALREADY_VOTED");
    act(&server, "bob", &run, &json!({"action": "YES", "data": {}})).await.refuses(422, "VALIDATION_ERROR");
    assert_eq!(
        act(&server, "ann", &run, &json!({"action": "YES", "withdraw": true})).await.is(200)["votes"]["count"],
        0
    );
    act(&server, "ann", &run, &json!({"action": "YES", "withdraw": true})).await.refuses(409, "NOT_VOTED");
    // Bob has left.
    let token = tokens::token(&server, "ann", super::ACT);
    let change = json!({"voter": {"from": "bob", "to": "dan"}, "reason": "bob has left"});
    let assigned = tokens::ask(&server, &token, Method::POST, &format!("{run}/assign"), &change).await.is(200);
    assert_eq!((&assigned["success"], &assigned["state"]), (&json!(true), &json!("vote")));
    act(&server, "bob", &run, &json!({"action": "NO"})).await.refuses(403, "PERMISSION_DENIED");
    act(&server, "dan", &run, &json!({"action": "NO"})).await.is(200);
    let last = act(&server, "cid", &run, &json!({"action": "NO"})).await.is(200);
    assert_eq!(
        (&last["applied"], &last["nextState"], &last["isCompleted"]),
        (&json!(true), &json!("done"), &json!(true))
    );

    let all = history(&server, &run).await;
    let kinds: Vec<_> = all.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["transition", "vote", "vote", "assignment", "vote", "vote", "transition"]);
    assert_eq!((&all[1]["comment"], &all[2]["isWithdrawn"]), (&json!("fine"), &json!(true)));
    assert_eq!(all[3]["assignment"], json!({"voter": {"from": "bob", "to": "dan"}}));
    assert_eq!((&all[3]["comment"], &all[3]["id"]), (&json!("bob has left"), &assigned["historyId"]));
    assert_eq!(all[6]["by"], json!({"kind": "system", "id": "@quorum"}));
    assert_eq!(all[6]["votes"].as_array().unwrap().len(), 2);
    let (mut pages, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("{run}/history?limit=3{cursor}")).await.is(200);
        pages.extend(page["entries"].as_array().unwrap().clone());
        let Some(next) = page["nextCursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(pages, all);
    server.get(&format!("{run}/history?cursor=x")).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn actions_are_those_of_the_caller_with_the_reasons_against_them() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 2_000).await;
    let actions = async |person: &str| {
        let token = tokens::token(&server, person, &["workflow:view", "workflow:act"]);
        tokens::get(&server, &token, &format!("{run}/actions")).await.is(200)
    };
    let shown = actions("mia").await;
    assert_eq!(
        (&shown["state"], &shown["title"], &shown["versionNo"]),
        (&json!("review"), &json!("Review"), &json!(1))
    );
    assert_eq!((&shown["assigned"], &shown["shown"]["fields"]), (&json!(["mia"]), &json!({"amount": 2_000})));
    let [approve, reject] = &shown["actions"].as_array().unwrap()[..] else { panic!("{shown}") };
    assert_eq!(
        (&approve["action"], &approve["title"], &approve["to"]),
        (&json!("APPROVE"), &json!("Approve"), &json!(["approved"]))
    );
    assert_eq!(approve["needs"], json!({"comment": false, "data": ["account"], "files": 0, "shown": false}));
    assert_eq!((&reject["open"], &reject["reasons"]), (&json!(true), &json!([])));
    // The same values are shown while nothing has changed.
    let digest = shown["shown"]["digest"].as_str().unwrap();
    let reject = json!({"action": "REJECT", "comment": "too dear", "shown": digest});
    let ann = actions("ann").await;
    let reasons = ann["actions"][0]["reasons"].as_array().unwrap();
    assert_eq!(reasons[0]["code"], "PERMISSION_DENIED");
    assert_eq!(reasons[0]["required"], json!(["Boss", "assigned", "not by @start"]), "{ann}");
    act(&server, "mia", &run, &reject).await.is(200);
    let ended = server.get(&run).await.is(200);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("END_ERROR")));
    assert_eq!(actions("mia").await["actions"], json!([]));
}

/// A person who takes part in a run is refused by the decision alone: the run is loaded for it, and not again for the
/// refusal.
#[tokio::test]
async fn a_refusal_loads_a_run_once() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    let calls = || server.engine.world().runs.calls();
    // The least of several: the loops of the server send calls as well.
    let least = async |person: &str| {
        let token = tokens::token(&server, person, super::ACT);
        let stale = json!({"action": "APPROVE", "version": 9});
        let mut least = u64::MAX;
        for _ in 0..10 {
            let before = calls();
            let answer = tokens::ask(&server, &token, Method::POST, &format!("{run}/transitions"), &stale).await;
            assert!([409, 403].contains(&answer.status), "{}", answer.body);
            least = least.min(calls() - before);
        }
        least
    };
    // The run, and its row for the labels of the metrics.
    assert_eq!(least("mia").await, 2);
    // Another person may have been able to act in a state that the run has left, so that the run is read again.
    assert_eq!(least("eve").await, 3);
}
