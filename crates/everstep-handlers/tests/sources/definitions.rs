//! The checks when a source or a query is saved.

use everstep_handlers::sources::{Query, Source};
use serde_json::{Value, json};

use crate::support::{query, source};

/// The problems of a source, as `path: message`.
fn faults(body: &Value) -> Vec<String> {
    let problems = Source::read(body).err().unwrap_or_default();
    problems.into_iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
}

/// The problems of a query, as `path: message`.
fn query_faults(body: &Value, of: &Value) -> Vec<String> {
    let problems = match Query::read(body) {
        Ok(query) => query.check_source(&source(of)),
        Err(problems) => problems,
    };
    problems.into_iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
}

fn database() -> Value {
    json!({"type": "postgres", "host": "db.example.com", "database": "shop", "user": "reader",
        "password": {"$secret": "shop-password"}})
}

#[test]
fn sources_are_read_as_they_are_written() {
    let read = source(&database());
    assert!(read.is_read_only());
    assert_eq!(read.secrets(), ["shop-password"]);
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(source(&written), read);
    assert_eq!(written["type"], "postgres");
    assert_eq!(faults(&json!({"type": "postgres", "url": {"$secret": "shop-url"}})), [""; 0]);
    assert_eq!(faults(&json!({"type": "sqlite", "file": "folder/shop.db"})), [""; 0]);
    let service = json!({"type": "http", "baseUrl": "https://api.example.com/v2", "headers": {"x-team": "a",
        "x-api-key": {"$secret": "key"}}, "auth": {"type": "basic", "username": "me", "password": {"$secret": "p"}}});
    assert_eq!(faults(&service), [""; 0]);
    assert_eq!(source(&service).secrets(), ["p", "key"]);
}

#[test]
fn literal_credentials_are_refused_and_never_repeated() {
    let mut body = database();
    body["password"] = json!("hunter2");
    let problems = Source::read(&body).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(
        (problems[0].path.as_str(), problems[0].message.as_str()),
        ("/password", "a credential must be a secret")
    );
    assert!(problems[0].hint.as_deref().unwrap().contains("$secret"));
    let bodies = [
        json!({"type": "postgres", "url": "postgres://me:hunter2@host/db"}),
        json!({"type": "http", "baseUrl": "https://me:hunter2@host"}),
        json!({"type": "http", "baseUrl": "https://host", "headers": {"Authorization": "Bearer hunter2"}}),
        json!({"type": "http", "baseUrl": "https://host", "auth": {"type": "bearer", "token": "hunter2"}}),
    ];
    for body in bodies {
        let problems = Source::read(&body).unwrap_err();
        assert!(!format!("{problems:?}").contains("hunter2"), "{problems:?}");
    }
}

#[test]
fn errors_in_a_source_are_reported_with_their_position() {
    assert_eq!(faults(&json!({"type": "oracle"})), ["/type: the type \"oracle\" does not exist"]);
    assert_eq!(faults(&json!({})), ["/type: `type` is missing"]);
    assert_eq!(
        faults(&json!({"type": "postgres", "hots": "x"}))[0],
        "/hots: the field `hots` does not exist; the fields are url, host, port, database, user, password, sslMode, \
         rootCertificate, maxConnections, readOnly"
    );
    let found = faults(&json!({"type": "postgres", "port": 5432}));
    assert_eq!(found, ["/host: `host` is missing", "/database: `database` is missing", "/user: `user` is missing"]);
    let mut body = database();
    body["host"] = json!("a,b");
    assert_eq!(faults(&body), ["/host: it is not a valid name or address of one host"]);
    body["host"] = json!("/var/run/postgresql");
    assert_eq!(faults(&body), ["/host: it is not a valid name or address of one host"]);
    let mut body = database();
    body["maxConnections"] = json!(0);
    assert_eq!(faults(&body), ["/maxConnections: 0 is out of range: it must be between 1 and 50"]);
    let mut body = database();
    body["sslMode"] = json!("verify-ca");
    assert_eq!(faults(&body), ["/rootCertificate: this sslMode needs `rootCertificate`"]);
    for file in ["/etc/passwd", "../x.db", "a/../../x.db", "./x.db", ""] {
        assert_eq!(faults(&json!({"type": "sqlite", "file": file})).len(), 1, "{file}");
    }
    assert_eq!(
        faults(&json!({"type": "sqlite", "file": "a.db", "readOnly": false})),
        ["/readOnly: a SQLite file is read-only"]
    );
    for url in ["ftp://host", "nonsense", "https://host/?a=1", "https://host/#a"] {
        assert_eq!(faults(&json!({"type": "http", "baseUrl": url})).len(), 1, "{url}");
    }
}

