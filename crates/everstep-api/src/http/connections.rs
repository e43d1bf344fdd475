//! The open connections of a listener, whose number is bounded: each is a file of the process.
//!
//! 1. A connection is idle before its first request and between two requests. A connection whose response is a stream,
//!    or that speaks another protocol, is not idle.
//! 2. If the maximum is reached, the connection that has been idle for the longest time is closed for a new one. No
//!    request of it is lost: a request that arrives at the same time is not executed.
//! 3. If none is idle, the new connection is refused.
//!
//! **Invariant:** a request on a connection that is being closed for another one is not executed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

/// The connections of one listener.
pub(super) struct Connections {
    count_max: usize,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    count: usize,
    /// Numbers the beginnings of idle times.
    last_number: u64,
    /// The idle connections, by the number of the beginning of their idle time: the oldest is first.
    idle: BTreeMap<u64, Arc<Notify>>,
}

/// The place of an open connection. Dropping it frees the place.
pub(super) struct ConnectionPlace {
    connections: Arc<Connections>,
    /// The number of its idle time; none while it is busy.
    idle: Mutex<Option<u64>>,
    /// Notified when the connection must close.
    evicted: Arc<Notify>,
}

impl Connections {
    pub(super) fn new(count_max: usize) -> Arc<Self> {
        Arc::new(Self { count_max, open: Mutex::default() })
    }

    /// The place of a new connection, which is idle. Returns none if all places are taken by busy connections.
    pub(super) fn enter(self: &Arc<Self>) -> Option<Arc<ConnectionPlace>> {
        let mut open = self.open();
        if open.count >= self.count_max {
            let (_, evicted) = open.idle.pop_first()?;
            evicted.notify_one();
        }
        open.count += 1;
        let evicted: Arc<Notify> = Arc::default();
        let idle = Mutex::new(Some(open.rest(&evicted)));
        drop(open);
        Some(Arc::new(ConnectionPlace { connections: Arc::clone(self), idle, evicted }))
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("no holder of the lock panics")
    }
}

impl Open {
    /// Begins an idle time.
    fn rest(&mut self, evicted: &Arc<Notify>) -> u64 {
        self.last_number += 1;
        self.idle.insert(self.last_number, Arc::clone(evicted));
        self.last_number
    }
}

impl ConnectionPlace {
    /// Waits until the connection must close.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// A request begins. Returns false if the connection is being closed: the request must not be executed.
    pub(super) fn begin(&self) -> bool {
        let mut open = self.connections.open();
        self.idle().take().is_none_or(|number| open.idle.remove(&number).is_some())
    }

    /// Makes the connection idle when the response has been sent. A response of known length is sent at once.
    pub(super) fn end(self: &Arc<Self>, response: Response) -> Response {
        if response.body().size_hint().exact().is_some() {
            self.rest();
            return response;
        }
        let place = RestAtEnd(Arc::clone(self));
        response.map(|body| Body::new(PlacedBody { body, _place: place }))
    }

    fn rest(&self) {
        let mut open = self.connections.open();
        *self.idle() = Some(open.rest(&self.evicted));
    }

    fn idle(&self) -> MutexGuard<'_, Option<u64>> {
        self.idle.lock().expect("no holder of the lock panics")
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut open = self.connections.open();
        open.count -= 1;
        if let Some(number) = self.idle().take() {
            open.idle.remove(&number);
        }
    }
}

/// A streamed body of a response. The connection is idle after it.
struct PlacedBody {
    body: Body,
    _place: RestAtEnd,
}

struct RestAtEnd(Arc<ConnectionPlace>);

impl Drop for RestAtEnd {
    fn drop(&mut self) {
        self.0.rest();
    }
}

impl HttpBody for PlacedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_connection_that_is_idle_for_the_longest_time_is_closed() {
        let connections = Connections::new(2);
        let (first, second) = (connections.enter().unwrap(), connections.enter().unwrap());
        // The first one serves a request, so that the second one is idle for longer.
        assert!(first.begin());
        first.end(Response::new(Body::from("text")));
        let third = connections.enter().unwrap();
        second.evicted().await;
        assert!(!second.begin(), "it executes no request");
        drop(second);
        assert!(first.begin() && third.begin());
        assert!(connections.enter().is_none(), "none is idle");
        // A stream is busy until its end.
        let stream = futures_util::stream::pending::<Result<Bytes, std::io::Error>>();
        let response = third.end(Response::new(Body::from_stream(stream)));
        assert!(connections.enter().is_none());
        drop(response);
        assert!(connections.enter().is_some());
        third.evicted().await;
        drop((first, third));
        let open = connections.open();
        assert_eq!((open.count, open.idle.len()), (0, 0));
    }
}
