//! A target of webhooks in this process, at so little cost that it does not affect a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The maximum time until the expected webhooks have arrived.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(120);
const ACCEPTED: &[u8] = b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n";
const REFUSED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";

/// What a sink does with a request that it has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Response {
    Accept,
    Refuse,
    Hang,
}

/// It ends with this value.
pub(super) struct Sink {
    pub(super) url: String,
    counts: Arc<Counts>,
    server: JoinHandle<()>,
}

#[derive(Default)]
struct Counts {
    received: AtomicU64,
    is_refusing: AtomicBool,
    is_hanging: AtomicBool,
}

impl Sink {
    /// Listens on an address of this machine. Each address is another host for the bounds of webhooks.
    pub(super) async fn start(address: &str, response: Response) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await.context("listening for webhooks")?;
        let url = format!("http://{}/hooks", listener.local_addr()?);
        let counts = Arc::new(Counts::default());
        let server = tokio::spawn(serve(listener, Arc::clone(&counts)));
        let sink = Self { url, counts, server };
        sink.set(response);
        Ok(sink)
    }

    pub(super) fn set(&self, response: Response) {
        self.counts.is_refusing.store(response == Response::Refuse, Ordering::Relaxed);
        self.counts.is_hanging.store(response == Response::Hang, Ordering::Relaxed);
    }

    /// The number of requests so far.
    pub(super) fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// Waits until this many requests have arrived.
    pub(super) async fn wait_for(&self, requests: u64) -> anyhow::Result<()> {
        let began = Instant::now();
        while self.received() < requests {
            ensure!(began.elapsed() < ARRIVAL_TIMEOUT, "{} of {requests} webhooks have arrived", self.received());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, counts: Arc<Counts>) {
    // Its connections end with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(answer_all(stream, Arc::clone(&counts)));
        while connections.try_join_next().is_some() {}
    }
}

/// Answers the requests of a connection until it is closed.
async fn answer_all(mut stream: TcpStream, counts: Arc<Counts>) {
    let _ = stream.set_nodelay(true);
    let mut bytes = Vec::with_capacity(4_096);
    loop {
        let whole = match whole_request(&bytes) {
            Some(whole) if bytes.len() >= whole => whole,
            _ => match stream.read_buf(&mut bytes).await {
                Ok(read) if read > 0 => continue,
                Ok(_) | Err(_) => return,
            },
        };
        bytes.drain(..whole);
        counts.received.fetch_add(1, Ordering::Relaxed);
        if counts.is_hanging.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let response = if counts.is_refusing.load(Ordering::Relaxed) { REFUSED } else { ACCEPTED };
        if stream.write_all(response).await.is_err() {
            return;
        }
    }
}

/// The length of the first request, if its head is complete.
fn whole_request(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..head]);
    let mut fields = text.lines().filter_map(|line| line.split_once(": "));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    Some(head + 4 + length.and_then(|(_, length)| length.trim().parse::<usize>().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_long_as_its_head_and_its_body() {
        assert_eq!(whole_request(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n"), None);
        assert_eq!(whole_request(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"), Some(41));
        assert_eq!(whole_request(b"POST / HTTP/1.1\r\n\r\n"), Some(19));
    }
}
