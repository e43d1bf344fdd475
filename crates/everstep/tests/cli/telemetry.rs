//! Metrics for Prometheus, and spans for a collector.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Folder, Server, call, chain, wait_for};

#[test]
fn what_runs_do_is_counted_for_prometheus() {
    let folder = Folder::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let server = Server::with(&["--data", &folder.at("data")], &[("EVERSTEP_METRICS_LISTEN", &free)]);
    play(&server);
    play_code(&server);
    let client = server.client();
    server.stranger().get("/metrics").refuses(401, "AUTH_ERROR");
    let key = client.key().to_owned();
    let page = fetch(server.address(), &format!("x-api-key: {key}\r\n"));
    for line in [
        r#"workflow_runs_started_total{workflow="orders"} 2"#,
        r#"workflow_runs_completed_total{workflow="orders",status="completed"} 1"#,
        r#"workflow_runs_completed_total{workflow="orders",status="failed"} 1"#,
        r#"workflow_run_duration_seconds_count{workflow="orders"} 2"#,
        r#"workflow_step_duration_seconds_count{workflow="orders",step="work"} 3"#,
        r#"workflow_step_retries_total{workflow="orders",step="work"} 1"#,
        r#"workflow_signals_total{workflow="orders",event="go"} 2"#,
        r#"workflow_runs_started_total{workflow="parcel"} 1"#,
        r#"workflow_runs_completed_total{workflow="parcel",status="completed"} 1"#,
        r#"workflow_run_duration_seconds_count{workflow="parcel"} 1"#,
        r#"workflow_step_duration_seconds_count{workflow="parcel",step="nap"} 1"#,
        r#"workflow_step_retries_total{workflow="parcel",step="weigh"} 1"#,
        r#"workflow_signals_total{workflow="parcel",event="ask"} 1"#,
        "workflow_retention_swept_total 0",
        "everstep_runs_held 0",
        "# TYPE workflow_run_duration_seconds histogram",
    ] {
        assert!(page.contains(line), "no {line} in\n{page}");
    }
    let shows = |line: &str| fetch(&free, "").contains(line).then_some(());
    let run = client.start("orders", &json!({"input": {}}));
    // The counts of the database follow within a second or two.
    wait_for("the run in flight", || shows(r#"workflow_runs_in_flight{workflow="orders"} 1"#));
    client.post(&format!("{run}/cancel"), &json!({})).is(200);
    wait_for("no run in flight", || shows(r#"workflow_runs_in_flight{workflow="orders"} 0"#));
    wait_for("the cancel", || shows(r#"workflow_runs_completed_total{workflow="orders",status="cancelled"} 1"#));
}

#[test]
fn spans_of_runs_steps_signals_and_events_are_sent() {
    let folder = Folder::new();
    let (endpoint, received) = collect();
    let settings = [("OTLP_ENABLED", "true"), ("OTLP_ENDPOINT", &*endpoint), ("OTEL_SERVICE_NAME", "orders-service")];
    let server = Server::with(&["--data", &folder.at("data")], &settings);
    let [one, other] = play(&server);
    let runs = [one, other, play_code(&server)];
    let paid = server.client().post("/v1/topics/order.paid?waitSeconds=30", &json!({"order": 1})).is(200);
    let event = paid["id"].as_str().unwrap().to_owned();
    // Stopping sends the remaining spans.
    server.stop();
    let mut all = Vec::new();
    while let Ok((head, body)) = received.recv_timeout(Duration::from_secs(1)) {
        assert!(head.starts_with("POST /v1/traces "), "{head}");
        all.extend(body);
    }
    let has = |text: &str| all.windows(text.len()).any(|window| window == text.as_bytes());
    for text in [
        "orders-service",
        "run_id",
        "status",
        "workflow.run",
        "workflow.step",
        "workflow.signal",
        "workflow.name",
        "orders",
        "workflow.version",
        "step.name",
        "step.kind",
        "wait",
        "parcel",
        "weigh",
        "nap",
        "sleep",
        "step.attempt",
        "event",
        "completed",
        "failed",
        "workflow.event",
        "event.topic",
        "order.paid",
        "matched.waits",
    ] {
        assert!(has(text), "no {text} in {} bytes of spans", all.len());
    }
    for id in runs.into_iter().chain([event]) {
        assert!(has(&id), "no attribute with {id}");
        let trace: Vec<u8> = id.replace('-', "").as_bytes().chunks(2).map(hex).collect();
        assert!(all.windows(16).any(|window| window == trace), "no trace of {id}");
    }
}

#[test]
fn what_is_not_supported_of_opentelemetry_is_refused() {
    let folder = Folder::new();
    let mut command = crate::support::everstep();
    command.args(["serve", "--data", &folder.at("data"), "--otlp-enabled"]);
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    crate::support::CommandOutput::from(command.output().unwrap()).exits(2).says("http/protobuf");
    call(&["serve", "--data", &folder.at("data"), "--otlp-enabled", "--otlp-endpoint", "nowhere"])
        .exits(2)
        .says("http://HOST:4318");
}

/// One run that completes after a retry, and one that fails. Returns their ids.
fn play(server: &Server) -> [String; 2] {
    let client = server.client();
    let wait = json!({"id": "ask", "type": "wait", "config": {"event": "go"}});
    let work = json!({
        "id": "work", "type": "javascript",
        "config": {"code": "if (ctx.input.fails) throw new Error('no'); return 1"},
        "retry": {"maxAttempts": 2, "baseMs": 100},
    });
    let saved = client.put("/v1/workflows/orders", &chain(&[wait, work]));
    assert!(saved.status < 300, "{}", saved.body);
    [false, true].map(|fails| {
        let run = client.start("orders", &json!({"input": {"fails": fails}}));
        client.wait_for(&run, "waiting");
        client.post(&format!("{run}/signals/go"), &json!({})).is(200);
        assert_eq!(client.wait(&run)["status"], if fails { "failed" } else { "completed" });
        run.rsplit_once('/').unwrap().1.to_owned()
    })
}

/// A run of code, with a step that is tried twice, a sleep and a wait. Returns its id.
fn play_code(server: &Server) -> String {
    let client = server.client();
    let hello = json!({
        "protocol": 1, "worker": "host:1", "capacity": 1, "workflows": [{"name": "parcel", "version": 1}],
    });
    let session = client.post("/v1/worker/sessions", &hello).is(201)["session"].clone();
    let run = client.start("parcel", &json!({"input": {}}));
    let answer = client.post("/v1/worker/poll", &json!({"session": session, "seen": 0})).is(200);
    let turn = answer["messages"][0]["turns"][0].clone();
    let mut n = 0;
    let mut send = |mut report: Value| {
        n += 1;
        (report["n"], report["run"], report["turn"]) = (json!(n), turn["run"].clone(), turn["turn"].clone());
        let body = json!({"session": session, "seen": 0, "reports": [report]});
        let answer = client.post("/v1/worker/reports", &body).is(200);
        assert!(!answer.to_string().contains("refused"), "{answer}");
    };
    let has = |event: &str, step: &str| {
        client.journal(&run).iter().any(|entry| entry["event"] == event && entry["step"] == step).then_some(())
    };
    send(json!({
        "kind": "failed", "step": "weigh", "attempt": 1, "error": {"message": "no scales"},
        "retry": {"attempts": 2, "backoff": {"kind": "fixed", "baseMs": 10}}, "tookMs": 1,
    }));
    send(json!({"kind": "sleep", "step": "nap", "forMs": 10}));
    send(json!({"kind": "wait", "step": "ask"}));
    wait_for("the second attempt", || has("TimerFired", "weigh"));
    wait_for("the end of the sleep", || has("TimerFired", "nap"));
    send(json!({"kind": "completed", "step": "weigh", "attempt": 2, "output": 7, "tookMs": 1}));
    client.post(&format!("{run}/signals/ask"), &json!({})).is(200);
    send(json!({"kind": "returned", "output": 7}));
    assert_eq!(client.wait(&run)["status"], "completed");
    run.rsplit_once('/').unwrap().1.to_owned()
}

pub(crate) fn fetch(address: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: x\r\n{headers}connection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("text/plain; version=0.0.4"), "{page}");
    page
}

/// A collector that records the heads and bodies of its requests.
fn collect() -> (String, Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (sender, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut stream = BufReader::new(stream.unwrap());
                loop {
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if stream.read_line(&mut head).unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let length = head.to_ascii_lowercase();
                    let length = length.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                    let mut body = vec![0; length.parse().unwrap()];
                    stream.read_exact(&mut body).unwrap();
                    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
                    stream.get_mut().write_all(answer.as_bytes()).unwrap();
                    let _ = sender.send((head, body));
                }
            });
        }
    });
    (endpoint, received)
}

fn hex(pair: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()
}
