//! The messages of problems in data sources and saved queries, as a file: a review shows every change of a text.
//!
//! `BLESS=1 cargo test -p everstep-handlers --test sources messages` writes the file again; read the difference.

use std::fmt::Write as _;
use std::path::Path;

use everstep_core::graph::Problem;
use everstep_handlers::sources::{Query, Source};
use everstep_testkit::snapshot;
use serde_json::{Value, json};

use crate::support::source;

fn sources() -> Vec<Value> {
    let postgres = |more: Value| {
        let mut body = json!({"type": "postgres", "host": "db.example.com", "database": "shop", "user": "reader"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let http = |more: Value| {
        let mut body = json!({"type": "http", "baseUrl": "https://api.example.com"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    vec![
        json!([]),
        json!({}),
        json!({"type": "oracle"}),
        json!({"type": "postgres"}),
        json!({"type": "postgres", "hots": "db"}),
        json!({"type": "postgres", "url": "postgres://db/shop"}),
        json!({"type": "postgres", "url": {"$secret": "shop-url"}, "host": "db"}),
        postgres(json!({"host": "db:5432"})),
        postgres(json!({"host": "a,b"})),
        postgres(json!({"user": "a\0b"})),
        postgres(json!({"password": "x"})),
        postgres(json!({"password": {"$secret": "a b"}})),
        postgres(json!({"sslMode": "always"})),
        postgres(json!({"sslMode": "verify-ca", "rootCertificate": "x"})),
        postgres(json!({"sslMode": "require", "rootCertificate": "-----BEGIN CERTIFICATE-----"})),
        postgres(json!({"maxConnections": 0})),
        json!({"type": "sqlite"}),
        json!({"type": "sqlite", "file": "../shop.db"}),
        json!({"type": "sqlite", "file": "shop.db", "readOnly": false}),
        json!({"type": "http"}),
        http(json!({"baseUrl": "api.example.com"})),
        http(json!({"baseUrl": "ftp://api.example.com"})),
        http(json!({"baseUrl": "https://me@api.example.com"})),
        http(json!({"baseUrl": "https://api.example.com?a=b"})),
        http(json!({"headers": {"a b": "x"}})),
        http(json!({"headers": {"Host": "x"}})),
        http(json!({"headers": {"Authorization": "Bearer x"}})),
        http(json!({"headers": {"x-team": "a\nb"}})),
        http(
            json!({"headers": {"authorization": {"$secret": "a"}}, "auth": {"type": "bearer", "token": {"$secret": "b"}}}),
        ),
        http(json!({"auth": {"type": "basic", "username": "a:b", "password": {"$secret": "p"}}})),
        http(json!({"auth": {"type": "digest"}})),
    ]
}

/// Queries with the source that they are for.
fn queries() -> Vec<(Value, Value)> {
    let shop = json!({"type": "postgres", "url": {"$secret": "shop-url"}});
    let writable = json!({"type": "postgres", "url": {"$secret": "shop-url"}, "readOnly": false});
    let file = json!({"type": "sqlite", "file": "shop.db"});
    let api = json!({"type": "http", "baseUrl": "https://api.example.com"});
    let sql = |text: &str| json!({"source": "shop", "sql": text});
    let request = |http: Value| json!({"source": "api", "http": http});
    let id = json!([{"name": "id"}]);
    vec![
        (json!({"source": "shop"}), shop.clone()),
        (json!({"source": "shop", "sql": "select 1", "http": {"path": "/"}}), shop.clone()),
        (json!({"source": "shop", "sql": "select 1", "limit": 5}), shop.clone()),
        (json!({"source": "shop", "sql": "select 1", "limits": {"rows": 0, "bytes": 1}}), shop.clone()),
        (json!({"source": "shop", "sql": "select 1", "readOnly": false}), shop.clone()),
        (json!({"source": "shop", "sql": "select 1", "readOnly": false}), file),
        (sql(""), shop.clone()),
        (sql("select 1; select 2"), shop.clone()),
        (sql("select 'a"), shop.clone()),
        (sql("select 1 /* a"), shop.clone()),
        (sql("select $a$ b"), shop.clone()),
        (sql("select $1"), shop.clone()),
        (sql("select \0"), shop.clone()),
        (sql("insert into a values (1)"), shop.clone()),
        (json!({"source": "shop", "sql": "drop table a", "readOnly": false}), writable),
        (sql("select :id"), shop.clone()),
        (json!({"source": "shop", "sql": "select 1", "arguments": id}), shop.clone()),
        (json!({"source": "shop", "sql": "select :a", "arguments": [{"name": "a"}, {"name": "a"}]}), shop.clone()),
        (json!({"source": "shop", "sql": "select 1", "arguments": [{"name": "1st"}]}), shop.clone()),
        (
            json!({"source": "shop", "sql": "select :a", "arguments": [{"name": "a", "required": true, "default": 1}]}),
            shop.clone(),
        ),
        (
            json!({"source": "shop", "sql": "select :a", "arguments": [{"name": "a", "type": "integer", "default": "x"}]}),
            shop.clone(),
        ),
        (request(json!({"path": "/"})), shop),
        (sql("select 1"), api.clone()),
        (request(json!({"path": "orders"})), api.clone()),
        (request(json!({"path": "/orders?a=b"})), api.clone()),
        (request(json!({"path": "/orders/{id"})), api.clone()),
        (request(json!({"path": "/orders", "query": {"a": [1]}})), api.clone()),
        (request(json!({"path": "/orders", "body": {}})), api.clone()),
        (request(json!({"path": "/orders", "method": "POST"})), api.clone()),
        (request(json!({"path": "/orders", "rows": "items"})), api),
    ]
}

#[test]
fn messages_of_sources_and_queries_are_as_written() {
    let mut text = String::new();
    let mut record = |title: &str, problems: Vec<Problem>| {
        assert!(!problems.is_empty(), "{title} is valid");
        writeln!(text, "{title}").unwrap();
        for problem in problems {
            writeln!(text, "  {}: {}", problem.path, problem.message).unwrap();
            if let Some(hint) = problem.hint {
                writeln!(text, "      hint: {hint}").unwrap();
            }
        }
    };
    for body in sources() {
        record(&body.to_string(), Source::read(&body).err().unwrap_or_default());
    }
    for (body, of) in queries() {
        let problems = Query::read(&body).map_or_else(|problems| problems, |query| query.check_source(&source(&of)));
        record(&format!("{body} of {of}"), problems);
    }
    snapshot::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sources/messages.txt"), &text);
}
