//! Commands that use a server.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{CommandOutput, Folder, Server, chain, everstep};

pub(crate) struct Session {
    pub(crate) folder: Folder,
    pub(crate) server: Server,
}

impl Session {
    pub(crate) fn new() -> Self {
        let folder = Folder::new();
        let server = Server::start(&folder.at("data"));
        Self { folder, server }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = everstep();
        command.args(args).env("EVERSTEP_URL", format!("http://{}", self.server.address()));
        command.env("EVERSTEP_API_KEY", self.server.client().key());
        command
    }

    #[track_caller]
    pub(crate) fn call(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::from(self.command(args).output().unwrap())
    }

    /// Saves a workflow from a file.
    #[track_caller]
    pub(crate) fn import(&self, name: &str, definition: &Value) {
        let file = self.folder.write(&format!("{name}.json"), definition.to_string());
        self.call(&["import", &file]).exits(0).says(&format!("saved {name} version 1"));
    }

    #[track_caller]
    pub(crate) fn start(&self, args: &[&str]) -> String {
        self.call(&[&["start"], args].concat()).exits(0).stdout.clone().trim().to_owned()
    }
}

fn approval() -> Value {
    let ask = json!({"id": "ask", "type": "wait", "config": {"event": "approve"}});
    let work = json!({"id": "work", "type": "javascript", "config": {
        "code": "console.log('amount', ctx.input.amount); if (ctx.input.amount > 100) throw new Error('too much'); return 1",
    }, "retry": {"maxAttempts": 1}});
    chain(&[ask, work])
}

#[test]
fn a_link_to_the_console_signs_a_browser_in() {
    let session = Session::new();
    let link = session.call(&["open"]).exits(0).stdout.trim().to_owned();
    let (address, code) = link.split_once("/#code=").unwrap();
    assert_eq!(address, format!("http://{}", session.server.address()));
    let signed_in = session.server.stranger().post("/v1/sign-ins", &json!({"code": code})).is(201);
    assert_eq!(signed_in["name"], "console: first admin");
    session.server.stranger().post("/v1/sign-ins", &json!({"code": code})).refuses(409, "CODE_USED");
    // The server prints the command that finds it.
    let said = session.server.said();
    assert!(said.contains("  open    EVERSTEP_DATA=") && said.contains(" everstep open\n"), "{said}");
}

