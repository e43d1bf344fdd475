//! API keys, workspaces, tickets and limits, as administrators use them.

use axum::http::Method;
use everstep_api::auth::Permission;
use serde_json::{Value, json};

use crate::support::{Answer, Server};

async fn make_key(server: &Server, new: &Value) -> (String, String) {
    let made = server.post("/v1/keys", new).await.is(201);
    (made["secret"].as_str().unwrap().to_owned(), made["key"]["id"].as_str().unwrap().to_owned())
}

async fn look(server: &Server, key: &str) -> Answer {
    server.ask_as(key, Method::GET, "/v1/me", &Value::Null).await
}

#[tokio::test]
async fn a_key_is_made_shown_once_and_revoked() {
    let server = Server::start().await;
    let (key, id) = make_key(&server, &json!({"name": "dashboard", "role": "viewer"})).await;
    assert!(key.starts_with("es_") && key.len() == 46, "{key}");
    server.ask_as(&key, Method::GET, "/v1/runs", &Value::Null).await.is(200);
    server.ask_as(&key, Method::POST, "/v1/workflow-runs", &json!({})).await.refuses(403, "PERMISSION_DENIED");

    let listed = server.get("/v1/keys").await.is(200);
    assert!(!listed.to_string().contains(&key), "{listed}");
    let shown = listed["keys"].as_array().unwrap().iter().find(|one| one["id"] == *id).unwrap();
    assert_eq!(shown["name"], "dashboard");
    assert_eq!(shown["role"], "viewer");
    assert_eq!(shown["permissions"], json!(["workflow:read", "workflow:view"]));
    assert_eq!((&shown["expiresAt"], &shown["revokedAt"]), (&Value::Null, &Value::Null));

    let revoked = server.delete(&format!("/v1/keys/{id}")).await.is(200);
    assert!(revoked["revokedAt"].is_string(), "{revoked}");
    // On this node the revocation takes effect at once.
    look(&server, &key).await.refuses(401, "AUTH_ERROR");
    assert_eq!(server.delete(&format!("/v1/keys/{id}")).await.is(200)["revokedAt"], revoked["revokedAt"]);
    for missing in ["/v1/keys/none", "/v1/keys/00000000-0000-7000-8000-000000000000"] {
        server.delete(missing).await.refuses(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn a_key_is_made_once_per_idempotency_key() {
    let server = Server::start().await;
    let new = json!({"name": "ci", "permissions": ["workflow:publish", "workflow:read", "workflow:read"]});
    let ask = async || server.post_with("/v1/keys", &[("idempotency-key", "ci-1")], &new).await;
    let first = ask().await.is(201);
    assert_eq!(first["key"]["permissions"], json!(["workflow:read", "workflow:publish"]));
    assert_eq!(first["key"]["role"], Value::Null);
    let again = ask().await.is(200);
    assert_eq!((&again["key"]["id"], &again["secret"]), (&first["key"]["id"], &Value::Null));
    look(&server, first["secret"].as_str().unwrap()).await.is(200);
}

#[tokio::test]
async fn a_key_that_makes_no_sense_is_refused() {
    let server = Server::start().await;
    let before = server.get("/v1/keys").await.is(200);
    for wrong in [
        json!({}),
        json!({"name": "x"}),
        json!({"name": "x", "permissions": []}),
        json!({"name": "x", "role": "root"}),
        json!({"name": "x", "permissions": ["workflow:write"]}),
        json!({"name": "x", "role": "viewer", "permissions": ["workflow:read"]}),
        json!({"name": "", "role": "viewer"}),
        json!({"name": "a\u{1b}[2J", "role": "viewer"}),
        json!({"name": "x".repeat(129), "role": "viewer"}),
        json!({"name": "x", "role": "viewer", "expiresAt": "tomorrow"}),
        json!({"name": "x", "role": "viewer", "expiresAt": "2020-01-01T00:00:00Z"}),
        json!({"name": "x", "role": "viewer", "rateLimit": -1}),
        json!({"name": "x", "role": "viewer", "rateLimit": 1_000_001}),
        json!({"name": "x", "role": "viewer", "workspace": "other"}),
    ] {
        server.post("/v1/keys", &wrong).await.refuses(400, "VALIDATION_ERROR");
    }
    assert_eq!(server.get("/v1/keys").await.is(200), before);
    server.get("/v1/keys?role=viewer").await.refuses(400, "VALIDATION_ERROR");
    server.get("/v1/keys?cursor=x").await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn keys_are_listed_page_by_page() {
    let server = Server::start().await;
    for number in 0..5 {
        make_key(&server, &json!({"name": format!("key {number}"), "role": "viewer"})).await;
    }
    let (mut names, mut path) = (Vec::new(), "/v1/keys?limit=2".to_owned());
    loop {
        let page = server.get(&path).await.is(200);
        let keys = page["keys"].as_array().unwrap();
        assert!(keys.len() <= 2);
        names.extend(keys.iter().map(|key| key["name"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["nextCursor"].as_str() else { break };
        path = format!("/v1/keys?limit=2&cursor={cursor}");
    }
    assert_eq!(names, ["test", "key 0", "key 1", "key 2", "key 3", "key 4"]);
}

#[tokio::test]
async fn the_last_key_of_an_admin_stays() {
    let server = Server::start().await;
    let made = server.post("/v1/workspaces", &json!({"name": "shop"})).await.is(201);
    let (admin, id) = (made["secret"].as_str().unwrap(), made["key"]["id"].as_str().unwrap());
    let revoke = async |id: &str| server.ask_as(admin, Method::DELETE, &format!("/v1/keys/{id}"), &Value::Null).await;
    let problem = revoke(id).await.refuses(409, "LAST_ADMIN_KEY");
    assert!(problem["hint"].as_str().unwrap().contains("POST /v1/keys"), "{problem}");

    // Neither another role, nor an expired admin key, suffices.
    let post = async |new: Value| server.ask_as(admin, Method::POST, "/v1/keys", &new).await.is(201);
    post(json!({"name": "publisher", "role": "publisher"})).await;
    let soon = everstep_engine::NodeClock::system().now().plus(std::time::Duration::from_millis(50)).to_string();
    let short = post(json!({"name": "short", "role": "admin", "expiresAt": soon})).await;
    while look(&server, short["secret"].as_str().unwrap()).await.status == 200 {}
    revoke(id).await.refuses(409, "LAST_ADMIN_KEY");

    // If another one exists, even the caller's own key may be revoked.
    let second = post(json!({"name": "second", "permissions": ["workflow:admin"]})).await;
    revoke(id).await.is(200);
    look(&server, admin).await.refuses(401, "AUTH_ERROR");
    look(&server, second["secret"].as_str().unwrap()).await.is(200);
}

#[tokio::test]
async fn a_key_shows_its_own_permissions() {
    let server = Server::start().await;
    let new = json!({"name": "dashboard", "role": "operator", "rateLimit": 50, "expiresAt": "2126-01-01T00:00:00Z"});
    let (key, id) = make_key(&server, &new).await;
    let me = look(&server, &key).await.is(200);
    assert_eq!(
        me,
        json!({
            "workspace": {"id": "00000000-0000-0000-0000-000000000001", "name": "default"},
            "key": {
                "id": id,
                "name": "dashboard",
                "role": "operator",
                "rateLimit": 50,
                "expiresAt": "2126-01-01T00:00:00.000000Z",
            },
            "person": null,
            "permissions": ["workflow:read", "workflow:view", "workflow:act", "workflow:manage"],
            "features": ["graph", "code", "machine", "store", "topics", "deadLetters"],
            "quotas": [
                {"name": "workflows", "used": 0, "max": 10_000, "setting": null},
                {"name": "keys", "used": 2, "max": 1_000, "setting": null},
                {"name": "streams", "used": 0, "max": 1_000, "setting": "EVERSTEP_MAX_STREAMS"},
            ],
            "server": me["server"],
        })
    );
    let worker = server.key_with(&[Permission::Serve]).await;
    assert_eq!(look(&server, &worker).await.is(200)["permissions"], json!(["worker:serve"]));
    let admin = server.key_with(&[Permission::Admin]).await;
    assert_eq!(look(&server, &admin).await.is(200)["permissions"].as_array().unwrap().len(), Permission::ALL.len());
}

#[tokio::test]
async fn a_key_beyond_its_rate_limit_learns_when_to_retry() {
    let server = Server::start().await;
    let (slow, _) = make_key(&server, &json!({"name": "slow", "role": "viewer", "rateLimit": 1})).await;
    let (free, _) = make_key(&server, &json!({"name": "free", "role": "viewer", "rateLimit": 0})).await;
    let mut refused = None;
    for _ in 0..10 {
        let answer = look(&server, &slow).await;
        if answer.status != 200 {
            refused = Some(answer);
            break;
        }
    }
    let answer = refused.expect("ten requests at once are more than one per second");
    assert_eq!(answer.headers["retry-after"], "1");
    let problem = answer.refuses(429, "RATE_LIMITED");
    assert!(problem["hint"].as_str().unwrap().contains("EVERSTEP_RATE_LIMIT"), "{problem}");
    // Other keys are not limited.
    look(&server, &free).await.is(200);
    server.get("/v1/me").await.is(200);
}

#[tokio::test]
async fn no_workspace_but_the_default_lifts_the_servers_limit() {
    let server = Server::start().await;
    let made = server.post("/v1/workspaces", &json!({"name": "shop"})).await.is(201);
    let admin = made["secret"].as_str().unwrap();
    let make = async |limit: Value| {
        let new = json!({"name": "x", "role": "viewer", "rateLimit": limit});
        server.ask_as(admin, Method::POST, "/v1/keys", &new).await
    };
    for limit in [json!(0), json!(everstep_api::auth::RATE_LIMIT_DEFAULT + 1)] {
        make(limit).await.refuses(403, "PERMISSION_DENIED");
    }
    for limit in [json!(null), json!(1), json!(everstep_api::auth::RATE_LIMIT_DEFAULT)] {
        make(limit).await.is(201);
    }
}

#[tokio::test]
async fn a_workspace_is_made_with_an_admin() {
    let server = Server::start().await;
    let made = server.post("/v1/workspaces", &json!({"name": "shop", "options": {"fetch": true}})).await.is(201);
    assert_eq!(
        (&made["workspace"]["name"], &made["workspace"]["options"]),
        (&json!("shop"), &json!({"fetch": true, "roles": {}}))
    );
    let admin = made["secret"].as_str().unwrap();
    let me = look(&server, admin).await.is(200);
    assert_eq!(me["workspace"], json!({"id": made["workspace"]["id"], "name": "shop"}));
    assert_eq!(me["key"]["role"], "admin");

    server.post("/v1/workspaces", &json!({"name": "shop"})).await.refuses(409, "WORKSPACE_EXISTS");
    let array = json!({"name": "other", "options": [null, null]});
    server.post("/v1/workspaces", &array).await.refuses(400, "VALIDATION_ERROR");
    let listed = server.get("/v1/workspaces").await.is(200);
    let names: Vec<_> = listed["workspaces"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["default", "shop"]);
    let page = server.get("/v1/workspaces?limit=1").await.is(200);
    assert_eq!(page["nextCursor"], "default");
    let page = server.get("/v1/workspaces?limit=1&cursor=default").await.is(200);
    assert_eq!((&page["workspaces"][0]["name"], &page["nextCursor"]), (&json!("shop"), &Value::Null));

    for wrong in [json!({}), json!({"name": ""}), json!({"name": "a b"}), json!({"name": "x".repeat(65)})] {
        server.post("/v1/workspaces", &wrong).await.refuses(400, "VALIDATION_ERROR");
    }
    let unknown = json!({"name": "x", "options": {"network": true}});
    server.post("/v1/workspaces", &unknown).await.refuses(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn options_of_a_workspace_are_changed_by_its_admins() {
    let server = Server::start().await;
    let made = server.post("/v1/workspaces", &json!({"name": "shop"})).await.is(201);
    let admin = made["secret"].as_str().unwrap();
    assert_eq!(made["workspace"]["options"], json!({"fetch": false, "roles": {}}));
    let patch = async |key: &str, name: &str, change: &Value| {
        server.ask_as(key, Method::PATCH, &format!("/v1/workspaces/{name}"), change).await
    };
    let allow = json!({"options": {"fetch": true}});
    assert_eq!(patch(admin, "shop", &allow).await.is(200)["options"], json!({"fetch": true, "roles": {}}));
    assert_eq!(
        patch(admin, "shop", &json!({"options": {}})).await.is(200)["options"],
        json!({"fetch": true, "roles": {}})
    );
    patch(admin, "default", &allow).await.refuses(404, "NOT_FOUND");
    let first = server.key_with(&[Permission::Admin]).await;
    assert_eq!(
        patch(&first, "shop", &json!({"options": {"fetch": false}})).await.is(200)["options"],
        json!({"fetch": false, "roles": {}})
    );
    patch(&first, "missing", &allow).await.refuses(404, "NOT_FOUND");
    patch(&first, "shop", &json!({"options": {"fetch": 1}})).await.refuses(400, "VALIDATION_ERROR");
    patch(&first, "shop", &json!({"options": {"other": true}})).await.refuses(400, "VALIDATION_ERROR");
    patch(&first, "shop", &json!({"name": "store", "options": {}})).await.refuses(400, "VALIDATION_ERROR");
    // An admin of another workspace can neither see nor create any.
    server.ask_as(admin, Method::GET, "/v1/workspaces", &Value::Null).await.refuses(403, "PERMISSION_DENIED");
    server.ask_as(admin, Method::POST, "/v1/workspaces", &json!({"name": "x"})).await.refuses(403, "PERMISSION_DENIED");
}

#[tokio::test]
async fn a_ticket_is_good_for_a_minute() {
    let server = Server::start().await;
    let before = everstep_engine::NodeClock::system().now();
    let made = server.post("/v1/tickets", &Value::Null).await.is(201);
    assert!(made["ticket"].as_str().unwrap().starts_with("est_"), "{made}");
    let end: everstep_core::time::Timestamp = made["expiresAt"].as_str().unwrap().parse().unwrap();
    let life = end.since(before).as_secs_f64();
    assert!((59.0..75.0).contains(&life), "{life}");
    server.post("/v1/tickets", &json!({"minutes": 5})).await.refuses(400, "VALIDATION_ERROR");
}
