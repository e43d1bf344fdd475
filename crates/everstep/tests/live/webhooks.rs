//! Webhooks of a real server, which the library of Standard Webhooks verifies.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::follower::installed;
use crate::support::{Folder, Server};

/// Base64 after its prefix.
const ENCODED: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
/// The bytes of the key.
const PLAIN: &str = "a secret of the chat, with an é";

/// The program that receives webhooks. It ends with this value.
struct Receiver {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
    url: String,
}

impl Receiver {
    fn start() -> Self {
        let secrets = json!({"secrets": {"/encoded": ENCODED, "/plain": PLAIN}}).to_string();
        let mut command = Command::new("node");
        command.current_dir(installed()).args(["receive.mjs", &secrets]);
        let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        Self { program, lines, url: first["url"].as_str().unwrap().to_owned() }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn the_library_of_standard_webhooks_verifies_a_webhook() {
    let (folder, mut receiver) = (Folder::new(), Receiver::start());
    let reach = [("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.1")];
    let server = Server::with(&["--data", &folder.at("data")], &reach);
    let admin = server.client();
    let mut effects = Vec::new();
    for (name, secret) in [("encoded", ENCODED), ("plain", PLAIN)] {
        admin.put(&format!("/v1/secrets/{name}"), &json!({"value": secret})).is(201);
        let target = format!("{}/{name}", receiver.url);
        let payload = json!({"note": "é \u{1F600} \"quoted\""});
        effects.push(json!({
            "id": name, "type": "webhook", "target": target, "secret": {"$secret": name}, "payload": payload,
        }));
    }
    admin.publish(
        "review",
        &json!({"states": [
            {"name": "review", "initial": true, "on": {"APPROVE": {"to": "done", "events": effects}}},
            {"name": "done", "terminal": true},
        ]}),
    );
    let run = admin.start("review", &json!({}));
    admin.post(&format!("{run}/transitions"), &json!({"action": "APPROVE"})).is(200);
    let mut paths = Vec::new();
    for _ in 0..2 {
        let received = receiver.next();
        let data = &received["body"]["data"];
        assert_eq!(run, format!("/v1/runs/{}", data["runId"].as_str().unwrap_or_default()), "{received}");
        assert_eq!(received["body"]["type"], "workflow.transition");
        assert_eq!(data["payload"], json!({"note": "é \u{1F600} \"quoted\""}), "{received}");
        assert_eq!(received["forged"], json!([]), "{received}");
        assert!(received["id"].is_string(), "{received}");
        paths.push(received["path"].as_str().unwrap().to_owned());
    }
    paths.sort();
    assert_eq!(paths, ["/encoded", "/plain"]);
    assert_eq!(admin.wait(&run)["status"], "completed");
}