#[test]
fn a_run_is_started_signalled_shown_and_read() {
    let session = Session::new();
    session.import("order", &approval());
    let run = session.start(&["order", "--input", r#"{"amount": 20}"#, "--key", "k1", "--tag", "team=blue"]);
    assert_eq!(session.start(&["order", "--key", "k1"]), run);
    session.server.client().wait_for(&format!("/v1/runs/{run}"), "waiting");
    let shown = session.call(&["show", &run]).exits(0).stdout.clone();
    assert!(shown.contains("waits for the signal") && shown.contains("ask"), "{shown}");
    session.call(&["signal", &run, "other"]).exits(1).says("ignored");
    session
        .call(&["signal", &run, "approve", "--payload", r#"{"by": "ada"}"#, "--key", "s1"])
        .exits(0)
        .says("accepted");
    session
        .call(&["signal", &run, "approve", "--payload", r#"{"by": "ada"}"#, "--key", "s1"])
        .exits(0)
        .says("repeated");
    session.server.client().wait(&format!("/v1/runs/{run}"));
    let shown = session.call(&["show", &run]).exits(0).stdout.clone();
    for text in ["completed", "order version 1", "work", "█"] {
        assert!(shown.contains(text), "no {text} in\n{shown}");
    }
    let logs = session.call(&["logs", &run]).exits(0).stdout.clone();
    assert!(logs.contains("work: amount 20"), "{logs}");
    assert_eq!(session.call(&["logs", &run, "--step", "ask"]).exits(0).stdout.clone(), "");
    let listed = session.call(&["runs", "--tag", "team=blue", "--input", "amount=20", "--status", "completed,failed"]);
    assert!(listed.exits(0).stdout.clone().contains(&run));
    let none = session.call(&["runs", "--workflow", "order", "--input", "amount=21", "--json"]).exits(0).json();
    assert_eq!(none["runs"], json!([]));
}

#[test]
fn a_run_is_waited_for_and_its_end_is_the_exit_code() {
    let session = Session::new();
    session.import("sum", &chain(&[]));
    session.call(&["start", "sum", "--wait"]).exits(0);
    let fails = json!({"id": "bad", "type": "javascript", "config": {"code": "throw new Error('no')"},
        "retry": {"maxAttempts": 1}});
    session.import("bad", &chain(&[fails]));
    session.call(&["start", "bad", "--wait"]).exits(1).says("no");
}

#[test]
fn a_start_of_an_unknown_name_needs_a_flag_and_is_warned_of() {
    let session = Session::new();
    session.import("order", &chain(&[]));
    let unknown = session.call(&["start", "ordre"]);
    unknown.exits(2).says("workflow \"ordre\" was not found").says("did you mean \"order\"?");
    let started = session.call(&["start", "ordre", "--allow-unserved"]);
    started.exits(0).says("warning: no worker serves ordre version 1");
    let shown = session.call(&["show", started.stdout.trim()]).stdout;
    assert!(shown.contains("waits for a worker that serves ordre version 1: none is connected"), "{shown}");
}

#[test]
fn a_run_is_paused_resumed_retried_forked_and_cancelled() {
    let session = Session::new();
    session.import("order", &approval());
    let client = session.server.client();
    let run = session.start(&["order", "--input", r#"{"amount": 200}"#]);
    let path = format!("/v1/runs/{run}");
    client.wait_for(&path, "waiting");
    session.call(&["pause", &run]).exits(0).says("accepted");
    client.wait_for(&path, "paused");
    session.call(&["resume", &run]).exits(0).says("accepted");
    let forked = session.call(&["fork", &run]).exits(0).says("continues after entry").stdout.clone().trim().to_owned();
    session.call(&["signal", &run, "approve"]).exits(0);
    client.wait_for(&path, "failed");
    session.call(&["retry", &run]).exits(0).says("accepted");
    client.wait_for(&path, "failed");
    client.wait_for(&format!("/v1/runs/{forked}"), "waiting");
    session.call(&["cancel", &forked, "--reason", "enough"]).exits(0);
    client.wait_for(&format!("/v1/runs/{forked}"), "cancelled");
    session.call(&["cancel", &forked]).exits(1).says("ignored");
}

#[test]
fn a_workflow_is_exported_and_imported_under_another_name() {
    let session = Session::new();
    session.import("order", &approval());
    let document = session.call(&["export", "order"]).exits(0).stdout.clone();
    let file = session.folder.write("exported.json", document);
    session.call(&["import", &file, "--name", "copy"]).exits(0).says("saved copy version 1");
    let definition =
        |name: &str| session.server.client().get(&format!("/v1/workflows/{name}")).is(200)["digest"].take();
    assert_eq!(definition("order"), definition("copy"));
    let broken = session.folder.write("broken.json", r#"{"nodes": [], "edges": []}"#);
    session.call(&["import", &broken]).exits(2).says("VALIDATION_ERROR").says("start");
}

#[test]
fn without_an_api_key_the_message_has_the_remedy() {
    let folder = Folder::new();
    let mut command = everstep();
    command.args(["runs"]).current_dir(folder.path());
    CommandOutput::from(command.output().unwrap()).exits(2).says("EVERSTEP_API_KEY");
    let mut command = everstep();
    command.args(["runs"]).env("EVERSTEP_URL", "http://127.0.0.1:1").env("EVERSTEP_API_KEY", "x");
    let refused = CommandOutput::from(command.output().unwrap());
    refused.exits(3).says("http://127.0.0.1:1").says("is `everstep serve` running?");
    let mut command = everstep();
    command.args(["runs"]).env("EVERSTEP_URL", "http://127.0.0.1:1").env("EVERSTEP_API_KEY", "");
    CommandOutput::from(command.output().unwrap()).exits(2).says("--api-key (EVERSTEP_API_KEY) is empty");
}

#[test]
fn a_server_without_tls_is_reported_when_its_url_begins_with_https() {
    let session = Session::new();
    let url = format!("https://{}", session.server.address());
    let output = session.call(&["runs", "--server", &url]);
    output.exits(3).says("the server seems to speak http, not https; write http:// in --server (EVERSTEP_URL)");
}

#[test]
fn the_server_is_named_by_one_variable_and_its_former_name_is_accepted() {
    let session = Session::new();
    let here = format!("http://{}", session.server.address());
    let other = "http://127.0.0.1:1";
    let list = |variables: &[(&str, &str)], flags: &[&str]| -> CommandOutput {
        let mut command = everstep();
        command.args(["runs", "--json"]).args(flags).env("EVERSTEP_API_KEY", session.server.client().key());
        command.envs(variables.iter().copied()).output().unwrap().into()
    };
    list(&[("EVERSTEP_URL", &here)], &[]).exits(0);
    list(&[("EVERSTEP_SERVER", &here)], &[]).exits(0);
    list(&[("EVERSTEP_URL", &here), ("EVERSTEP_SERVER", &format!("{here}/"))], &[]).exits(0);
    list(&[("EVERSTEP_URL", &here), ("EVERSTEP_SERVER", "")], &[]).exits(0);
    list(&[("EVERSTEP_URL", ""), ("EVERSTEP_SERVER", &here)], &[]).exits(0);
    let both = [("EVERSTEP_URL", &*here), ("EVERSTEP_SERVER", other)];
    list(&both, &[]).exits(2).says("EVERSTEP_URL and EVERSTEP_SERVER name different servers");
    // A flag overrides every variable.
    list(&[("EVERSTEP_SERVER", other)], &["--server", &here]).exits(0);
    list(&both, &["--server", &here]).exits(0);
}

#[test]
fn the_key_of_a_folder_goes_to_the_server_of_this_machine_alone() {
    let session = Session::new();
    let ask = |server: &str, args: &[&str]| -> CommandOutput {
        let mut command = everstep();
        command.args(args).current_dir(session.folder.path()).env("EVERSTEP_URL", server);
        command.output().unwrap().into()
    };
    let port = session.server.address().rsplit_once(':').unwrap().1;
    assert_eq!(ask(&format!("http://127.0.0.1:{port}"), &["runs", "--json"]).exits(0).json()["runs"], json!([]));
    ask(&format!("http://127.0.0.1:{port}"), &["keys", "list"]).exits(0);
    // Another address of the same server is equally valid.
    ask(&format!("http://127.0.0.2:{port}"), &["runs"]).exits(2).says("EVERSTEP_API_KEY");
    ask("http://everstep.example", &["runs"]).exits(2).says("EVERSTEP_API_KEY");
}

#[test]
fn a_workflow_that_names_an_unknown_secret_is_imported_with_a_warning() {
    let session = Session::new();
    let config = json!({"url": "https://shop.example/", "headers": {"Authorization": {"$secret": "shop-token"}}});
    let definition = chain(&[json!({"id": "ask", "type": "http", "config": config})]);
    let file = session.folder.write("shop.json", definition.to_string());
    session
        .call(&["import", &file])
        .exits(0)
        .says("saved shop version 1")
        .says("warning: /nodes/1/config/headers/Authorization: the workspace has no secret \"shop-token\"")
        .says("hint: create it");
}

#[test]
fn a_start_whose_input_does_not_fit_names_the_places() {
    let session = Session::new();
    let mut definition = chain(&[]);
    definition["inputSchema"] = json!({"properties": {"amount": {"type": "number"}}, "required": ["amount"]});
    session.import("order", &definition);
    session
        .call(&["start", "order", "--input", r#"{"amount": "many"}"#])
        .exits(2)
        .says("VALIDATION_ERROR")
        .says("/amount: expected a number, found a string");
    session.call(&["start", "order", "--input", r#"{"amount": 5}"#]).exits(0);
}

#[test]
fn an_action_that_needs_the_shown_values_takes_their_digest() {
    let session = Session::new();
    let approve = json!({"to": "done", "needs": {"shown": true}});
    let states = json!([
        {"name": "review", "initial": true, "show": ["amount"], "on": {"APPROVE": approve}},
        {"name": "done", "terminal": true},
    ]);
    session.import("expense", &json!({ "states": states }));
    let run = session.start(&["expense", "--input", r#"{"amount": 20}"#]);
    let shown = session.call(&["actions", &run]).exits(0).stdout.clone();
    assert!(shown.contains("APPROVE  to done, needs --shown with the digest"), "{shown}");
    let digest = shown.lines().find_map(|line| line.strip_prefix("digest    ")).unwrap();
    session.call(&["act", &run, "APPROVE"]).exits(2).says("shown");
    session.call(&["act", &run, "APPROVE", "--shown", &digest.replace(|_| true, "0")]).exits(2).says("SHOWN_CHANGED");
    session.call(&["act", &run, "APPROVE", "--shown", digest]).exits(0).says("review -> done, version 2");
}

#[test]
fn a_run_of_a_state_machine_is_shown_moved_and_read() {
    let session = Session::new();
    let machine = json!({
        "states": [
            {"name": "review", "initial": true, "assign": ["ann"], "on": {
                "APPROVE": {"to": "pay", "needs": {"comment": true, "data": ["account"]}},
                "REJECT": {"to": "done", "require": {"user": "ann"}},
            }},
            {"name": "pay", "on": {"PAY": {"to": "done", "quorum": {"need": 2}}}, "after": [{"in": "9d", "to": "done"}]},
            {"name": "done", "terminal": true},
        ],
    });
    session.import("expense", &machine);
    let run = session.start(&["expense", "--input", r#"{"amount": 20}"#]);
    let shown = session.call(&["actions", &run]).exits(0).stdout.clone();
    for text in [
        "state     review, version 1",
        "assigned  ann",
        "APPROVE  to pay, needs a comment and data account",
        "REJECT   closed (to done)",
        "PERMISSION_DENIED",
    ] {
        assert!(shown.contains(text), "no {text} in\n{shown}");
    }
    assert!(session.call(&["show", &run]).exits(0).stdout.contains("is in review since"));
    session.call(&["act", &run, "APPROVE"]).exits(2).says("comment: this action needs a comment").says("data.account");
    session.call(&["act", &run, "APPROVE", "--at-version", "7"]).exits(2).says("CONCURRENCY_ERROR");
    session.call(&["act", &run, "REJECT"]).exits(3).says("PERMISSION_DENIED");
    session.call(&["act", &run, "APPROVE", "--data", "{"]).exits(2).says("--data");
    let approve = [
        "act",
        &run,
        "APPROVE",
        "--comment",
        "fine",
        "--data",
        r#"{"account": "7"}"#,
        "--at-version",
        "1",
        "--key",
        "k",
    ];
    session.call(&approve).exits(0).says("review -> pay, version 2");
    session.call(&approve).exits(0).says("review -> pay, version 2");
    session.call(&["act", &run, "PAY"]).exits(0).says("counted: 1 of 2 votes for PAY");
    session.call(&["act", &run, "PAY", "--withdraw"]).exits(0).says("counted: 0 of 2 votes for PAY");
    let answer = session.call(&["act", &run, "PAY", "--json"]).exits(0).json();
    assert_eq!((&answer["applied"], &answer["votes"]["count"]), (&json!(false), &json!(1)));
    let history = session.call(&["history", &run]).exits(0).stdout.clone();
    let lines: Vec<_> = history.lines().collect();
    assert_eq!(lines.len(), 5, "{history}");
    assert!(lines[1].contains("v2") && lines[1].contains("APPROVE  review -> pay  \"fine\""), "{history}");
    assert!(lines[3].ends_with("withdraws the vote for PAY"), "{history}");
    let entries = session.call(&["history", &run, "--json"]).exits(0).json();
    assert_eq!(entries["entries"][1]["changes"], json!([{"path": "account", "after": "7"}]));
    let journal = session.call(&["journal", &run]).exits(0).stdout.clone();
    assert!(
        journal.contains("TransitionApplied") && journal.contains("action APPROVE, from review, to pay"),
        "{journal}"
    );
    // Other runs have no actions, and a machine is not run by a file.
    session.import("order", &approval());
    let graph = session.start(&["order"]);
    session.call(&["actions", &graph]).exits(2).says("INVALID_TRANSITION");
    let file = session.folder.write("machine.json", machine.to_string());
    session.call(&["validate", &file]).exits(0).says("is a valid workflow of 3 states");
    session.call(&["run", &file]).exits(2).says("everstep act");
}
