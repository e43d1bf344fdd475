//! People, who authenticate with tokens of an identity provider.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Method;
use everstep_api::auth::identity::{ClaimNames, IdentityOptions, KeySource, RoleMap, WorkspaceSource};
use everstep_core::time::Timestamp;
use everstep_engine::{Clock, NodeClock, SystemClock};
use everstep_testkit::issuer::{Issuer, IssuerMode, SigningKey};
use everstep_vault::{Keyring, SealKey};
use serde_json::{Value, json};
use tracing::subscriber::Interest;
use tracing::{Metadata, span};
use tracing_subscriber::filter::LevelFilter;

use crate::support::{Answer, Server, Setup, until, wait_for_go};

pub(crate) const SECRET: &str = "thirty-two bytes that unknown has";
const AUDIENCE: &str = "everstep";
const ISSUER: &str = "https://issuer.example";

/// A clock that a test moves forward.
#[derive(Default)]
pub(crate) struct Machine {
    clock: SystemClock,
    ahead_seconds: AtomicU64,
}

impl Machine {
    fn ahead(&self) -> Duration {
        Duration::from_secs(self.ahead_seconds.load(Ordering::SeqCst))
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.ahead_seconds.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for Machine {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic() + self.ahead()
    }

    fn wall(&self) -> Timestamp {
        self.clock.wall().plus(self.ahead())
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.clock.sleep(duration)
    }
}

pub(crate) fn options(issuer: &str, keys: KeySource) -> IdentityOptions {
    IdentityOptions {
        issuer: issuer.to_owned(),
        audience: vec![AUDIENCE.to_owned(), "another".to_owned()],
        keys,
        algorithms: Vec::new(),
        workspace: WorkspaceSource::Name("default".to_owned()),
        claims: ClaimNames::default(),
        roles: RoleMap::default(),
    }
}

/// A server that accepts tokens signed with [`SECRET`].
pub(crate) async fn start() -> Server {
    let identity = Some(options(ISSUER, KeySource::from_secret(SECRET.to_owned())));
    let keyring = Some(Keyring::new(SealKey::generate(), Vec::new()));
    Server::launch(Setup { identity, keyring, ..Setup::default() }).await
}

/// The same, with a clock that the test moves.
pub(crate) async fn start_on_clock() -> (Server, Arc<Machine>) {
    let identity = Some(options(ISSUER, KeySource::from_secret(SECRET.to_owned())));
    let machine: Arc<Machine> = Arc::default();
    let clock = NodeClock::new(Arc::clone(&machine) as _);
    let keyring = Some(Keyring::new(SealKey::generate(), Vec::new()));
    (Server::launch(Setup { identity, clock, keyring, ..Setup::default() }).await, machine)
}

/// A server that accepts tokens of an issuer with these keys, and its clock.
async fn start_with(keys: &[&SigningKey]) -> (Server, Issuer, Arc<Machine>) {
    let issuer = Issuer::start(keys.iter().map(|key| key.jwk()).collect()).await;
    let machine: Arc<Machine> = Arc::default();
    let identity = Some(options(issuer.url(), KeySource::Url(issuer.jwks_url().parse().unwrap())));
    let clock = NodeClock::new(Arc::clone(&machine) as _);
    let server = Server::launch(Setup { identity, clock, ..Setup::default() }).await;
    (server, issuer, machine)
}

fn now(server: &Server) -> i64 {
    server.engine.world().clock.now().millis() / 1_000
}

/// The claims of a valid token of a person, for ten minutes.
fn claims(server: &Server, issuer: &str, person: &str) -> Value {
    json!({"iss": issuer, "aud": AUDIENCE, "sub": person, "exp": now(server) + 600})
}

/// A token of a person with these permissions, of the server that [`start`] starts.
pub(crate) fn token(server: &Server, person: &str, permissions: &[&str]) -> String {
    let mut claims = claims(server, ISSUER, person);
    claims["permissions"] = json!(permissions);
    SigningKey::secret(SECRET.as_bytes()).token(&claims)
}

/// A token of a person with further claims, of the server that [`start`] starts.
pub(crate) fn token_with(server: &Server, person: &str, more: &Value) -> String {
    let mut claims = claims(server, ISSUER, person);
    claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    SigningKey::secret(SECRET.as_bytes()).token(&claims)
}

pub(crate) async fn ask(server: &Server, token: &str, method: Method, path: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    server.ask(method, path, &[("authorization", &bearer)], &body).await
}

pub(crate) async fn get(server: &Server, token: &str, path: &str) -> Answer {
    ask(server, token, Method::GET, path, &Value::Null).await
}

#[tokio::test]
async fn people_do_what_their_permissions_and_roles_allow() {
    let server = start().await;
    let key = SigningKey::secret(SECRET.as_bytes());
    let viewer = token(&server, "ann", &["workflow:view", "contract.view"]);
    get(&server, &viewer, "/v1/runs").await.is(200);
    let refused = get(&server, &viewer, "/v1/workflows").await.refuses(403, "PERMISSION_DENIED");
    assert!(refused["detail"].as_str().unwrap().contains("this token lacks the permission workflow:read"), "{refused}");
    assert!(refused["hint"].as_str().unwrap().contains("role map"), "{refused}");

    let mut described = claims(&server, ISSUER, "bob");
    described["name"] = json!("Bob");
    described["email"] = json!("bob@example.org");
    described["roles"] = json!(["Superadmin", "Stranger"]);
    let admin = key.token(&described);
    let me = get(&server, &admin, "/v1/me").await.is(200);
    assert_eq!((&me["key"], &me["workspace"]["name"]), (&Value::Null, &json!("default")));
    assert_eq!(me["person"]["id"], "bob");
    assert_eq!((&me["person"]["issuer"], &me["person"]["name"]), (&json!(ISSUER), &json!("Bob")));
    assert_eq!(
        (&me["person"]["email"], &me["person"]["roles"]),
        (&json!("bob@example.org"), &json!(["Superadmin", "Stranger"]))
    );
    assert!(me["person"]["expiresAt"].is_string());
    assert!(me["permissions"].as_array().unwrap().contains(&json!("workflow:admin")));

    // A role that the map does not have grants nothing, and neither do words of another system.
    let mut stranger = claims(&server, ISSUER, "eve");
    stranger["roles"] = json!(["Stranger", "OrgAdmin", "admin"]);
    let stranger = key.token(&stranger);
    assert_eq!(get(&server, &stranger, "/v1/me").await.is(200)["permissions"], json!([]));
    get(&server, &stranger, "/v1/runs").await.refuses(403, "PERMISSION_DENIED");

    // Managing runs implies acting in them.
    let manager = token(&server, "mia", &["workflow:manage"]);
    let me = get(&server, &manager, "/v1/me").await.is(200);
    assert_eq!(me["permissions"], json!(["workflow:act", "workflow:manage"]));
    // For the holder of a key there is no person.
    let me = server.get("/v1/me").await.is(200);
    assert_eq!((&me["person"], me["key"]["name"].as_str()), (&Value::Null, Some("test")));
}

#[tokio::test]
async fn the_audit_names_the_person_who_acted() {
    let server = start().await;
    server.publish("audited", &crate::support::chain(&[])).await;
    // The kind of a caller does not depend on the id in the token.
    let token = token(&server, "key:0190", &["workflow:manage"]);
    ask(&server, &token, Method::POST, "/v1/workflows/audited/runs", &json!({})).await.is(201);
    let row = until("the row of the audit", async || {
        let audit = server.get("/v1/audit").await.is(200);
        let rows = audit["entries"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["actor"].as_str().is_some_and(|actor| actor.starts_with("person:")))
    })
    .await;
    assert_eq!(row["actor"], format!("person:{ISSUER}/key:0190"), "{row}");
    assert_eq!(row["details"]["keyName"], Value::Null, "{row}");
}

/// Collects what is logged on this thread.
#[derive(Clone, Default)]
pub(crate) struct Log(pub(crate) Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The log of this test from a level on, until the second value is dropped.
pub(crate) fn keep_log(level: LevelFilter) -> (Log, impl Sized) {
    // Another test of this program may have set it.
    let _ = tracing::subscriber::set_global_default(Undecided);
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(level).with_ansi(false).with_writer(move || writer.clone()).finish();
    (log, tracing_subscriber::util::SubscriberInitExt::set_default(subscriber))
}

/// Receives what the threads of other tests log, and discards it. `tracing` remembers which events interest no subscriber:
/// an event that another test logs while this one begins could be remembered so, and would be missing in the log. While
/// this subscriber exists, each event is checked when it is logged.
struct Undecided;

impl tracing::Subscriber for Undecided {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, _: &Metadata<'_>) -> bool {
        false
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The number of tokens that a server has refused for a reason.
async fn count_refused(server: &Server, reason: &str) -> u64 {
    let page = server.get("/metrics").await.is(200);
    let name = format!("everstep_tokens_refused_total{{reason=\"{reason}\"}} ");
    let line = page.as_str().unwrap().lines().find_map(|line| line.strip_prefix(&*name)).map(str::to_owned);
    line.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn a_bad_token_is_refused_counted_and_not_logged() {
    let (log, _logged) = keep_log(LevelFilter::DEBUG);
    let (rsa, elliptic) = (SigningKey::rsa("rsa", 0), SigningKey::p256("p256"));
    let (server, issuer, _) = start_with(&[&rsa, &elliptic]).await;
    let good = claims(&server, issuer.url(), "mallory-the-forger");
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims
    };
    let without = |name: &str| {
        let mut claims = good.clone();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    let header = |algorithm: &str| json!({"alg": algorithm, "kid": "rsa"});
    let unsigned = |algorithm: &str| {
        let token = rsa.token_with(&header(algorithm), &good);
        format!("{}.", token.rsplit_once('.').unwrap().0)
    };
    let forged = {
        let token = rsa.token(&good);
        let (message, signature) = token.rsplit_once('.').unwrap();
        let other = SigningKey::rsa("rsa", 0).token(&with("sub", json!("another-person")));
        assert_ne!(message, other.rsplit_once('.').unwrap().0);
        format!("{}.{signature}", other.rsplit_once('.').unwrap().0)
    };
    // The public keys are known to every client, in more than one encoding.
    let public = SigningKey::secret(&rsa.public_bytes());
    let modulus = SigningKey::secret(rsa.jwk()["n"].as_str().unwrap().as_bytes());
    let time = now(&server);
    let bad = [
        ("signature", forged),
        ("signature", SigningKey::rsa("rsa", 1).token(&good)),
        ("signature", unsigned("RS256")),
        ("algorithm", unsigned("none")),
        ("algorithm", rsa.token_with(&header("None"), &good)),
        ("algorithm", public.token_with(&header("HS256"), &good)),
        ("algorithm", modulus.token_with(&header("HS256"), &good)),
        ("algorithm", elliptic.token_with(&header("ES256"), &good)),
        ("algorithm", rsa.token_with(&json!({"alg": "RS256", "kid": "p256"}), &good)),
        ("unknown_key", rsa.token_with(&json!({"alg": "RS256", "kid": "unknown"}), &good)),
        ("unknown_key", rsa.token_with(&json!({"alg": "RS256"}), &good)),
        ("critical_header", rsa.token_with(&json!({"alg": "RS256", "kid": "rsa", "crit": ["exp"]}), &good)),
        ("critical_header", rsa.token_with(&json!({"alg": "RS256", "kid": "rsa", "crit": []}), &good)),
        ("issuer", rsa.token(&with("iss", json!("https://other.example")))),
        ("issuer", rsa.token(&with("iss", json!([issuer.url()])))),
        ("audience", rsa.token(&with("aud", json!("other")))),
        ("audience", rsa.token(&with("aud", json!(["other", "else"])))),
        ("expired", rsa.token(&with("exp", json!(time - 31)))),
        ("not_yet_valid", rsa.token(&with("nbf", json!(time + 60)))),
        ("claims", rsa.token(&without("iss"))),
        ("claims", rsa.token(&without("aud"))),
        ("claims", rsa.token(&without("exp"))),
        ("claims", rsa.token(&without("sub"))),
        ("claims", rsa.token(&with("exp", json!("tomorrow")))),
        ("claims", rsa.token(&with("nbf", json!("yesterday")))),
        ("claims", rsa.token(&with("roles", json!(5)))),
        ("too_long", rsa.token(&with("padding", json!("x".repeat(9 * 1024 * 3 / 4))))),
        ("malformed", "eyJhbGciOi.not-json.c2lnbmF0dXJl".to_owned()),
        ("malformed", "..".to_owned()),
    ];
    get(&server, &rsa.token(&good), "/v1/me").await.is(200);
    let mut reasons = BTreeSet::new();
    for (reason, token) in &bad {
        let before = count_refused(&server, reason).await;
        let answer = get(&server, token, "/v1/me").await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        let problem = answer.refuses(401, "AUTH_ERROR");
        assert!(problem["hint"].as_str().unwrap().contains("identity provider"), "{reason}: {problem}");
        assert_eq!(count_refused(&server, reason).await, before + 1, "{reason}: {problem}");
        reasons.insert(*reason);
    }
    // The twelfth needs a server whose tokens name a workspace.
    assert_eq!(reasons.len(), 11);
    // A token is rejected in the query string and in the other header.
    let token = rsa.token(&good);
    server.ask(Method::GET, &format!("/v1/me?q={token}"), &[], "").await.refuses(401, "AUTH_ERROR");
    server.ask(Method::GET, "/v1/me", &[("x-api-key", &token)], "").await.refuses(401, "AUTH_ERROR");

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for reason in &reasons {
        assert!(log.contains(&format!("reason=\"{reason}\"")), "{reason} is not in the log");
    }
    assert!(!log.contains("mallory-the-forger"));
    for token in bad.iter().map(|(_, token)| token).chain([&token]) {
        assert_not_logged(&log, token);
    }
}

/// No part of a token is in a log.
#[track_caller]
fn assert_not_logged(log: &str, token: &str) {
    for part in token.split('.').filter(|part| part.len() > 12) {
        assert!(!log.contains(part), "a part of a token is in the log");
    }
}

#[tokio::test]
async fn every_type_of_key_verifies_its_tokens_and_no_others() {
    let keys = [
        (SigningKey::ed25519("ed"), vec!["EdDSA"]),
        (SigningKey::p256("p256"), vec!["ES256"]),
        (SigningKey::p384("p384"), vec!["ES384"]),
        (SigningKey::rsa("rsa", 0), vec!["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
    ];
    let all: Vec<_> = keys.iter().map(|(key, _)| key).collect();
    let (server, issuer, _) = start_with(&all).await;
    for (key, algorithms) in &keys {
        for algorithm in algorithms {
            let header = json!({"alg": algorithm, "kid": key.kid()});
            let good = key.token_with(&header, &claims(&server, issuer.url(), algorithm));
            assert_eq!(get(&server, &good, "/v1/me").await.is(200)["person"]["id"], *algorithm);
            let (message, signature) = good.rsplit_once('.').unwrap();
            let (first, rest) = signature.split_at(1);
            let other = if first == "A" { "B" } else { "A" };
            get(&server, &format!("{message}.{other}{rest}"), "/v1/me").await.refuses(401, "AUTH_ERROR");
        }
        // The same name, and a key that the issuer does not have.
        let other = match key.kid() {
            "ed" => SigningKey::ed25519("ed"),
            "p256" => SigningKey::p256("p256"),
            "p384" => SigningKey::p384("p384"),
            _ => SigningKey::rsa("rsa", 1),
        };
        let forged = other.token(&claims(&server, issuer.url(), "forger"));
        get(&server, &forged, "/v1/me").await.refuses(401, "AUTH_ERROR");
    }
    assert_eq!(issuer.requests(), 1);

    let server = start().await;
    let key = SigningKey::secret(SECRET.as_bytes());
    for algorithm in ["HS256", "HS384", "HS512"] {
        let token = key.token_with(&json!({"alg": algorithm}), &claims(&server, ISSUER, algorithm));
        get(&server, &token, "/v1/me").await.is(200);
    }
    let forged = SigningKey::secret(b"another secret of thirty-two bytes").token(&claims(&server, ISSUER, "forger"));
    get(&server, &forged, "/v1/me").await.refuses(401, "AUTH_ERROR");
    // A public key in the header of the token is ignored.
    let pair = SigningKey::ed25519("own");
    let header = json!({"alg": "EdDSA", "kid": "own", "jwk": pair.jwk()});
    let forged = pair.token_with(&header, &claims(&server, ISSUER, "forger"));
    get(&server, &forged, "/v1/me").await.refuses(401, "AUTH_ERROR");
}

#[tokio::test]
async fn the_issuer_rotates_its_keys_without_a_restart() {
    let (old, new) = (SigningKey::ed25519("old"), SigningKey::p256("new"));
    let (server, issuer, machine) = start_with(&[&old]).await;
    let of = |key: &SigningKey, person: &str| {
        let mut claims = claims(&server, issuer.url(), person);
        claims["exp"] = json!(now(&server) + 7_200);
        key.token(&claims)
    };
    let (first, second) = (of(&old, "ann"), of(&new, "ann"));
    get(&server, &first, "/v1/me").await.is(200);
    // An unknown key name causes one request to the issuer, and no other for half a minute.
    issuer.rotate(vec![old.jwk(), new.jwk()]);
    get(&server, &second, "/v1/me").await.refuses(401, "AUTH_ERROR");
    assert_eq!(issuer.requests(), 1);
    machine.advance(31);
    get(&server, &second, "/v1/me").await.is(200);
    get(&server, &first, "/v1/me").await.is(200);
    assert_eq!(issuer.requests(), 2);
    for index in 0..20 {
        let unknown = SigningKey::ed25519(&format!("unknown-{index}"));
        get(&server, &of(&unknown, "eve"), "/v1/me").await.refuses(401, "AUTH_ERROR");
    }
    assert_eq!(issuer.requests(), 2);
    // A key that is withdrawn is refused after five minutes.
    issuer.rotate(vec![new.jwk()]);
    machine.advance(200);
    get(&server, &of(&old, "bob"), "/v1/me").await.is(200);
    machine.advance(101);
    get(&server, &first, "/v1/me").await.refuses(401, "AUTH_ERROR");
    get(&server, &second, "/v1/me").await.is(200);
}

#[tokio::test]
async fn the_last_keys_are_used_for_a_day_while_the_issuer_is_down() {
    let key = SigningKey::ed25519("key");
    let (server, issuer, machine) = start_with(&[&key]).await;
    let ask_again =
        async |person: &str| get(&server, &key.token(&claims(&server, issuer.url(), person)), "/v1/me").await;
    // No set of keys was ever read: the token may be valid.
    issuer.set_mode(IssuerMode::Fail);
    let answer = ask_again("ann").await;
    assert!(answer.headers.contains_key("retry-after"));
    answer.refuses(503, "UNAVAILABLE");
    issuer.set_mode(IssuerMode::Serve);
    machine.advance(2);
    ask_again("ann").await.is(200);
    // An API key needs no issuer.
    issuer.set_mode(IssuerMode::Fail);
    machine.advance(301);
    ask_again("bob").await.is(200);
    server.get("/v1/me").await.is(200);
    let asked = issuer.requests();
    ask_again("mia").await.is(200);
    assert_eq!(issuer.requests(), asked, "a failed reading is not repeated at once");
    // It hangs: a token that names a known key does not wait for it.
    issuer.set_mode(IssuerMode::Hang);
    let unknown = SigningKey::ed25519("unknown").token(&claims(&server, issuer.url(), "eve"));
    machine.advance(31);
    tokio::select! {
        answer = get(&server, &unknown, "/v1/me") => panic!("the issuer hangs: {}", answer.status),
        answer = async {
            until("a request to the issuer", async || (issuer.requests() > asked).then_some(())).await;
            ask_again("joe").await
        } => drop(answer.is(200)),
    }
    // The issuer is stopped, and the last set of keys expires after a day.
    issuer.stop();
    machine.advance(23 * 3_600);
    ask_again("ann").await.is(200);
    machine.advance(3_600);
    ask_again("ann").await.refuses(503, "UNAVAILABLE");
    server.get("/v1/me").await.is(200);
}

#[tokio::test]
async fn keys_are_read_from_a_file_and_read_again() {
    let (old, new) = (SigningKey::ed25519("old"), SigningKey::rsa("new", 0));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    std::fs::write(&path, json!({"keys": [old.jwk()]}).to_string()).unwrap();
    let machine: Arc<Machine> = Arc::default();
    let identity = Some(options(ISSUER, KeySource::File(path.clone())));
    let clock = NodeClock::new(Arc::clone(&machine) as _);
    let server = Server::launch(Setup { identity, clock, ..Setup::default() }).await;
    get(&server, &old.token(&claims(&server, ISSUER, "ann")), "/v1/me").await.is(200);
    std::fs::write(&path, json!({"keys": [new.jwk()]}).to_string()).unwrap();
    machine.advance(301);
    get(&server, &new.token(&claims(&server, ISSUER, "ann")), "/v1/me").await.is(200);
    get(&server, &old.token(&claims(&server, ISSUER, "ann")), "/v1/me").await.refuses(401, "AUTH_ERROR");
}

#[tokio::test]
async fn a_token_is_good_until_it_expires() {
    let key = SigningKey::ed25519("key");
    let (server, issuer, machine) = start_with(&[&key]).await;
    let token = key.token(&claims(&server, issuer.url(), "ann"));
    get(&server, &token, "/v1/me").await.is(200);
    machine.advance(620);
    get(&server, &token, "/v1/me").await.is(200);
    // This holds while the token is cached, too.
    machine.advance(12);
    get(&server, &token, "/v1/me").await.refuses(401, "AUTH_ERROR");
}

#[tokio::test]
async fn a_ticket_of_a_person_ends_with_the_token() {
    let key = SigningKey::ed25519("key");
    let (server, issuer, machine) = start_with(&[&key]).await;
    let run = server.start_chain("followed", &[wait_for_go()]).await;
    let ticket = async |seconds: i64, permissions: &[&str]| {
        let mut claims = claims(&server, issuer.url(), "ann");
        claims["exp"] = json!(now(&server) + seconds);
        claims["permissions"] = json!(permissions);
        let made = ask(&server, &key.token(&claims), Method::POST, "/v1/tickets", &Value::Null).await.is(201);
        made["ticket"].as_str().unwrap().to_owned()
    };
    let open = async |ticket: &str| server.knock(Method::GET, &format!("{run}/events?ticket={ticket}"), &[], "").await;
    let short = ticket(20, &["workflow:view"]).await;
    let long = ticket(600, &["workflow:view"]).await;
    assert_eq!((open(&short).await, open(&long).await), (200, 200));
    assert_eq!(open(&ticket(600, &["workflow:act"]).await).await, 403);
    // Only live routes accept a ticket.
    server
        .ask(Method::GET, "/v1/runs", &[("authorization", &format!("Bearer {long}"))], "")
        .await
        .refuses(401, "AUTH_ERROR");
    machine.advance(21);
    assert_eq!((open(&short).await, open(&long).await), (401, 200));
    machine.advance(40);
    assert_eq!(open(&long).await, 401);
}

#[tokio::test]
async fn a_stream_of_a_person_ends_with_the_token() {
    let key = SigningKey::ed25519("key");
    let (server, issuer, machine) = start_with(&[&key]).await;
    let run = server.start_chain("followed", &[wait_for_go()]).await;
    let mut claims = claims(&server, issuer.url(), "ann");
    claims["permissions"] = json!(["workflow:view"]);
    let bearer = format!("Bearer {}", key.token(&claims));
    let response = server.send(Method::GET, &format!("{run}/events"), &[("authorization", &bearer)], "").await;
    assert_eq!(response.status().as_u16(), 200);
    machine.advance(601);
    // The server ends the stream by itself.
    let body = http_body_util::BodyExt::collect(response.into_body());
    tokio::time::timeout(Duration::from_secs(30), body).await.unwrap().unwrap();
}

#[tokio::test]
async fn people_are_counted_one_by_one() {
    let identity = Some(options(ISSUER, KeySource::from_secret(SECRET.to_owned())));
    let server = Server::launch(Setup { identity, rate_limit: 1, ..Setup::default() }).await;
    let (ann, bob) = (token(&server, "ann", &[]), token(&server, "bob", &[]));
    let mut refused = 0;
    for index in 0..40 {
        // Another token of the same person.
        let again = token(&server, "ann", &["contract.view"]);
        let answer = get(&server, if index % 2 == 0 { &ann } else { &again }, "/v1/me").await;
        if answer.status == 429 {
            let problem = answer.refuses(429, "RATE_LIMITED");
            assert!(problem["detail"].as_str().unwrap().contains("this token"), "{problem}");
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused}");
    get(&server, &bob, "/v1/me").await.is(200);
}

#[tokio::test]
async fn a_token_names_the_workspace_of_its_person() {
    let (log, _logged) = keep_log(LevelFilter::DEBUG);
    let identity = IdentityOptions {
        workspace: WorkspaceSource::Claim("tenant".to_owned()),
        ..options(ISSUER, KeySource::from_secret(SECRET.to_owned()))
    };
    let server = Server::launch(Setup { identity: Some(identity), ..Setup::default() }).await;
    let key = SigningKey::secret(SECRET.as_bytes());
    let run = server.start_chain("ours", &[wait_for_go()]).await;
    let roles = json!({"name": "shop", "options": {"roles": {"Clerk": "workflow:view"}}});
    let made = server.post("/v1/workspaces", &roles).await.is(201);
    assert_eq!(made["workspace"]["options"]["roles"], json!({"Clerk": "workflow:view"}));
    let of = |tenant: Value, role: &str| {
        let mut claims = claims(&server, ISSUER, "ann");
        claims["tenant"] = tenant;
        claims["roles"] = json!([role]);
        key.token(&claims)
    };
    // The role grants a permission only in the workspace that maps it.
    let clerk = of(json!("shop"), "Clerk");
    assert_eq!(get(&server, &clerk, "/v1/runs").await.is(200)["runs"], json!([]));
    get(&server, &clerk, &run).await.refuses(404, "NOT_FOUND");
    get(&server, &of(json!("default"), "Clerk"), "/v1/runs").await.refuses(403, "PERMISSION_DENIED");
    let admin = of(json!("shop"), "Superadmin");
    get(&server, &admin, &run).await.refuses(404, "NOT_FOUND");
    get(&server, &admin, "/v1/workspaces").await.refuses(403, "PERMISSION_DENIED");
    let tenants = [json!("other"), json!(""), json!(5), Value::Null, json!(made["workspace"]["id"])];
    let refused = tenants.map(|tenant| of(tenant, "Superadmin"));
    for (count, token) in (1..).zip(&refused) {
        get(&server, token, "/v1/me").await.refuses(401, "AUTH_ERROR");
        assert_eq!(count_refused(&server, "workspace").await, count);
    }
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("reason=\"workspace\""));
    for token in refused.iter().chain([&clerk, &admin]) {
        assert_not_logged(&log, token);
    }
    // The map is replaced as a whole; a value that is not a map is rejected.
    let change = async |options: Value| {
        server.ask_as_admin(Method::PATCH, "/v1/workspaces/shop", &[], &json!({ "options": options })).await
    };
    let changed = change(json!({"roles": {"Auditor": "workflow:view"}})).await.is(200);
    assert_eq!(changed["options"], json!({"fetch": false, "roles": {"Auditor": "workflow:view"}}));
    get(&server, &of(json!("shop"), "Auditor"), "/v1/runs").await.is(200);
    change(json!({"roles": {"Auditor": ""}})).await.refuses(400, "VALIDATION_ERROR");
    change(json!({"roles": ["Auditor"]})).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_server_without_an_identity_provider_accepts_no_token() {
    let server = Server::start().await;
    let token = token(&server, "ann", &["workflow:admin"]);
    let problem = get(&server, &token, "/v1/me").await.refuses(401, "AUTH_ERROR");
    assert!(problem["detail"].as_str().unwrap().contains("no identity provider"), "{problem}");
}
