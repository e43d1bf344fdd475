//! Files of people: uploaded to one node and read from another, offered to many runs, and bound while a server is killed.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::alone;
use crate::office::{IDENTITY, Office, Person};
use crate::support::{Client, Folder, Server};

const CHUNK: usize = 256 * 1024;

/// A machine that takes a file.
fn contract() -> Value {
    json!({"states": [
        {"name": "draft", "initial": true, "on": {"OFFER": {"to": "review", "needs": {"files": 1}}}},
        {"name": "review", "on": {"SIGN": {"to": "signed"}}},
        {"name": "signed", "terminal": true},
    ]})
}

/// Sends a request with any bytes. Returns the status, the head and the bytes of the response.
fn transfer(server: &Server, credential: &str, line: &str, more: &str, body: &[u8]) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{credential}\r\n{more}content-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    let end = reply.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(reply[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head, reply.split_off(end + 4))
}

/// Uploads a file, and returns its id.
fn upload(server: &Server, credential: &str, bytes: &[u8]) -> String {
    let (status, _, answer) = transfer(server, credential, "POST /v1/files?name=offer.bin", "", bytes);
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((status, &answer["size"]), (201, &json!(bytes.len())), "{answer}");
    answer["id"].as_str().unwrap().to_owned()
}

fn key_of(client: &Client) -> String {
    format!("x-api-key: {}", client.key())
}

/// The first file that the history of a run names.
fn bound_file(admin: &Client, run: &str) -> Option<String> {
    let history = admin.get(&format!("{run}/history")).is(200);
    let file = history["entries"].as_array().unwrap().iter().find_map(|entry| entry["files"][0]["id"].as_str());
    file.map(str::to_owned)
}

#[test]
fn a_file_of_25_mib_comes_back_from_every_node() {
    let _turn = alone();
    for office in [Office::on_sqlite(), Office::on_postgres()] {
        let (first, last) = (&office.servers[0], office.servers.last().unwrap());
        let key = key_of(&office.admin());
        let bytes: Vec<u8> = (0..25 * 1024 * 1024_usize).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        let file = upload(first, &key, &bytes);
        for server in [first, last] {
            let line = format!("GET /v1/files/{file}");
            let (status, _, read) = transfer(server, &key, &line, "", &[]);
            assert!(status == 200 && read == bytes, "{status}, {} bytes", read.len());
            let mut at = 0;
            // Parts whose bounds are those of no chunk.
            while at < bytes.len() {
                let end = (at + 7 * CHUNK + 13).min(bytes.len());
                let range = format!("range: bytes={at}-{}\r\n", end - 1);
                let (status, head, read) = transfer(server, &key, &line, &range, &[]);
                assert!(status == 206 && read == bytes[at..end], "{head}");
                at = end;
            }
        }
    }
}

#[test]
fn one_of_fifty_runs_binds_a_file() {
    let _turn = alone();
    for office in [Office::on_sqlite(), Office::on_postgres()] {
        let admin = office.admin();
        admin.publish("contract", &contract());
        for _ in 0..5 {
            let runs: Vec<_> = (0..50).map(|_| admin.start("contract", &json!({}))).collect();
            let server = |n: usize| &office.servers[n % office.servers.len()];
            let mut people: Vec<_> = (0..runs.len()).map(|n| Person::new("ann", server(n))).collect();
            let file = upload(server(0), &people[0].credential(), b"hello");
            let request = json!({"action": "OFFER", "files": [file]});
            let answers: Vec<_> = thread::scope(|scope| {
                let request = &request;
                let pairs = people.iter_mut().zip(&runs);
                let sent: Vec<_> =
                    pairs.map(|(person, run)| scope.spawn(move || person.acts(run, request, None))).collect();
                sent.into_iter().map(|sent| sent.join().unwrap()).collect()
            });
            for (run, (status, body)) in runs.iter().zip(&answers) {
                assert!(*status == 200 || (*status, &body["code"]) == (422, &json!("FILE_TAKEN")), "{status} {body}");
                assert_eq!(bound_file(&admin, run).is_some(), *status == 200);
            }
            assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 1);
        }
    }
}

#[test]
fn a_killed_server_binds_files_with_their_decisions() {
    let _turn = alone();
    let folder = Folder::new();
    let data = folder.at("data");
    let server = Server::with(&["--data", &data], &IDENTITY);
    let admin = server.client();
    admin.publish("contract", &contract());
    let ann = Person::new("ann", &server).credential();
    let offers: Vec<_> =
        (0..60).map(|_| (admin.start("contract", &json!({})), upload(&server, &ann, b"hello"))).collect();
    let request = |file: &str| json!({"action": "OFFER", "files": [file]});
    let mut server = Some(server);
    thread::scope(|scope| {
        for (worker, offers) in offers.chunks(15).enumerate() {
            let mut person = Person::new("ann", server.as_ref().unwrap());
            scope.spawn(move || {
                for (n, (run, file)) in offers.iter().enumerate() {
                    // After the kill the outcome is not known.
                    let key = format!("{worker}-{n}");
                    if person.act(run, &request(file), Some(&key)).is_err() {
                        return;
                    }
                }
            });
        }
        thread::sleep(Duration::from_millis(60));
        server.take().unwrap().kill();
    });
    let server = Server::with(&["--data", &data], &IDENTITY);
    let admin = server.client();
    let mut person = Person::new("ann", &server);
    for (worker, offers) in offers.chunks(15).enumerate() {
        for (n, (run, file)) in offers.iter().enumerate() {
            let is_bound = bound_file(&admin, run).as_ref() == Some(file);
            let (status, ..) = transfer(&server, &key_of(&admin), &format!("GET /v1/files/{file}"), "", &[]);
            assert_eq!(status == 200, is_bound, "an admin reads bound files alone");
            // The same request binds it now, or is answered as before.
            let (status, body) = person.acts(run, &request(file), Some(&format!("{worker}-{n}")));
            assert_eq!(status, 200, "{body}");
            assert_eq!(bound_file(&admin, run).as_ref(), Some(file));
        }
    }
}
