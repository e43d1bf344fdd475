//! Who may act in a run, and who may read it.

use axum::http::Method;
use serde_json::{Value, json};

use super::{ACT, act, approval, history, start_as, start_server};
use crate::people as tokens;
use crate::support::{Server, chain};

async fn status(server: &Server, token: &str, path: &str) -> u16 {
    tokens::get(server, token, path).await.status
}

#[tokio::test]
async fn a_role_and_its_permission_are_equivalent() {
    let server = start_server().await;
    for (claims, is_admitted) in [
        (json!({"roles": ["Boss"], "permissions": ACT}), true),
        (json!({"permissions": ["workflow:act", "expenses.approve"]}), true),
        // The name of a role is no permission, and neither is an unknown role.
        (json!({"permissions": ["workflow:act", "Boss"]}), false),
        (json!({"roles": ["Chief"], "permissions": ACT}), false),
        // No one is above the definition.
        (json!({"permissions": ["workflow:admin"]}), false),
        (json!({"roles": ["Superadmin"]}), false),
        (json!({"roles": ["AssignedHandler"], "permissions": ["workflow:act", "__assigned__"]}), false),
    ] {
        let run = start_as(&server, "ann", 20).await;
        let token = tokens::token_with(&server, "bob", &claims);
        let answer = tokens::ask(&server, &token, Method::POST, &format!("{run}/transitions"), &approval()).await;
        if is_admitted {
            answer.is(200);
        } else {
            let problem = answer.refuses(403, "PERMISSION_DENIED");
            assert_eq!(problem["required"], json!(["Boss", "assigned", "not by @start"]), "{claims}");
        }
    }
    // An API key is named by its id.
    let key = server.key_with(&[everstep_api::auth::Permission::Act]).await;
    let me = server.ask_as(&key, Method::GET, "/v1/me", &Value::Null).await.is(200);
    let name = format!("key:{}", me["key"]["id"].as_str().unwrap());
    let run = start_as(&server, "ann", 20).await;
    let path = format!("{run}/transitions");
    server.ask_as(&key, Method::POST, &path, &approval()).await.refuses(403, "PERMISSION_DENIED");
    // A person of that name is another.
    let assign = json!({"who": [name]});
    server.post(&format!("{run}/assign"), &assign).await.is(200);
    server.ask_as(&key, Method::POST, &path, &approval()).await.is(200);
}

