//! Dead letters: lists, requeues, discards.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use everstep_api::auth::Permission;
use everstep_core::dead_letter::DeadLetter;
use everstep_core::ids::WorkspaceId;
use everstep_core::payload::Payload;
use everstep_testkit::contract::fixtures::{at, dead_letter, new_run, write_letter, write_letter_with};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::{Server, until};

/// A secret that must never be shown.
const CANARY: &str = "canary-7f3a91";

/// A target that answers with a status, and repeats the request in its answer.
struct Target {
    url: String,
    status: Arc<AtomicU16>,
    received: Arc<Mutex<Vec<String>>>,
}

impl Target {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let (status, received) = (Arc::new(AtomicU16::new(503)), Arc::new(Mutex::new(Vec::new())));
        let target = Self { url, status: Arc::clone(&status), received: Arc::clone(&received) };
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let (status, received) = (Arc::clone(&status), Arc::clone(&received));
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    let mut piece = [0; 4096];
                    // The requests of these tests have the body `{}`.
                    while !request.ends_with(b"{}") {
                        match stream.read(&mut piece).await {
                            Ok(0) | Err(_) => return,
                            Ok(read) => request.extend_from_slice(&piece[..read]),
                        }
                    }
                    let request = String::from_utf8(request).unwrap();
                    let status = status.load(Ordering::SeqCst);
                    let head = format!(
                        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        request.len()
                    );
                    received.lock().unwrap().push(request.clone());
                    let _ = stream.write_all(format!("{head}{request}").as_bytes()).await;
                });
            }
        });
        target
    }

    fn set_up(&self) {
        self.status.store(200, Ordering::SeqCst);
    }

    fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    /// The config of a request that sends a secret.
    fn config(&self) -> Value {
        json!({
            "url": self.url, "method": "POST", "body": {},
            "headers": {"x-token": {"$secret": "erp"}},
        })
    }
}

/// A dead letter of the default workspace.
fn letter(config: Value, seconds: i64) -> DeadLetter {
    DeadLetter {
        kind: "http".to_owned(),
        config: Payload::from(config.clone()),
        written: Some(Payload::from(config)),
        secrets: vec!["/headers/x-token".to_owned()],
        ..dead_letter(new_run(), seconds)
    }
}

async fn write(server: &Server, letter: &DeadLetter) -> String {
    write_letter(&*server.database, server.engine.node(), letter).await;
    format!("/v1/dead-letters/{}", letter.id)
}

async fn wait_for(server: &Server, path: &str, status: &str) -> Value {
    until("the dead letter", async || {
        let letter = server.get(path).await.is(200);
        (letter["status"] == status).then_some(letter)
    })
    .await
}

