//! The stock client with one server on SQLite.

use serde_json::{Value, json};

use crate::follower::{Curl, Socket, compare_entries, compare_steps, id};
use crate::support::{Folder, Server, chain};

fn waits_then(steps: &[Value]) -> Value {
    let wait = json!({"id": "wait", "type": "wait", "config": {"event": "go"}});
    chain(&[&[wait], steps].concat())
}

#[test]
fn the_stock_client_joins_before_during_and_after_a_run() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let client = server.client();
    let slow = |n: u32| json!({"id": format!("s{n}"), "type": "noop", "config": {"delayMs": 50}});
    client.publish("steps", &waits_then(&[slow(1), slow(2), slow(3), slow(4)]));
    let run = client.start("steps", &json!({"input": {"n": 1}}));
    client.wait_for(&run, "waiting");

    let mut before = Socket::connect(&client);
    assert_eq!(before.join(&run)["ok"], true);
    let mut heard = before.until_status("WAITING");
    assert_eq!(heard.last().unwrap()["data"]["contextData"]["input"], json!({"n": 1}));
    let curl = Curl::follow(&client, &format!("{run}/events?after=0"));
    client.post(&format!("{run}/signals/go"), &json!({"yes": true})).is(200);
    heard.extend(before.until(|heard| heard["data"]["nodeID"] == "s2"));
    let mut during = Socket::connect(&client);
    assert_eq!(during.join(&run)["ok"], true);
    heard.extend(before.until_status("COMPLETED"));
    let heard_during = during.until_status("COMPLETED");
    let mut after = Socket::connect(&client);
    assert_eq!(after.join(&run)["status"], "COMPLETED");
    let heard_after = after.until_status("COMPLETED");

    let journal = client.journal(&run);
    for heard in [&heard, &heard_during, &heard_after] {
        compare_steps(heard, &journal);
        let last = &heard.last().unwrap()["data"];
        assert_eq!(last["instanceID"], id(&run));
        let context = last["contextData"].as_object().unwrap();
        assert!(context.keys().all(|name| !name.starts_with("__")), "{context:?}");
    }
    compare_entries(&curl.rest(), &journal);
    let updates: Vec<_> = heard.iter().filter(|heard| heard["data"]["nodeID"] == "s1").collect();
    let words: Vec<_> = updates.iter().map(|heard| heard["data"]["status"].as_str().unwrap()).collect();
    assert_eq!(words, ["running", "success"]);
}

#[test]
fn the_stock_client_works_as_it_comes() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let client = server.client();
    client.publish("steps", &waits_then(&[json!({"id": "a", "type": "noop"})]));
    let run = client.start("steps", &json!({}));
    let mut socket = Socket::open(&client, &json!({"auth": {"key": client.key()}}));
    assert_eq!(socket.next(), json!({"on": "connect", "transport": "polling"}));
    assert_eq!(socket.join(&run)["ok"], true);
    let mut heard = socket.until_status("WAITING");
    client.post(&format!("{run}/signals/go"), &json!({})).is(200);
    heard.extend(socket.until_status("COMPLETED"));
    compare_steps(&heard, &client.journal(&run));
    let heard = Socket::open(&client, &json!({})).next();
    assert_eq!((&heard["on"], &heard["data"]["code"]), (&json!("connect_error"), &json!("AUTH_ERROR")));
}

#[test]
fn the_stock_client_learns_why_it_is_refused() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let client = server.client();
    let unknown = format!("es_{}", "a".repeat(43));
    let transports = json!(["websocket"]);
    for options in [
        json!({"transports": transports}),
        json!({"transports": transports, "auth": {}}),
        json!({"transports": transports, "auth": {"key": unknown}}),
        json!({"transports": transports, "auth": {"token": client.key()}}),
        json!({"transports": transports, "extraHeaders": {"x-api-key": unknown}}),
    ] {
        let heard = Socket::open(&client, &options).next();
        assert_eq!(
            (&heard["on"], &heard["data"]["code"]),
            (&json!("connect_error"), &json!("AUTH_ERROR")),
            "{options}"
        );
        assert!(heard["data"]["hint"].is_string() && !heard["message"].as_str().unwrap().is_empty(), "{heard}");
    }
    // An API key in the address is rejected before anything is sent.
    let options = json!({"transports": transports, "query": {"key": client.key()}});
    assert_eq!(Socket::open(&client, &options).next()["on"], "connect_error");
    // A header is accepted like the handshake.
    let options =
        json!({"transports": transports, "extraHeaders": {"authorization": format!("Bearer {}", client.key())}});
    let mut socket = Socket::open(&client, &options);
    assert_eq!(socket.next()["on"], "connect");
    let answer = socket.join("019a0000-0000-7000-8000-000000000000");
    assert_eq!((&answer["error"]["code"], &answer["error"]["status"]), (&json!("NOT_FOUND"), &json!(404)));
}

#[test]
fn a_client_that_does_not_read_uses_little_memory_and_delays_no_other() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let client = server.client();
    // The run itself keeps nothing of ended iterations.
    let script = |id: &str, code: &str| json!({"id": id, "type": "javascript", "config": {"code": code}});
    let mut graph =
        waits_then(&[json!({"id": "each", "type": "loop", "config": {"sourceVariable": "{{ctx.input.items}}"}})]);
    let nodes = graph["nodes"].as_array_mut().unwrap();
    nodes.extend([script("big", "return 'x'.repeat(200000)"), script("small", "return 1")]);
    let edges = graph["edges"].as_array_mut().unwrap();
    edges.last_mut().unwrap()["sourceHandle"] = json!("done");
    edges.push(json!({"source": "each", "target": "big", "sourceHandle": "loop"}));
    edges.extend([json!({"source": "big", "target": "small"}), json!({"source": "small", "target": "each"})]);
    client.publish("big", &graph);
    let start = || {
        let items: Vec<_> = (0..100).collect();
        let run = client.start("big", &json!({"input": {"items": items}}));
        client.wait_for(&run, "waiting");
        run
    };
    let finish = |run: &str| {
        client.post(&format!("{run}/signals/go"), &json!({})).is(200);
        assert_eq!(client.wait(run)["status"], "completed");
    };
    // The first run shows the memory of the engine itself.
    finish(&start());
    let before = resident_mib(server.id());
    let run = start();
    let mut sockets: Vec<_> = (0..5).map(|_| Socket::connect(&client)).collect();
    for socket in &mut sockets {
        socket.join(&run);
        socket.until_status("WAITING");
        socket.tell(&json!({"pause": true}));
        assert_eq!(socket.next()["paused"], true);
    }
    // Each of them is sent twenty megabytes and reads none.
    finish(&run);
    let after = resident_mib(server.id());
    assert!(after < before + 60, "from {before} to {after} MiB");
    let journal = client.journal(&run);
    for socket in &mut sockets {
        socket.tell(&json!({"pause": false}));
        let heard = socket.until_status("COMPLETED");
        let updates = heard.iter().filter(|heard| heard["on"] == "workflow_node_update");
        // Updates that it had received before it was suspended are not sent again.
        let seqs: Vec<_> = updates.map(|heard| heard["data"]["seq"].as_u64().unwrap()).collect();
        assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "{seqs:?}");
        let steps = journal.iter().filter(|entry| entry["step"].is_string()).count();
        assert_eq!(seqs.len(), steps - 3, "start twice and the wait were heard before");
    }
}

/// The memory of a process, in mebibytes.
fn resident_mib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}
