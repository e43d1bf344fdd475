//! The first API key of a shared database, and the keys that operators create.

use serde_json::json;

use crate::support::cluster::Site;
use crate::support::{Client, Folder, Server, call, call_with_stdin};

#[test]
fn the_first_node_makes_a_key_and_the_next_does_not() {
    let site = Site::new();
    let one = site.start();
    // The output is not a terminal: it names the file of the key.
    assert!(!one.said().contains("es_") && one.said().contains("admin.key"), "{}", one.said());
    let url = site.database.url();
    let elsewhere = Folder::new();
    let two = Server::with(&["--data", &elsewhere.at("data")], &[("EVERSTEP_DATABASE_URL", &url)]);
    assert!(!two.said().contains("es_") && two.said().contains("everstep keys create"), "{}", two.said());
    // A node that shares the folder of the first finds its key there.
    let three = site.start();
    assert!(!three.said().contains("es_") && three.said().contains("admin.key"), "{}", three.said());

    let output = call(&["keys", "create", "--name", "ops", "--permissions", "workflow:view", "--database-url", &url]);
    let key = output.exits(0).stdout.trim().to_owned();
    for server in [&one, &two, &three] {
        Client::new(server.address(), Some(&key)).get("/v1/runs").is(200);
        Client::new(server.address(), Some(&key)).get("/v1/nodes").refuses(403, "PERMISSION_DENIED");
    }
}

#[test]
fn a_revoked_key_stops_working_within_seconds() {
    let site = Site::new();
    let server = site.start();
    let client = server.client();
    client.get("/v1/runs").is(200);
    site.database.sql("update api_keys set revoked_at = 1");
    let began = std::time::Instant::now();
    crate::support::wait_for("the key to be refused", || (client.get("/v1/runs").status == 401).then_some(()));
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn the_password_of_the_database_is_never_said() {
    let site = Site::new();
    // The server trusts all connections here, so any password is accepted.
    let url = site.database.url();
    let (scheme, rest) = url.split_once("://").unwrap();
    let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
    let url = format!("{scheme}://postgres:hushhush@{place}");
    let server = site.start_at(&url, &["--log", "trace"]);
    server.client().get("/v1/runs").is(200);
    let said = server.stop();
    assert!(said.contains("(PostgreSQL)") && !said.contains("hushhush"), "{said}");
}

#[test]
fn a_key_that_is_revoked_on_one_node_stops_working_on_the_others() {
    let site = Site::new();
    let ((_one, admin), (two, _)) = site.start_two();
    let made = admin.post("/v1/keys", &json!({"name": "dash", "role": "viewer"})).is(201);
    let there = Client::new(two.address(), made["secret"].as_str());
    there.get("/v1/runs").is(200);
    let id = made["key"]["id"].as_str().unwrap();
    call(&["keys", "revoke", id, "--database-url", &site.database.url()]).exits(0);
    crate::support::wait_for("the key to be refused", || (there.get("/v1/runs").status == 401).then_some(()));
}

#[test]
fn fifty_sign_ins_with_one_code_on_two_nodes_make_one_key() {
    let site = Site::new();
    let ((one, admin), (two, _)) = site.start_two();
    let code = admin.post("/v1/sign-in-codes", &json!({})).is(201)["code"].clone();
    let attempts: Vec<_> = (0..50)
        .map(|number| {
            let (client, code) = (if number % 2 == 0 { one.stranger() } else { two.stranger() }, code.clone());
            std::thread::spawn(move || client.post("/v1/sign-ins", &json!({"code": code})))
        })
        .collect();
    let answers: Vec<_> = attempts.into_iter().map(|attempt| attempt.join().unwrap()).collect();
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(201), count(409)), (1, 49));
    let made = answers.iter().find(|answer| answer.status == 201).unwrap();
    for server in [&one, &two] {
        Client::new(server.address(), made.body["key"].as_str()).get("/v1/runs").is(200);
    }
}

#[test]
fn secrets_of_a_shared_database_need_a_key_that_all_nodes_have() {
    let site = Site::new();
    let url = site.database.url();
    let set = |more: &[&str]| {
        call_with_stdin(&[&["secrets", "set", "sesame", "--database-url", &url][..], more].concat(), b"open")
    };
    set(&[]).exits(2).says("EVERSTEP_SECRETS_KEY=$(everstep secrets key)");
    let without = site.start();
    let refused = without.client().put("/v1/secrets/sesame", &json!({"value": "open"}));
    let problem = refused.refuses(409, "SECRETS_KEY_MISSING");
    assert!(problem["detail"].as_str().unwrap().contains("everstep secrets key"), "{problem}");
    let key = call(&["secrets", "key"]).exits(0).stdout.trim().to_owned();
    let with = site.start_with(&["--secrets-key", &key]);
    with.client().put("/v1/secrets/sesame", &json!({"value": "open"})).is(201);
    set(&["--secrets-key", &key]).exits(0);
    // Names are not secret.
    assert_eq!(without.client().get("/v1/secrets").is(200)["secrets"][0]["name"], "sesame");
}
