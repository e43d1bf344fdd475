//! Finds requests with two statements of their length.
//!
//! A request with both `Content-Length` and `Transfer-Encoding` can be read in two ways. A proxy that reads it in one
//! way and a server that reads it in the other disagree on where the next request begins, and the body of one client
//! becomes the request of another.
//!
//! hyper removes `Content-Length` before a handler sees the request. This module therefore follows the bytes of a
//! connection, and notes for each request whether it had both headers.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::connections::ConnectionPlace;

/// Bytes of a line that are kept. Only long values of the two headers are longer, and such a request is ambiguous too.
const LINE_BYTES_MAX: usize = 1_024;

/// A connection whose requests are followed.
pub(super) struct FollowedStream {
    stream: TcpStream,
    framing: Framing,
    /// The place of the connection, which it has until it is closed, also when it speaks another protocol.
    _place: Arc<ConnectionPlace>,
}

impl FollowedStream {
    pub(super) fn new(stream: TcpStream, place: Arc<ConnectionPlace>) -> (Self, Framing) {
        let framing = Framing::default();
        (Self { stream, framing: framing.clone(), _place: place }, framing)
    }
}

/// The requests that were read from a connection and not yet served.
#[derive(Clone, Default)]
pub(super) struct Framing(Arc<Mutex<Reader>>);

impl Framing {
    /// Whether the next request to be served has both headers.
    pub(super) fn is_next_ambiguous(&self) -> bool {
        self.reader().heads.pop_front().unwrap_or(false)
    }

    /// The connection speaks another protocol from now on.
    pub(super) fn end(&self) {
        self.reader().place = Place::Elsewhere;
    }

    fn reader(&self) -> MutexGuard<'_, Reader> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

/// Reads requests as hyper does, as far as their lengths are concerned. A request that hyper rejects ends the
/// connection, so the bytes after it are irrelevant.
#[derive(Default)]
struct Reader {
    place: Place,
    line: Vec<u8>,
    head: Head,
    /// Whether each request, in order, has both headers.
    heads: VecDeque<bool>,
}

/// The part of a request that the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Head,
    /// In a body, or a part of it, of which this many bytes remain.
    Body(u64),
    ChunkSize,
    /// In a chunk or the line break after it, of which this many bytes remain.
    Chunk(u64),
    Trailers,
    Elsewhere,
}

#[derive(Default)]
struct Head {
    has_begun: bool,
    is_chunked: bool,
    length: Option<u64>,
    is_too_long: bool,
}

impl Reader {
    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.place {
                Place::Elsewhere => return,
                Place::Body(left) => {
                    let left = skip(&mut bytes, left);
                    self.place = if left == 0 { Place::Head } else { Place::Body(left) };
                }
                Place::Chunk(left) => {
                    let left = skip(&mut bytes, left);
                    self.place = if left == 0 { Place::ChunkSize } else { Place::Chunk(left) };
                }
                Place::Head | Place::ChunkSize | Place::Trailers => {
                    let end = bytes.iter().position(|byte| *byte == b'\n');
                    let part = &bytes[..end.unwrap_or(bytes.len())];
                    let room = LINE_BYTES_MAX.saturating_sub(self.line.len());
                    self.line.extend_from_slice(&part[..part.len().min(room)]);
                    let Some(end) = end else { return };
                    bytes = &bytes[end + 1..];
                    let mut line = std::mem::take(&mut self.line);
                    self.place = self.end_line(&line);
                    line.clear();
                    self.line = line;
                }
            }
        }
    }

    /// Reads a line, and returns the part that the next byte belongs to.
    fn end_line(&mut self, line: &[u8]) -> Place {
        let is_whole = line.len() < LINE_BYTES_MAX;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.place {
            Place::Head if !line.is_empty() => {
                self.head.read(line, is_whole);
                Place::Head
            }
            // Empty lines before a request are ignored.
            Place::Head if !self.head.has_begun => Place::Head,
            Place::Head => {
                let Head { is_chunked, length, is_too_long, .. } = std::mem::take(&mut self.head);
                self.heads.push_back(is_chunked && length.is_some() || is_too_long);
                match length {
                    _ if is_chunked => Place::ChunkSize,
                    Some(length) if length > 0 => Place::Body(length),
                    Some(_) | None => Place::Head,
                }
            }
            Place::ChunkSize => {
                let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                let size = str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
                match size {
                    Some(0) => Place::Trailers,
                    // The line break after the chunk belongs to it.
                    Some(size) => Place::Chunk(size.saturating_add(2)),
                    None => Place::Elsewhere,
                }
            }
            Place::Trailers if !line.is_empty() => Place::Trailers,
            Place::Trailers => Place::Head,
            Place::Body(_) | Place::Chunk(_) | Place::Elsewhere => self.place,
        }
    }
}

impl Head {
    /// Reads the first line of a request, or a header.
    fn read(&mut self, line: &[u8], is_whole: bool) {
        if !self.has_begun {
            self.has_begun = true;
            return;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.is_chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let length = str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            // hyper rejects a value that is not a number.
            self.length = Some(length.unwrap_or(0));
        } else {
            return;
        }
        self.is_too_long |= !is_whole;
    }
}

/// Skips at most `left` bytes, and returns how many of these remain.
fn skip(bytes: &mut &[u8], left: u64) -> u64 {
    let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    *bytes = &bytes[skipped..];
    left - skipped as u64
}

impl AsyncRead for FollowedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buffer);
        this.framing.reader().read(&buffer.filled()[before..]);
        polled
    }
}

impl AsyncWrite for FollowedStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for a text, which must not depend on the sizes of the reads.
    fn find(text: &str) -> Vec<bool> {
        let read = |size: usize| {
            let mut reader = Reader::default();
            text.as_bytes().chunks(size).for_each(|part| reader.read(part));
            Vec::from(reader.heads)
        };
        let found = read(usize::MAX);
        for size in 1..7 {
            assert_eq!(read(size), found, "{text:?} in parts of {size}");
        }
        found
    }

    #[test]
    fn every_request_of_a_connection_is_found() {
        let get = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let sized = "\r\nPOST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nGET /";
        let chunked =
            "POST / HTTP/1.1\nTransfer-Encoding: chunked\n\n5;x=y\r\nGET /\r\nA\r\n0123456789\r\n0\r\nt: 1\r\n\r\n";
        let both = "POST / HTTP/1.1\r\nContent-Length: 3\r\ntransfer-encoding:chunked\r\n\r\n0\r\n\r\n";
        let reversed = "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\nCONTENT-LENGTH:0\r\n\r\n0\r\n\r\n";
        assert_eq!(
            find(&[get, sized, chunked, both, get, reversed].concat()),
            [false, false, false, true, false, true]
        );
        let padded = format!("POST / HTTP/1.1\r\ncontent-length:{}5\r\n\r\n", " ".repeat(2_000));
        assert_eq!(find(&padded), [true]);
        assert_eq!(find("GET / HTTP/1.1\r\nx: content-length: 1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"), [false]);
    }
}