fn ids(page: &Value) -> Vec<String> {
    let letters = page["deadLetters"].as_array().unwrap().iter();
    letters.map(|letter| letter["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_requeue_delivers_when_the_target_is_up() {
    let server = Server::start().await;
    server.put("/v1/secrets/erp", &json!({"value": CANARY})).await.is(201);
    let target = Target::start().await;
    let letter = letter(target.config(), 1);
    let path = write(&server, &letter).await;

    // The target is down: the attempts are added.
    let queued = server.post(&format!("{path}/requeue"), &Value::Null).await.is(202);
    assert_eq!(queued["status"], "queued");
    let dead = until("the attempts", async || {
        let letter = server.get(&path).await.is(200);
        (letter["attempts"].as_array().unwrap().len() == 6).then_some(letter)
    })
    .await;
    assert_eq!((&dead["status"], &dead["attempts"][5]["code"]), (&json!("dead"), &json!("HTTP_STATUS")));
    assert_eq!(dead["attempts"][5]["status"], 503);
    assert!(dead["attempts"][5]["message"].as_str().unwrap().contains("[secret]"), "{dead}");

    target.set_up();
    server.post(&format!("{path}/requeue"), &Value::Null).await.is(202);
    let delivered = wait_for(&server, &path, "delivered").await;
    assert_eq!(delivered["attempts"][6]["code"], "DELIVERED");
    let received = target.received();
    assert_eq!(received.len(), 4);
    let key = format!("idempotency-key: {}:{}", letter.run.unwrap(), letter.step.as_ref().unwrap());
    for request in &received {
        assert!(request.contains(CANARY) && request.contains(&key), "{request}");
    }
    // The secret is sent, and shown nowhere.
    for path in [&*path, "/v1/dead-letters", "/v1/audit"] {
        let shown = server.get(path).await.is(200);
        assert!(!shown.to_string().contains(CANARY), "{shown}");
    }
    assert_eq!(delivered["config"], target.config());
    for verb in ["requeue", "discard"] {
        let problem = server.post(&format!("{path}/{verb}"), &Value::Null).await.refuses(409, "DEAD_LETTER_NOT_DEAD");
        assert_eq!(problem["deadLetterStatus"], "delivered");
    }
}

#[tokio::test]
async fn letters_are_listed_with_filters_and_pages() {
    let server = Server::start().await;
    let mut paths = Vec::new();
    let mut letters = Vec::new();
    for seconds in 1..6 {
        let letter = letter(json!({"note": seconds}), seconds);
        paths.push(write(&server, &letter).await);
        letters.push(letter);
    }
    let id = |index: usize| letters[index].id.to_string();
    let first = server.get("/v1/dead-letters?limit=3").await.is(200);
    assert_eq!(ids(&first), [id(4), id(3), id(2)]);
    assert!(first["deadLetters"][0].get("config").is_none(), "{first}");
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = server.get(&format!("/v1/dead-letters?limit=3&cursor={cursor}")).await.is(200);
    assert_eq!((ids(&second), &second["nextCursor"]), (vec![id(1), id(0)], &Value::Null));

    server.post(&format!("{}/discard", paths[0]), &json!({"reason": "no longer needed"})).await.is(200);
    let run = letters[1].run.unwrap();
    for (query, expected) in [
        ("status=discarded".to_owned(), vec![id(0)]),
        ("status=dead&kind=http".to_owned(), vec![id(4), id(3), id(2), id(1)]),
        ("source=start".to_owned(), vec![]),
        ("source=delivery&workflow=orders&error=HTTP_STATUS&limit=1".to_owned(), vec![id(4)]),
        ("workflow=other".to_owned(), vec![]),
        (format!("run={run}"), vec![id(1)]),
        (format!("since={}", at(4)), vec![id(4), id(3)]),
        (format!("until={}", at(2)), vec![id(0)]),
    ] {
        let page = server.get(&format!("/v1/dead-letters?{query}")).await.is(200);
        assert_eq!(ids(&page), expected, "{query}");
    }
    for wrong in ["status=lost", "source=mail", "run=x", "since=soon", "cursor=x", "colour=red"] {
        server.get(&format!("/v1/dead-letters?{wrong}")).await.refuses(400, "VALIDATION_ERROR");
    }
    let shown = server.get(&paths[1]).await.is(200);
    assert_eq!(shown["config"], json!({"note": 2}));
    assert_eq!(shown["secrets"], json!(["/headers/x-token"]));
    assert_eq!(shown["target"], "https://erp.example.com/hooks");
    assert_eq!((&shown["run"], &shown["step"]), (&json!(run.to_string()), &json!("APPROVE[7].tell-erp")));
    assert_eq!(shown["deliveryId"], letters[1].delivery.as_str());
    for missing in ["x", "019a0000-0000-7000-8000-000000000000"] {
        server.get(&format!("/v1/dead-letters/{missing}")).await.refuses(404, "NOT_FOUND");
        for verb in ["requeue", "discard"] {
            let path = format!("/v1/dead-letters/{missing}/{verb}");
            server.post(&path, &Value::Null).await.refuses(404, "NOT_FOUND");
        }
    }
}

#[tokio::test]
async fn a_discarded_letter_keeps_its_reason() {
    let server = Server::start().await;
    let path = write(&server, &letter(json!({}), 1)).await;
    let discard = format!("{path}/discard");
    for wrong in [json!({"reason": ""}), json!({"reason": "x".repeat(1_001)}), json!({"why": "x"})] {
        server.post(&discard, &wrong).await.refuses(400, "VALIDATION_ERROR");
    }
    let discarded = server.post(&discard, &json!({"reason": "cancelled by phone"})).await.is(200);
    assert_eq!((&discarded["status"], &discarded["reason"]), (&json!("discarded"), &json!("cancelled by phone")));
    // A repetition changes nothing.
    let again = server.post(&discard, &Value::Null).await.is(200);
    assert_eq!(again, discarded);
    server.post(&format!("{path}/requeue"), &Value::Null).await.refuses(409, "DEAD_LETTER_NOT_DEAD");
}

#[tokio::test]
async fn many_letters_are_requeued_and_discarded() {
    let server = Server::start().await;
    let target = Target::start().await;
    target.set_up();
    server.put("/v1/secrets/erp", &json!({"value": CANARY})).await.is(201);
    let mut paths = Vec::new();
    for seconds in 1..9 {
        paths.push(write(&server, &letter(target.config(), seconds)).await);
    }
    // Of another workspace.
    let other = WorkspaceId::from_uuid(uuid::Uuid::from_u128(2));
    let foreign = DeadLetter { workspace: other, ..letter(target.config(), 1) };
    write_letter(&*server.database, server.engine.node(), &foreign).await;

    let filter = json!({"workflow": "orders", "until": at(5).to_string(), "source": "delivery"});
    let dry = json!({"filter": filter, "dryRun": true});
    for verb in ["requeue", "discard"] {
        let counted = server.post(&format!("/v1/dead-letters/{verb}"), &dry).await.is(200);
        assert_eq!(counted, json!({"matched": 4, "hasMore": false, "nextCursor": null}));
        let cursor = paths[1].rsplit('/').next().unwrap();
        let rest = json!({"filter": filter, "dryRun": true, "cursor": cursor});
        assert_eq!(server.post(&format!("/v1/dead-letters/{verb}"), &rest).await.is(200)["matched"], 2);
    }
    let requeued = server.post("/v1/dead-letters/requeue", &json!({"filter": filter})).await.is(200);
    assert_eq!(requeued, json!({"matched": 4, "hasMore": false, "nextCursor": null}));
    for path in &paths[..4] {
        wait_for(&server, path, "delivered").await;
    }
    assert_eq!(target.received().len(), 4);
    let reason = json!({"filter": {"error": "HTTP_STATUS"}, "reason": "old"});
    assert_eq!(server.post("/v1/dead-letters/discard", &reason).await.is(200)["matched"], 4);
    assert_eq!(server.get(&paths[7]).await.is(200)["reason"], "old");
    assert_eq!(server.post("/v1/dead-letters/requeue", &json!({"all": true})).await.is(200)["matched"], 0);

    for wrong in [
        json!({}),
        json!({"filter": {}}),
        json!({"filter": {"colour": "red"}}),
        json!({"filter": {"run": "x"}}),
        json!({"filter": {"since": "soon"}}),
        json!({"filter": {"source": "mail"}}),
        json!({"all": true, "status": "dead"}),
        json!({"all": true, "cursor": "x"}),
        json!({"all": true, "filter": {"kind": ""}}),
        json!({"filter": {"workflow": "x".repeat(129)}}),
    ] {
        server.post("/v1/dead-letters/requeue", &wrong).await.refuses(400, "VALIDATION_ERROR");
    }
}

#[tokio::test]
async fn viewers_see_letters_and_do_not_change_them() {
    let server = Server::start().await;
    let path = write(&server, &letter(json!({}), 1)).await;
    let viewer = server.key_with(&[Permission::View]).await;
    let ask = async |method: &str, path: &str| {
        let method = axum::http::Method::from_bytes(method.as_bytes()).unwrap();
        server.ask_as(&viewer, method, path, &Value::Null).await
    };
    ask("GET", &path).await.is(200);
    ask("GET", "/v1/dead-letters").await.is(200);
    ask("POST", &format!("{path}/requeue")).await.refuses(403, "PERMISSION_DENIED");
    assert_eq!(server.get(&path).await.is(200)["status"], "dead");
    // A requeue has its row in the audit.
    server.post(&format!("{path}/requeue"), &Value::Null).await.is(202);
    let row = until("the audit row", async || {
        let audit = server.get("/v1/audit").await.is(200);
        audit["entries"]
            .as_array()
            .and_then(|rows| rows.iter().find(|row| row["action"] == "POST /v1/dead-letters/{id}/requeue").cloned())
    })
    .await;
    assert_eq!(row["target"], format!("{path}/requeue"));
}

#[tokio::test]
async fn dead_letters_are_counted_for_the_metrics() {
    let server = Server::start().await;
    write(&server, &letter(json!({}), 1)).await;
    let page = server.get("/metrics").await;
    let page = page.body.as_str().unwrap().to_owned();
    assert!(page.lines().any(|line| line == "everstep_dead_letters{source=\"delivery\"} 1"), "{page}");
}

#[tokio::test]
async fn the_steps_of_a_run_show_their_dead_letters() {
    let server = Server::start().await;
    let fails = json!({"id": "tell", "type": "javascript", "config": {"code": "throw new Error('no')"}});
    let run = server.start_chain("orders", &[fails]).await;
    server.wait_for(&run, "failed").await;
    let tell = async || {
        let steps = server.get(&format!("{run}/steps")).await.is(200);
        steps["steps"].as_array().unwrap().iter().find(|step| step["key"] == "tell").cloned().unwrap()
    };
    assert!(tell().await.get("deadLetter").is_none());
    let id = run.rsplit('/').next().unwrap().parse().unwrap();
    let letter = DeadLetter { step: Some("tell".into()), run: Some(id), ..letter(json!({}), 1) };
    write_letter_with(&*server.database, server.engine.node(), new_run(), &letter).await;
    assert_eq!(tell().await["deadLetter"], json!({"id": letter.id.to_string(), "status": "dead"}));
    server.post(&format!("/v1/dead-letters/{}/discard", letter.id), &Value::Null).await.is(200);
    let shown = tell().await;
    assert_eq!((&shown["deadLetter"]["status"], &shown["status"]), (&json!("discarded"), &json!("failed")));
}
