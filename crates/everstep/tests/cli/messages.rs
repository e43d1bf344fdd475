//! The error messages of real commands, as a file: a review shows every change of a message.
//!
//! `BLESS=1 cargo test -p everstep --test cli messages` writes the file again; read the difference.

use std::fmt::Write as _;
use std::path::Path;

use everstep_testkit::snapshot;
use serde_json::json;

use crate::support::{Folder, everstep};

/// Commands that fail; `DIR` is a folder with the files below.
const COMMANDS: &[&[&str]] = &[
    &["run", "DIR/missing.json"],
    &["run", "DIR/broken.json"],
    &["run", "DIR/broken.yaml"],
    &["run", "DIR/invalid.json"],
    &["run", "DIR/hello.json", "--input", "{"],
    &["run", "DIR/hello.json", "--input", "@DIR/missing.json"],
    &["run", "DIR/hello.json", "--name", "No Name"],
    &["run", "DIR/hello.json", "--data", "DIR/hello.json"],
    &["run", "DIR/hello.json", "--key", "k"],
    &["run", "DIR/fails.json", "--quiet"],
    &["validate", "DIR/invalid.json"],
    &["serve", "--config", "DIR/missing.toml"],
    &["serve", "--config", "DIR/wrong.toml"],
    &["serve", "--database-url", "mysql://localhost/x"],
    &["serve", "--node-lease", "soon"],
    &["serve", "--node-lease", "1ms", "--database-url", "postgres://localhost/x"],
    &["serve", "--cluster-key", "short", "--database-url", "postgres://localhost/x"],
    &["serve", "--cluster-key", "0123456789012345678901234567890123456789"],
    &["serve", "--database-url", "postgres://"],
    &["serve", "--database-connections", "1", "--database-url", "postgres://localhost/x"],
    &["serve", "--worker-lease", "1ms"],
    &["serve", "--shards", "0"],
    &["serve", "--shards", "20000"],
    &["serve", "--javascript-threads", "0"],
    &["serve", "--max-retention-days", "0"],
    &["serve", "--sweeper-interval-ms", "0"],
    &["serve", "--store-history-days", "0"],
    &["serve", "--store-sweep", "0ms"],
    &["serve", "--store-max-value-bytes", "1"],
    &["serve", "--jwt-audience", "everstep"],
    &["serve", "--jwt-issuer", "https://login.example.com", "--jwt-audience", "everstep"],
    &["serve", "--otlp-enabled", "--otlp-endpoint", "collector"],
    &["serve", "--allow-addresses", "here"],
    &["serve", "--log", "loud=="],
    &["serve", "--listen", "127.0.0.1:0", "--data", "DIR/hello.json"],
    &["nodes", "--data", "DIR/missing"],
    &["keys", "list", "--data", "DIR/missing"],
    &["keys", "list", "--data", "DIR/data", "--workspace", "missing"],
    &["keys", "create", "--data", "DIR/data", "--name", "x"],
    &["keys", "create", "--data", "DIR/data", "--name", "x", "--role", "boss"],
    &["keys", "revoke", "00000000-0000-7000-8000-000000000000", "--data", "DIR/data"],
    &["keys", "revoke", "zork", "--data", "DIR/data"],
    &["workspaces", "create", "a b", "--data", "DIR/data"],
    &["workspaces", "create", "default", "--data", "DIR/data"],
    &["secrets", "delete", "missing", "--data", "DIR/data"],
    &["secrets", "set", "a b", "--from-file", "DIR/hello.json", "--data", "DIR/data"],
    &["secrets", "set", "a", "--from-file", "DIR/missing.txt", "--data", "DIR/data"],
    &["keys", "create", "--name", "x", "--role", "viewer", "--expires", "soon", "--data", "DIR/data"],
    &["completions", "cmd"],
    &["fly"],
    &["subscriptions", "pause", "nope"],
    &["dlq", "show", "zork"],
    &["dlq", "requeue", "zork"],
    &["dlq", "list", "--run", "zork"],
    &["runs", "--since", "yesterday", "--server", "http://127.0.0.1:1", "--api-key", "es_x"],
    &["runs", "--server", "nowhere"],
    &["runs", "--server", "http://127.0.0.1:1", "--api-key", "es_x"],
    &["runs", "--server", "http://127.0.0.1:1", "--api-key", "es_0000000000000000000000000000000000000000000"],
];

#[test]
fn messages_of_commands_are_as_written() {
    let folder = Folder::new();
    let graph = |node: serde_json::Value| {
        json!({
            "nodes": [{"id": "start", "type": "start"}, node, {"id": "end", "type": "end"}],
            "edges": [{"source": "start", "target": "it"}, {"source": "it", "target": "end"}]
        })
    };
    folder.write("hello.json", graph(json!({"id": "it", "type": "noop"})).to_string());
    let fails = json!({"id": "it", "type": "noop", "config": {"fail": "no"}, "retry": {"maxAttempts": 1}});
    folder.write("fails.json", graph(fails).to_string());
    folder.write("invalid.json", graph(json!({"id": "it", "type": "nop"})).to_string());
    folder.write("broken.json", "{");
    folder.write("broken.yaml", "nodes: [");
    folder.write("wrong.toml", "[server]\nlisten = \"127.0.0.1:1\"\ndatta = \"x\"");
    let data = folder.at("data");
    everstep().args(["keys", "create", "--name", "first", "--role", "admin", "--data", &data]).output().unwrap();
    let path = folder.path().to_str().unwrap();
    let mut text = String::new();
    for command in COMMANDS {
        let args = command.iter().map(|arg| arg.replace("DIR", path));
        let output = everstep().current_dir(path).args(args).output().unwrap();
        let code = output.status.code().unwrap_or(-1);
        assert_ne!(code, 0, "{command:?} succeeds");
        writeln!(text, "everstep {}\n  exit {code}", command.join(" ")).unwrap();
        let said = String::from_utf8(output.stderr).unwrap().replace(path, "DIR");
        for line in said.lines().map(str::trim_end).filter(|line| is_message(line)) {
            writeln!(text, "  {}", without_run(line)).unwrap();
        }
    }
    snapshot::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/messages.txt"), &text);
}

/// A line without the id of a new run, which differs from run to run.
fn without_run(line: &str) -> String {
    let is_id = |word: &&str| word.len() == 36 && word.split('-').count() == 5 && !word.starts_with("00000000");
    line.split(' ').find(is_id).map_or_else(|| line.to_owned(), |id| line.replace(id, "ID"))
}

/// Leaves out log lines and usage lines: the former have times, the latter are in the reference.
fn is_message(line: &str) -> bool {
    let is_log = line.contains(" WARN ") || line.contains(" INFO ") || line.contains(" ERROR ");
    !line.is_empty() && !is_log && !line.starts_with("Usage:") && !line.starts_with("For more information")
}
