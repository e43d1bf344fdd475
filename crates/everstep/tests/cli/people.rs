//! A server with an identity provider, as people and admins use it.

use std::time::{SystemTime, UNIX_EPOCH};

use everstep_testkit::issuer::{Issuer, SigningKey};
use serde_json::{Value, json};

use crate::support::{Client, Folder, Server, call, everstep};

const SECRET: &str = "thirty-two bytes that are secret";

fn claims(issuer: &str, roles: &[&str]) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    json!({"iss": issuer, "aud": "everstep", "sub": "ann", "exp": now + 600, "staff": {"roles": roles}})
}

/// The person that a token names.
#[track_caller]
fn show_me(client: &Client, token: &str) -> Value {
    client.try_ask("GET", "/v1/me", &[("authorization", &format!("Bearer {token}"))], &Value::Null).unwrap().is(200)
}

#[track_caller]
fn is_refused(client: &Client, token: &str, status: u16, code: &str) {
    let answer = client.try_ask("GET", "/v1/me", &[("authorization", &format!("Bearer {token}"))], &Value::Null);
    answer.unwrap().refuses(status, code);
}

#[test]
fn people_use_a_server_as_its_settings_say() {
    let folder = Folder::new();
    let config = folder.write(
        "everstep.toml",
        r#"
        [identity]
        jwt_issuer = "https://login.example.com"
        jwt_audience = "everstep"
        jwt_workspace = "default"
        jwt_roles_claim = "staff.roles"
        [roles]
        Clerk = "contracts.read"
        [permissions]
        "contracts.read" = "workflow:view"
        "#,
    );
    let settings = [("EVERSTEP_JWT_SECRET", SECRET), ("EVERSTEP_LOG", "debug")];
    let server = Server::with(&["--data", &folder.at("data"), "--config", &config], &settings);
    let token = SigningKey::secret(SECRET.as_bytes()).token(&claims("https://login.example.com", &["Clerk"]));
    let me = show_me(&server.stranger(), &token);
    assert_eq!((&me["person"]["id"], &me["permissions"]), (&json!("ann"), &json!(["workflow:view"])));
    let forged =
        SigningKey::secret(b"another secret of thirty-two bytes").token(&claims("https://login.example.com", &[]));
    is_refused(&server.stranger(), &forged, 401, "AUTH_ERROR");
    let said = server.stop();
    assert!(said.contains("a token was rejected") && said.contains("signature"), "{said}");
    for part in token.split('.').chain(forged.split('.')) {
        assert!(!said.contains(part), "a part of a token is in the log");
    }
    assert!(!said.contains(SECRET));
    // The settings are shown without the secret.
    let shown = everstep().args(["config", "--config", &config]).env("EVERSTEP_JWT_SECRET", SECRET).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("https://login.example.com") && shown.contains("jwt_secret"), "{shown}");
    assert!(!shown.contains(SECRET) && !shown.contains("Clerk"), "{shown}");
}

#[test]
fn the_keys_of_an_issuer_inside_are_read_only_if_its_address_is_allowed() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let key = SigningKey::p256("first");
    let issuer = runtime.block_on(Issuer::start(vec![key.jwk()]));
    let token = key.token(&claims(issuer.url(), &[]));
    let (url, jwks) = (issuer.url().to_owned(), issuer.jwks_url());
    let settings = [
        ("EVERSTEP_JWT_ISSUER", &*url),
        ("EVERSTEP_JWT_AUDIENCE", "everstep"),
        ("EVERSTEP_JWT_JWKS_URL", &*jwks),
        ("EVERSTEP_JWT_WORKSPACE", "default"),
    ];
    let folder = Folder::new();
    let server = Server::with(&["--data", &folder.at("data")], &settings);
    is_refused(&server.stranger(), &token, 503, "UNAVAILABLE");
    assert_eq!(issuer.requests(), 0);
    drop(server);
    let allowed: Vec<_> = settings.into_iter().chain([("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.1")]).collect();
    let server = Server::with(&["--data", &folder.at("data")], &allowed);
    assert_eq!(show_me(&server.stranger(), &token)["person"]["issuer"], *url);
}

#[test]
fn settings_of_an_identity_provider_that_do_not_fit_are_refused() {
    let folder = Folder::new();
    let data = folder.at("data");
    let serve = |more: &[&str]| {
        let args = ["serve", "--listen", "127.0.0.1:0", "--data", &data];
        call(&args.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    serve(&["--jwt-audience", "x"]).exits(2).says("jwt-audience needs jwt-issuer");
    let issuer = ["--jwt-issuer", "https://login.example.com", "--jwt-audience", "everstep"];
    serve(&issuer).exits(2).says("set exactly one of jwt-secret, jwt-jwks-url and jwt-jwks-file");
    let secret = [&issuer[..], &["--jwt-secret", "short", "--jwt-workspace", "default"]].concat();
    serve(&secret).exits(2).says("at least 32 bytes");
    let confused = [
        &issuer[..],
        &["--jwt-jwks-url", "https://x.example", "--jwt-workspace", "default", "--jwt-algorithms", "HS256"],
    ]
    .concat();
    serve(&confused).exits(2).says("HS256 needs a secret");
}