#[test]
fn a_query_declares_what_it_uses_and_uses_what_it_declares() {
    let of = database();
    let saved = json!({"source": "shop", "sql": "select * from orders where customer = :customer limit :most",
        "arguments": [{"name": "customer", "type": "string"}, {"name": "most", "type": "integer", "default": 10}]});
    assert_eq!(query_faults(&saved, &of), [""; 0]);
    let read = query(&saved);
    assert_eq!(query(&serde_json::to_value(&read).unwrap()), read);
    assert_eq!((read.limits.rows, read.limits.bytes, read.read_only), (1_000, 1_048_576, true));
    let undeclared = json!({"source": "shop", "sql": "select :a", "arguments": [{"name": "b"}]});
    assert_eq!(
        query_faults(&undeclared, &of),
        ["/sql: the argument :a is not declared", "/arguments/0: the argument \"b\" is not used"]
    );
    let wrong = json!({"source": "shop", "sql": "select :a", "arguments": [
        {"name": "a", "type": "integer", "default": 1.5}, {"name": "a"}, {"name": "1x"},
        {"name": "c", "required": true, "default": 1}]});
    assert_eq!(
        query_faults(&wrong, &of),
        [
            "/arguments/0/default: expected a whole number, found a number",
            "/arguments/1/name: two arguments have the name \"a\"",
            "/arguments/2/name: \"1x\" is not a valid name of an argument",
            "/arguments/3/default: a required argument cannot have a default",
        ]
    );
    assert_eq!(query_faults(&json!({"source": "shop"}), &of), [": the query is empty: `sql` or `http` is missing"]);
    assert_eq!(query_faults(&json!({"sql": "select 1"}), &of), ["/source: `source` is missing"]);
    let request = json!({"source": "shop", "http": {"path": "/orders"}});
    assert_eq!(query_faults(&request, &of), ["/sql: a query of a source of type \"postgres\" needs `sql`"]);
    let limits = json!({"source": "shop", "sql": "select 1", "limits": {"rows": 10_001}});
    assert_eq!(query_faults(&limits, &of), ["/limits/rows: 10001 is out of range: it must be between 1 and 10000"]);
    let unknown = json!({"source": "shop", "sql": "select 1", "limits": {"row": 1}});
    assert_eq!(
        query_faults(&unknown, &of),
        ["/limits/row: the field `row` does not exist; the fields are rows, bytes, onLimit"]
    );
}

#[test]
fn only_statements_that_read_are_saved_unless_both_allow_writing() {
    let mut writable = database();
    writable["readOnly"] = json!(false);
    let write = json!({"source": "shop", "sql": "insert into a values (1)", "readOnly": false});
    assert_eq!(query_faults(&write, &writable), [""; 0]);
    assert_eq!(
        query_faults(&write, &database()),
        ["/readOnly: the source \"shop\" is read-only, so the query cannot write"]
    );
    let timid = json!({"source": "shop", "sql": "insert into a values (1)"});
    assert_eq!(
        query_faults(&timid, &writable),
        ["/sql: the query is read-only, and its statement begins with \"insert\""]
    );
    for sql in [
        "copy a to program 'id'",
        "set role admin",
        "do $$ begin end $$",
        "call f()",
        "commit",
        "vacuum",
        "create table a (b int)",
        "lock a",
        "listen a",
        "prepare p as select 1",
        "grant a to b",
        "discard all",
    ] {
        let found = query_faults(&json!({"source": "shop", "sql": sql, "readOnly": false}), &writable);
        assert!(found[0].starts_with("/sql: a statement cannot begin with"), "{sql}: {found:?}");
    }
}

#[test]
fn requests_are_checked_when_saved() {
    let of = json!({"type": "http", "baseUrl": "https://api.example.com"});
    let saved = json!({"source": "api", "http": {"path": "/customers/{id}/orders", "query": {"state": {"$arg": "state"},
        "page": 1}, "rows": "/data"}, "arguments": [{"name": "id"}, {"name": "state"}]});
    assert_eq!(query_faults(&saved, &of), [""; 0]);
    let wrong = json!({"source": "api", "http": {"method": "POST", "path": "orders/../x?y", "query": {"a": [1]},
        "rows": "data", "body": {"deep": [{"$arg": "b"}]}}});
    assert_eq!(
        query_faults(&wrong, &of),
        [
            "/http/path: it must be a plain path that begins with a slash",
            "/http/query/a: it is not valid as a parameter",
            "/http/rows: it is not a JSON pointer",
            "/http/method: the query is read-only",
            "/http: the argument {b} or {\"$arg\": \"b\"} is not declared",
        ]
    );
    for path in ["/a/../b", "/a/.\t./b", "/a/.\n./b", "/a/%2e%2e/b", "/a\\b", "//b c"] {
        let faults = query_faults(&json!({"source": "api", "http": {"path": path}}), &of);
        assert_eq!(faults, ["/http/path: it must be a plain path that begins with a slash"], "{path:?}");
    }
    assert_eq!(
        query_faults(&json!({"source": "api", "http": {"path": "/a/{b"}}), &of),
        ["/http/path: a brace is not matched: write an argument as {name}"]
    );
}

#[test]
fn every_source_and_query_of_the_guide_can_be_saved() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/data-queries.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let blocks = guide.split("```json\n").skip(1).filter_map(|rest| rest.split("```").next());
    let (mut sources, mut queries) = (0, 0);
    for block in blocks {
        let body: Value = serde_json::from_str(block).unwrap();
        if body.get("source").is_some() {
            let of = match body.get("http") {
                Some(_) => json!({"type": "http", "baseUrl": "https://api.example.com"}),
                None => json!({"type": "postgres", "url": {"$secret": "a"}, "readOnly": body["readOnly"] != false}),
            };
            assert_eq!(query_faults(&body, &of), [""; 0], "{block}");
            queries += 1;
        } else if matches!(body["type"].as_str(), Some("postgres" | "sqlite" | "http")) {
            assert_eq!(faults(&body), [""; 0], "{block}");
            sources += 1;
        }
    }
    assert_eq!((sources, queries), (3, 3));
}
