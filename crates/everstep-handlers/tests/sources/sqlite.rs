//! SQLite files: read-only, only within their folder.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use everstep_core::failure::code;
use everstep_core::ids::WorkspaceId;
use everstep_core::time::Timestamp;
use everstep_handlers::sources::Query;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Asker, drivers, query, source};

fn shop(folder: &Path) -> Asker {
    let file = Connection::open(folder.join("shop.db")).unwrap();
    file.execute_batch(
        "create table if not exists orders (id integer primary key, customer text, total real, note blob);
         insert into orders (customer, total, note) values ('ann', 12.5, x'00ff'), ('bob', 3, null);
         create virtual table words using fts5(text); insert into words values ('a quick fox');",
    )
    .unwrap();
    asker(folder, "shop.db")
}

fn asker(folder: &Path, file: &str) -> Asker {
    let source = source(&json!({"type": "sqlite", "file": file}));
    Asker { drivers: drivers(&[], Some(folder.to_owned())), source }
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_file_is_asked_with_bound_arguments() {
    let folder = folder();
    let asker = shop(folder.path());
    let answer = asker.sql("select * from orders where customer = :c", json!({"c": "ann"})).await.unwrap();
    let expected = json!({"rows": [{"id": 1, "customer": "ann", "total": 12.5, "note": "AP8="}], "rowCount": 1,
        "fields": [{"name": "id", "type": "integer"}, {"name": "customer", "type": "text"},
            {"name": "total", "type": "real"}, {"name": "note", "type": "blob"}], "truncated": false});
    assert_eq!(answer, expected);
    for (sql, value, expected) in [
        (":x", json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_993_i64)),
        (":x + 1", json!(1.5), json!(2.5)),
        ("not :x", json!(true), json!(0)),
        (":x", json!(null), json!(null)),
        (":x", json!("'; drop table orders; --"), json!("'; drop table orders; --")),
        ("(select sum(value) from json_each(:x))", json!([1, 2, 3]), json!(6)),
        (":x ->> '$.a'", json!({"a": "b"}), json!("b")),
        ("(select count(*) from words where words match :x)", json!("fox"), json!(1)),
    ] {
        assert_eq!(asker.value(&format!("select {sql} as value"), json!({"x": value})).await, expected, "{sql}");
    }
    let tested = asker.test().await;
    assert!(tested.ok && tested.server_version.unwrap().starts_with("SQLite 3"), "{}", tested.message);
}

#[tokio::test]
async fn nothing_but_reading_is_possible() {
    let folder = folder();
    let asker = shop(folder.path());
    let refused = |sql: &str| {
        let query = Query::read(&json!({"source": "it", "sql": sql})).unwrap();
        query.check_source(&asker.source)
    };
    for sql in [
        "insert into orders (id) values (9)",
        "attach 'x.db' as x",
        "pragma journal_mode = delete",
        "vacuum",
        "create table a (b)",
        "drop table orders",
        "update orders set id = 9",
        "begin",
        "detach main",
    ] {
        assert_eq!(refused(sql).len(), 1, "{sql}");
    }
    for sql in [
        "with x as (select 1) insert into orders (id) select * from x",
        "select * from pragma_table_info('orders')",
        "select * from pragma_database_list",
        "select load_extension('x')",
        "select fts3_tokenizer('simple')",
        "with x as (select 1) delete from orders",
    ] {
        let failure = asker.failure(sql, json!({})).await;
        assert_eq!((failure.code.as_str(), failure.retryable), ("QUERY_ERROR", false), "{sql}: {failure}");
    }
    assert_eq!(asker.value("select count(*) from orders", json!({})).await, 2);
}

