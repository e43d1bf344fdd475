//! API keys: the first one, and those that are created later. Nodes, as the command line lists them.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use crate::support::{Client, CommandOutput, Folder, Server, call, chain, everstep, program};

#[test]
fn the_first_start_makes_an_admin_s_key_and_logs_only_its_file() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let file = folder.path().join("data/admin.key");
    let key = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(key.starts_with("es_") && key.len() == 46, "{key}");
    assert_eq!(server.client().get("/v1/nodes").is(200)["nodes"].as_array().unwrap().len(), 1);
    server.stranger().get("/v1/nodes").refuses(401, "AUTH_ERROR");
    let said = server.stop();
    assert!(!said.contains("es_"), "{said}");
    assert!(said.contains(&format!("  key     a new admin API key is in {}", file.display())), "{said}");
    assert!(said.contains("admin.key)\" http://127.0.0.1:"), "{said}");

    let server = Server::start(&data);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), key);
    server.client().get("/v1/runs").is(200);
    let said = server.stop();
    assert!(!said.contains(&key) && said.contains("try     curl"), "{said}");

    // A lost file is not replaced: users of the database create another key.
    std::fs::remove_file(&file).unwrap();
    let server = Server::start(&data);
    let said = server.stop();
    assert!(said.contains("everstep keys create") && !file.exists(), "{said}");
    let names: Vec<_> =
        std::fs::read_dir(folder.path().join("data")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("admin")), "{names:?}");
}

/// `script` gives the server a terminal, and copies what it shows.
#[test]
fn a_terminal_shows_the_first_key_once() {
    let folder = Folder::new();
    let data = folder.at("data");
    let command = format!("exec {} serve --listen 127.0.0.1:0 --data {data}", everstep().get_program().display());
    let mut script = program(Path::new("script"));
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
    let mut child = script.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = String::new();
    while !said.contains("  try ") {
        said.push_str(&lines.next().expect("the greeting has its last line"));
        said.push('\n');
    }
    // The terminal ends with `script`, and the server with its terminal.
    child.kill().unwrap();
    child.wait().unwrap();
    let key = std::fs::read_to_string(folder.path().join("data/admin.key")).unwrap();
    assert_eq!(said.matches(key.trim()).count(), 1, "{said}");
}

#[test]
fn the_command_to_try_works_as_it_is_printed() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("my data"));
    let said = server.said();
    let command = said.lines().find_map(|line| line.strip_prefix("  try ")).unwrap();
    // Prints the arguments of curl, so that the test needs no curl.
    let script = format!("curl() {{ printf '%s\\n' \"$@\"; }}\n{command}");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let given = String::from_utf8(output.stdout).unwrap();
    let [flag, header, url] = given.lines().collect::<Vec<_>>()[..] else { panic!("{given}") };
    assert_eq!((flag, url), ("-H", &*format!("http://{}/v1/workflows", server.address())));
    let key = header.strip_prefix("x-api-key: ").unwrap();
    let body = Client::new(server.address(), Some(key)).get("/v1/workflows").is(200);
    assert_eq!(body, json!([]));
}

#[test]
fn a_key_is_made_for_what_it_may_do() {
    let folder = Folder::new();
    let data = folder.at("data");
    let create = |args: &[&str]| call(&[&["keys", "create", "--data", &data][..], args].concat());
    let output = create(&["--name", "watch", "--permissions", "workflow:view,workflow:read"]);
    output.exits(0).says("workflow:read, workflow:view");
    let key = output.stdout.trim();
    let server = Server::start(&data);
    // A key existed, so none was created.
    assert!(server.said().contains("  keys "), "{}", server.said());
    let client = Client::new(server.address(), Some(key));
    client.get("/v1/runs").is(200);
    client.get("/v1/nodes").refuses(403, "PERMISSION_DENIED");
    // The server uses the folder, and the folder has no admin API key with which the command could send a request to
    // it.
    let late = create(&["--name", "late", "--permissions", "workflow:view"]);
    late.exits(2).says("EVERSTEP_API_KEY");
    server.stop();
    create(&["--name", "x", "--permissions", "workflow:write"]).exits(2).says("unknown permission \"workflow:write\"");
    create(&["--name", "", "--permissions", "workflow:view"]).exits(2).says("--name");
    create(&["--name", "x"]).exits(2).says("--permissions");
    let both = create(&["--name", "x", "--role", "viewer", "--permissions", "workflow:view"]);
    both.exits(2).says("--permissions");
    create(&["--name", "x", "--role", "root"]).exits(2).says("unknown role \"root\"");
    create(&["--name", "x", "--role", "viewer", "--expires", "soon"]).exits(2).says("is not a valid duration");
    create(&["--name", "x", "--role", "viewer", "--expires", "0s"]).exits(2).says("in the future");
    create(&["--name", "x", "--role", "viewer", "--workspace", "shop"]).exits(2).says("the workspaces are default");
}

