//! Accepts connections, whose number is bounded. An idle connection is closed, because it may belong to a client
//! without an API key.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

use super::connections::{ConnectionPlace, Connections};
use super::framing::FollowedStream;
use super::problem::Problem;

/// Connections that wait to be accepted. The system drops the first packet of a connection beyond this number, and its
/// client repeats the packet only after a second. Linux reduces the number to `net.core.somaxconn`, 4,096 by default.
const WAITING_CONNECTIONS_MAX: u32 = 4_096;
/// The timeout of reading a request's headers, and of an idle connection between two requests.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause after a connection could not be accepted.
const ACCEPT_RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Refused connections are logged at most this often.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The address of the client or the proxy at the other end of a connection. Each request carries it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) IpAddr);

/// Listens at an address. Many clients that connect at the same moment do not delay the others.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A server that is started again takes its port, also while old connections to it are closing.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(WAITING_CONNECTIONS_MAX)
}

/// Serves HTTP/1 until `stop` is ready, then finishes the requests in progress.
///
/// Both futures are boxed so that this crate compiles the code of connections. A generic or async function would be
/// compiled again in each crate that serves.
pub(crate) fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    stop: BoxFuture<'static, ()>,
) -> BoxFuture<'static, io::Result<()>> {
    Box::pin(serve_with_timeout(listener, router, connections_max, CLIENT_TIMEOUT, stop))
}

async fn serve_with_timeout(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    timeout: Duration,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let connections = Connections::new(connections_max);
    let mut warned_at = None;
    let is_stopping = watch::Sender::new(false);
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        match accepted {
            Ok((stream, address)) => {
                // A response must not wait for the client's acknowledgement of its first part.
                let _ = stream.set_nodelay(true);
                let Some(place) = connections.enter() else {
                    refuse(&stream);
                    warn_of_refusal(&mut warned_at, connections_max);
                    continue;
                };
                let peer = PeerAddress(address.ip().to_canonical());
                tokio::spawn(attend(stream, peer, place, router.clone(), timeout, is_stopping.subscribe()));
            }
            // The client has already disconnected.
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_RETRY_PAUSE).await;
            }
        }
    }
    drop(listener);
    is_stopping.send_replace(true);
    // Every connection has a receiver.
    is_stopping.closed().await;
    Ok(())
}

/// Serves one connection.
async fn attend(
    stream: TcpStream,
    peer: PeerAddress,
    place: Arc<ConnectionPlace>,
    router: Router,
    timeout: Duration,
    mut is_stopping: watch::Receiver<bool>,
) {
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(timeout);
    let (stream, framing) = FollowedStream::new(stream, Arc::clone(&place));
    let router = TowerToHyperService::new(router);
    let served = Arc::clone(&place);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (framing, place) = (framing.clone(), Arc::clone(&served));
        request.extensions_mut().insert(peer);
        let is_ambiguous = framing.is_next_ambiguous();
        let answering = (place.begin() && !is_ambiguous).then(|| router.call(request));
        async move {
            let Some(answering) = answering else {
                return Ok(if is_ambiguous { ambiguous_length() } else { closing() });
            };
            let response = answering.await?;
            if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                // The connection is busy until it ends.
                framing.end();
                return Ok(response);
            }
            Ok::<_, Infallible>(place.end(response))
        }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection.with_upgrades());
    tokio::select! {
        // Errors of a connection are the client's.
        _ = connection.as_mut() => return,
        // Its place is needed for another connection.
        () = place.evicted() => return,
        // The server has ended, which means the same.
        _ = is_stopping.wait_for(|is_stopping| *is_stopping) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

/// The response to a request with two statements of its length. hyper closes the connection after it.
fn ambiguous_length() -> Response {
    let detail = "the request has both Content-Length and Transfer-Encoding";
    let problem = Problem::invalid(detail).hint("send one of the two headers");
    ([(header::CONNECTION, "close")], problem).into_response()
}

/// The response to a request on a connection that is being closed. The client may not receive it.
fn closing() -> Response {
    let problem = Problem::unavailable("the connection was idle, and is closed; nothing was done");
    ([(header::CONNECTION, "close")], problem).into_response()
}

/// Answers a connection for which there is no place, if its client reads.
fn refuse(stream: &TcpStream) {
    let body = r#"{"type":"about:blank","status":503,"code":"UNAVAILABLE","detail":"the server has its maximum number of open connections"}"#;
    let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n";
    // The client may have disconnected.
    let _ = stream.try_write(format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes());
}

fn warn_of_refusal(warned_at: &mut Option<Instant>, connections_max: usize) {
    if warned_at.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
        tracing::warn!(
            connections_max,
            "connections are refused: all are busy; raise the limit of open files, or EVERSTEP_MAX_CONNECTIONS"
        );
        *warned_at = Some(Instant::now());
    }
}

fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use axum::routing;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;

    use super::*;

    const SHORT_TIMEOUT: Duration = Duration::from_millis(50);

    async fn start(timeout: Duration) -> (TcpStream, oneshot::Sender<()>, tokio::task::JoinHandle<io::Result<()>>) {
        let (address, running, serving) = start_with(timeout, 100).await;
        (TcpStream::connect(address).await.unwrap(), running, serving)
    }

    async fn start_with(
        timeout: Duration,
        connections_max: usize,
    ) -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (running, stopped) = oneshot::channel::<()>();
        let router = Router::new().route("/", routing::get(async || "here").post(async |body: String| body));
        let router = router.route("/never", routing::get(std::future::pending::<String>));
        let serving = tokio::spawn(serve_with_timeout(listener, router, connections_max, timeout, async {
            let _ = stopped.await;
        }));
        (address, running, serving)
    }

    #[tokio::test]
    async fn the_oldest_idle_connection_makes_room_for_a_new_one() {
        let (address, _running, _) = start_with(CLIENT_TIMEOUT, 2).await;
        let request = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").into_bytes();
        let mut first = TcpStream::connect(address).await.unwrap();
        let mut busy = TcpStream::connect(address).await.unwrap();
        busy.write_all(&request("/never")).await.unwrap();
        let mut answer = [0; 12];
        for _ in 0..3 {
            let mut next = TcpStream::connect(address).await.unwrap();
            next.write_all(&request("/")).await.unwrap();
            next.read_exact(&mut answer).await.unwrap();
            assert_eq!(&answer, b"HTTP/1.1 200");
            assert_eq!(first.read_to_end(&mut Vec::new()).await.unwrap_or_default(), 0, "it is closed");
            first = next;
            // The rest of the response.
            while first.try_read(&mut [0; 1_024]).is_ok_and(|read| read > 0) {}
        }
        // Both places are busy.
        first.write_all(&request("/never")).await.unwrap();
        let mut refused = String::new();
        for _ in 0..1_000 {
            refused.clear();
            let mut next = TcpStream::connect(address).await.unwrap();
            let _ = next.read_to_string(&mut refused).await;
            if refused.starts_with("HTTP/1.1 503") {
                return;
            }
        }
        panic!("a connection without a place is refused: {refused}");
    }

    #[tokio::test]
    async fn a_silent_connection_is_closed() {
        for beginning in ["", "G", "GET / HTTP/1.1\r\nhost: a\r\nx: y"] {
            let (mut client, _running, _) = start(SHORT_TIMEOUT).await;
            client.write_all(beginning.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert!(!answer.starts_with(b"HTTP/1.1 2"), "{beginning:?}");
        }
    }

    #[tokio::test]
    async fn a_request_with_content_length_and_transfer_encoding_is_refused() {
        let (length, encoding) = ("Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n");
        for headers in [[length, encoding], [encoding, length]] {
            let (mut client, _running, _) = start(CLIENT_TIMEOUT).await;
            // The first request is served, and the second is not taken for its body.
            let request = format!("POST / HTTP/1.1\r\nhost: a\r\n{}\r\n0\r\n\r\n", headers.concat());
            let text = format!("GET / HTTP/1.1\r\nhost: a\r\n\r\n{request}GET / HTTP/1.1\r\nhost: a\r\n\r\n");
            client.write_all(text.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            let (first, second) = answer.split_at(answer.rfind("HTTP/1.1").unwrap());
            assert!(first.starts_with("HTTP/1.1 200") && first.ends_with("here"), "{answer}");
            assert!(second.starts_with("HTTP/1.1 400") && second.contains("VALIDATION_ERROR"), "{answer}");
            assert!(second.to_ascii_lowercase().contains("connection: close"), "{answer}");
        }
    }

    #[tokio::test]
    async fn a_request_in_chunks_is_served() {
        let (mut client, _running, _) = start(CLIENT_TIMEOUT).await;
        let request = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n";
        let body = "\r\n4\r\nGET \r\n0\r\n\r\n";
        client.write_all(format!("{request}{body}{request}connection: close\r\n{body}").as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer.matches("HTTP/1.1 200").count(), 2, "{answer}");
        assert!(answer.ends_with("GET "), "{answer}");
    }

    #[tokio::test]
    async fn a_connection_that_rests_after_its_request_is_closed() {
        let (mut client, _running, _) = start(SHORT_TIMEOUT).await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
    }

    #[tokio::test]
    async fn a_stopping_server_does_not_wait_for_idle_connections() {
        let (mut client, running, serving) = start(CLIENT_TIMEOUT).await;
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = [0; 12];
        client.read_exact(&mut answer).await.unwrap();
        drop(running);
        serving.await.unwrap().unwrap();
    }
}
