//! Connects to a host without HTTP: a database.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::error::Error;
use crate::guard::Guard;

/// Connects to a host, by name or by address, if one of its addresses is permitted and accepts the connection. Also
/// returns the address: a second connection to the same place needs no name resolution.
pub async fn dial(guard: &Guard, host: &str, port: u16) -> Result<(TcpStream, SocketAddr), Error> {
    let found = tokio::net::lookup_host((host, port)).await.map_err(|_| Error::Unresolved(host.to_owned()))?;
    let found: Vec<SocketAddr> = found.collect();
    let permitted: Vec<SocketAddr> = found.iter().copied().filter(|address| guard.permits(address.ip())).collect();
    if found.is_empty() {
        return Err(Error::Unresolved(host.to_owned()));
    }
    if permitted.is_empty() {
        tracing::info!(host, addresses = ?found, "blocked a connection to a private address");
        return Err(Error::Refused { host: host.to_owned() });
    }
    let mut failure = None;
    for address in permitted {
        match TcpStream::connect(address).await.and_then(without_delay) {
            Ok(stream) => return Ok((stream, address)),
            Err(error) => failure = Some(error),
        }
    }
    let reason = failure.map_or_else(|| "no address accepted the connection".to_owned(), |error| error.to_string());
    Err(Error::Unreachable { host: format!("{host}:{port}"), reason })
}

fn without_delay(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nodelay(true)?;
    Ok(stream)
}
