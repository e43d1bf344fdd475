//! PostgreSQL: types in both directions, errors, and the use of connections.

use std::time::{Duration, Instant};

use everstep_core::failure::code;
use everstep_net::Guard;
use everstep_testkit::postgres::{Cluster, Durability, TestDatabase};
use serde_json::{Value, json};

use crate::support::{Asker, drivers, drivers_with, query, source};

/// The number of sessions whose statement contains this text.
fn sessions(database: &TestDatabase<'_>, text: &str) -> usize {
    let sql = format!(
        "select pid from pg_stat_activity where query like '%{text}%' and pid <> pg_backend_pid() and state = 'active'"
    );
    database.sql(&sql).len()
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn columns_of_all_usual_types_become_json() {
    let database = Cluster::shared().database();
    database
        .sql("create type mood as enum ('sad', 'glad'); create domain age as int; create type pair as (a int, b text)");
    let asker = Asker::from_database(&database, &json!({}));
    for (sql, expected) in [
        ("true", json!(true)),
        ("42::int2", json!(42)),
        ("-7", json!(-7)),
        ("9007199254740993::int8", json!(9_007_199_254_740_993_i64)),
        ("'-9223372036854775808'::int8", json!(i64::MIN)),
        ("1.5::float8", json!(1.5)),
        ("0.1::float4", json!(0.1)),
        ("'NaN'::float8", json!("NaN")),
        ("'-Infinity'::float4", json!("-Infinity")),
        ("12345678901234567890.0123456789", json!("12345678901234567890.0123456789")),
        ("-0.00012::numeric", json!("-0.00012")),
        ("10000::numeric", json!("10000")),
        ("0::numeric(10,2)", json!("0.00")),
        ("'NaN'::numeric", json!("NaN")),
        ("'it''s'::text", json!("it's")),
        ("'ab'::char(4)", json!("ab  ")),
        ("null", json!(null)),
        ("'\\x00ff'::bytea", json!("AP8=")),
        ("'01890000-0000-7000-8000-000000000002'::uuid", json!("01890000-0000-7000-8000-000000000002")),
        ("'{\"a\": [1, {\"b\": null}]}'::jsonb", json!({"a": [1, {"b": null}]})),
        ("'[1, 2]'::json", json!([1, 2])),
        ("'2024-02-29 12:34:56.789'::timestamptz", json!("2024-02-29T12:34:56.789000Z")),
        ("'1999-12-31 23:59:59'::timestamp", json!("1999-12-31T23:59:59")),
        ("'infinity'::timestamptz", json!("infinity")),
        ("'2024-02-29'::date", json!("2024-02-29")),
        ("'0044-03-15 BC'::date", json!("-000043-03-15")),
        ("'12:34:56'::time", json!("12:34:56")),
        ("'12:34:56+02'::timetz", json!("12:34:56+02:00")),
        ("'1 year 2 days 3 hours'::interval", json!("P1Y2DT3H")),
        ("'10.0.0.1'::inet", json!("10.0.0.1")),
        ("'10.0.0.0/8'::cidr", json!("10.0.0.0/8")),
        ("'::1/64'::inet", json!("::1/64")),
        ("'08:00:2b:01:02:03'::macaddr", json!("08:00:2b:01:02:03")),
        ("array[1, null, 3]", json!([1, null, 3])),
        ("array[[1, 2], [3, 4]]", json!([[1, 2], [3, 4]])),
        ("'{}'::text[]", json!([])),
        ("array['a\"b', 'c']", json!(["a\"b", "c"])),
        ("'glad'::mood", json!("glad")),
        ("array['sad']::mood[]", json!(["sad"])),
        ("5::age", json!(5)),
        ("row(1, 'x')::pair", json!({"a": 1, "b": "x"})),
        ("'pg_class'::name", json!("pg_class")),
        ("1::oid", json!(1)),
        ("pg_sleep(0)", json!(null)),
    ] {
        assert_eq!(asker.value(&format!("select {sql} as value"), json!({})).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn an_answer_names_its_columns() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let answer = asker.sql("select 1 as id, 'a' as name union all select 2, null order by 1", json!({})).await.unwrap();
    let expected = json!({"rows": [{"id": 1, "name": "a"}, {"id": 2, "name": null}], "rowCount": 2,
        "fields": [{"name": "id", "type": "int4"}, {"name": "name", "type": "text"}], "truncated": false});
    assert_eq!(answer, expected);
    let twice = asker.failure("select 1 as id, 2 as id", json!({})).await;
    assert!(twice.message.contains("two columns are named \"id\""), "{twice}");
    let strange = asker.failure("select 'a b'::tsvector as words", json!({})).await;
    assert!(strange.message.contains("words::text"), "{strange}");
    assert_eq!(asker.value("show server_version_num", json!({})).await.as_str().map(str::is_empty), Some(false));
}

#[tokio::test]
async fn arguments_fit_the_types_that_the_statement_has_for_them() {
    let database = Cluster::shared().database();
    database.sql("create type mood as enum ('sad', 'glad')");
    let asker = Asker::from_database(&database, &json!({}));
    for (sql, value, expected) in [
        (":x::int + 1", json!(41), json!(42)),
        (":x::int8", json!("9007199254740993"), json!(9_007_199_254_740_993_i64)),
        (":x::int", json!(3.0), json!(3)),
        (":x::numeric * 2", json!(0.1), json!("0.2")),
        (":x::numeric", json!("12345678901234567890.5"), json!("12345678901234567890.5")),
        (":x::float8", json!(1e300), json!(1e300)),
        (":x::bool", json!(true), json!(true)),
        (":x", json!("it's; \\ \"quoted\""), json!("it's; \\ \"quoted\"")),
        (":x::text", json!(null), json!(null)),
        (":x::jsonb -> 'a'", json!({"a": [1]}), json!([1])),
        (":x::jsonb", json!("text"), json!("text")),
        (":x::json", json!([1, {"b": 2}]), json!([1, {"b": 2}])),
        ("5 = any(:x::int[])", json!([4, 5]), json!(true)),
        (":x::text[]", json!(["a,b", "c\"d", "\\", null, "NULL", ""]), json!(["a,b", "c\"d", "\\", null, "NULL", ""])),
        (":x::int[]", json!([[1, 2], [3, 4]]), json!([[1, 2], [3, 4]])),
        (":x::jsonb[]", json!([{"a": 1}, [2]]), json!([{"a": 1}, [2]])),
        (":x::uuid", json!("01890000-0000-7000-8000-000000000002"), json!("01890000-0000-7000-8000-000000000002")),
        (":x::timestamptz", json!("2024-01-02T03:04:05+02:00"), json!("2024-01-02T01:04:05Z")),
        (":x::date", json!("2024-01-02"), json!("2024-01-02")),
        (":x::interval", json!("PT1H"), json!("PT1H")),
        (":x::mood", json!("sad"), json!("sad")),
        (":x::bytea", json!("AP8="), json!("AP8=")),
        (":x::text is null or 'a' = :x", json!("a"), json!(true)),
    ] {
        let found = asker.value(&format!("select {sql} as value"), json!({"x": value})).await;
        assert_eq!(found, expected, "{sql} with {value}");
    }
    for (sql, value, expected) in [
        (":x::int", json!(1.5), "is not a whole number; the statement needs int4"),
        (":x::int", json!(true), "is a boolean; the statement needs int4"),
        (":x", json!(5), "is a number; the statement needs text there; write :x::type"),
        (":x::bool", json!("true"), "is a text; the statement needs bool"),
        (":x::int[]", json!(5), "is a number; the statement needs _int4"),
        (":x::int[]", json!([1, true]), "is an array with a boolean"),
        (":x::bytea", json!("not base64!"), "is not base64"),
        (":x::uuid", json!({"a": 1}), "is an object; the statement needs uuid"),
    ] {
        let failure = asker.failure(&format!("select {sql} as value"), json!({"x": value})).await;
        assert!(failure.message.contains(expected), "{sql} with {value}: {failure}");
        assert_eq!((failure.code.as_str(), failure.retryable), (code::INVALID_CONFIG, false));
    }
    let failure = asker.failure("select :x::int", json!({"x": "twelve"})).await;
    assert_eq!((failure.code.as_str(), failure.retryable), ("QUERY_ERROR", false));
}

#[tokio::test]
async fn declared_arguments_are_held_against_what_is_given() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let saved =
        query(&json!({"source": "it", "sql": "select :a::int + :b::int + coalesce(:c::int, 100) as sum, :d as text",
        "arguments": [{"name": "a", "type": "integer"}, {"name": "b", "type": "integer", "default": 5},
            {"name": "c", "type": "number", "required": false}, {"name": "d", "type": "json", "default": {"x": 1}}]}));
    let answer = asker.ask(&saved, &json!({"a": 1})).await.unwrap();
    assert_eq!(answer["rows"], json!([{"sum": 106, "text": "{\"x\":1}"}]));
    for (args, expected) in [
        (json!({}), "the argument \"a\" is missing; it is required"),
        (json!({"a": null}), "the argument \"a\" is null; it is required"),
        (json!({"a": "1"}), "the argument \"a\": expected a whole number, found a text"),
        (json!({"a": 1, "z": 2}), "the argument \"z\" does not exist; the query declares a, b, c, d"),
        (json!([1]), "`args` must be an object"),
    ] {
        let failure = asker.ask(&saved, &args).await.unwrap_err();
        assert!(failure.message.contains(expected), "{args}: {failure}");
        assert_eq!((failure.code.as_str(), failure.retryable), (code::INVALID_CONFIG, false));
    }
}

#[tokio::test]
async fn errors_of_sql_are_reported_with_their_position_and_are_final() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let failure = asker.failure("select :customer as c,\n  nope from pg_class", json!({"customer": "x"})).await;
    assert_eq!((failure.code.as_str(), failure.retryable), ("QUERY_ERROR", false));
    assert_eq!(failure.message, "column \"nope\" does not exist at line 2, column 3 (SQLSTATE 42703)");
    let failure = asker.failure("select 1 / :x::int", json!({"x": 0})).await;
    assert_eq!(failure.message, "division by zero (SQLSTATE 22012)");
    let failure = asker.failure("select 1 where :x is null or 'a' = :x", json!({"x": "a"})).await;
    assert!(failure.message.ends_with("write the argument with its type, such as :name::text"), "{failure}");
}

#[tokio::test]
async fn writing_needs_leave_of_the_source_and_of_the_query() {
    let database = Cluster::shared().database();
    database.sql("create table notes (id int primary key, text text)");
    let writable = Asker::from_database(&database, &json!({"readOnly": false}));
    let insert = |read_only: bool| {
        query(
            &json!({"source": "it", "sql": "insert into notes values (:id, :text) returning id", "readOnly": read_only,
            "arguments": [{"name": "id"}, {"name": "text"}]}),
        )
    };
    let args = json!({"id": 1, "text": "'); drop table notes; --"});
    let answer = writable.ask(&insert(false), &args).await.unwrap();
    assert_eq!((&answer["rows"], &answer["rowCount"]), (&json!([{"id": 1}]), &json!(1)));
    assert_eq!(database.sql("select text from notes"), ["'); drop table notes; --"]);
    let update = query(&json!({"source": "it", "sql": "update notes set text = 'new'", "readOnly": false}));
    let answer = writable.ask(&update, &json!({})).await.unwrap();
    assert_eq!((&answer["rows"], &answer["rowCount"]), (&json!([]), &json!(1)));

    assert!(writable.ask(&insert(true), &json!({"id": 2, "text": ""})).await.is_err());
    let readable = Asker::from_database(&database, &json!({}));
    assert!(readable.ask(&insert(false), &json!({"id": 2, "text": ""})).await.is_err());
    // The database itself stops a statement that only seems to read.
    for sql in [
        "with x as (insert into notes values (2, '') returning id) select * from x",
        "select nextval('numbers')",
        "explain analyze insert into notes values (2, '')",
    ] {
        if sql.contains("numbers") {
            database.sql("create sequence numbers");
        }
        let failure = readable.failure(sql, json!({})).await;
        assert!(failure.message.contains("25006"), "{sql}: {failure}");
    }
    // Writes that it does not stop are rolled back.
    let _ = readable.sql("select lo_create(0)", json!({})).await;
    assert_eq!(database.sql("select count(*) from pg_largeobject_metadata"), ["0"]);
    assert_eq!(database.sql("select count(*) from notes"), ["1"]);
}

#[tokio::test]
async fn a_failed_write_leaves_nothing_behind() {
    let database = Cluster::shared().database();
    database.sql("create table notes (id int)");
    let asker = Asker::from_database(&database, &json!({"readOnly": false}));
    let many = query(&json!({"source": "it", "readOnly": false, "limits": {"rows": 5},
        "sql": "insert into notes select generate_series(1, 100) returning id"}));
    let failure = asker.ask(&many, &json!({})).await.unwrap_err();
    assert_eq!(failure.code, code::PAYLOAD_TOO_LARGE);
    assert_eq!(database.sql("select count(*) from notes"), ["0"]);
}

#[tokio::test]
async fn nothing_of_one_question_is_left_for_the_next() {
    let database = Cluster::shared().database();
    database.sql("do $$ begin create role other; exception when others then end $$");
    let asker = Asker::from_database(&database, &json!({"maxConnections": 1, "readOnly": false}));
    let pid = asker.value("select pg_backend_pid()", json!({})).await;
    let change = query(&json!({"source": "it", "readOnly": false, "sql": "select set_config('role', 'other', false),
        set_config('search_path', 'nowhere', false) as b, pg_advisory_lock(7) as c"}));
    asker.ask(&change, &json!({})).await.unwrap();
    assert_eq!(asker.value("select current_user", json!({})).await, "postgres");
    assert_eq!(asker.value("select current_setting('search_path')", json!({})).await, "\"$user\", public");
    assert_eq!(
        asker.value("select count(*) from pg_locks where locktype = 'advisory' and objid = 7", json!({})).await,
        0
    );
    assert_eq!(asker.value("select pg_backend_pid()", json!({})).await, pid, "the connection is used again");
}

#[tokio::test]
async fn a_slow_statement_is_cancelled_and_really_gone() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let slow = query(&json!({"source": "it", "sql": "select pg_sleep(60) as marked_by_timeout"}));
    let begin = Instant::now();
    let failure = asker.ask_for(&slow, &json!({}), Duration::from_millis(300)).await.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), (code::STEP_TIMEOUT, true));
    assert!(begin.elapsed() < Duration::from_secs(3));
    until("the statement is gone", || sessions(&database, "marked_by_timeout") == 0).await;
    let own = query(&json!({"source": "it", "sql": "select pg_sleep(60)", "timeoutSeconds": 1}));
    assert_eq!(asker.ask(&own, &json!({})).await.unwrap_err().code, code::STEP_TIMEOUT);
}

#[tokio::test]
async fn a_statement_without_a_waiting_caller_is_cancelled() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({"maxConnections": 1}));
    let slow = query(&json!({"source": "it", "sql": "select pg_sleep(60) as marked_by_drop"}));
    {
        let args = json!({});
        let mut asking = std::pin::pin!(asker.ask(&slow, &args));
        let begun = async {
            until("the statement runs", || sessions(&database, "marked_by_drop") == 1).await;
        };
        tokio::select! {
            answer = &mut asking => panic!("{answer:?}"),
            () = begun => {}
        }
    }
    until("the statement is gone", || sessions(&database, "marked_by_drop") == 0).await;
    assert_eq!(asker.value("select 1", json!({})).await, 1, "there is room for another");
}