#[test]
fn keys_are_listed_and_revoked_in_the_database_and_over_a_server() {
    let folder = Folder::new();
    let data = folder.at("data");
    let output = call(&["keys", "create", "--data", &data, "--name", "ops", "--role", "admin"]);
    let admin = output.exits(0).stdout.trim().to_owned();
    let limited = ["--role", "viewer", "--expires", "30d", "--rate-limit", "5"];
    call(&[&["keys", "create", "--data", &data, "--name", "dash"][..], &limited].concat()).exits(0);
    let listed = call(&["keys", "list", "--data", &data, "--json"]).json();
    let [ops, dash] = &listed["keys"].as_array().unwrap()[..] else { panic!("two keys: {listed}") };
    assert_eq!((&ops["name"], &ops["role"], &ops["expiresAt"]), (&json!("ops"), &json!("admin"), &json!(null)));
    assert_eq!((&dash["role"], &dash["rateLimit"]), (&json!("viewer"), &json!(5)));
    assert!(dash["expiresAt"].is_string() && !listed.to_string().contains(&admin), "{listed}");
    let table = call(&["keys", "list", "--data", &data]);
    assert!(table.exits(0).stdout.contains("dash") && table.stdout.contains("expires 20"), "{}", table.stdout);

    let server = Server::start(&data);
    let url = format!("http://{}", server.address());
    let over = |args: &[&str]| -> CommandOutput {
        let mut command = everstep();
        command.args(args).env("EVERSTEP_URL", &url).env("EVERSTEP_API_KEY", &admin);
        command.output().unwrap().into()
    };
    let output = over(&["keys", "create", "--name", "late", "--permissions", "workflow:view", "--expires", "1h"]);
    let late = Client::new(server.address(), Some(output.exits(0).stdout.trim()));
    late.get("/v1/runs").is(200);
    let listed = over(&["keys", "list", "--json"]).json();
    let found = listed["keys"].as_array().unwrap().iter().find(|key| key["name"] == "late").unwrap();
    over(&["keys", "revoke", found["id"].as_str().unwrap()]).exits(0).says("\"late\" is revoked");
    late.get("/v1/runs").refuses(401, "AUTH_ERROR");
    over(&["keys", "revoke", ops["id"].as_str().unwrap()]).exits(2).says("LAST_ADMIN_KEY").says("POST /v1/keys");
    over(&["keys", "create", "--name", "x", "--role", "viewer", "--workspace", "shop"]).exits(2).says("--workspace");
    let output: CommandOutput = everstep().args(["keys", "list", "--server", &url]).output().unwrap().into();
    output.exits(2).says("EVERSTEP_API_KEY");
    let wrong = ["keys", "list", "--server", &url, "--api-key", "es_wrong"];
    call(&wrong).exits(3).says("AUTH_ERROR");
    call(&["keys", "list", "--server", "localhost:1", "--api-key", &admin]).exits(2).says("--server");
    call(&["keys", "list", "--server", "http://127.0.0.1:1", "--api-key", &admin]).exits(3).says("no connection");
    server.stop();

    // In the database even the last key may be revoked: users of the database create another.
    call(&["keys", "revoke", "--data", &data, ops["id"].as_str().unwrap()]).exits(0).says("is revoked");
    let table = call(&["keys", "list", "--data", &data]);
    assert!(table.exits(0).stdout.contains("revoked 20"), "{}", table.stdout);
    let missing = "00000000-0000-7000-8000-000000000000";
    call(&["keys", "revoke", "--data", &data, missing]).exits(2).says("was not found");
}

#[test]
fn a_workspace_is_made_on_the_command_line() {
    let folder = Folder::new();
    let data = folder.at("data");
    let output = call(&["workspaces", "create", "shop", "--fetch", "--data", &data]);
    let admin = output.exits(0).says("\"shop\"").stdout.trim().to_owned();
    call(&["workspaces", "create", "shop", "--data", &data]).exits(2).says("already");
    call(&["workspaces", "create", "a b", "--data", &data]).exits(2).says("is not a valid name");
    let output = call(&["keys", "create", "--data", &data, "--workspace", "shop", "--name", "v", "--role", "viewer"]);
    let viewer = output.exits(0).stdout.trim().to_owned();
    call(&["keys", "create", "--data", &data, "--name", "ops", "--role", "admin"]).exits(0);
    let listed = call(&["workspaces", "list", "--data", &data, "--json"]).json();
    let names: Vec<_> = listed["workspaces"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["default", "shop"]);

    let server = Server::start(&data);
    for key in [&admin, &viewer] {
        let me = Client::new(server.address(), Some(key)).get("/v1/me").is(200);
        assert_eq!(me["workspace"]["name"], "shop");
    }
    let audit = Client::new(server.address(), Some(&admin)).get("/v1/audit").is(200);
    let [entry] = &audit["entries"].as_array().unwrap()[..] else { panic!("one entry: {audit}") };
    assert_eq!((&entry["actor"], &entry["action"]), (&json!("command line"), &json!("everstep keys create")));
}

#[test]
fn the_last_rows_of_the_audit_are_written_before_the_server_ends() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let client = server.client();
    client.publish("flow", &chain(&[]));
    for _ in 0..20 {
        client.start("flow", &json!({}));
    }
    // The server is stopped at once, before the writer's delay has passed.
    server.stop();
    let server = Server::start(&data);
    let audit = server.client().get("/v1/audit?action=POST%20/v1/workflows/%7Bname%7D/runs").is(200);
    assert_eq!(audit["entries"].as_array().unwrap().len(), 20, "{audit}");
}

#[test]
fn nodes_are_listed() {
    let folder = Folder::new();
    let data = folder.at("data");
    call(&["nodes", "--data", &data]).exits(3).says("does not exist");
    let server = Server::start(&data);
    let node = server.node();
    call(&["nodes", "--data", &data]).exits(3).says("GET /v1/nodes").says("is in use by process");
    server.stop();
    let output = call(&["nodes", "--data", &data]);
    assert!(output.exits(0).stdout.contains("NODE") && output.stdout.contains("fenced"), "{}", output.stdout);
    assert!(output.stdout.contains(&node), "{}", output.stdout);
    let output = call(&["nodes", "--data", &data, "--json"]).json();
    let [listed] = &output["nodes"].as_array().unwrap()[..] else { panic!("one node: {output}") };
    assert_eq!((&listed["id"], &listed["isFenced"], &listed["runs"]), (&json!(node), &json!(true), &json!(0)));
}
