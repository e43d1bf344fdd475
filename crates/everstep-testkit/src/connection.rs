//! A connection to a server: one request after the other, at so little cost that it does not affect a measurement.

use anyhow::{Context, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

/// A response, up to the next request.
pub struct Answer<'a> {
    pub status: u16,
    pub body: &'a str,
}

impl Connection {
    pub async fn open(address: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(4096) })
    }

    /// Sends a request and reads its response.
    pub async fn ask(&mut self, request: &[u8]) -> anyhow::Result<Answer<'_>> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        let (mut start, mut whole) = (0, usize::MAX);
        while self.answer.len() < whole {
            ensure!(self.stream.read_buf(&mut self.answer).await? > 0, "the server closed the connection");
            if whole == usize::MAX
                && let Some(end) = self.answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")
            {
                start = end + 4;
                whole = start + length(std::str::from_utf8(&self.answer[..end])?)?;
            }
        }
        let head = std::str::from_utf8(&self.answer[..start])?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let body = std::str::from_utf8(&self.answer[start..])?;
        Ok(Answer { status: status.with_context(|| format!("no response: {head}"))?, body })
    }

    /// Sends a request whose response does not end, and reads the status of the response. The rest of it is not read.
    pub async fn open_stream(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.send_bytes(request).await?;
        self.answer.clear();
        while !self.answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            ensure!(self.stream.read_buf(&mut self.answer).await? > 0, "the server closed the connection");
        }
        let head = String::from_utf8_lossy(&self.answer);
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.with_context(|| format!("no response: {head}"))
    }

    /// Sends a part of a request.
    pub async fn send_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Waits until the server closes the connection, and discards what it sends before.
    pub async fn closed(&mut self) {
        let mut bytes = [0; 4_096];
        while self.stream.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
    }
}

/// A request to post a document, for [`Connection::ask`].
pub fn post(address: &str, key: &str, path: &str, body: &str) -> Vec<u8> {
    send("POST", address, key, path, body)
}

/// A request to put a document, for [`Connection::ask`].
pub fn put(address: &str, key: &str, path: &str, body: &str) -> Vec<u8> {
    send("PUT", address, key, path, body)
}

fn send(method: &str, address: &str, key: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The head of a request to upload a file, whose bytes follow ([`Connection::send_bytes`]).
pub fn upload(address: &str, key: &str, path: &str, bytes: usize) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\n\
         content-type: application/octet-stream\r\ncontent-length: {bytes}\r\n\r\n"
    )
    .into_bytes()
}

/// A GET request that needs no API key.
pub fn get(address: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n").into_bytes()
}

/// A GET request with an API key.
pub fn get_with_key(address: &str, key: &str, path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: {key}\r\n\r\n").into_bytes()
}

/// A request to open a WebSocket, for [`Connection::open_stream`].
pub fn upgrade(address: &str, key: Option<&str>, path: &str) -> Vec<u8> {
    let key = key.map(|key| format!("x-api-key: {key}\r\n")).unwrap_or_default();
    format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\n{key}connection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes()
}

/// The length of a response's body, from its head.
fn length(head: &str) -> anyhow::Result<usize> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    let length = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let (_, length) = length.with_context(|| format!("a response without a length: {head}"))?;
    Ok(length.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_are_read_one_after_the_other_in_whatever_pieces_they_come() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            for answer in
                ["HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}", "HTTP/1.1 429 No\r\ncontent-length: 0\r\n\r\n"]
            {
                assert!(stream.read(&mut request).await.unwrap() > 0);
                for piece in answer.as_bytes().chunks(7) {
                    stream.write_all(piece).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
        let mut connection = Connection::open(&address).await.unwrap();
        let request = post(&address, "key", "/v1/x", "{}");
        let Answer { status, body } = connection.ask(&request).await.unwrap();
        assert_eq!((status, body), (201, "{}"));
        assert_eq!(connection.ask(&request).await.unwrap().status, 429);
        server.await.unwrap();
        assert!(connection.ask(&request).await.is_err());
    }
}