#[tokio::test]
async fn many_questions_share_few_connections() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({"maxConnections": 2}));
    let asked = (0..20).map(|_| asker.value("select pg_backend_pid() from pg_sleep(0.01)", json!({})));
    let mut pids = futures_util::future::join_all(asked).await;
    pids.sort_by_key(Value::as_i64);
    pids.dedup();
    assert!(pids.len() <= 2, "{pids:?}");
}

#[tokio::test]
async fn a_database_that_went_away_is_a_matter_of_trying_again() {
    let cluster = Cluster::start(Durability::Fast);
    let database = cluster.database();
    let asker = Asker::from_database(&database, &json!({}));
    assert_eq!(asker.value("select 1", json!({})).await, 1);
    cluster.restart_immediately();
    assert_eq!(asker.value("select 2", json!({})).await, 2, "a connection that the server has closed is replaced");
    cluster.stop();
    let failure = asker.failure("select 3", json!({})).await;
    assert_eq!((failure.code.as_str(), failure.retryable), ("QUERY_ERROR", true), "{failure}");
    assert!(!asker.test().await.ok);
    cluster.start_again();
    assert_eq!(asker.value("select 4", json!({})).await, 4);
}

#[tokio::test]
async fn a_role_that_is_a_superuser_is_reported() {
    let database = Cluster::shared().database();
    database.sql("do $$ begin create role modest login; exception when others then end $$");
    for (user, is_reported) in [("postgres", true), ("modest", false)] {
        let tested = Asker::from_database(&database, &json!({"user": user})).test().await;
        assert!(tested.ok && tested.message.contains("superuser") == is_reported, "{user}: {tested:?}");
    }
}

