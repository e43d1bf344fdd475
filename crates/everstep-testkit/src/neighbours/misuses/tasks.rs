//! Tasks that take long.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpListener;

use crate::neighbours::attack::Attack;
use crate::neighbours::site::{chain, data_source};

/// Scripts that consume all resources that they can get.
const SCRIPTS: &[&str] = &[
    "for (;;) {}",
    "const a = []; for (;;) { try { a.push(new Array(1e4).fill(1)) } catch { a.length = 0 } }",
    "for (;;) await null",
    "return /^(a+)+$/.test('a'.repeat(40) + '!')",
    "return [].reverse.call({ length: 1e15 }).length",
    "return [].indexOf.call({ length: 1e15 }, 1)",
    "return [].join.call({ length: 1e15 }, '').length",
    "for (;;) console.log('x'.repeat(1000))",
    "let s = 'x'; for (;;) { s += s; if (s.length > 1e6) s = s.split('').reverse().join('').slice(0, 1) }",
    "const f = () => f() + 1; for (;;) { try { f() } catch {} }",
];
/// Runs that call a slow server, in one request.
const SLOW_RUNS: usize = 600;
/// Statements that read and compute without end.
const QUERIES: &[(&str, &str)] = &[
    ("endless", "with recursive c(n) as (select 1 union all select n + 1 from c) select count(*) from c"),
    (
        "large",
        "with recursive c(n) as (select 1 union all select n + 1 from c) \
         select max(length(hex(randomblob(100000)) || n)) from c",
    ),
];

/// Two runs of each script at a time.
pub(crate) async fn run_scripts(attack: Attack) -> anyhow::Result<()> {
    for (number, code) in SCRIPTS.iter().enumerate() {
        let node = json!({
            "id": "attack", "type": "javascript", "config": {"code": code},
            "timeoutSeconds": 2, "retry": {"maxAttempts": 1},
        });
        attack.save(&format!("script-{number}"), &chain(&[node])).await?;
    }
    let sender = attack.clone();
    let request = move |client: usize, _| {
        let path = format!("/v1/workflows/script-{}/runs?waitSeconds=30", client % SCRIPTS.len());
        sender.post(&path, "{}").into()
    };
    attack.begin();
    attack.keep_sending(2 * SCRIPTS.len(), Duration::ZERO, request).await;
    Ok(())
}

/// Runs that hold a request to a server that never answers.
pub(crate) async fn call_a_slow_server(attack: Attack) -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    let slow = tokio::spawn(async move {
        let mut streams = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            streams.push(stream);
        }
    });
    let node = json!({"id": "call", "type": "http", "config": {"url": url}, "retry": {"maxAttempts": 1}});
    attack.save("slow", &chain(&[node])).await?;
    let batch = json!({"runs": vec![json!({}); SLOW_RUNS]});
    attack.prepare("POST", "/v1/workflows/slow/runs/batch", &batch).await?;
    let request: Arc<[u8]> = attack.post("/v1/workflows/slow/runs", "{}").into();
    attack.begin();
    attack.keep_sending(4, Duration::from_millis(50), move |_, _| Arc::clone(&request)).await;
    slow.abort();
    Ok(())
}

/// Queries of a file that take all the time that they get.
pub(crate) async fn query_files(attack: Attack) -> anyhow::Result<()> {
    attack.prepare("PUT", "/v1/data-sources/numbers", &data_source()).await?;
    for (name, sql) in QUERIES {
        let query = json!({"source": "numbers", "sql": sql, "timeoutSeconds": 3});
        attack.prepare("PUT", &format!("/v1/queries/{name}"), &query).await?;
    }
    let sender = attack.clone();
    let request = move |client: usize, _| {
        let (name, _) = QUERIES[client % QUERIES.len()];
        sender.post(&format!("/v1/queries/{name}/run"), "{}").into()
    };
    attack.begin();
    attack.keep_sending(32, Duration::ZERO, request).await;
    Ok(())
}
