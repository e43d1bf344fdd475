//! Attempts to make a database execute something other than the query.

use everstep_handlers::sources::Query;
use everstep_testkit::postgres::Cluster;
use serde_json::json;

use crate::support::{Asker, query};

const ATTACKS: &[&str] = &[
    "' or '1'='1",
    "'; drop table victims; --",
    "\"; drop table victims; --",
    "\\'; drop table victims; --",
    "$$; drop table victims; $$",
    "/* */ ; drop table victims",
    "1; drop table victims",
    "x' union select secret from victims --",
    ":name",
    "$1",
    "?1",
    "{{ctx.input}}",
    "\u{2019}; drop table victims; --",
    "E'\\'' || (select secret from victims)",
    "%27%3B drop table victims",
];

#[tokio::test]
async fn what_is_bound_is_never_sql() {
    let database = Cluster::shared().database();
    database.sql("create table victims (secret text); insert into victims values ('gold')");
    let asker = Asker::from_database(&database, &json!({"readOnly": false}));
    let read = query(&json!({"source": "it", "sql": "select :name as name, secret from victims where secret = :name",
        "arguments": [{"name": "name"}], "readOnly": false}));
    let echo = query(&json!({"source": "it", "sql": "select :name::text as name, array[:name::text] as names",
        "arguments": [{"name": "name"}], "readOnly": false}));
    for attack in ATTACKS {
        let answer = asker.ask(&read, &json!({"name": attack})).await.unwrap();
        assert_eq!(answer["rows"], json!([]), "{attack}");
        let answer = asker.ask(&echo, &json!({"name": attack})).await.unwrap();
        assert_eq!(answer["rows"], json!([{"name": attack, "names": [attack]}]));
    }
    assert_eq!(database.sql("select secret from victims"), ["gold"]);
}

#[tokio::test]
async fn elements_of_arrays_are_values_as_well() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    for attack in ["a\",\"b", "}", "{", "\\", "\\\"", "NULL", " ", "a,b", "\",NULL,\""] {
        let answer = asker.value("select :x::text[] as value", json!({"x": [attack, attack]})).await;
        assert_eq!(answer, json!([attack, attack]));
    }
}

#[tokio::test]
async fn stacked_statements_and_other_verbs_are_refused() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let refused = |sql: &str| {
        let query = Query::read(&json!({"source": "it", "sql": sql})).unwrap();
        query.check_source(&asker.source).into_iter().next().unwrap_or_else(|| panic!("{sql} was accepted")).message
    };
    for sql in
        ["select 1; drop table victims", "select 1;;select 2", "select 1 /* ; */ ; commit", "select ';'; select 2"]
    {
        assert!(refused(sql).contains("only one statement"), "{sql}");
    }
    for sql in [
        "copy (select 1) to program 'id'",
        "copy t from program 'id'",
        "set role postgres",
        "reset role",
        "set session characteristics as transaction read write",
        "commit",
        "rollback",
        "begin",
        "do 'begin end'",
    ] {
        assert!(refused(sql).contains("cannot begin with"), "{sql}");
    }
}

#[tokio::test]
async fn a_query_may_no_more_than_its_role() {
    let database = Cluster::shared().database();
    database.sql(
        "do $$ begin create role humble login; exception when others then end $$;
         create table private (a int); revoke all on private from public",
    );
    let asker = Asker::from_database(&database, &json!({"user": "humble"}));
    for sql in [
        "select pg_read_file('/etc/passwd')",
        "select * from private",
        "select pg_ls_dir('.')",
        "select * from pg_authid",
        "select set_config('role', 'postgres', false)",
    ] {
        let failure = asker.failure(sql, json!({})).await;
        assert!(failure.message.contains("permission denied") || failure.message.contains("42501"), "{sql}: {failure}");
    }
    assert_eq!(asker.value("select current_user", json!({})).await, "humble");
}

#[tokio::test]
async fn a_read_only_transaction_cannot_be_left() {
    let database = Cluster::shared().database();
    database.sql("create table victims (a int)");
    let asker = Asker::from_database(&database, &json!({}));
    for sql in [
        "select set_config('transaction_read_only', 'off', false)",
        "select set_config('default_transaction_read_only', 'off', false)",
    ] {
        // Whether or not the setting is accepted, the next query is read-only again.
        let _ = asker.sql(sql, json!({})).await;
        let failure =
            asker.failure("with x as (insert into victims values (1) returning a) select * from x", json!({})).await;
        assert!(failure.message.contains("25006"), "{sql}: {failure}");
    }
    database.sql(
        "create function sneak() returns int language plpgsql as
         $$ begin perform set_config('transaction_read_only', 'off', true); insert into victims values (1); return 1; end $$",
    );
    let failure = asker.failure("select sneak()", json!({})).await;
    assert_eq!(failure.code, "QUERY_ERROR");
    assert_eq!(database.sql("select count(*) from victims"), ["0"]);
}