#[tokio::test]
async fn a_wrong_password_is_reported_without_it() {
    let database = Cluster::shared().database();
    database.sql("do $$ begin create role guarded login password 'right'; exception when others then end $$");
    let with = |password: &str| {
        let mut asker = Asker::from_database(&database, &json!({"user": "guarded", "password": {"$secret": "shop"}}));
        asker.drivers = drivers(&[("shop", password)], None);
        asker
    };
    assert_eq!(with("right").value("select current_user", json!({})).await, "guarded");
    let tested = with("right").test().await;
    assert!(tested.ok && tested.server_version.unwrap().starts_with("PostgreSQL "));
    let failure = with("hunter2").failure("select 1", json!({})).await;
    assert_eq!((failure.code.as_str(), failure.retryable), ("QUERY_ERROR", false));
    assert!(failure.message.contains("password authentication failed"), "{failure}");
    let tested = with("hunter2").test().await;
    assert!(!tested.ok && !tested.message.contains("hunter2") && tested.message.contains("28P01"), "{tested:?}");

    let url = format!("postgres://guarded:right@127.0.0.1:{}/{}", database.cluster().port(), database.name());
    let by_url = Asker {
        drivers: drivers(&[("url", &url)], None),
        source: source(&json!({"type": "postgres", "url": {"$secret": "url"}})),
    };
    assert_eq!(by_url.value("select current_user", json!({})).await, "guarded");
    let without = Asker { drivers: drivers(&[], None), source: by_url.source.clone() };
    assert_eq!(without.failure("select 1", json!({})).await.code, "SECRET_NOT_FOUND");
}

