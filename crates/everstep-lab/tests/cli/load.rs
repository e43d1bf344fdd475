//! `everstep-lab load`: many runs of one workflow, each started once.

use serde_json::{Value, json};

use crate::call_lab;
use crate::support::cluster::Site;
use crate::support::{Folder, Server, chain, chain_to, example};

fn double() -> Value {
    let code = "return ctx.input.n * 2";
    let parameter = json!({"name": "n", "sourceVariable": "{{ctx.jsResult}}"});
    chain_to(
        &[json!({"id": "double", "type": "javascript", "config": {"code": code}})],
        json!({"id": "end", "type": "end", "config": {"outputParameters": [parameter]}}),
    )
}

#[test]
fn load_starts_many_runs_once() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    let args = ["load", &file, "--data", &folder.at("data"), "--runs", "50", "--input", r#"{"n": 1}"#];
    let mut summary = call_lab(&args).exits(0).json();
    assert!(summary["seconds"].take().is_number());
    assert_eq!(summary, json!({"started": 50, "existing": 0, "completed": 50, "failed": 0, "seconds": null}));
    let mut summary = call_lab(&args).exits(0).json();
    summary["seconds"].take();
    assert_eq!(summary, json!({"started": 0, "existing": 50, "completed": 50, "failed": 0, "seconds": null}));
    let output = call_lab(&["load", &example("shapes/error_path.json"), "--data", &folder.at("other"), "--runs", "3"]);
    assert_eq!(output.exits(1).json()["failed"], 3);
}

#[test]
fn load_needs_a_database() {
    let folder = Folder::new();
    let file = folder.write("double.json", double().to_string());
    call_lab(&["load", &file, "--runs", "1"]).exits(2).says("--data");
}

#[test]
fn load_does_not_use_the_folder_of_another_process() {
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::start(&data);
    let file = folder.write("double.json", double().to_string());
    let holder = format!("is in use by process {}", server.id());
    call_lab(&["load", &file, "--data", &data, "--runs", "1"]).exits(3).says(&holder);
}

#[test]
fn a_load_beside_a_server_brings_all_its_runs_to_their_ends() {
    let site = Site::new();
    let server = site.start();
    let file = site.folder.write("quick.json", chain(&[json!({"id": "a", "type": "noop"})]).to_string());
    let url = site.database.url();
    let load = || call_lab(&["load", &file, "--runs", "40", "--database-url", &url]).json();
    let summary = load();
    assert_eq!((&summary["started"], &summary["completed"]), (&json!(40), &json!(40)));
    let summary = load();
    assert_eq!((&summary["existing"], &summary["completed"]), (&json!(40), &json!(40)));
    let listed = server.client().get("/v1/runs?workflow=quick&status=completed&limit=100").is(200);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 40);
    // Each load has left the cluster in order.
    let nodes = server.client().get("/v1/nodes").is(200);
    let fenced = nodes["nodes"].as_array().unwrap().iter().filter(|node| node["isFenced"] == true).count();
    assert_eq!(fenced, 2, "{nodes}");
}
