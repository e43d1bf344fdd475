//! A node is killed while it sends notices: each dead letter has its notice.
//!
//! The dead letters are written to the database directly, as a commit leaves them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use everstep_core::ids::DeadLetterId;
use everstep_core::time::Timestamp;
use everstep_testkit::postgres::TestDatabase;
use rusqlite::Connection;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Client, Folder, Server, wait_for};
use crate::{alone, site};

const LETTERS: usize = 20;
/// A secret that must appear neither in answers nor in the log.
const CANARY: &str = "canary-7f3a91";

/// A request that a target has received: its body.
#[derive(Clone, Debug)]
struct Received {
    body: String,
}

/// A target that hangs or answers with 200.
struct Target {
    url: String,
    is_up: Arc<AtomicBool>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Target {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hooks", listener.local_addr().unwrap());
        let (is_up, received) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let target = Self { url, is_up: Arc::clone(&is_up), received: Arc::clone(&received) };
        std::thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let (is_up, received) = (Arc::clone(&is_up), Arc::clone(&received));
                std::thread::spawn(move || serve(stream, &is_up, &received));
            }
        });
        target
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    fn set_up(&self) {
        self.is_up.store(true, Ordering::SeqCst);
    }
}

fn serve(stream: TcpStream, is_up: &AtomicBool, received: &Mutex<Vec<Received>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let Some((name, value)) = line.trim().split_once(": ") else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let was_up = is_up.load(Ordering::SeqCst);
    received.lock().unwrap().push(Received { body: String::from_utf8(body).unwrap() });
    if !was_up {
        // The request hangs until the node is killed, or for longer than any attempt.
        std::thread::sleep(Duration::from_secs(90));
        return;
    }
    let mut stream = stream;
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
}

/// The database of a server.
enum Ground<'a> {
    Folder(PathBuf),
    Database(&'a TestDatabase<'a>),
}

impl Ground<'_> {
    /// Writes a dead letter, as a commit leaves it.
    fn write(&self, letter: &Letter, config: &Value) {
        let Letter { id, run } = letter;
        let now = now().micros();
        let insert = |uuid: &dyn Fn(Uuid) -> String, bytes: &str| {
            format!(
                "insert into dead_letters (workspace, id, created_at, changed_at, run_id, source, kind, workflow, step,
                    delivery, target, error, secrets, attempts, config)
                values ({workspace}, {id}, {now}, {now}, {run}, 'delivery', 'http', 'orders', 'APPROVE[7].tell-erp',
                    '{delivery}', 'http://erp', 'HTTP_ERROR', '[\"/headers/x-token\"]',
                    '[{{\"at\":{now},\"ms\":3,\"code\":\"HTTP_ERROR\",\"message\":\"no connection\"}}]', {bytes})",
                workspace = uuid(Uuid::from_u128(1)),
                id = uuid(*id),
                run = uuid(*run),
                delivery = Uuid::nil(),
            )
        };
        match self {
            Self::Folder(data) => {
                let connection = Connection::open(data.join("everstep.db")).unwrap();
                connection.busy_timeout(Duration::from_secs(10)).unwrap();
                let uuid = |uuid: Uuid| format!("x'{}'", uuid.simple());
                connection.execute_batch(&insert(&uuid, &format!("cast('{config}' as blob)"))).unwrap();
            }
            Self::Database(database) => {
                let uuid = |uuid: Uuid| format!("'{uuid}'");
                database.sql(&insert(&uuid, &format!("convert_to('{config}', 'UTF8')")));
            }
        }
    }
}

struct Letter {
    id: Uuid,
    run: Uuid,
}

fn now() -> Timestamp {
    Timestamp::EPOCH.plus(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap())
}

fn letters() -> Vec<Letter> {
    let letter = |number: usize| Letter {
        id: DeadLetterId::new(now(), number as u128).uuid(),
        run: Uuid::from_u128(1_000 + number as u128),
    };
    (0..LETTERS).map(letter).collect()
}

/// A request with a secret in a header.
fn config(target: &Target) -> Value {
    json!({"url": target.url, "method": "POST", "body": {}, "headers": {"x-token": {"$secret": "erp"}}, "timeoutSeconds": 60})
}

fn statuses(client: &Client) -> BTreeMap<String, usize> {
    let page = client.get("/v1/dead-letters?limit=500").is(200);
    assert!(!page.to_string().contains(CANARY), "{page}");
    let mut statuses = BTreeMap::new();
    for letter in page["deadLetters"].as_array().unwrap() {
        *statuses.entry(letter["status"].as_str().unwrap().to_owned()).or_insert(0) += 1;
    }
    statuses
}

/// Kills a node while its notices hang, and checks that the next one sends them.
fn kill_during_notices(ground: &Ground<'_>, operators: &Target, first: Server, next: impl FnOnce() -> Server) {
    let target = Target::start();
    let letters = letters();
    for letter in &letters {
        ground.write(letter, &config(&target));
    }
    // A requeue of an unknown id wakes the loop of the node, which takes the notices.
    let client = first.client();
    client.post("/v1/dead-letters/requeue", &json!({"filter": {"workflow": "none"}})).is(200);
    wait_for("a notice to hang", || (!operators.received().is_empty()).then_some(()));
    first.kill();
    operators.set_up();
    let server = next();
    let client = server.client();
    wait_for("every notice to be sent", || {
        let page = client.get("/v1/dead-letters?limit=500").is(200);
        let letters = page["deadLetters"].as_array().unwrap();
        let is_notified = |letter: &Value| letter["notifiedAt"].is_string();
        (letters.len() == LETTERS && letters.iter().all(is_notified)).then_some(())
    });
    let mut notified: Vec<String> = Vec::new();
    for request in operators.received() {
        let notice: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!((&notice["event"], &notice["workflowCode"]), (&json!("workflow_event_failed"), &json!("orders")));
        notified.push(notice["jobId"].as_str().unwrap().to_owned());
    }
    eprintln!("kill -9 during {LETTERS} notices: {} were sent", notified.len());
    for letter in &letters {
        assert!(notified.contains(&letter.id.to_string()), "{}", letter.id);
    }
    assert_eq!(statuses(&client).get("dead"), Some(&LETTERS));
    assert!(target.received().is_empty(), "no dead letter was requeued");
    drop(server);
}

#[test]
fn notices_of_a_killed_server_on_sqlite_are_sent_by_the_next() {
    let _turn = alone();
    let operators = Target::start();
    let folder = Folder::new();
    let data = folder.at("data");
    let start = || Server::with(&["--data", &data], &[("N8N_WEBHOOK_URL", &operators.url)]);
    kill_during_notices(&Ground::Folder(folder.path().join("data")), &operators, start(), start);
}

#[test]
fn notices_of_a_killed_node_are_sent_by_another() {
    let _turn = alone();
    let operators = Target::start();
    let site = site().set("EVERSTEP_OPS_WEBHOOK_URL", &operators.url);
    let (first, second) = (site.start(), site.start());
    kill_during_notices(&Ground::Database(&site.database), &operators, first, || second);
}

#[test]
fn a_server_without_an_address_for_notices_says_so_once() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let said = server.stop();
    assert_eq!(said.matches("EVERSTEP_OPS_WEBHOOK_URL is not set").count(), 1, "{said}");
    let url = "https://ops.example.com/hook?token=canary-url";
    let server = Server::with(&["--data", &folder.at("data")], &[("EVERSTEP_OPS_WEBHOOK_URL", url)]);
    let said = server.stop();
    assert!(!said.contains("EVERSTEP_OPS_WEBHOOK_URL") && !said.contains("canary-url"), "{said}");
}
