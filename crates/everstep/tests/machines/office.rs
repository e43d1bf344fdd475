//! Servers with an identity provider, and people who use them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use everstep_testkit::issuer::SigningKey;
use serde_json::{Value, json};

use crate::support::cluster::Site;
use crate::support::{Client, Folder, Server, wait_for};

const SECRET: &str = "thirty-two bytes that are secret";
const ISSUER: &str = "https://login.example.com";
/// The identity provider of all servers.
pub(crate) const IDENTITY: [(&str, &str); 4] = [
    ("EVERSTEP_JWT_ISSUER", ISSUER),
    ("EVERSTEP_JWT_AUDIENCE", "everstep"),
    ("EVERSTEP_JWT_SECRET", SECRET),
    ("EVERSTEP_JWT_WORKSPACE", "default"),
];
/// Longer than any response may take.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Servers on one database.
pub(crate) struct Office {
    pub(crate) servers: Vec<Server>,
    /// Removed with the servers.
    _folder: Option<Folder>,
    _site: Option<Site<'static>>,
}

impl Office {
    /// One server on SQLite.
    pub(crate) fn on_sqlite() -> Self {
        let folder = Folder::new();
        let server = Server::with(&["--data", &folder.at("data")], &IDENTITY);
        Self { servers: vec![server], _folder: Some(folder), _site: None }
    }

    /// Two servers on PostgreSQL.
    pub(crate) fn on_postgres() -> Self {
        let site = site();
        let servers = vec![site.start(), site.start()];
        Self { servers, _folder: None, _site: Some(site) }
    }

    /// A client of the first server with every permission.
    pub(crate) fn admin(&self) -> Client {
        self.servers[0].client()
    }

    /// Starts a run, and waits until it is in the memory of a node, or parked.
    pub(crate) fn start_run(&self, workflow: &str, is_in_memory: bool) -> String {
        let admin = self.admin();
        let run = admin.start(workflow, &json!({}));
        wait_for("the run to be in memory or parked", || {
            let shown = admin.get(&run).is(200);
            (shown["status"] == "waiting" && shown["owner"].is_null() != is_in_memory).then_some(())
        });
        run
    }

    /// Persons with these names, spread over the servers. Some of them may view all runs, the others only act.
    pub(crate) fn persons(&self, count: usize) -> Vec<Person> {
        let person = |n: usize| {
            let permissions: &[_] = if n % 5 < 2 { &["workflow:act"] } else { &["workflow:act", "workflow:view"] };
            Person::with(&name(n), permissions, &self.servers[n % self.servers.len()])
        };
        (0..count).map(person).collect()
    }
}

/// A database for nodes with an identity provider and a short lease.
pub(crate) fn site() -> Site<'static> {
    let site = Site::new().set("EVERSTEP_NODE_LEASE", "2s");
    IDENTITY.iter().fold(site, |site, (name, value)| site.set(name, value))
}

pub(crate) fn name(n: usize) -> String {
    format!("person-{n}")
}

/// A person with a connection to a server that is kept.
pub(crate) struct Person {
    pub(crate) name: String,
    token: String,
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Person {
    /// A person who may only act.
    pub(crate) fn new(name: &str, server: &Server) -> Self {
        Self::with(name, &["workflow:act"], server)
    }

    pub(crate) fn with(name: &str, permissions: &[&str], server: &Server) -> Self {
        let (token, address) = (token(name, permissions), server.address().to_owned());
        Self { name: name.to_owned(), token, address, stream: None }
    }

    /// The header with which the person authenticates.
    pub(crate) fn credential(&self) -> String {
        format!("authorization: Bearer {}", self.token)
    }

    /// Uses another server from now on.
    pub(crate) fn turn_to(&mut self, server: &Server) {
        (self.address, self.stream) = (server.address().to_owned(), None);
    }

    /// Sends a transition. An error means that the outcome is not known.
    pub(crate) fn act(&mut self, run: &str, request: &Value, key: Option<&str>) -> io::Result<(u16, Value)> {
        self.send("POST", &format!("{run}/transitions"), key, &request.to_string())
    }

    /// The same, from a server that answers.
    #[track_caller]
    pub(crate) fn acts(&mut self, run: &str, request: &Value, key: Option<&str>) -> (u16, Value) {
        self.act(run, request, key).unwrap()
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<(u16, Value)> {
        self.send("GET", path, None, "")
    }

    fn send(&mut self, method: &str, path: &str, key: Option<&str>, body: &str) -> io::Result<(u16, Value)> {
        let Self { token, address, .. } = self;
        let key = key.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n{key}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_read_timeout(Some(READ_TIMEOUT))?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        stream.get_mut().write_all(request.as_bytes())?;
        let answer = read(&mut stream)?;
        self.stream = Some(stream);
        Ok(answer)
    }
}

fn read(stream: &mut BufReader<TcpStream>) -> io::Result<(u16, Value)> {
    let broken = || io::Error::new(io::ErrorKind::UnexpectedEof, "half an answer");
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    let mut length = 0;
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Err(broken());
        }
        let header = line.trim_end();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().map_err(|_| broken())?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((status, serde_json::from_slice(&body).map_err(|_| broken())?))
}

/// A token of a person.
fn token(name: &str, permissions: &[&str]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({"iss": ISSUER, "aud": "everstep", "sub": name, "exp": now + 3_600, "permissions": permissions});
    SigningKey::secret(SECRET.as_bytes()).token(&claims)
}

/// States with the same action, one after the other. A time limit keeps a run in memory; without one it is parked.
pub(crate) fn levels(names: &[&str], limit: Option<&str>) -> Value {
    let mut states: Vec<_> = (0..names.len())
        .map(|n| {
            let next = names.get(n + 1).unwrap_or(&"approved");
            let mut state = json!({"name": names[n], "initial": n == 0, "on": {"APPROVE": {"to": next}}});
            if let Some(limit) = limit {
                state["after"] = json!([{"in": limit, "to": "late"}]);
            }
            state
        })
        .collect();
    states.push(json!({"name": "approved", "terminal": true}));
    if limit.is_some() {
        states.push(json!({"name": "late", "terminal": true}));
    }
    json!({ "states": states })
}

/// The entries of a journal with an event.
pub(crate) fn entries(client: &Client, run: &str, event: &str) -> Vec<Value> {
    client.journal(run).into_iter().filter(|entry| entry["event"] == event).collect()
}
