//! A server with the two workspaces.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::attack::{Attack, MisuseAnswers};
use super::good::{self, Observation, Pace};
use super::misuse::Misuse;
use crate::connection::{self, Connection};

/// The workflow of which the good workspace starts runs: three nodes that do nothing.
pub(super) const PLAIN: &str = "plain";
/// A workflow that calls a server that answers at once.
pub(super) const REACHING: &str = "reaching";
/// A saved query of a file.
pub(super) const COUNT: &str = "count";
/// The file of each workspace, in its folder.
const FILE: &str = "numbers.db";

/// The settings of a server for these measurements, beside the default ones. The folder contains the files of data
/// sources.
pub fn settings(folder: &Path) -> [(&'static str, String); 2] {
    [
        ("EVERSTEP_ALLOW_ADDRESSES", "127.0.0.1".to_owned()),
        ("EVERSTEP_SQLITE_SOURCES_DIR", folder.to_string_lossy().into_owned()),
    ]
}

/// A server with a workspace that misuses it and a workspace that does not.
pub struct Neighbours {
    address: String,
    bad: Tenant,
    good: Tenant,
    /// A run of the good workspace that has ended.
    ended: String,
}

/// A workspace, and an API key with all permissions for it.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) id: String,
    pub(super) key: String,
}

impl Neighbours {
    /// Creates both workspaces on a server with [`settings`]. The key is that of an administrator.
    pub fn create(address: &str, admin_key: &str, folder: &Path) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut connection = Connection::open(address).await?;
            let bad = create_workspace(&mut connection, address, admin_key, "bad", folder).await?;
            let good = create_workspace(&mut connection, address, admin_key, "good", folder).await?;
            let mut put =
                async |path: &str, body: Value| send(&mut connection, address, &good.key, "PUT", path, &body).await;
            let noop = |id: &str| json!({"id": id, "type": "noop"});
            put(&format!("/v1/workflows/{PLAIN}"), chain(&[noop("a"), noop("b"), noop("c")])).await?;
            put("/v1/store/settings/first", json!({"value": 1})).await?;
            put("/v1/data-sources/numbers", json!({"type": "sqlite", "file": FILE})).await?;
            let query = json!({"source": "numbers", "sql": "select count(*) from numbers"});
            put(&format!("/v1/queries/{COUNT}"), query).await?;
            let path = format!("/v1/workflows/{PLAIN}/runs?waitSeconds=30");
            let started = send(&mut connection, address, &good.key, "POST", &path, &json!({})).await?;
            let ended = started["run"]["id"].as_str().with_context(|| format!("no run: {started}"))?.to_owned();
            Ok(Self { address: address.to_owned(), bad, good, ended })
        })
    }

    /// Measures the good workspace alone.
    pub fn observe(&self, pace: Pace) -> anyhow::Result<Observation> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(good::observe(&self.address, &self.good.key, &[], PLAIN, pace))
    }

    /// Measures the good workspace beside a misuse, which has its own threads.
    pub fn observe_beside(&self, misuse: Misuse, pace: Pace) -> anyhow::Result<(Observation, MisuseAnswers)> {
        let (begun, begins) = oneshot::channel();
        let attack = Attack::new(&self.address, &self.bad, begun);
        let attacking = {
            let attack = attack.clone();
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
                let attacked = runtime.block_on(attack.clone().perform(misuse));
                runtime.shutdown_background();
                attacked.with_context(|| format!("misuse {}", misuse.name()))
            })
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let observed = runtime.block_on(async {
            // The misuse has failed before it began if the channel is closed; its error is returned below.
            if begins.await.is_err() {
                return Ok(Observation::default());
            }
            let quick = QuickServer::start().await?;
            let workflow = if misuse == Misuse::SlowHttp { self.save_reaching(&quick).await? } else { PLAIN };
            let calls = self.contested_calls(misuse);
            good::observe(&self.address, &self.good.key, &calls, workflow, pace).await
        });
        attack.end();
        attacking.join().map_err(|_| anyhow::anyhow!("the misuse {} has panicked", misuse.name()))??;
        Ok((observed?, attack.answers()))
    }

    async fn save_reaching(&self, quick: &QuickServer) -> anyhow::Result<&'static str> {
        let mut connection = Connection::open(&self.address).await?;
        let node = json!({"id": "reach", "type": "http", "config": {"url": format!("http://{}/", quick.address)}});
        let path = format!("/v1/workflows/{REACHING}");
        send(&mut connection, &self.address, &self.good.key, "PUT", &path, &chain(&[node])).await?;
        Ok(REACHING)
    }

    /// Requests of the good workspace for the resource that the misuse uses up.
    fn contested_calls(&self, misuse: Misuse) -> Vec<good::Call> {
        let (address, key) = (&*self.address, &*self.good.key);
        match misuse {
            Misuse::FileQueries => {
                let path = format!("/v1/queries/{COUNT}/run");
                vec![good::Call::whole(200, connection::post(address, key, &path, "{}"))]
            }
            Misuse::Streams => {
                let path = format!("/v1/runs/{}/events", self.ended);
                vec![good::Call::stream(200, connection::get_with_key(address, key, &path))]
            }
            Misuse::Sockets => vec![
                good::Call::stream(101, connection::upgrade(address, Some(key), "/v1/socket")),
                good::Call::stream(
                    101,
                    connection::upgrade(address, Some(key), "/socket.io/?EIO=4&transport=websocket"),
                ),
            ],
            _ => Vec::new(),
        }
    }
}

