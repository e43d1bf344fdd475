//! Every file of `examples/` runs on a server, and works as its page describes.

mod events;
mod machines;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use everstep::definition;
use everstep_core::schema::{CheckMode, Schema};
use everstep_testkit::smtp_server::SmtpServer;
use serde_json::{Value, json};

use crate::support::{Client, CommandOutput, Folder, Server, everstep, example, root};

/// The actions with a definition that was saved under a name.
type Story = fn(&Play, &str);

/// Each definition, and its story.
const STORIES: &[(&str, Story)] = &[
    ("booking.yaml", gives_the_output_beside_it),
    ("counter.yaml", counts_over_all_runs),
    ("cursor.yaml", continues_after_the_last_run),
    ("dedup.yaml", handles_an_invoice_once),
    ("document-approval.yaml", machines::is_approved_by_two_of_three),
    ("events/onboard-user.yaml", events::onboards_every_user_that_signs_up),
    ("events/receipt.yaml", events::writes_a_receipt_for_every_payment),
    // After the other workflow that the same event starts.
    ("events/ship.yaml", events::ships_orders_of_one_country),
    ("events/paid-order.yaml", events::continues_when_it_is_paid),
    ("expense.yaml", machines::is_approved_by_its_amount),
    ("hello.yaml", gives_the_output_beside_it),
    // Before the workflows that start it.
    ("invoice.yaml", is_one_invoice),
    ("invoices.yaml", starts_a_run_per_customer),
    ("mirror-setup.yaml", connects_a_task_with_its_mirrors),
    ("mirror.yaml", passes_a_change_on_to_every_mirror),
    ("order-approval.yaml", waits_for_an_approval),
    ("overdue.yaml", reminds_of_every_open_order),
    ("payment.yaml", gives_the_output_beside_it),
    ("quotes.yaml", gives_the_output_beside_it),
    ("refund/refund-approval.yaml", machines::is_opened_by_the_refund),
    ("refund/refund.yaml", machines::continues_with_the_decision),
    ("saga.yaml", undoes_every_booking_before_the_failure),
    ("shipping.yaml", gives_the_output_beside_it),
    ("stock.yaml", asks_until_the_warehouse_answers),
    ("timetable.json", gives_the_output_beside_it),
    ("triage.yaml", asks_the_model_until_it_answers),
    ("shapes/conditional.json", comes_to_its_end),
    ("shapes/deep_chain.json", comes_to_its_end),
    ("shapes/delay_heavy.json", comes_to_its_end),
    ("shapes/diamond_and.json", comes_to_its_end),
    ("shapes/diamond_or.json", comes_to_its_end),
    ("shapes/error_path.json", comes_to_its_end),
    ("shapes/error_recovery.json", comes_to_its_end),
    ("shapes/fan_out.json", comes_to_its_end),
    ("shapes/linear.json", comes_to_its_end),
    ("shapes/multi_diamond.json", comes_to_its_end),
    ("shapes/wide_fan_in.json", comes_to_its_end),
    ("shapes/wide_fan_out.json", comes_to_its_end),
];
/// Folders with files that a story needs beside its definition.
const BESIDE: &[&str] = &["shop"];

#[test]
fn every_example_is_run_on_a_server() {
    let folder = Folder::new();
    let play = Play::new(&folder);
    for (file, story) in STORIES {
        let name = Path::new(file).file_stem().unwrap().to_str().unwrap();
        eprintln!("{file}");
        play.import(file, name);
        story(&play, name);
    }
}

#[test]
fn every_example_fits_the_schema_of_its_style() {
    let [graph, machine] = ["graph", "machine"].map(|style| {
        let text = std::fs::read_to_string(root().join(format!("docs/reference/{style}.schema.json"))).unwrap();
        Schema::built_in(&serde_json::from_str(&text).unwrap())
    });
    for (file, _) in STORIES {
        let definition = definition::read(&root().join("examples").join(file)).unwrap();
        let schema = if definition.get("states").is_some() { &machine } else { &graph };
        assert_eq!(schema.check(&definition, CheckMode::Json), [], "{file}");
    }
}

