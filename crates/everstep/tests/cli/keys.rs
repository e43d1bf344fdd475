//! Keys: the first one, and those that are made later. Nodes, as the command line lists them.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::{Client, Folder, Server, call};

#[test]
fn the_first_start_makes_an_admin_s_key_and_shows_it_once() {
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
    assert_eq!(said.matches(&key).count(), 1, "{said}");
    assert!(said.contains("admin.key)\" http://127.0.0.1:"), "{said}");

    let server = Server::start(&data);
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), key);
    server.client().get("/v1/runs").is(200);
    let said = server.stop();
    assert!(!said.contains(&key) && said.contains("try     curl"), "{said}");

    // A lost file is not replaced: a key is made by whoever may use the database.
    std::fs::remove_file(&file).unwrap();
    let server = Server::start(&data);
    let said = server.stop();
    assert!(said.contains("everstep keys create") && !file.exists(), "{said}");
    let names: Vec<_> =
        std::fs::read_dir(folder.path().join("data")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains("admin")), "{names:?}");
}

#[test]
fn the_command_to_try_works_as_it_is_printed() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("my data"));
    let said = server.said();
    let command = said.lines().find_map(|line| line.strip_prefix("  try ")).unwrap();
    // Shows what curl is given, so that the test needs none.
    let script = format!("curl() {{ printf '%s\\n' \"$@\"; }}\n{command}");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    let given = String::from_utf8(output.stdout).unwrap();
    let [flag, header, url] = given.lines().collect::<Vec<_>>()[..] else { panic!("{given}") };
    assert_eq!((flag, url), ("-H", &*format!("http://{}/v1/runs", server.address())));
    let key = header.strip_prefix("x-api-key: ").unwrap();
    let body = Client::new(server.address(), Some(key)).get("/v1/runs").is(200);
    assert_eq!(body, json!({"runs": [], "nextCursor": null}));
}

#[test]
fn a_key_is_made_for_what_it_may_do() {
    let folder = Folder::new();
    let data = folder.at("data");
    let create = |args: &[&str]| call(&[&["keys", "create", "--data", &data][..], args].concat());
    let told = create(&["--name", "watch", "--permissions", "workflow:view,workflow:read"]);
    told.exits(0).says("workflow:read, workflow:view");
    let key = told.stdout.trim();
    let server = Server::start(&data);
    // There was a key, so none was made.
    assert!(server.said().contains("  keys "), "{}", server.said());
    let client = Client::new(server.address(), Some(key));
    client.get("/v1/runs").is(200);
    client.get("/v1/nodes").refuses(403, "PERMISSION_DENIED");
    create(&["--name", "late", "--permissions", "workflow:view"]).exits(3).says("is in use by process");
    server.stop();
    create(&["--name", "x", "--permissions", "workflow:write"]).exits(2).says("unknown permission \"workflow:write\"");
    create(&["--name", "", "--permissions", "workflow:view"]).exits(2).says("--name");
    create(&["--name", "x"]).exits(2).says("--permissions");
}

#[test]
fn nodes_are_listed() {
    let folder = Folder::new();
    let data = folder.at("data");
    call(&["nodes", "--data", &data]).exits(3).says("there is no data folder");
    let server = Server::start(&data);
    let node = server.node();
    call(&["nodes", "--data", &data]).exits(3).says("GET /v1/nodes").says("is in use by process");
    server.stop();
    let told = call(&["nodes", "--data", &data]);
    assert!(told.exits(0).stdout.contains("NODE") && told.stdout.contains("fenced"), "{}", told.stdout);
    assert!(told.stdout.contains(&node), "{}", told.stdout);
    let told = call(&["nodes", "--data", &data, "--json"]).json();
    let [listed] = &told["nodes"].as_array().unwrap()[..] else { panic!("one node: {told}") };
    assert_eq!((&listed["id"], &listed["isFenced"], &listed["runs"]), (&json!(node), &json!(true), &json!(0)));
}
