//! Connections that use memory and places.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;

use crate::connection;
use crate::neighbours::attack::Attack;

const BODIES: usize = 100;
const BODY_BYTES: usize = 16_000_000;
/// A body is sent in pieces of this size, except for its last bytes.
const PIECE_BYTES: usize = 500_000;
/// The time between two of the last bytes.
const TRICKLE_PAUSE: Duration = Duration::from_millis(100);
/// Keys with which streams are opened, and the streams of each.
const STREAM_KEYS: usize = 10;
const STREAMS_PER_KEY: usize = 200;
const SOCKETS: usize = 1_000;
/// The time before a stream is opened again.
const OPENING_PAUSE: Duration = Duration::from_millis(5);
/// Connections that send nothing.
const SILENT_CONNECTIONS: usize = 1_000;

/// Large bodies whose last bytes arrive slowly: half of them from a viewer, who may not send so much, and half with a key
/// that may save definitions.
pub(crate) async fn send_endless_bodies(attack: Attack) -> anyhow::Result<()> {
    let viewer = attack.with_role("viewer").await?;
    let mut sending = JoinSet::new();
    attack.begin();
    for number in 0..BODIES {
        let sender = if number % 2 == 0 { viewer.clone() } else { attack.clone() };
        sending.spawn(send_endless_body(sender));
    }
    while let Some(ended) = sending.join_next().await {
        sending.spawn(send_endless_body(ended?));
    }
    Ok(())
}

/// Returns its sender, for the next body.
async fn send_endless_body(sender: Attack) -> Attack {
    // The server may refuse the body and close the connection at any time.
    if send_body(&sender).await.is_err() {
        sender.count(0);
    }
    tokio::time::sleep(TRICKLE_PAUSE).await;
    sender
}

/// Sends a body without its end, until the server closes the connection.
async fn send_body(sender: &Attack) -> anyhow::Result<()> {
    let head = format!(
        "POST /v1/workflows/validate HTTP/1.1\r\nhost: {}\r\nx-api-key: {}\r\ncontent-type: application/json\r\n\
         content-length: {BODY_BYTES}\r\n\r\n",
        sender.address, sender.key
    );
    let piece = vec![b' '; PIECE_BYTES];
    let mut connection = sender.connect().await?;
    connection.send_bytes(head.as_bytes()).await?;
    for _ in 1..BODY_BYTES / PIECE_BYTES {
        connection.send_bytes(&piece).await?;
    }
    // The server has accepted all but the end of the body.
    sender.count(100);
    loop {
        tokio::time::sleep(TRICKLE_PAUSE).await;
        connection.send_bytes(b" ").await?;
    }
}

/// As many streams as a node serves.
pub(crate) async fn open_streams(attack: Attack) -> anyhow::Result<()> {
    let states =
        json!([{"name": "open", "initial": true, "on": {"GO": {"to": "done"}}}, {"name": "done", "terminal": true}]);
    attack.save("followed", &json!({ "states": states })).await?;
    let run = attack.start("followed", &json!({})).await?;
    let mut streams = JoinSet::new();
    for _ in 0..STREAM_KEYS {
        let viewer = attack.with_role("viewer").await?;
        let request: Arc<[u8]> = viewer.get(&format!("/v1/runs/{run}/events")).into();
        for _ in 0..STREAMS_PER_KEY {
            streams.spawn(viewer.clone().hold_stream(Arc::clone(&request)));
        }
    }
    while attack.answers().total() < (STREAM_KEYS * STREAMS_PER_KEY) as u64 {
        tokio::time::sleep(OPENING_PAUSE).await;
    }
    attack.begin();
    let request: Arc<[u8]> = attack.get(&format!("/v1/runs/{run}/events")).into();
    loop {
        attack.clone().hold_stream(Arc::clone(&request)).await;
        tokio::time::sleep(OPENING_PAUSE).await;
    }
}

/// Sockets that never authenticate, opened again when they are closed, and connections that send nothing.
pub(crate) async fn open_sockets(attack: Attack) -> anyhow::Result<()> {
    let request: Arc<[u8]> = connection::upgrade(&attack.address, None, "/socket.io/?EIO=4&transport=websocket").into();
    let mut held = JoinSet::new();
    for _ in 0..SILENT_CONNECTIONS {
        let attack = attack.clone();
        held.spawn(async move {
            if let Ok(mut connection) = attack.connect().await {
                connection.closed().await;
            }
        });
    }
    for _ in 0..SOCKETS {
        held.spawn(attack.clone().hold_stream(Arc::clone(&request)));
    }
    attack.begin();
    while held.join_next().await.is_some() {
        // The next socket begins when a place may be free.
        tokio::time::sleep(OPENING_PAUSE).await;
        held.spawn(attack.clone().hold_stream(Arc::clone(&request)));
    }
    Ok(())
}