#[tokio::test]
async fn addresses_inside_are_refused_unless_they_are_allowed() {
    let database = Cluster::shared().database();
    let mut asker = Asker::from_database(&database, &json!({}));
    for host in ["127.0.0.1", "localhost", "::ffff:127.0.0.1"] {
        let mut body = serde_json::to_value(&asker.source).unwrap();
        body["host"] = json!(host);
        asker.source = source(&body);
        asker.drivers = drivers_with(Guard::default(), &[], None);
        let failure = asker.failure("select 1", json!({})).await;
        assert_eq!((failure.code.as_str(), failure.retryable), ("ADDRESS_REFUSED", false), "{host}");
        assert!(failure.message.contains("EVERSTEP_ALLOW_ADDRESSES"), "{failure}");
        assert!(asker.test().await.message.contains("ADDRESS_REFUSED"));
    }
    let asker = Asker::from_database(&database, &json!({}));
    let allowed = Asker { drivers: drivers_with("127.0.0.0/8".parse().unwrap(), &[], None), ..asker };
    assert_eq!(allowed.value("select 1", json!({})).await, 1);
}

#[tokio::test]
async fn a_changed_source_is_queried_again() {
    let database = Cluster::shared().database();
    let mut asker = Asker::from_database(&database, &json!({}));
    assert_eq!(asker.value("select current_user", json!({})).await, "postgres");
    database.sql("do $$ begin create role another login; exception when others then end $$");
    let mut body = serde_json::to_value(&asker.source).unwrap();
    body["user"] = json!("another");
    asker.source = source(&body);
    assert_eq!(asker.value("select current_user", json!({})).await, "another");
}