async fn create_workspace(
    connection: &mut Connection,
    address: &str,
    admin_key: &str,
    name: &str,
    folder: &Path,
) -> anyhow::Result<Tenant> {
    let made = send(connection, address, admin_key, "POST", "/v1/workspaces", &json!({"name": name})).await?;
    let text = |value: &Value| value.as_str().map(str::to_owned).with_context(|| format!("no workspace: {made}"));
    let tenant = Tenant { id: text(&made["workspace"]["id"])?, key: text(&made["secret"])? };
    add_file(&folder.join(&tenant.id))?;
    Ok(tenant)
}

/// Sends a request with a JSON body, which must succeed, and returns the body of the response.
pub(super) async fn send(
    connection: &mut Connection,
    address: &str,
    key: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> anyhow::Result<Value> {
    let body = body.to_string();
    let request = match method {
        "PUT" => connection::put(address, key, path, &body),
        _ => connection::post(address, key, path, &body),
    };
    let answer = connection.ask(&request).await?;
    ensure!((200..300).contains(&answer.status), "{method} {path}: {} {}", answer.status, answer.body);
    Ok(serde_json::from_str(answer.body)?)
}

/// A graph whose nodes are in sequence.
pub(super) fn chain(middle: &[Value]) -> Value {
    let mut nodes = vec![json!({"id": "start", "type": "start"})];
    nodes.extend_from_slice(middle);
    nodes.push(json!({"id": "end", "type": "end"}));
    let edges: Vec<_> =
        nodes.windows(2).map(|pair| json!({"source": pair[0]["id"], "target": pair[1]["id"]})).collect();
    json!({"nodes": nodes, "edges": edges})
}

/// The saved query of the misuse reads the same file as the good workspace's, in a folder of its own.
pub(super) fn data_source() -> Value {
    json!({"type": "sqlite", "file": FILE})
}

fn add_file(folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    let file = rusqlite::Connection::open(folder.join(FILE))?;
    file.execute_batch("create table numbers (n integer); insert into numbers values (1), (2), (3);")?;
    Ok(())
}

/// A server of the good workspace, which answers every request at once. It ends with its runtime.
struct QuickServer {
    address: String,
}

impl QuickServer {
    async fn start() -> anyhow::Result<Self> {
        const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut request = [0; 4_096];
                    while stream.read(&mut request).await.is_ok_and(|read| read > 0) {
                        if stream.write_all(ANSWER).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Ok(Self { address })
    }
}
