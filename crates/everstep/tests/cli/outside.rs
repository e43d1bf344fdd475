//! Workflows that send requests to servers: the permitted addresses, the secrets, and the trusted certificates.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{CommandOutput, Folder, Server, call, chain_to, everstep};

/// A server on this machine that repeats and records requests.
struct Echo {
    address: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Echo {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let requests = Arc::clone(&heard);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let request = answer(stream.unwrap());
                requests.lock().unwrap().push(request);
            }
        });
        Self { address, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// Reads one request and returns it in the response.
fn answer(stream: TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    let request = head + &String::from_utf8(body).unwrap();
    let reply = json!({"asked": request}).to_string();
    let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\n";
    write!(reader.get_mut(), "{head}content-length: {}\r\n\r\n{reply}", reply.len()).unwrap();
    request
}

/// A workflow that sends one request and returns the response.
fn asks(config: &Value) -> Value {
    let ask = json!({"id": "ask", "type": "http", "config": config, "retry": {"maxAttempts": 1}});
    let parameter = json!({"name": "answer", "sourceVariable": "{{ctx.httpResponse}}"});
    chain_to(&[ask], json!({"id": "end", "type": "end", "config": {"outputParameters": [parameter]}}))
}

#[test]
fn a_person_s_own_run_reaches_what_the_machine_reaches() {
    let folder = Folder::new();
    let echo = Echo::start();
    let config = json!({"url": format!("http://{}/orders", echo.address), "method": "POST", "body": "{{ctx.input}}"});
    let file = folder.write("ask.json", asks(&config).to_string());
    let output = call(&["run", &file, "--input", r#"{"n": 7}"#]).exits(0).json();
    assert_eq!(output["answer"]["status"], 200);
    let asked = output["answer"]["body"]["asked"].as_str().unwrap();
    assert!(asked.starts_with("POST /orders HTTP/1.1\r\n") && asked.ends_with("\r\n\r\n{\"n\":7}"), "{asked}");
    assert!(asked.contains("\r\nidempotency-key: ") && asked.contains(":ask\r\n"), "{asked}");
    // By default.
    let output = call(&["run", &file, "--allow-addresses", "10.0.0.0/8"]);
    output.exits(1).says("ADDRESS_REFUSED").says("allow it with EVERSTEP_ALLOW_ADDRESSES");
    call(&["run", &file, "--allow-addresses", "localhost"]).exits(2).says("\"localhost\" is not an address");
    assert_eq!(echo.heard().len(), 1);
}

#[test]
fn a_server_blocks_private_addresses_until_they_are_allowed() {
    let folder = Folder::new();
    let echo = Echo::start();
    let data = folder.at("data");
    let server = Server::start(&data);
    let client = server.client();
    client.publish("ask", &asks(&json!({"url": format!("http://{}/", echo.address)})));
    let refused = client.wait(&client.start("ask", &json!({})));
    assert_eq!((&refused["status"], &refused["error"]["code"]), (&json!("failed"), &json!("ADDRESS_REFUSED")));
    assert!(refused["error"]["message"].as_str().unwrap().contains("EVERSTEP_ALLOW_ADDRESSES"), "{refused}");
    assert_eq!(echo.heard(), [""; 0]);
    server.stop();

    let server = Server::with(&["--data", &data], &[("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.0/8")]);
    let client = server.client();
    assert_eq!(client.wait(&client.start("ask", &json!({})))["status"], "completed");
    assert_eq!(echo.heard().len(), 1);
}

#[test]
fn a_secret_goes_to_its_server_and_nowhere_else() {
    const VALUE: &str = "top-secret-of-all";
    let folder = Folder::new();
    let echo = Echo::start();
    let server =
        Server::with(&["--data", &folder.at("data"), "--log", "debug"], &[("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.1")]);
    let client = server.client();
    let answer = client.put("/v1/secrets/token", &json!({"value": VALUE}));
    assert!([200, 201, 204].contains(&answer.status), "{}", answer.body);
    let config = json!({
        "url": format!("http://{}/", echo.address),
        "method": "POST",
        "auth": {"type": "bearer", "token": {"$secret": "token"}},
        "body": {"input": "{{ctx.input}}", "whole": {"$expr": "ctx.input.named"}},
    });
    client.publish("ask", &asks(&config));
    // The input also names the secret; it is not revealed.
    let run = client.start("ask", &json!({"input": {"named": {"$secret": "token"}}}));
    let ended = client.wait(&run);
    assert_eq!(ended["status"], "completed", "{ended}");
    let heard = echo.heard();
    assert!(heard[0].contains(&format!("authorization: Bearer {VALUE}\r\n")), "{heard:?}");
    let body = r#"{"input":{"named":{"$secret":"token"}},"whole":{"$secret":"token"}}"#;
    assert!(heard[0].ends_with(body), "{heard:?}");
    let asked = ended["output"]["answer"]["body"]["asked"].as_str().unwrap();
    assert!(asked.contains("authorization: Bearer [secret]\r\n"), "{asked}");
    let journal = Value::from(client.journal(&run)).to_string();
    let definition = client.get("/v1/workflows/ask").is(200).to_string();
    let said = server.stop();
    for text in [&journal, &definition, &said, &ended.to_string()] {
        assert!(!text.contains(VALUE), "{text}");
    }
}

#[test]
fn a_secret_outside_its_fields_is_refused_at_save() {
    let folder = Folder::new();
    let server = Server::start(&folder.at("data"));
    let mut wrong = asks(&json!({"url": "https://example.com", "method": {"$secret": "token"}}));
    wrong["nodes"][2]["config"]["outputParameters"][0]["sourceVariable"] = json!({"$secret": "token"});
    let problem = server.client().put("/v1/workflows/ask", &wrong);
    assert_eq!(problem.status, 422, "{}", problem.body);
    let body = problem.body.to_string();
    for path in ["/nodes/1/config/method", "/nodes/2/config/outputParameters/0/sourceVariable"] {
        assert!(body.contains(path) && body.contains("a secret is not accepted here"), "{body}");
    }
}

/// A server with TLS and its own certificate; it ends with this value.
struct Secure {
    child: Child,
    port: String,
}

impl Secure {
    fn start(folder: &Folder) -> Self {
        folder.write("x.json", "{\"a\": 1}");
        let make = |name: &str, more: &[&str]| {
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
            openssl.args(["-days", "2", "-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")]);
            let made = openssl.args(more).current_dir(folder.path()).output().unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        make("authority", &["-subj", "/CN=authority"]);
        let signed = ["-CA", "authority.pem", "-CAkey", "authority.key", "-subj", "/CN=localhost"];
        let names = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"];
        make("own", &[signed.as_slice(), &names].concat());
        let serve = ["s_server", "-accept", "127.0.0.1:0", "-cert", "own.pem", "-key", "own.key", "-WWW"];
        let mut openssl = Command::new("openssl");
        openssl.args(serve).current_dir(folder.path()).stdin(Stdio::null());
        let mut child = openssl.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find_map(|line| Some(line.unwrap().strip_prefix("ACCEPT ")?.to_owned())).unwrap();
        let port = line.rsplit(':').next().unwrap().to_owned();
        // A full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port }
    }
}

impl Drop for Secure {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_is_trusted_if_the_machine_trusts_it() {
    let folder = Folder::new();
    let secure = Secure::start(&folder);
    let config = json!({"url": format!("https://localhost:{}/x.json", secure.port), "responseType": "json"});
    let file = folder.write("ask.json", asks(&config).to_string());
    call(&["run", &file]).exits(1).says("HTTP_ERROR").says("certificate");
    let run = |name: &str, value: &str| -> CommandOutput {
        everstep().args(["run", &file, "--quiet"]).env(name, value).output().unwrap().into()
    };
    assert_eq!(run("SSL_CERT_FILE", &folder.at("authority.pem")).exits(0).json()["answer"]["body"], json!({"a": 1}));
    // If the machine has no certificates at all, those of the web are used, and this one is not among them.
    folder.write("empty.pem", "");
    run("SSL_CERT_FILE", &folder.at("empty.pem")).exits(1).says("certificate");
    // A proxy of the environment is not used.
    let proxied = everstep()
        .args(["run", &file, "--quiet"])
        .envs([("HTTPS_PROXY", "http://127.0.0.1:9"), ("SSL_CERT_FILE", &folder.at("authority.pem"))])
        .output();
    CommandOutput::from(proxied.unwrap()).exits(0);
}
