//! Many runs: found by their input, by their workflow, and controlled together.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::stream::Stream;
use crate::support::{Server, chain, wait_for_go};

fn ids(page: &Value) -> Vec<String> {
    let runs = page["runs"].as_array().unwrap();
    runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// A server with a workflow that waits, and this many runs of it, oldest first.
async fn with_runs(count: u32) -> (Server, Vec<String>) {
    let server = Server::start().await;
    server.put("/v1/workflows/waits", &chain(&[wait_for_go()])).await.is(201);
    let mut runs = Vec::new();
    for n in 0..count {
        let body = json!({
            "input": {"n": n, "order": {"vip": n % 2 == 0, "name": format!("o{n}")}},
            "tags": {"team": if n < 2 { "blue" } else { "red" }},
        });
        let started = server.post("/v1/workflows/waits/runs", &body).await.is(201);
        runs.push(started["run"]["id"].as_str().unwrap().to_owned());
    }
    for run in &runs {
        server.wait_for(&format!("/v1/runs/{run}"), "waiting").await;
    }
    (server, runs)
}

#[tokio::test]
async fn runs_are_found_by_their_input_and_tags() {
    let (server, runs) = with_runs(4).await;
    let found = async |query: &str| ids(&server.get(&format!("/v1/runs?{query}")).await.is(200));
    assert_eq!(found("input.n=2").await, [runs[2].clone()]);
    assert_eq!(found("input.order.vip=true").await, [runs[2].clone(), runs[0].clone()]);
    assert_eq!(found("input.order.name=o3&status=waiting,running").await, [runs[3].clone()]);
    assert_eq!(found("tag.team=blue").await, [runs[1].clone(), runs[0].clone()]);
    assert_eq!(found("tag.team=blue&input.order.vip=false").await, [runs[1].clone()]);
    assert_eq!(found("status=completed&status=failed").await, [""; 0]);
    assert_eq!(found("version=1&limit=1").await, [runs[3].clone()]);
    assert_eq!(found("version=2").await, [""; 0]);
    assert_eq!(found(&format!("parent={}", runs[0])).await, [""; 0]);
    assert_eq!(found("input.n=9").await, [""; 0]);
    // Runs of graphs have no state.
    assert_eq!(found("state=wait").await, [""; 0]);
    assert_eq!(found("workflow=waits&state=wait&status=waiting,completed").await, [""; 0]);
    for wrong in ["input.=1", "input..n=1", "input=1", "tags.x=1", "status=waiting,done", "parent=x", "version=0"] {
        server.get(&format!("/v1/runs?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
    let shown = server.get(&format!("/v1/runs/{}", runs[0])).await.is(200);
    assert_eq!(shown["tags"], json!({"team": "blue"}));
}

#[tokio::test]
async fn runs_are_found_by_search_attributes_without_others() {
    let server = Server::start().await;
    let mut definition = chain(&[]);
    definition["options"] = json!({"index": ["customer", "order.id"]});
    server.put("/v1/workflows/orders", &definition).await.is(201);
    server.put("/v1/workflows/plain", &chain(&[])).await.is(201);
    let starts: Vec<_> = (0..20)
        .map(|n| json!({"input": {"customer": format!("c{}", n % 10), "order": {"id": n}}, "tags": {"n": n.to_string()}}))
        .collect();
    for name in ["orders", "plain"] {
        server.post(&format!("/v1/workflows/{name}/runs/batch"), &json!({"runs": starts})).await.is(200);
    }
    let list = async |query: &str| server.get(&format!("/v1/runs?{query}")).await.is(200);
    let figures = |page: &Value| (ids(page).len(), page["scanned"].clone(), page["more"].clone());
    for (query, found, scanned) in [
        ("workflow=orders&input.customer=c3", 2, 2),
        ("workflow=orders&input.order.id=7", 1, 1),
        ("workflow=orders&input.customer=c3&input.order.id=13", 1, 2),
        ("tag.n=7", 2, 2),
        // A workflow that does not declare the path has runs.
        ("input.customer=c3", 4, 40),
        ("workflow=plain&input.customer=c3", 2, 20),
    ] {
        assert_eq!(figures(&list(query).await), (found, json!(scanned), json!(false)), "{query}");
    }
    let page = list("workflow=orders&input.customer=c3&limit=1").await;
    assert_eq!((ids(&page).len(), &page["more"]), (1, &json!(true)));
    // A run of an earlier version has the attributes of the active one.
    server.put("/v1/workflows/plain", &definition).await.is(200);
    server.post("/v1/workflows/plain/runs", &json!({"version": 1, "input": {"customer": "new"}})).await.is(201);
    assert_eq!(ids(&list("workflow=plain&input.customer=new").await).len(), 1);
    for wrong in [json!(["a..b"]), json!([7]), json!("customer"), json!(["a", "a"]), json!(vec!["a"; 17])] {
        definition["options"]["index"] = wrong;
        let refused = server.put("/v1/workflows/orders", &definition).await.refuses(422, "VALIDATION_ERROR");
        assert_eq!(refused["problems"][0]["path"], "/options/index", "{refused}");
    }
}

/// The events of a wait for runs, in order: the name and the data.
async fn wait_events(server: &Server, query: &str) -> Vec<(String, Value)> {
    let mut stream = Stream::open(server, &format!("/v1/runs/wait?{query}"), &[]).await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    stream.rest().await.into_iter().map(|event| (event.name, event.data)).collect()
}

#[tokio::test]
async fn one_request_waits_for_many_runs() {
    let (server, runs) = with_runs(3).await;
    let missing = "01990000-0000-7000-8000-000000000001";
    let signal = async {
        for run in &runs {
            server.post(&format!("/v1/runs/{run}/signals/go"), &json!({})).await.is(200);
        }
    };
    let all = format!("waitSeconds=20&ids={},{missing}", runs.join(","));
    let (events, ()) = tokio::join!(wait_events(&server, &all), signal);
    assert_eq!(events[0], ("waiting".to_owned(), json!({"runs": 4})));
    let mut ended: Vec<_> = events[1..].iter().filter(|(name, _)| name == "run").map(|(_, run)| run.clone()).collect();
    ended.sort_by_key(|run| run["id"].to_string());
    assert_eq!(ended.iter().map(|run| run["id"].as_str().unwrap()).collect::<Vec<_>>(), runs);
    for run in &ended {
        assert_eq!(run["status"], "completed");
        assert_eq!(*run, server.get(&format!("/v1/runs/{}", run["id"].as_str().unwrap())).await.is(200));
    }
    let unreadable: Vec<_> = events.iter().filter(|(name, _)| name == "unreadable").collect();
    assert_eq!((unreadable.len(), &unreadable[0].1["id"]), (1, &json!(missing)));
    assert_eq!(unreadable[0].1["error"]["status"], 404);
    // Runs that go on are left out when the time is over.
    let started = server.post("/v1/workflows/waits/runs", &json!({})).await.is(201);
    let id = started["run"]["id"].as_str().unwrap();
    let events = wait_events(&server, &format!("waitSeconds=0&ids={id},{}", runs[0])).await;
    assert_eq!(events.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["waiting", "run"]);
    for wrong in [String::new(), "ids=".to_owned(), "ids=x".to_owned(), format!("ids={missing}&waitSeconds=31")] {
        server.get(&format!("/v1/runs/wait?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn runs_are_reached_by_way_of_their_workflow() {
    let (server, runs) = with_runs(3).await;
    server.put("/v1/workflows/other", &chain(&[])).await.is(201);
    let listed = server.get("/v1/workflows/waits/runs?limit=2&input.order.vip=true").await.is(200);
    assert_eq!(ids(&listed), [runs[2].clone(), runs[0].clone()]);
    assert_eq!(server.get("/v1/workflows/other/runs").await.is(200)["runs"], json!([]));
    server.get("/v1/workflows/missing/runs").await.refuses(404, "NOT_FOUND");
    server.get("/v1/workflows/waits/runs?workflow=other").await.refuses(400, "VALIDATION_ERROR");
    let run = format!("/v1/workflows/waits/runs/{}", runs[0]);
    let answer = server.get(&run).await;
    assert!(answer.headers.contains_key("etag"));
    assert_eq!(answer.is(200)["id"], runs[0].as_str());
    let wrong = format!("/v1/workflows/other/runs/{}", runs[0]);
    server.get(&wrong).await.refuses(404, "NOT_FOUND");
    server.post(&format!("{wrong}/signals/go"), &json!({})).await.refuses(404, "NOT_FOUND");
    // The response to a signal shows whether a wait was open for it.
    let none = server.post(&format!("{run}/signals/stop"), &json!({})).await.is(200);
    let reason = r#"no wait for this signal is open; the run waits for "go""#;
    assert_eq!((&none["outcome"], &none["reason"]), (&json!("ignored"), &json!(reason)));
    assert_eq!(server.post(&format!("{run}/signals/go"), &json!({})).await.is(200)["outcome"], "accepted");
    assert_eq!(server.get(&format!("{run}?waitSeconds=30")).await.is(200)["status"], "completed");
    let key = server.key_with(&[Permission::Manage, Permission::View]).await;
    let key = [("x-api-key", &*key)];
    let second = format!("/v1/workflows/waits/runs/{}", runs[1]);
    server
        .ask(Method::DELETE, &format!("/v1/workflows/other/runs/{}", runs[1]), &key, "")
        .await
        .refuses(404, "NOT_FOUND");
    assert_eq!(server.ask(Method::DELETE, &second, &key, "").await.is(200)["outcome"], "accepted");
    assert_eq!(server.get(&second).await.is(200)["status"], "cancelled");
}

#[tokio::test]
async fn many_runs_are_controlled_at_once() {
    let (server, runs) = with_runs(5).await;
    let vip = json!({"workflow": "waits", "input": {"order.vip": true}});
    let dry = json!({"action": "cancel", "filter": vip, "dryRun": true});
    let counted = server.post("/v1/runs/bulk", &dry).await.is(200);
    assert_eq!((&counted["matched"], &counted["accepted"]), (&json!(3), &json!(0)));
    let body = json!({"action": "cancel", "filter": vip, "limit": 2, "reason": "over"});
    let first = server.post_with("/v1/runs/bulk", &[("idempotency-key", "b1")], &body).await.is(200);
    assert_eq!((&first["matched"], &first["accepted"]), (&json!(2), &json!(2)), "{first}");
    let mut rest = body.clone();
    rest["cursor"] = first["nextCursor"].clone();
    let second = server.post_with("/v1/runs/bulk", &[("idempotency-key", "b1")], &rest).await.is(200);
    assert_eq!((&second["accepted"], &second["nextCursor"]), (&json!(1), &Value::Null), "{second}");
    let again = server.post_with("/v1/runs/bulk", &[("idempotency-key", "b1")], &body).await.is(200);
    assert_eq!((&again["accepted"], &again["ignored"]), (&json!(0), &json!(2)), "{again}");
    for (n, run) in runs.iter().enumerate() {
        let status = if n % 2 == 0 { "cancelled" } else { "waiting" };
        assert_eq!(server.get(&format!("/v1/runs/{run}")).await.is(200)["status"], status);
    }
    // A rejected control is reported, and applied to the others.
    let all = json!({"action": "pause", "all": true});
    let paused = server.post("/v1/runs/bulk", &all).await.is(200);
    assert_eq!((&paused["accepted"], &paused["refused"]), (&json!(2), &json!(3)), "{paused}");
    assert_eq!(paused["errors"][0]["code"], "INVALID_TRANSITION");
    let resumed = json!({"action": "resume", "filter": {"status": ["paused"]}});
    assert_eq!(server.post("/v1/runs/bulk", &resumed).await.is(200)["accepted"], 2);
    let wrong = [
        json!({"action": "cancel"}),
        json!({"action": "cancel", "filter": {}}),
        json!({"action": "delete", "all": true}),
        json!({"action": "cancel", "all": true, "limit": 10_001}),
        json!({"action": "cancel", "all": true, "limit": 0}),
        json!({"action": "pause", "all": true, "reason": "x"}),
        json!({"action": "cancel", "filter": {"name": "waits"}}),
        json!({"action": "cancel", "filter": {"status": "done"}}),
        json!({"action": "cancel", "filter": {"since": "yesterday"}}),
        json!({"action": "cancel", "filter": {"input": {"n": [1]}}}),
        json!({"action": "cancel", "all": true, "cursor": "x"}),
    ];
    for body in wrong {
        server.post("/v1/runs/bulk", &body).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn how_long_a_run_is_kept_and_its_tags_are_bounded() {
    let server = Server::start().await;
    server.put("/v1/workflows/plain", &chain(&[])).await.is(201);
    let least = server.post("/v1/workflows/plain/runs", &json!({"retentionDays": 0})).await.is(201);
    assert_eq!(least["run"]["retentionDays"], 1);
    let most = server.post("/v1/workflows/plain/runs", &json!({"retentionDays": 366})).await.is(201);
    assert_eq!(most["run"]["retentionDays"], 365);
    let many: Value = (0..51).map(|n| (format!("t{n}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    for tags in [json!({"": "x"}), json!({"n": 1}), json!({"n": "x".repeat(257)}), json!(["x"]), many] {
        server.post("/v1/workflows/plain/runs", &json!({"tags": tags})).await.refuses(400, "VALIDATION_ERROR");
    }
}