#[test]
fn no_example_is_without_a_story() {
    let mut found = BTreeSet::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join("examples").join(&folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let name = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            if path.is_dir() {
                folders.push(name);
            } else {
                found.insert(name);
            }
        }
    }
    found.retain(|name| !BESIDE.iter().any(|folder| name.starts_with(&format!("{folder}/"))));
    let played: BTreeSet<_> = STORIES.iter().map(|(file, _)| (*file).to_owned()).collect();
    let stems: BTreeSet<_> = played.iter().map(|name| Path::new(name).with_extension("")).collect();
    let is_beside = |name: &String| {
        let path = Path::new(name);
        let is_data = path.extension().is_some_and(|extension| extension == "input" || extension == "expected");
        is_data && stems.contains(&path.with_extension(""))
    };
    let untold: Vec<_> = found.iter().filter(|name| *name != "README.md" && !is_beside(name)).collect();
    assert_eq!(untold, played.iter().collect::<Vec<_>>(), "a story of this file runs everything in examples/");
    let page = std::fs::read_to_string(example("README.md")).unwrap();
    let unnamed: Vec<_> = played.iter().filter(|name| !name.starts_with("shapes/") && !page.contains(*name)).collect();
    assert!(unnamed.is_empty(), "examples/README.md does not name {unnamed:?}");
}

/// A server with a shop's database, and a warehouse and a mail server that it may reach.
struct Play {
    server: Server,
    warehouse: Warehouse,
    /// Receives the mails of the server.
    mails: SmtpServer,
}