#[tokio::test]
async fn a_workspace_reads_no_files_of_another() {
    let folder = folder();
    let asker = shop(folder.path());
    let other = WorkspaceId::new(Timestamp::EPOCH, 7);
    let of_other = folder.path().join(other.uuid().to_string());
    assert!(!asker.drivers.test(other, &asker.source).await.ok, "there is no folder of its own");
    std::fs::create_dir(&of_other).unwrap();
    assert!(!asker.drivers.test(other, &asker.source).await.ok, "the file is not in it");
    shop(&of_other);
    let tested = asker.drivers.test(other, &asker.source).await;
    assert!(tested.ok, "{tested:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn no_path_and_no_link_leads_out_of_the_folder() {
    use std::os::unix::fs::symlink;

    let (folder, outside) = (folder(), folder_with_a_database());
    symlink(outside.path().join("secret.db"), folder.path().join("link.db")).unwrap();
    symlink(outside.path(), folder.path().join("linked")).unwrap();
    for file in ["link.db", "linked/secret.db"] {
        let failure = asker(folder.path(), file).failure("select * from secrets", json!({})).await;
        assert!(failure.message.contains("is outside the folder"), "{file}: {failure}");
    }
    // A link within the folder is accepted like its target.
    shop(folder.path());
    symlink(folder.path().join("shop.db"), folder.path().join("inner.db")).unwrap();
    assert_eq!(asker(folder.path(), "inner.db").value("select count(*) from orders", json!({})).await, 2);
    let failure = asker(folder.path(), "nothing.db").failure("select 1", json!({})).await;
    assert!(failure.message.contains("cannot be read") && !failure.retryable, "{failure}");
    assert!(!folder.path().join("nothing.db").exists());
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    assert!(asker(folder.path(), "sub").failure("select 1", json!({})).await.message.contains("is not a file"));
    std::fs::write(folder.path().join("text.db"), "this is no database, whatever its name may say about it").unwrap();
    let tested = asker(folder.path(), "text.db").test().await;
    assert!(!tested.ok && tested.message.contains("not a database"), "{tested:?}");
}

fn folder_with_a_database() -> TempDir {
    let outside = folder();
    let file = Connection::open(outside.path().join("secret.db")).unwrap();
    file.execute_batch("create table secrets (a); insert into secrets values ('gold')").unwrap();
    outside
}

#[tokio::test]
async fn without_a_folder_no_file_is_read() {
    let asker = Asker { drivers: drivers(&[], None), source: source(&json!({"type": "sqlite", "file": "a.db"})) };
    let failure = asker.failure("select 1", json!({})).await;
    assert!(failure.message.contains("EVERSTEP_SQLITE_SOURCES_DIR"), "{failure}");
}

#[tokio::test]
async fn endless_statements_and_huge_values_end() {
    let folder = folder();
    let asker = shop(folder.path());
    let endless = query(&json!({"source": "it",
        "sql": "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"}));
    let begin = Instant::now();
    let failure = asker.ask_for(&endless, &json!({}), Duration::from_millis(300)).await.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), (code::STEP_TIMEOUT, true));
    assert!(begin.elapsed() < Duration::from_secs(2));
    let failure = asker.failure("select length(zeroblob(1000000000)), randomblob(900000000) as b", json!({})).await;
    assert!(failure.message.contains("too big"), "{failure}");
    // It would take minutes, in one function that cannot be interrupted.
    let square = "select instr(printf('%.*c', 16000000, 'a'), printf('%.*c', 8000000, 'a') || 'b') as place";
    assert!(asker.failure(square, json!({})).await.message.contains("too big"));
    let million = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000) select i from n";
    let failure = asker.failure(million, json!({})).await;
    assert_eq!(failure.code, code::PAYLOAD_TOO_LARGE);
    let cut = query(&json!({"source": "it", "sql": million, "limits": {"rows": 7, "onLimit": "cut"}}));
    let answer: Value = asker.ask(&cut, &json!({})).await.unwrap();
    assert_eq!((&answer["rowCount"], &answer["truncated"]), (&json!(7), &json!(true)));
}

#[tokio::test]
async fn a_value_of_more_than_256_kib_is_refused_and_others_are_quick() {
    let folder = folder();
    let asker = shop(folder.path());
    assert_eq!(asker.value("select length(printf('%.*c', 260000, 'a')) as n", json!({})).await, 260_000);
    let failure = asker.failure("select length(printf('%.*c', 270000, 'a')) as n", json!({})).await;
    assert!(failure.message.contains("256 KiB"), "{failure}");
    // The slowest function that does not check the deadline, with the largest values.
    let square = "select instr(printf('%.*c', 260000, 'a'), printf('%.*c', 130000, 'a') || 'b') as place";
    let begin = Instant::now();
    assert_eq!(asker.value(square, json!({})).await, 0);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_with_stuck_statements_leave_threads_to_others() {
    let folder = folder();
    let [bad, worse, good] = [1, 2, 3].map(|number| WorkspaceId::new(Timestamp::EPOCH, number));
    for workspace in [bad, worse, good] {
        let own = folder.path().join(workspace.uuid().to_string());
        std::fs::create_dir(&own).unwrap();
        shop(&own);
    }
    let asker = Arc::new(asker(folder.path(), "shop.db"));
    let endless = query(&json!({"source": "it",
        "sql": "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"}));
    let stuck: Vec<_> = (0..8)
        .flat_map(|_| [bad, worse])
        .map(|workspace| {
            let (asker, endless) = (Arc::clone(&asker), endless.clone());
            tokio::spawn(async move { asker.ask_in(workspace, &endless, Duration::from_secs(5)).await })
        })
        .collect();
    let quick = query(&json!({"source": "it", "sql": "select 1 as one"}));
    let busy = async {
        loop {
            let asked = [bad, worse].map(|workspace| asker.ask_in(workspace, &quick, Duration::from_millis(300)));
            if let [Err(busy), Err(_)] = futures_util::future::join_all(asked).await.as_slice() {
                return busy.clone();
            }
        }
    };
    let busy = tokio::time::timeout(Duration::from_secs(4), busy).await.expect("all its threads are used");
    assert_eq!(busy.code, code::STEP_TIMEOUT);
    for _ in 0..20 {
        let begin = Instant::now();
        asker.ask_in(good, &quick, Duration::from_secs(5)).await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    }
    stuck.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_statement_without_a_waiting_caller_releases_its_thread() {
    let folder = folder();
    let asker = shop(folder.path());
    let endless = query(&json!({"source": "it",
        "sql": "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"}));
    let args = json!({});
    // More than there are threads: each must be free again for the next.
    for _ in 0..12 {
        let asking = asker.ask_for(&endless, &args, Duration::from_secs(60));
        assert!(tokio::time::timeout(Duration::from_millis(50), asking).await.is_err());
    }
    assert_eq!(asker.value("select 1 as one", json!({})).await, 1);
}
