//! Serves the keys of an identity provider.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The response of the server to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssuerMode {
    /// It answers with its keys.
    Serve,
    /// It answers 500.
    Fail,
    /// It accepts the connection and never answers.
    Hang,
}

/// An identity provider on this machine. It stops when it is dropped.
pub struct Issuer {
    url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    keys: Mutex<Vec<Value>>,
    mode: Mutex<IssuerMode>,
    requests: AtomicUsize,
}

impl Issuer {
    /// Starts to serve these keys, each a JSON Web Key.
    pub async fn start(keys: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("the listener has an address"));
        let shared = Arc::new(Shared {
            keys: Mutex::new(keys),
            mode: Mutex::new(IssuerMode::Serve),
            requests: AtomicUsize::new(0),
        });
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Self { url, shared, serving }
    }

    /// The `iss` of its tokens.
    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn jwks_url(&self) -> String {
        format!("{}/jwks.json", self.url)
    }

    /// Serves other keys from now on.
    pub fn rotate(&self, keys: Vec<Value>) {
        *self.shared.keys.lock().expect("no holder of the lock panics") = keys;
    }

    pub fn set_mode(&self, mode: IssuerMode) {
        *self.shared.mode.lock().expect("no holder of the lock panics") = mode;
    }

    /// Accepts no more connections.
    pub fn stop(&self) {
        self.serving.abort();
    }

    /// How often its keys were asked for.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((connection, _)) = listener.accept().await {
        tokio::spawn(answer(connection, Arc::clone(&shared)));
    }
}

/// Answers one request and closes the connection. A client that disconnects early is not an error here.
async fn answer(mut connection: TcpStream, shared: Arc<Shared>) {
    let mut request = Vec::new();
    let mut buffer = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match connection.read(&mut buffer).await {
            Ok(length) if length > 0 => request.extend_from_slice(&buffer[..length]),
            _ => return,
        }
    }
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let mode = *shared.mode.lock().expect("no holder of the lock panics");
    let (status, body) = match mode {
        IssuerMode::Hang => return std::future::pending().await,
        IssuerMode::Fail => ("500 Internal Server Error", String::new()),
        IssuerMode::Serve => {
            let keys = shared.keys.lock().expect("no holder of the lock panics").clone();
            ("200 OK", json!({ "keys": keys }).to_string())
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = connection.write_all(format!("{head}{body}").as_bytes()).await;
}