impl Play {
    fn new(folder: &Folder) -> Self {
        let shop = rusqlite::Connection::open(folder.at("shop.db")).unwrap();
        shop.execute_batch(&read("shop/schema.sql")).unwrap();
        let mails = SmtpServer::start();
        let server = Server::with(
            &["--data", &folder.at("data"), "--sqlite-sources-dir", folder.path().to_str().unwrap()],
            &[
                ("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.1"),
                ("EVERSTEP_SMTP_URL", &mails.url()),
                ("EVERSTEP_SMTP_FROM", "Everstep <no-reply@example.com>"),
            ],
        );
        Self { server, warehouse: Warehouse::start(), mails }
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    /// Saves a definition as a user would.
    fn import(&self, file: &str, name: &str) {
        self.save(&example(file), &format!("saved {name} version 1"));
    }

    fn save(&self, path: &str, report: &str) {
        let mut command = everstep();
        command.args(["import", path]);
        command.env("EVERSTEP_URL", format!("http://{}", self.server.address()));
        command.env("EVERSTEP_API_KEY", self.client().key());
        CommandOutput::from(command.output().unwrap()).exits(0).says(report);
    }

    /// Runs a workflow to its end.
    fn run(&self, name: &str, input: &Value) -> Value {
        let path = format!("/v1/workflows/{name}/runs?waitSeconds=30");
        let started = self.client().post(&path, &json!({"input": input})).is(201);
        assert!(started["run"]["endedAt"].is_string(), "{name} has not ended: {started}");
        started["run"].clone()
    }

    /// The output of a run that completes.
    #[track_caller]
    fn output(&self, name: &str, input: &Value) -> Value {
        let run = self.run(name, input);
        assert_eq!(run["status"], "completed", "{run}");
        run["output"].clone()
    }
}

fn gives_the_output_beside_it(play: &Play, name: &str) {
    let input: Value = serde_json::from_str(&read(&format!("{name}.input"))).unwrap();
    let expected = read(&format!("{name}.expected"));
    let (code, output) = expected.split_once('\n').unwrap();
    assert_eq!(code, "0");
    assert_eq!(play.output(name, &input), serde_json::from_str::<Value>(output).unwrap());
}

fn undoes_every_booking_before_the_failure(play: &Play, name: &str) {
    gives_the_output_beside_it(play, name);
    let no_hotel = play.output(name, &json!({"nights": 9, "age": 30}));
    assert_eq!((&no_hotel["trip"]["failed"], &no_hotel["trip"]["undone"]), (&json!("hotel"), &json!(["flight"])));
    let booked = play.output(name, &json!({"nights": 3, "age": 30}));
    assert_eq!(booked["trip"]["status"], "booked");
}

fn counts_over_all_runs(play: &Play, name: &str) {
    for (mails, total) in [(2, 2), (3, 5), (-1, 4)] {
        assert_eq!(play.output(name, &json!({"mails": mails})), json!({"total": total}));
    }
}

fn continues_after_the_last_run(play: &Play, name: &str) {
    for (orders, fresh) in
        [(json!([1, 2, 3]), json!([1, 2, 3])), (json!([2, 3, 4]), json!([4])), (json!([4]), json!([]))]
    {
        assert_eq!(play.output(name, &json!({"orders": orders})), json!({"orders": fresh}));
    }
}

fn handles_an_invoice_once(play: &Play, name: &str) {
    let run = |invoice: &str| play.output(name, &json!({"invoice": invoice}));
    assert_eq!(run("a"), json!({"letter": "invoice a was sent"}));
    assert_eq!(run("b"), json!({"letter": "invoice b was sent"}));
    assert_eq!(run("a"), json!({"skipped": "CONFLICT"}));
}

fn connects_a_task_with_its_mirrors(play: &Play, name: &str) {
    // A repeated link is the same link.
    for _ in 0..2 {
        play.output(name, &json!({"task": "a1", "mirrors": ["b1", "c1", "d1"]}));
    }
}

fn passes_a_change_on_to_every_mirror(play: &Play, name: &str) {
    let updates = |task: &str, direction: &str| {
        let input = json!({"task": task, "name": "paint the wall", "direction": direction});
        let updates = play.output(name, &input)["updates"].clone();
        let updates = updates.as_array().expect("it is a list").clone();
        assert!(updates.iter().all(|update| update["name"] == "paint the wall"), "{updates:?}");
        updates.into_iter().map(|update| update["task"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(updates("a1", "forward"), ["b1", "c1", "d1"]);
    assert_eq!(updates("c1", "reverse"), ["a1"]);
    assert!(updates("a2", "forward").is_empty());
    // The trigger of the definition passes the change on when the event is published.
    let change = json!({"task_id": "a1", "changes": {"name": "paint the door"}});
    let run = events::only_run(play, "PROJECT_TASK_UPDATED", &change);
    let updates = run["output"]["updates"].as_array().unwrap();
    assert_eq!((updates.len(), &updates[0]["name"]), (3, &json!("paint the door")), "{run}");
}

fn comes_to_its_end(play: &Play, name: &str) {
    let run = play.run(name, &json!({"n": 4}));
    let result = match name {
        "error_path" => {
            assert_eq!((&run["status"], &run["error"]["code"]), (&json!("failed"), &json!("END_ERROR")), "{run}");
            return;
        }
        // Every branch has a separate end, which returns its data.
        "fan_out" | "wide_fan_out" => {
            assert_eq!(run["status"], "completed", "{run}");
            let steps = play.client().get(&format!("/v1/runs/{}/steps", run["id"].as_str().unwrap())).is(200);
            let ends = steps["steps"].as_array().unwrap().iter();
            let ends = ends.filter(|step| step["node"].as_str().unwrap().starts_with("end"));
            assert_eq!(ends.count(), if name == "fan_out" { 3 } else { 10 }, "{steps}");
            return;
        }
        "linear" => json!(7),
        "diamond_and" => json!(45),
        "diamond_or" => json!("once"),
        "deep_chain" => json!(20),
        "wide_fan_in" => json!(55),
        "conditional" => json!("small"),
        "multi_diamond" => json!(12),
        "error_recovery" => json!("made up for out of order"),
        "delay_heavy" => json!("rested"),
        name => panic!("no file contains the expected output of {name}"),
    };
    assert_eq!(run["output"], json!({"result": result}), "{run}");
}

fn is_one_invoice(play: &Play, name: &str) {
    let invoice = play.output(name, &json!({"customer": "ann", "hours": 3, "rate": 40}));
    assert_eq!(invoice, json!({"customer": "ann", "amount": 120}));
    let failed = play.run(name, &json!({"customer": "bob", "hours": 0, "rate": 40}));
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("JAVASCRIPT_ERROR")));
    assert!(failed["error"]["message"].as_str().unwrap().contains("bob owes nothing"), "{failed}");
}

fn starts_a_run_per_customer(play: &Play, name: &str) {
    let customers = json!([{"name": "ann", "hours": 3}, {"name": "bob", "hours": 0}, {"name": "cy", "hours": 1.5}]);
    let run = play.run(name, &json!({"rate": 40, "customers": customers}));
    assert_eq!(run["status"], "completed", "{run}");
    let invoices = json!([{"customer": "ann", "amount": 120}, null, {"customer": "cy", "amount": 60}]);
    assert_eq!(run["output"]["invoices"], invoices);
    let children = play.client().get(&format!("/v1/runs?parent={}", run["id"].as_str().unwrap())).is(200);
    let mut statuses: Vec<_> = children["runs"].as_array().unwrap().iter().map(|run| &run["status"]).collect();
    statuses.sort_by_key(ToString::to_string);
    assert_eq!(statuses, ["completed", "completed", "failed"]);
}

fn waits_for_an_approval(play: &Play, name: &str) {
    let client = play.client();
    let order = |id: &str, pieces: u32| {
        let lines = json!([{"article": "chair", "pieces": pieces, "price": 400}]);
        json!({"orderId": id, "lines": lines})
    };
    let small = play.output(name, &order("o-1", 2));
    assert_eq!(small, json!({"order": {"status": "approved", "by": "rule", "total": 800}}));

    let ask = |id: &str, answer: Value| {
        let run = client.start(name, &json!({"input": order(id, 3)}));
        let waiting = client.wait_for(&run, "waiting");
        assert!(waiting["waitingFor"].as_str().unwrap().contains("ask"), "{waiting}");
        // An answer for another order does not match.
        let other = client.post(&format!("{run}/signals/order.approval"), &json!({"orderId": "x", "approved": true}));
        assert_eq!(other.is(200)["outcome"], "ignored");
        assert_eq!(client.post(&format!("{run}/signals/order.approval"), &answer).is(200)["outcome"], "accepted");
        client.wait(&run)["output"].clone()
    };
    let approved = ask("o-2", json!({"orderId": "o-2", "approved": true, "by": "grace"}));
    assert_eq!(approved, json!({"order": {"status": "approved", "by": "grace", "total": 1200}}));
    let rejected = ask("o-3", json!({"orderId": "o-3", "approved": false, "reason": "too many chairs"}));
    assert_eq!(rejected, json!({"order": {"status": "rejected", "because": "too many chairs"}}));
}

fn reminds_of_every_open_order(play: &Play, name: &str) {
    let client = play.client();
    for (path, file) in [("data-sources/shop", "source"), ("queries/open-orders", "open-orders")] {
        let body: Value = serde_json::from_str(&read(&format!("shop/{file}.json"))).unwrap();
        client.put(&format!("/v1/{path}"), &body).is(201);
    }
    // As a web hook would send it.
    let hook = |customer: &str| json!({"headers": {"x-shop": "1"}, "body": {"customer": customer}});
    let run = play.run(name, &hook("ann"));
    let letters = json!([
        {"order": 1, "text": "ann, please pay 12.50"},
        {"order": 3, "text": "ann, please pay 3.00"},
    ]);
    assert_eq!(run["output"], json!({"letters": letters, "due": 15.5}));
    let logs = client.get(&format!("/v1/runs/{}/logs", run["id"].as_str().unwrap())).is(200);
    assert!(logs.to_string().contains("reminding of order 3"), "{logs}");
    assert_eq!(play.output(name, &hook("bob")), json!({"letters": [], "due": 0}));
    assert_eq!(play.output(name, &hook("ann' or 1=1 --")), json!({"letters": [], "due": 0}));
}

fn asks_until_the_warehouse_answers(play: &Play, name: &str) {
    let warehouse = &play.warehouse;
    let url = format!("http://{}", warehouse.address);
    let stock = play.output(name, &json!({"warehouse": url, "article": "busy"}));
    assert_eq!((stock, warehouse.asked("busy")), (json!({"pieces": 12}), 3));
    // It rejects permanently.
    let stock = play.output(name, &json!({"warehouse": url, "article": "unknown"}));
    assert_eq!((stock, warehouse.asked("unknown")), (json!({"because": "HTTP_STATUS"}), 1));
    // It does not respond.
    let stock = play.output(name, &json!({"warehouse": url, "article": "closed"}));
    assert_eq!((stock, warehouse.asked("closed")), (json!({"because": "HTTP_STATUS"}), 4));
}

/// The example names the host of a public service; here the warehouse answers in its place.
fn asks_the_model_until_it_answers(play: &Play, name: &str) {
    let warehouse = &play.warehouse;
    let folder = Folder::new();
    let text = read("triage.yaml").replace("https://api.openai.com", &format!("http://{}", warehouse.address));
    play.client().put("/v1/secrets/llm-key", &json!({"value": "sk-test"})).is(201);
    play.save(&folder.write("triage.yaml", text), "saved triage version 2");
    // The first attempt is answered 503.
    let ticket = play.output(name, &json!({"text": "I was charged twice."}));
    assert_eq!((ticket, warehouse.asked("chat")), (json!({"ticket": {"team": "billing", "tokens": 42}}), 2));
    // The model names a team that does not exist.
    let ticket = play.output(name, &json!({"text": "Please remove my account."}));
    assert_eq!(ticket, json!({"ticket": {"team": "other", "needsPerson": true}}));
}

/// A warehouse that is busy at first, or closed permanently.
struct Warehouse {
    address: String,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Warehouse {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(Mutex::new(BTreeMap::new()));
        let counts = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &counts);
            }
        });
        Self { address, asked }
    }

    /// The number of requests for an article.
    fn asked(&self, article: &str) -> usize {
        self.asked.lock().unwrap().get(article).copied().unwrap_or(0)
    }
}

