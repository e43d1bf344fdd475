//! Requests that a script sends through its host.
//!
//! The thread of the script never sends HTTP: the host's runtime sends the requests, and the script receives responses
//! when it has no other work.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

/// The maximum number of requests of one script.
pub const REQUESTS_MAX: usize = 50;
/// The maximum number of requests of one script in flight; the others wait.
pub const REQUESTS_IN_FLIGHT_MAX: usize = 6;
/// Bytes of a body that a script sends, and of a body that it receives.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of an address, and of all headers of a request.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Sends requests for scripts. The implementation decides which addresses are permitted; the number and the size of
/// requests are limited here.
pub trait Fetch: Send + Sync {
    fn fetch(&self, request: FetchRequest) -> FetchFuture;
}

/// Resolves to the response, or to the reason why there is none.
pub type FetchFuture = Pin<Box<dyn Future<Output = Result<FetchResponse, String>> + Send>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// The remaining time of the script.
    pub timeout: Duration,
    /// A longer response is an error.
    pub max_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse {
    pub status: u16,
    /// The URL after all redirects.
    pub url: String,
    /// Names are lowercase.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The result of a request, with its number.
pub(crate) type Arrival = (usize, Result<FetchResponse, String>);

/// The requests of one script.
pub(crate) struct Exchange {
    fetch: Arc<dyn Fetch>,
    host: Handle,
    deadline: Instant,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    made: usize,
    waiting: VecDeque<(usize, FetchRequest)>,
    /// **Invariant**: at most six requests of a script are in flight, and none after its end.
    in_flight: BTreeMap<usize, AbortHandle>,
    arrived: VecDeque<Arrival>,
    has_ended: bool,
}

impl Exchange {
    pub(crate) fn new(fetch: Arc<dyn Fetch>, host: Handle, deadline: Instant) -> Arc<Self> {
        Arc::new(Self { fetch, host, deadline, state: Mutex::default(), wake: Condvar::new() })
    }

    /// Sends a request, now or when others have ended. Its number is returned with the response.
    pub(crate) fn ask(
        self: &Arc<Self>,
        method: String,
        url: String,
        headers: Vec<(String, String)>,
        body: String,
    ) -> Result<usize, String> {
        let head = url.len() + headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if head > HEAD_BYTES_MAX {
            return Err(format!("address and headers have more than {} KiB", HEAD_BYTES_MAX / 1024));
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(format!("the body has more than {} KiB", BODY_BYTES_MAX / 1024));
        }
        let mut state = self.state();
        if state.made == REQUESTS_MAX {
            return Err(format!("a script sends at most {REQUESTS_MAX} requests"));
        }
        state.made += 1;
        let id = state.made;
        let request = FetchRequest { method, url, headers, body, timeout: Duration::ZERO, max_bytes: BODY_BYTES_MAX };
        if state.in_flight.len() < REQUESTS_IN_FLIGHT_MAX {
            self.send(&mut state, id, request);
        } else {
            state.waiting.push_back((id, request));
        }
        Ok(id)
    }

    /// Whether no response can arrive.
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.state();
        state.in_flight.is_empty() && state.arrived.is_empty()
    }

    /// The next response; `None` when the script has ended, by its deadline or because its caller no longer waits.
    pub(crate) fn next(&self) -> Option<Arrival> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let must_wait = |state: &mut State| state.arrived.is_empty() && !state.has_ended;
        let waited = self.wake.wait_timeout_while(self.state(), left, must_wait);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.arrived.pop_front()
    }

    /// Ends all requests in progress.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.has_ended = true;
        state.waiting.clear();
        state.arrived.clear();
        for task in std::mem::take(&mut state.in_flight).into_values() {
            task.abort();
        }
        self.wake.notify_all();
    }

    fn send(self: &Arc<Self>, state: &mut State, id: usize, request: FetchRequest) {
        if state.has_ended {
            return;
        }
        let exchange = Arc::clone(self);
        let task = self.host.spawn(async move {
            let timeout = exchange.deadline.saturating_duration_since(Instant::now());
            let answer = exchange.fetch.fetch(FetchRequest { timeout, ..request });
            // After the deadline no caller waits for the result.
            if let Ok(answer) = tokio::time::timeout(timeout, answer).await {
                exchange.complete(id, answer);
            }
        });
        state.in_flight.insert(id, task.abort_handle());
    }

    fn complete(self: &Arc<Self>, id: usize, answer: Result<FetchResponse, String>) {
        let mut state = self.state();
        if state.in_flight.remove(&id).is_none() {
            return;
        }
        let answer = answer.and_then(|response| match response.body.len() {
            ..=BODY_BYTES_MAX => Ok(response),
            _ => Err(format!("the response has more than {} KiB", BODY_BYTES_MAX / 1024)),
        });
        state.arrived.push_back((id, answer));
        if let Some((id, request)) = state.waiting.pop_front() {
            self.send(&mut state, id, request);
        }
        self.wake.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