/// The key of a one-time link that the holder of a key has made.
async fn sign_in(server: &Server, key: &str) -> String {
    let made = server.ask_as(key, Method::POST, "/v1/sign-in-codes", &Value::Null).await.is(201);
    let code = json!({"code": made["code"]}).to_string();
    let signed_in = server.ask(Method::POST, "/v1/sign-ins", &[], &code).await.is(201);
    signed_in["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_key_and_the_keys_of_its_links_have_one_vote() {
    let server = start_server().await;
    let vote = json!({"states": [
        {"name": "vote", "initial": true, "on": {"YES": {"to": "done", "quorum": {"need": 2}}}},
        {"name": "done", "terminal": true},
    ]});
    server.publish("vote", &vote).await;
    let started = server.post("/v1/workflows/vote/runs", &json!({})).await.is(201);
    let path = format!("/v1/runs/{}/transitions", started["run"]["id"].as_str().unwrap());
    let yes = json!({"action": "YES"});
    let key = server.key_with(&[everstep_api::auth::Permission::Act]).await;
    let link = sign_in(&server, &key).await;
    let voted = server.ask_as(&link, Method::POST, &path, &yes).await.is(200);
    assert_eq!((&voted["applied"], &voted["votes"]["count"]), (&json!(false), &json!(1)));
    for key in [&key, &link, &sign_in(&server, &link).await] {
        server.ask_as(key, Method::POST, &path, &yes).await.refuses(409, "ALREADY_VOTED");
    }
    let other = server.key_with(&[everstep_api::auth::Permission::Act]).await;
    assert_eq!(server.ask_as(&other, Method::POST, &path, &yes).await.is(200)["applied"], true);
}

#[tokio::test]
async fn approving_ones_own_run_is_refused() {
    let server = start_server().await;
    let both = ["workflow:act", "workflow:manage", "workflow:admin", "expenses.approve"];
    let boss = tokens::token(&server, "ann", &both);
    let refused = async |token: &str, run: &str| {
        let answer = tokens::ask(&server, token, Method::POST, &format!("{run}/transitions"), &approval()).await;
        let problem = answer.refuses(403, "PERMISSION_DENIED");
        assert!(problem["detail"].as_str().unwrap().contains("you started this run"), "{problem}");
    };
    // As the starter, with every permission that exists.
    let run = start_as(&server, "ann", 20).await;
    refused(&boss, &run).await;
    // By assigning the run to oneself.
    let assign = json!({"who": ["ann"]});
    tokens::ask(&server, &boss, Method::POST, &format!("{run}/assign"), &assign).await.is(200);
    refused(&boss, &run).await;
    // After a fork.
    let forked = tokens::ask(&server, &boss, Method::POST, &format!("{run}/fork"), &json!({})).await.is(201);
    refused(&boss, &format!("/v1/runs/{}", forked["run"]["id"].as_str().unwrap())).await;
    // By forking the run of another person.
    let run = start_as(&server, "bob", 20).await;
    let forked = tokens::ask(&server, &boss, Method::POST, &format!("{run}/fork"), &json!({})).await.is(201);
    let fork = format!("/v1/runs/{}", forked["run"]["id"].as_str().unwrap());
    for (person, reason) in [("ann", "you forked this run"), ("bob", "you started this run")] {
        let token = tokens::token(&server, person, &both);
        let answer = tokens::ask(&server, &token, Method::POST, &format!("{fork}/transitions"), &approval()).await;
        let problem = answer.refuses(403, "PERMISSION_DENIED");
        assert!(problem["detail"].as_str().unwrap().contains(reason), "{problem}");
    }
    act(&server, "mia", &fork, &approval()).await.is(200);
    tokens::ask(&server, &boss, Method::POST, &format!("{run}/transitions"), &approval()).await.is(200);
    // Through a graph that starts the machine.
    let open = json!({"id": "open", "type": "workflow", "config": {
        "workflow": "expense", "input": {"amount": 20, "manager": "ann"}, "wait": true,
    }});
    server.publish("refund", &chain(&[open])).await;
    let start = tokens::ask(&server, &boss, Method::POST, "/v1/workflows/refund/runs", &json!({})).await.is(201);
    let parent = start["run"]["id"].as_str().unwrap();
    let child = crate::support::until("the child", async || {
        let runs = server.get(&format!("/v1/runs?parent={parent}")).await.is(200);
        runs["runs"][0]["id"].as_str().map(|id| format!("/v1/runs/{id}"))
    })
    .await;
    refused(&boss, &child).await;
    // By an API key.
    let key = server.key_with(&[everstep_api::auth::Permission::Admin]).await;
    let input = json!({"input": {"amount": 20, "manager": "mia"}});
    let started = server.ask_as(&key, Method::POST, "/v1/workflows/expense/runs", &input).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    let me = server.ask_as(&key, Method::GET, "/v1/me", &Value::Null).await.is(200);
    let assign = json!({"who": [format!("key:{}", me["key"]["id"].as_str().unwrap())]});
    server.ask_as(&key, Method::POST, &format!("{run}/assign"), &assign).await.is(200);
    let answer = server.ask_as(&key, Method::POST, &format!("{run}/transitions"), &approval()).await;
    answer.refuses(403, "PERMISSION_DENIED");
    // By the key of a one-time link that this key has made, and by that of a link of that key.
    let mut key = key;
    for _ in 0..2 {
        key = sign_in(&server, &key).await;
        let answer = server.ask_as(&key, Method::POST, &format!("{run}/transitions"), &approval()).await;
        let problem = answer.refuses(403, "PERMISSION_DENIED");
        assert!(problem["detail"].as_str().unwrap().contains("you started this run"), "{problem}");
    }
    // As the person who did the named action before.
    let four_eyes = json!({
        "states": [
            {"name": "draft", "initial": true, "on": {"SUBMIT": {"to": "review"}}},
            {"name": "review", "on": {"APPROVE": {"to": "done", "require": {"notBy": ["SUBMIT"]}}}},
            {"name": "done", "terminal": true},
        ],
    });
    server.publish("four-eyes", &four_eyes).await;
    let started = server.post("/v1/workflows/four-eyes/runs", &json!({})).await.is(201);
    let run = format!("/v1/runs/{}", started["run"]["id"].as_str().unwrap());
    act(&server, "ann", &run, &json!({"action": "SUBMIT"})).await.is(200);
    act(&server, "ann", &run, &json!({"action": "APPROVE"})).await.refuses(403, "PERMISSION_DENIED");
    act(&server, "bob", &run, &json!({"action": "APPROVE"})).await.is(200);
}

#[tokio::test]
async fn a_person_who_may_only_act_reads_the_runs_that_concern_them() {
    let server = start_server().await;
    let run = start_as(&server, "ann", 20).await;
    let workflow = run.replace("/v1/runs", "/v1/workflows/expense/runs");
    let token = |person: &str| tokens::token(&server, person, ACT);
    let paths = [run.clone(), workflow, format!("{run}/actions"), format!("{run}/history")];
    for path in &paths {
        // The starter, and the person to whom it is assigned.
        assert_eq!(
            [status(&server, &token("ann"), path).await, status(&server, &token("mia"), path).await],
            [200, 200]
        );
        // A stranger finds nothing; a boss could act.
        let missing = tokens::get(&server, &token("eve"), path).await.refuses(404, "NOT_FOUND");
        let none = path.replace(run.trim_start_matches("/v1/runs/"), "019a0000-0000-7000-8000-000000000000");
        let never = tokens::get(&server, &token("eve"), &none).await.refuses(404, "NOT_FOUND");
        let shape = |problem: &Value| problem.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(shape(&missing), shape(&never));
        let boss = tokens::token(&server, "bob", &["workflow:act", "expenses.approve"]);
        assert_eq!(status(&server, &boss, path).await, 200);
    }
    // Lists, journals and contexts need the permission to view runs.
    for path in ["/v1/runs", "/v1/workflows/expense/runs", &format!("{run}/journal"), &format!("{run}/context")] {
        tokens::get(&server, &token("ann"), path).await.refuses(403, "PERMISSION_DENIED");
    }
    // A stranger learns who may act, and nothing of the run, whatever the request is.
    for request in
        [approval(), json!({"action": "APPROVE", "version": 9}), json!({"action": "SHIP"}), json!({"action": "REJECT"})]
    {
        let problem = act(&server, "eve", &run, &request).await.refuses(403, "PERMISSION_DENIED");
        for name in ["state", "versionNo", "lastBy", "lastAt", "errors", "explanation"] {
            assert_eq!(problem[name], Value::Null, "{problem}");
        }
        assert!(!problem.to_string().contains("review"), "{problem}");
    }
    let problem = act(&server, "eve", &run, &approval()).await.refuses(403, "PERMISSION_DENIED");
    assert_eq!(problem["required"], json!(["Boss", "assigned", "not by @start"]));
    // Who was assigned, and who acted, may read the run for ever.
    let assign = json!({"who": ["zoe"], "reason": "holidays"});
    let answer = tokens::ask(&server, &token("mia"), Method::POST, &format!("{run}/assign"), &assign).await;
    assert_eq!(answer.is(200)["versionNo"], 1);
    tokens::ask(&server, &token("mia"), Method::POST, &format!("{run}/assign"), &assign)
        .await
        .refuses(403, "PERMISSION_DENIED");
    act(&server, "mia", &run, &approval()).await.refuses(403, "PERMISSION_DENIED");
    act(&server, "zoe", &run, &approval()).await.is(200);
    for (person, expected) in [("ann", 200), ("mia", 200), ("zoe", 200), ("eve", 404), ("bob", 404)] {
        assert_eq!(status(&server, &token(person), &run).await, expected, "{person}");
    }
    let assignment = &history(&server, &run).await[1];
    assert_eq!((&assignment["kind"], &assignment["assignment"]), (&json!("assignment"), &json!({"who": ["zoe"]})));
}

#[tokio::test]
async fn a_machine_is_started_by_those_whom_it_admits() {
    let server = start_server().await;
    let with = |start: Value| {
        let mut definition = super::expense();
        definition["start"] = start;
        definition
    };
    server.publish("open-expense", &with(json!({"require": {"role": ["Boss"], "user": ["ann"]}}))).await;
    server.publish("graph", &chain(&[])).await;
    let start = async |person: &str, permissions: &[&str], workflow: &str| {
        let token = tokens::token(&server, person, permissions);
        let input = json!({"input": {"amount": 20, "manager": "mia"}});
        tokens::ask(&server, &token, Method::POST, &format!("/v1/workflows/{workflow}/runs"), &input).await
    };
    let started = start("ann", ACT, "open-expense").await.is(201);
    assert_eq!(started["run"]["machine"]["state"], "review");
    start("bob", &["workflow:act", "expenses.approve"], "open-expense").await.is(201);
    for permissions in [ACT, &["workflow:manage"], &["workflow:admin"]] {
        let problem = start("eve", permissions, "open-expense").await.refuses(403, "PERMISSION_DENIED");
        assert_eq!(problem["required"], json!(["Boss", "user ann"]), "{problem}");
    }
    // Without start.require, the permission to manage runs is needed, and so it is for other styles.
    for workflow in ["expense", "graph", "missing"] {
        let problem = start("ann", ACT, workflow).await.refuses(403, "PERMISSION_DENIED");
        assert!(problem["detail"].as_str().unwrap().contains("workflow:manage"), "{problem}");
    }
    let by_name =
        json!({"definitionId": "open-expense", "input": {"amount": 20, "manager": "mia"}, "idempotencyKey": "k"});
    let token = tokens::token(&server, "ann", ACT);
    tokens::ask(&server, &token, Method::POST, "/v1/workflow-runs", &by_name).await.is(201);
    tokens::ask(&server, &token, Method::POST, "/v1/workflow-runs", &by_name).await.is(200);
    // A known key shows the run only to those who may read it. A boss could act in it.
    let boss = tokens::token(&server, "bob", &["workflow:act", "expenses.approve"]);
    tokens::ask(&server, &boss, Method::POST, "/v1/workflow-runs", &by_name).await.is(200);
    let closed = json!({"start": {"require": {"user": ["ann", "bob"]}}, "states": [
        {"name": "a", "initial": true, "on": {"GO": {"to": "b", "require": {"user": "ann"}}}}, {"name": "b", "terminal": true},
    ]});
    server.publish("closed", &closed).await;
    let own = json!({"definitionId": "closed", "idempotencyKey": "own"});
    tokens::ask(&server, &token, Method::POST, "/v1/workflow-runs", &own).await.is(201);
    let answer = tokens::ask(&server, &boss, Method::POST, "/v1/workflow-runs", &own).await;
    answer.refuses(409, "IDEMPOTENCY_KEY_REUSED");
    // A batch needs the permission to manage runs, and each start is admitted by itself.
    let batch = json!({"runs": [{"input": {"amount": 1, "manager": "mia"}}]});
    let manager = tokens::token(&server, "eve", &["workflow:manage"]);
    let path = "/v1/workflows/open-expense/runs/batch";
    let answer = tokens::ask(&server, &manager, Method::POST, path, &batch).await.is(207);
    assert_eq!(answer["runs"][0]["error"]["code"], "PERMISSION_DENIED");
}
