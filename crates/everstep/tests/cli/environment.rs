//! The environment of a command: the server of the folder, variables, pipes, certificates.

use serde_json::json;

use crate::client::Session;
use crate::support::{CommandOutput, Folder, Server, call, chain, everstep};

#[test]
fn commands_find_the_server_that_uses_the_data_folder() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let here =
        |args: &[&str]| -> CommandOutput { everstep().args(args).current_dir(folder.path()).output().unwrap().into() };
    assert_eq!(here(&["runs", "--json"]).exits(0).json()["runs"], json!([]));
    here(&["health"]).exits(0);
    let key = here(&["keys", "create", "--name", "ci", "--role", "viewer"]).exits(0).stdout.clone();
    assert!(key.starts_with("es_"), "{key}");
    assert_eq!(here(&["keys", "list", "--json"]).exits(0).json()["keys"].as_array().unwrap().len(), 2);
    here(&["workspaces", "create", "shop"]).exits(0);
    here(&["workspaces", "list"]).exits(0);
    folder.write("token.txt", "hunter2");
    here(&["secrets", "set", "token", "--from-file", "token.txt"]).exits(0);
    assert_eq!(here(&["secrets", "list", "--json"]).exits(0).json()["secrets"][0]["name"], "token");
    here(&["secrets", "delete", "token"]).exits(0);
    // The folder may be named, too.
    let data = folder.at("data");
    call(&["keys", "list", "--data", &data]).exits(0);
    server.stop();
    assert!(!folder.path().join("data/server.url").exists(), "the address ends with the server");
    here(&["keys", "list"]).exits(0);
    here(&["health"]).exits(3);
}

#[test]
fn health_is_an_exit_code() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let url = format!("http://{}", server.address());
    let ready = call(&["health", "--server", &url]);
    assert_eq!(ready.exits(0).stdout, "ready\n");
    assert_eq!(call(&["health", "--server", &url, "--json"]).exits(0).json()["status"], "ok");
    assert_eq!(call(&["health", "--server", &url, "--live"]).exits(0).stdout, "live\n");
    server.stop();
    call(&["health", "--server", &url]).exits(3).says("is `everstep serve` running?");
}

#[test]
fn a_variable_that_means_nothing_is_refused_unless_kubernetes_sets_it() {
    let folder = Folder::new();
    let file = folder.write("plain.json", chain(&[]).to_string());
    let with = |name: &str, value: &str| -> CommandOutput {
        everstep().args(["validate", &file]).env(name, value).output().unwrap().into()
    };
    with("EVERSTEP_PORT", "8080").exits(2).says("unknown variable EVERSTEP_PORT; did you mean EVERSTEP_LISTEN?");
    with("EVERSTEP_DATABASE_ULR", "x").exits(2).says("did you mean EVERSTEP_DATABASE_URL?");
    with("EVERSTEP_PORT", "tcp://10.0.0.1:7373").exits(0);
    with("EVERSTEP_PORT_7373_TCP_ADDR", "10.0.0.1").exits(0);
    with("EVERSTEP_SERVICE_HOST", "10.0.0.1").exits(0);
}

#[test]
fn a_variable_that_is_nearly_a_setting_is_refused_and_those_of_other_programs_are_not() {
    let folder = Folder::new();
    let file = folder.write("plain.json", chain(&[]).to_string());
    let with = |name: &str, value: &str| -> CommandOutput {
        everstep().args(["validate", &file]).env(name, value).output().unwrap().into()
    };
    with("WORKFLOWS_MAX_RETENTION_DAYS", "10").exits(0);
    with("WORKFLOW_ID", "7").exits(0);
    with("WORKFLOW_MAX_RETENTION_DAYS", "10").exits(2).says("did you mean WORKFLOWS_MAX_RETENTION_DAYS?");
}

#[test]
fn a_setting_with_two_variables_is_shown_once() {
    let show = |variables: &[(&str, &str)]| -> CommandOutput {
        everstep().args(["config", "--json"]).envs(variables.iter().copied()).output().unwrap().into()
    };
    let ours = [("EVERSTEP_MAX_RETENTION_DAYS", "10"), ("EVERSTEP_SWEEPER_INTERVAL_MS", "50")];
    let shown = show(&ours).exits(0).json();
    let find = |name: &str| shown.as_array().unwrap().iter().find(|setting| setting["name"] == name);
    for (name, value, from) in [
        ("max_retention_days", "10", "EVERSTEP_MAX_RETENTION_DAYS"),
        ("sweeper_interval_ms", "50", "EVERSTEP_SWEEPER_INTERVAL_MS"),
    ] {
        assert_eq!(find(name), Some(&json!({"name": name, "value": value, "from": from})));
        assert_eq!(find(&format!("everstep_{name}")), None);
    }
    let differ = show(&[("WORKFLOWS_MAX_RETENTION_DAYS", "11"), ("EVERSTEP_MAX_RETENTION_DAYS", "10")]);
    differ.exits(2).says("max-retention-days is 11 and EVERSTEP_MAX_RETENTION_DAYS is 10");
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    // The document does not fit into the buffer of a pipe.
    let script = r#"("$0" openapi; echo "code $?" >&2) | head -c 1"#;
    let mut shell = std::process::Command::new("sh");
    let output: CommandOutput = shell.arg("-c").arg(script).arg(everstep().get_program()).output().unwrap().into();
    assert_eq!((&*output.stdout, &*output.stderr), ("{", "code 0\n"));
}

#[test]
fn a_machine_without_certificates_is_warned_once_and_only_for_https() {
    let session = Session::new();
    let none = |command: &mut std::process::Command| -> CommandOutput {
        command.env("SSL_CERT_FILE", "/nonexistent").env("SSL_CERT_DIR", "/nonexistent").output().unwrap().into()
    };
    let listed = none(&mut session.command(&["runs"]));
    assert_eq!(listed.exits(0).stderr, "");
    let ask =
        json!({"id": "ask", "type": "http", "config": {"url": "https://127.0.0.1:1/"}, "retry": {"maxAttempts": 1}});
    let file = session.folder.write("ask.json", chain(&[ask]).to_string());
    let asked = none(everstep().args(["run", &file]));
    assert_eq!(asked.exits(1).stderr.matches("WARN").count(), 1, "{}", asked.stderr);
}

#[test]
fn the_completions_of_each_shell_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let script = call(&["completions", shell]).exits(0).stdout.clone();
        assert!(script.contains("everstep") && script.contains("workflows"), "{shell}: {script}");
    }
    call(&["completions", "cobol"]).exits(2).says("bash");
}
