//! The messages of faults in configs, as a file: a review shows every change of a text.
//!
//! `BLESS=1 cargo test -p everstep-handlers --test handlers messages` writes the file again; read the difference.

use std::fmt::Write as _;
use std::path::Path;

use everstep_testkit::snapshot;
use serde_json::{Value, json};

use crate::faults;

fn configs() -> Vec<(&'static str, Value)> {
    let url = "https://example.com";
    vec![
        ("noop", json!([])),
        ("noop", json!({"delay": 5})),
        ("noop", json!({"delayMs": "x"})),
        ("javascript", json!({})),
        ("javascript", json!({"code": "", "timeoutSeconds": 0})),
        ("http", json!({})),
        ("http", json!({"url": "example.com"})),
        ("http", json!({"url": "ftp://example.com"})),
        ("http", json!({"url": "https://me:secret@example.com"})),
        ("http", json!({"url": "https://{{ctx.host}}/", "auth": {"type": "bearer", "token": {"$secret": "a"}}})),
        ("http", json!({"url": url, "method": "get"})),
        ("http", json!({"url": url, "headers": {"a b": "x"}})),
        ("http", json!({"url": url, "headers": {"Host": "x"}})),
        ("http", json!({"url": url, "bodyType": "form"})),
        ("http", json!({"url": url, "auth": {"type": "digest"}})),
        ("http", json!({"url": url, "acceptStatuses": ["6xx"], "maxResponseBytes": 0})),
        ("dataQuery", json!({"dataQueryID": "", "args": []})),
        ("notify", json!({})),
        ("notify", json!({"target": 7, "template": {"subject": [], "html": ""}})),
        ("notify", json!({"target": ["a@b, c@d", 7], "template": {"subject": "a\r\nb", "text": ""}})),
        ("notify", json!({"target": null, "template": {"subject": "a", "text": ""}, "timeoutSeconds": 61})),
        ("store.set", json!({"namespace": "", "key": "k", "ttl": 5})),
        ("store.set", json!({"namespace": "n", "key": "k", "value": 1, "ttl_seconds": 0, "value_type": "text"})),
        ("store.transact", json!({"namespace": "n", "checks": [{"key": "k"}], "writes": [{"put": {}}]})),
        ("links.upsert", json!({"namespace": "n", "from": {"type": "t"}, "to": "x"})),
        ("links.lookup", json!({"namespace": "n", "from": {"type": "t", "id": "1"}, "direction": "both"})),
        ("links.delete", json!({"namespace": "n"})),
    ]
}

#[test]
fn messages_of_faults_are_as_written() {
    let mut text = String::new();
    for (kind, config) in configs() {
        let found = faults(kind, &config);
        assert!(!found.is_empty(), "{kind} {config} is valid");
        writeln!(text, "{kind} {config}").expect("a text can be written");
        found.iter().for_each(|fault| writeln!(text, "  {fault}").expect("a text can be written"));
    }
    snapshot::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/handlers/messages.txt"), &text);
}
