//! The limits of results.

use std::time::{Duration, Instant};

use everstep_core::failure::code;
use everstep_core::ids::WorkspaceId;
use everstep_core::limits::PAYLOAD_BYTES;
use everstep_handlers::sources::QueryRequest;
use everstep_testkit::postgres::Cluster;
use serde_json::json;

use crate::support::{Asker, query};

const MILLION: &str = "select n, 'row ' || n as text from generate_series(1, 1000000) as n";

#[tokio::test]
async fn a_million_rows_are_an_error_or_are_cut() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let begin = Instant::now();
    let failure = asker.ask(&query(&json!({"source": "it", "sql": MILLION})), &json!({})).await.unwrap_err();
    assert_eq!((failure.code.as_str(), failure.retryable), (code::PAYLOAD_TOO_LARGE, false));
    assert!(failure.message.starts_with("the result has more than 1000 rows"), "{failure}");
    let cut = query(&json!({"source": "it", "sql": MILLION, "limits": {"rows": 10_000, "onLimit": "cut"}}));
    let answer = asker.ask(&cut, &json!({})).await.unwrap();
    assert_eq!((&answer["rowCount"], &answer["truncated"]), (&json!(10_000), &json!(true)));
    assert_eq!(answer["rows"][9_999], json!({"n": 10_000, "text": "row 10000"}));
    let exact = query(&json!({"source": "it", "sql": "select generate_series(1, 1000) as n"}));
    let answer = asker.ask(&exact, &json!({})).await.unwrap();
    assert_eq!((&answer["rowCount"], &answer["truncated"]), (&json!(1_000), &json!(false)));
    assert!(begin.elapsed() < Duration::from_secs(15), "the rest of the rows is not fetched");
    assert_eq!(asker.value("select 1", json!({})).await, 1);
}

#[tokio::test]
async fn wide_rows_end_at_the_limit_of_bytes() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let wide = "select n, repeat('x', 100000) as wide from generate_series(1, 100) as n";
    let failure = asker.ask(&query(&json!({"source": "it", "sql": wide})), &json!({})).await.unwrap_err();
    assert_eq!(failure.code, code::PAYLOAD_TOO_LARGE);
    let cut = query(&json!({"source": "it", "sql": wide, "limits": {"onLimit": "cut"}}));
    let answer = asker.ask(&cut, &json!({})).await.unwrap();
    assert_eq!((&answer["rowCount"], &answer["truncated"]), (&json!(10), &json!(true)));
    assert!(answer.to_string().len() <= PAYLOAD_BYTES);
    let narrow = query(&json!({"source": "it", "sql": wide, "limits": {"bytes": 250_000, "onLimit": "cut"}}));
    assert_eq!(asker.ask(&narrow, &json!({})).await.unwrap()["rowCount"], 2);
}

#[tokio::test]
async fn a_row_that_is_far_too_wide_is_not_even_read() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    for (sql, limit) in
        [("select repeat('x', 200000000) as wide", "error"), ("select repeat('x', 200000000) as wide", "cut")]
    {
        let saved = query(&json!({"source": "it", "sql": sql, "limits": {"onLimit": limit}}));
        let failure = asker.ask(&saved, &json!({})).await.unwrap_err();
        assert_eq!((failure.code.as_str(), failure.retryable), (code::PAYLOAD_TOO_LARGE, false), "{failure}");
    }
    assert_eq!(asker.value("select 1", json!({})).await, 1);
}

#[tokio::test]
async fn a_thousand_columns_fit_their_envelope() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let columns: Vec<String> = (0..1_600).map(|n| format!("{n} as a_column_with_a_rather_long_name_{n}")).collect();
    let sql = format!("select {} from generate_series(1, 1000)", columns.join(", "));
    let cut = query(&json!({"source": "it", "sql": sql, "limits": {"onLimit": "cut"}}));
    let answer = asker.ask(&cut, &json!({})).await.unwrap();
    assert!(answer["rowCount"].as_u64().unwrap() >= 1);
    assert!(answer.to_string().len() <= PAYLOAD_BYTES);
}

#[tokio::test]
async fn a_caller_may_request_fewer_rows() {
    let database = Cluster::shared().database();
    let asker = Asker::from_database(&database, &json!({}));
    let saved = query(&json!({"source": "it", "sql": MILLION}));
    let timeout = Duration::from_secs(20);
    let (workspace, source, args) = (WorkspaceId::DEFAULT, &asker.source, &json!({}));
    let ask = QueryRequest { workspace, source, query: &saved, args, max_rows: Some(3), timeout };
    let answer = asker.drivers.ask(ask).await.unwrap();
    assert_eq!((answer.row_count, answer.truncated), (3, true));
}
