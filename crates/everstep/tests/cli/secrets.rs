//! Secrets on the command line: they are read from sources that no list of processes shows.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::{Folder, Server, call, call_with_stdin};

#[test]
fn a_secret_is_set_listed_and_deleted() {
    let folder = Folder::new();
    let data = folder.at("data");
    let output = call_with_stdin(&["secrets", "set", "stripe-key", "--data", &data], b"sk_live_1\n");
    output.exits(0).says("\"stripe-key\" is set");
    let file = folder.write("key.pem", "-----BEGIN-----\nsk_live_2\n-----END-----\n");
    call(&["secrets", "set", "tls-key", "--from-file", &file, "--data", &data]).exits(0);
    let key = folder.path().join("data/secrets.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);

    let listed = call(&["secrets", "list", "--data", &data, "--json"]).json();
    let names: Vec<_> = listed["secrets"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["stripe-key", "tls-key"]);
    let table = call(&["secrets", "list", "--data", &data]);
    assert!(table.exits(0).stdout.contains("tls-key") && !table.stdout.contains("sk_live"), "{}", table.stdout);
    call(&["secrets", "delete", "tls-key", "--data", &data]).exits(0);
    call(&["secrets", "delete", "tls-key", "--data", &data]).exits(2).says("does not exist");

    call_with_stdin(&["secrets", "set", "x", "--data", &data], b"").exits(2).says("must not be empty");
    call_with_stdin(&["secrets", "set", "a b", "--data", &data], b"v").exits(2).says("is not a valid name");
    call_with_stdin(&["secrets", "set", "x", "--data", &data], &[0xFF, 0xFE]).exits(2).says("UTF-8");
    call_with_stdin(&["secrets", "set", "x", "--data", &data], &[b'v'; 70_000]).exits(2).says("at most 65536");
    // Arguments are visible in the list of processes.
    call(&["secrets", "set", "x", "value", "--data", &data]).exits(2);
}

#[test]
fn a_secret_is_set_over_a_server_that_runs() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let key = std::fs::read_to_string(folder.path().join("data/admin.key")).unwrap();
    let url = format!("http://{}", server.address());
    let over = ["--server", &url, "--api-key", key.trim()];
    call_with_stdin(&[&["secrets", "set", "stripe-key"][..], &over].concat(), b"sk_live_1\n").exits(0);
    let listed = call(&[&["secrets", "list", "--json"][..], &over].concat()).json();
    assert_eq!(listed["secrets"][0]["name"], json!("stripe-key"));
    call(&[&["secrets", "delete", "stripe-key"][..], &over].concat()).exits(0);
    call(&[&["secrets", "delete", "stripe-key"][..], &over].concat()).exits(2).says("NOT_FOUND");
    assert!(!server.stop().contains("sk_live_1"));
}

#[test]
fn keys_for_secrets_are_random_and_checked() {
    let one = call(&["secrets", "key"]).exits(0).stdout.trim().to_owned();
    assert_eq!(one.len(), 64);
    assert_ne!(one, call(&["secrets", "key"]).exits(0).stdout.trim());
    let folder = Folder::new();
    let data = folder.at("data");
    let set = |key: &str| call_with_stdin(&["secrets", "set", "x", "--data", &data, "--secrets-key", key], b"v");
    set("short").exits(2).says("everstep secrets key");
    set(&one).exits(0);
    // With a key of the settings none is created.
    assert!(!folder.path().join("data/secrets.key").exists());
    // A truncated file is not replaced.
    std::fs::write(folder.path().join("data/secrets.key"), "cut").unwrap();
    call_with_stdin(&["secrets", "set", "x", "--data", &data], b"v").exits(2).says("secrets.key");
}