fn answer(stream: TcpStream, counts: &Mutex<BTreeMap<String, usize>>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    // A connection that is closed before its request is read is reset.
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut request = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut request).unwrap();
    let article = head.split([' ', '/']).nth(3).unwrap_or_default().to_owned();
    let times = {
        let mut counts = counts.lock().unwrap();
        let times = counts.entry(article.clone()).or_default();
        *times += 1;
        *times
    };
    let (status, body) = match (&*article, times) {
        ("busy", 3..) => ("200 OK", r#"{"pieces": 12}"#),
        ("chat", 2) => ("200 OK", BILLING),
        ("chat", 3) => ("200 OK", LEGAL),
        ("unknown", _) => ("404 Not Found", "{}"),
        _ => ("503 Service Unavailable", "{}"),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: application/json\r\n");
    write!(reader.get_mut(), "{head}content-length: {length}\r\n\r\n{body}").unwrap();
}

/// Answers of a language model.
const BILLING: &str =
    r#"{"choices": [{"message": {"content": "{\"team\": \"billing\"}"}}], "usage": {"total_tokens": 42}}"#;
const LEGAL: &str =
    r#"{"choices": [{"message": {"content": "{\"team\": \"legal\"}"}}], "usage": {"total_tokens": 42}}"#;

/// A file of the examples.
fn read(name: &str) -> String {
    std::fs::read_to_string(example(name)).unwrap()
}
