//! One connection to a database.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use everstep_core::failure::Failure;
use everstep_net::Guard;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_postgres::Client;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::Address;
use super::errors;
use crate::sources::net_failure;

/// The timeout of opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes that may arrive for one query. A larger row could not be passed on in any case.
const RESPONSE_BYTES_MAX: i64 = 16 * 1024 * 1024;

/// A connection. Dropping it closes it.
pub(super) struct Connection {
    pub(super) client: Client,
    /// The number of bytes that may still arrive.
    left: Arc<AtomicI64>,
    address: SocketAddr,
    host: String,
    tls: MakeRustlsConnect,
    /// Whether its role is a superuser, as the server has reported.
    pub(super) is_superuser: bool,
    /// When it was last returned to the pool; none for a new one.
    pub(super) rested: Option<Instant>,
}

impl Connection {
    pub(super) async fn open(guard: &Guard, address: Address) -> Result<Self, Failure> {
        let opening = Self::connect(guard, address);
        tokio::time::timeout(CONNECT_TIMEOUT, opening).await.unwrap_or_else(|_| {
            let message = format!("no connection within {} s", CONNECT_TIMEOUT.as_secs());
            Err(Failure::transient(crate::sources::QUERY_ERROR, message))
        })
    }

    async fn connect(guard: &Guard, address: Address) -> Result<Self, Failure> {
        let Address { host, port, config, tls } = address;
        let (stream, address) = everstep_net::dial(guard, &host, port).await.map_err(|error| net_failure(&error))?;
        let left = Arc::new(AtomicI64::new(RESPONSE_BYTES_MAX));
        let stream = Metered { stream, left: Arc::clone(&left) };
        let secured = secure(&tls, &host)?;
        let (client, connection) =
            config.connect_raw(stream, secured).await.map_err(|error| errors::refused(&error))?;
        let is_superuser = connection.parameter("is_superuser") == Some("on");
        if is_superuser {
            tracing::warn!(host, "the role of a data source is a superuser, which can read files and run programs");
        }
        tokio::spawn(async move {
            // The caller that waits for the result is notified as well.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a data source ended");
            }
        });
        Ok(Self { client, left, address, host, tls, is_superuser, rested: None })
    }

    /// Resets the number of bytes that may arrive.
    pub(super) fn begin(&self) {
        self.left.store(RESPONSE_BYTES_MAX, Ordering::Relaxed);
    }

    /// Whether it was closed because too many bytes arrived.
    pub(super) fn is_overrun(&self) -> bool {
        self.left.load(Ordering::Relaxed) < 0
    }

    /// Closes it and asks the server to cancel its statement.
    pub(super) fn cancel(self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let token = self.client.cancel_token();
            let query = async {
                let stream = TcpStream::connect(self.address).await.map_err(|error| error.to_string())?;
                let left = Arc::new(AtomicI64::new(RESPONSE_BYTES_MAX));
                let secured = secure(&self.tls, &self.host).map_err(|failure| failure.message)?;
                let stream = Metered { stream, left };
                token.cancel_query_raw(stream, secured).await.map_err(|error| errors::describe(&error))
            };
            match tokio::time::timeout(CONNECT_TIMEOUT, query).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a statement could not be cancelled"),
                Err(_) => tracing::debug!("a statement could not be cancelled in time"),
            }
        });
    }
}

type Secured = <MakeRustlsConnect as MakeTlsConnect<Metered>>::TlsConnect;

fn secure(tls: &MakeRustlsConnect, host: &str) -> Result<Secured, Failure> {
    let made = MakeTlsConnect::<Metered>::make_tls_connect(&mut tls.clone(), host);
    made.map_err(|error| Failure::fatal(crate::sources::QUERY_ERROR, format!("TLS cannot be used: {error}")))
}

/// A stream with a limit of bytes: a row of a gigabyte must not fill our memory.
struct Metered {
    stream: TcpStream,
    left: Arc<AtomicI64>,
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let came = (buffer.filled().len() - before) as i64;
        if self.left.fetch_sub(came, Ordering::Relaxed) < came {
            return Poll::Ready(Err(io::Error::other("too many bytes arrived")));
        }
        polled
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
