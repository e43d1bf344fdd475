//! Events that official CloudEvents SDKs publish, in the three modes of HTTP.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::follower::installed;
use crate::support::{Folder, Server};

/// The version of the Python SDK.
const PYTHON_SDK: &str = "1.12.0";

/// The programs that use the SDKs print one answer per line.
fn answers(command: &mut Command) -> Vec<Value> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().unwrap_or_else(|error| panic!("{name} cannot be started ({error}); install it"));
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name}: {printed}{said}");
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Checks the answers of one SDK, and the events that the server has stored.
fn check(server: &Server, source: &str, subject: &str, answers: &[Value]) {
    let modes: Vec<_> =
        answers.iter().map(|answer| (answer["mode"].as_str().unwrap(), answer["status"].clone())).collect();
    assert_eq!(modes, [("binary", json!(202)), ("structured", json!(202)), ("batched", json!(202))], "{answers:?}");
    let batch = answers[2]["answer"]["events"].as_array().unwrap();
    let events = [&answers[0]["answer"], &answers[1]["answer"], &batch[0], &batch[1]];
    for (event, id) in events.into_iter().zip(["binary", "structured", "batched", "batched too"]) {
        let shown = server.client().get(&format!("/v1/events/{}", event["id"].as_str().unwrap())).is(200);
        assert_eq!((&shown["topic"], &shown["data"]), (&json!("order.paid"), &json!({"order": 17, "note": "é"})));
        let identity = [&shown["source"], &shown["eventId"], &shown["subject"]].map(|text| text.as_str().unwrap());
        assert_eq!(identity, [source, id, subject]);
        assert_eq!(shown["extensions"]["traceparent"], "00-ab", "{shown}");
        assert!(shown["extensions"]["time"].as_str().unwrap().starts_with("2026-11-17T12:00:00"), "{shown}");
    }
}

fn argument(server: &Server, source: &str) -> String {
    let url = format!("http://{}", server.address());
    json!({"url": url, "key": server.client().key(), "source": source}).to_string()
}

#[test]
fn the_javascript_sdk_publishes_in_all_three_modes() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let source = "https://shop.example/orders?region=north";
    let mut command = Command::new("node");
    command.current_dir(installed()).args(["publish.mjs", &argument(&server, source)]);
    check(&server, source, "order 17, \"paid\"", &answers(&mut command));
}

/// The interpreter with the Python SDK, in a virtual environment among the results of builds.
fn python() -> PathBuf {
    static INTERPRETER: OnceLock<PathBuf> = OnceLock::new();
    let install = || {
        let binary = PathBuf::from(env!("CARGO_BIN_EXE_everstep"));
        let venv = binary.ancestors().nth(2).unwrap().join(format!("cloudevents-{PYTHON_SDK}"));
        let interpreter = venv.join("bin/python");
        if !venv.join("installed").exists() {
            let run = |command: &mut Command| {
                let done =
                    command.status().unwrap_or_else(|error| panic!("python3 cannot be started ({error}); install it"));
                assert!(done.success(), "{command:?} has failed");
            };
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
            let package = format!("cloudevents=={PYTHON_SDK}");
            run(Command::new(&interpreter).args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                &package,
            ]));
            std::fs::write(venv.join("installed"), "").unwrap();
        }
        interpreter
    };
    INTERPRETER.get_or_init(install).clone()
}

#[test]
fn the_python_sdk_publishes_in_all_three_modes() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/live/client/publish.py");
    let source = "/shop/orders";
    let mut command = Command::new(python());
    command.arg(program).arg(argument(&server, source));
    check(&server, source, "order 17", &answers(&mut command));
}
