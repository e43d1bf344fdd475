//! The batcher: sends the requests of many callers to the database, many in one call.
//!
//! The order of events:
//!
//! 1. It blocks for the first request and takes all others that are queued, workspaces in turn, up to a number and a
//!    size: no timer, no minimum size. A request whose caller has stopped waiting is dropped here.
//! 2. It sends the batch, and no other one until every request of it is answered.
//! 3. If the outcome of a batch is unknown, it sends the same batch again. So a request must be recognised by the
//!    database when it arrives twice.
//! 4. If the database rejects a batch, it splits the batch until the request that causes this is alone. The others are
//!    not affected.
//! 5. If the database was not able to carry out a request because of another node, the batcher sends it again at once,
//!    with the requests that have been queued since.
//! 6. If the disk is full, requests that do not wait for space are rejected, those that are queued as well; the others
//!    are sent again.
//! 7. While nothing may be sent, requests wait. Those whose callers stop waiting are dropped.
//! 8. When it stops, the batch in flight is answered, and requests that were not sent are dropped.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use everstep_core::ids::WorkspaceId;
use everstep_core::planted::{self, Bug};
use everstep_store::Error;
use futures_util::future::{self, BoxFuture, Either};
use tokio::sync::{mpsc, watch};

use crate::node::clock::NodeClock;
use crate::workspace_queue::WorkspaceQueue;

const RESEND_DELAY_MIN: Duration = Duration::from_millis(20);
const RESEND_DELAY_MAX: Duration = Duration::from_secs(1);
/// How often a batcher checks whether it may send again.
const PERMISSION_INTERVAL: Duration = Duration::from_millis(50);

/// What a batcher sends, and to where.
pub(crate) trait BatchPort: Send + Sync {
    type Request: Send;
    type Answer: Send;

    /// Sends a batch. Returns the answers in the order of the requests. A request without an answer was not carried
    /// out, and is sent again.
    fn send<'a>(
        &'a self,
        batch: &'a mut [Self::Request],
    ) -> BoxFuture<'a, everstep_store::Result<Vec<Option<Self::Answer>>>>;

    /// Passes the answer to the caller of a request.
    fn answer(&self, request: Self::Request, answer: Result<Self::Answer, Rejection>);

    fn workspace(&self, request: &Self::Request) -> WorkspaceId;

    /// The bytes that a request adds to a batch.
    fn size(&self, request: &Self::Request) -> usize;

    /// Whether the caller of a request still waits for the answer.
    fn is_wanted(&self, request: &Self::Request) -> bool;

    /// Whether a request waits while the disk is full.
    fn waits_for_space(&self, request: &Self::Request) -> bool;

    /// Whether anything may be sent now.
    fn may_send(&self) -> bool;
}

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The database rejects its data.
    Refused(String),
    /// There is no space.
    Full(String),
    /// The database cannot read what the request needs.
    Unreadable(String),
}

/// The bounds of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchBounds {
    pub(crate) requests_max: usize,
    pub(crate) bytes_max: usize,
}

pub(crate) struct Batcher<P: BatchPort> {
    /// For log lines: the requests.
    name: &'static str,
    port: P,
    clock: Arc<NodeClock>,
    requests: mpsc::Receiver<P::Request>,
    /// Received, and not yet sent.
    waiting: WorkspaceQueue<P::Request>,
    bounds: BatchBounds,
}

impl<P: BatchPort> Batcher<P> {
    pub(crate) fn new(
        name: &'static str,
        port: P,
        clock: Arc<NodeClock>,
        requests: mpsc::Receiver<P::Request>,
        bounds: BatchBounds,
    ) -> Self {
        Self { name, port, clock, requests, waiting: WorkspaceQueue::default(), bounds }
    }

    /// Runs until no caller is left, or until it must stop. It answers the batch that is in flight then; requests
    /// that were not sent are dropped.
    pub(crate) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        loop {
            let next = {
                // A closed channel is a stop as well.
                let stopped = pin!(stopping.wait_for(|is_stopping| *is_stopping));
                match future::select(stopped, pin!(self.next())).await {
                    Either::Left(_) => None,
                    Either::Right((next, _)) => next,
                }
            };
            let Some(batch) = next else { return };
            self.write(batch).await;
        }
    }

    /// The next batch; none if no caller is left. A wait for it can be given up without the loss of a request.
    async fn next(&mut self) -> Option<Vec<P::Request>> {
        loop {
            if self.waiting.is_empty() && !self.receive().await {
                return None;
            }
            if !self.port.may_send() {
                self.clock.sleep(PERMISSION_INTERVAL).await;
                self.waiting.retain(|request| self.port.is_wanted(request));
                continue;
            }
            self.receive_queued();
            let batch = self.next_batch();
            if !batch.is_empty() {
                return Some(batch);
            }
        }
    }

    /// Waits for a request, and takes those that are queued behind it.
    async fn receive(&mut self) -> bool {
        let mut received = Vec::new();
        let count = self.requests.recv_many(&mut received, self.bounds.requests_max).await;
        received.into_iter().for_each(|request| self.push(request));
        count > 0
    }

    /// Takes the requests that were queued while the batcher waited: one behind many of another workspace may be next.
    fn receive_queued(&mut self) {
        while self.waiting.len() < self.requests.max_capacity() {
            let Ok(request) = self.requests.try_recv() else {
                return;
            };
            self.push(request);
        }
    }

    fn push(&mut self, request: P::Request) {
        self.waiting.push_back(self.port.workspace(&request), request);
    }

    /// The requests of the next batch: at least one, unless their callers have stopped waiting.
    fn next_batch(&mut self) -> Vec<P::Request> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some(request) = self.waiting.front() {
            if !self.port.is_wanted(request) {
                self.waiting.pop_front();
                continue;
            }
            bytes += self.port.size(request);
            let is_full = batch.len() == self.bounds.requests_max || bytes > self.bounds.bytes_max;
            if is_full && !batch.is_empty() {
                break;
            }
            batch.extend(self.waiting.pop_front());
        }
        batch
    }

    /// Sends one batch. Returns when every request is answered.
    async fn write(&mut self, batch: Vec<P::Request>) {
        let mut batches = vec![batch];
        let mut is_unknown = false;
        let mut delay = RESEND_DELAY_MIN;
        while !batches.is_empty() {
            // Before each call: the permission may have ended while another part of the batch was written.
            while !self.port.may_send() {
                if !batches.iter().flatten().any(|request| self.port.is_wanted(request)) {
                    return;
                }
                self.clock.sleep(PERMISSION_INTERVAL).await;
            }
            let Some(mut batch) = batches.pop() else { return };
            match self.port.send(&mut batch).await {
                Ok(answers) => {
                    let mut again = Vec::new();
                    for (request, answer) in batch.into_iter().zip(answers) {
                        match answer {
                            Some(answer) => self.port.answer(request, Ok(answer)),
                            None => again.push(request),
                        }
                    }
                    if !is_unknown {
                        // Together with those that have been queued since.
                        for request in again.into_iter().rev() {
                            self.waiting.push_front(self.port.workspace(&request), request);
                        }
                    } else if !again.is_empty() {
                        batches.push(again);
                    }
                    continue;
                }
                Err(Error::Full(message)) => {
                    // A request that may have been carried out is not rejected.
                    if !is_unknown {
                        batch = self.reject_for_space(batch, &message);
                    }
                    self.reject_waiting(&message);
                    if batch.is_empty() {
                        continue;
                    }
                    tracing::warn!(
                        message,
                        requests = self.name,
                        "the disk is full; new requests are rejected and accepted work waits; free some disk space"
                    );
                    batches.push(batch);
                }
                Err(error) if error.is_transient() && planted::is_planted(Bug::UnknownOpGivenUp) => {
                    for request in batch {
                        self.port.answer(request, Err(Rejection::Unreadable(error.to_string())));
                    }
                    continue;
                }
                Err(error) if error.is_transient() => {
                    tracing::warn!(%error, requests = self.name, count = batch.len(), "a batch failed; sending it again");
                    is_unknown = true;
                    batches.push(batch);
                }
                Err(error) => {
                    if batch.len() > 1 {
                        batches.push(batch.split_off(batch.len() / 2));
                        batches.push(batch);
                        continue;
                    }
                    let rejection = match error {
                        Error::Refused(message) => Rejection::Refused(message),
                        error => Rejection::Unreadable(error.to_string()),
                    };
                    for request in batch {
                        self.port.answer(request, Err(rejection.clone()));
                    }
                    continue;
                }
            }
            self.clock.sleep(delay).await;
            delay = (delay * 2).min(RESEND_DELAY_MAX);
        }
    }

    /// Rejects the requests that do not wait for space. Returns the others.
    fn reject_for_space(&self, requests: Vec<P::Request>, message: &str) -> Vec<P::Request> {
        let (patient, rejected): (Vec<_>, Vec<_>) =
            requests.into_iter().partition(|request| self.port.waits_for_space(request));
        for request in rejected {
            self.port.answer(request, Err(Rejection::Full(message.to_owned())));
        }
        patient
    }

    /// Rejects the queued requests that do not wait for space.
    fn reject_waiting(&mut self, message: &str) {
        self.receive_queued();
        let waiting = std::iter::from_fn(|| self.waiting.pop_front()).collect();
        let patient = self.reject_for_space(waiting, message);
        patient.into_iter().for_each(|request| self.push(request));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use everstep_core::time::Timestamp;
    use everstep_store::Result;
    use tokio::sync::oneshot;

    use super::*;
    use crate::ports::{BoxFuture as ClockFuture, Clock};

    /// A clock whose sleeps end at once.
    struct Restless;

    impl Clock for Restless {
        fn monotonic(&self) -> Duration {
            Duration::ZERO
        }

        fn wall(&self) -> Timestamp {
            Timestamp::EPOCH
        }

        fn sleep(&self, _: Duration) -> ClockFuture {
            Box::pin(std::future::ready(()))
        }
    }

    struct Request {
        number: u32,
        bytes: usize,
        waits: bool,
        reply: oneshot::Sender<std::result::Result<u32, Rejection>>,
    }

    /// Answers a request with its number, unless a script has an error for the call.
    #[derive(Default)]
    struct Database {
        script: Mutex<VecDeque<Option<Error>>>,
        sent: Mutex<Vec<Vec<u32>>>,
        refused: Vec<u32>,
        /// Requests that are not carried out the first time.
        hindered: Mutex<Vec<u32>>,
        /// How often permission to send is still refused.
        forbidden: Mutex<u32>,
        /// How often it is refused after an error.
        forbidden_after_error: u32,
    }

    impl BatchPort for Arc<Database> {
        type Request = Request;
        type Answer = u32;

        fn send<'a>(&'a self, batch: &'a mut [Request]) -> BoxFuture<'a, Result<Vec<Option<u32>>>> {
            Box::pin(async {
                assert_eq!(*self.forbidden.lock().unwrap(), 0, "nothing may be sent");
                let numbers: Vec<_> = batch.iter().map(|request| request.number).collect();
                self.sent.lock().unwrap().push(numbers.clone());
                match self.script.lock().unwrap().pop_front().flatten() {
                    Some(error) => {
                        *self.forbidden.lock().unwrap() = self.forbidden_after_error;
                        Err(error)
                    }
                    None if numbers.iter().any(|number| self.refused.contains(number)) => {
                        Err(Error::Refused("no".to_owned()))
                    }
                    None => {
                        let mut hindered = self.hindered.lock().unwrap();
                        let is_first = |number: &u32| hindered.contains(number);
                        let answers = numbers.iter().map(|number| (!is_first(number)).then_some(*number)).collect();
                        hindered.retain(|number| !numbers.contains(number));
                        Ok(answers)
                    }
                }
            })
        }

        fn answer(&self, request: Request, answer: std::result::Result<u32, Rejection>) {
            let _ = request.reply.send(answer);
        }

        /// Numbers from 100 on belong to another workspace.
        fn workspace(&self, request: &Request) -> WorkspaceId {
            WorkspaceId::new(Timestamp::EPOCH, u128::from(request.number / 100))
        }

        fn size(&self, request: &Request) -> usize {
            request.bytes
        }

        fn is_wanted(&self, request: &Request) -> bool {
            !request.reply.is_closed()
        }

        fn waits_for_space(&self, request: &Request) -> bool {
            request.waits
        }

        fn may_send(&self) -> bool {
            let mut forbidden = self.forbidden.lock().unwrap();
            *forbidden = forbidden.saturating_sub(1);
            *forbidden == 0
        }
    }

    type Reply = oneshot::Receiver<std::result::Result<u32, Rejection>>;

    fn request(number: u32, bytes: usize, waits: bool) -> (Request, Reply) {
        let (reply, answer) = oneshot::channel();
        (Request { number, bytes, waits, reply }, answer)
    }

    async fn run(batcher: Batcher<Arc<Database>>) {
        let stopping = watch::Sender::new(false);
        batcher.run(stopping.subscribe()).await;
    }

    /// Sends requests that are all queued at the beginning. Returns what was sent, and the answers.
    async fn play(
        database: Database,
        requests: Vec<(Request, Reply)>,
    ) -> (Vec<Vec<u32>>, Vec<Option<std::result::Result<u32, Rejection>>>) {
        let database = Arc::new(database);
        let (sender, receiver) = mpsc::channel(100);
        let mut replies = Vec::new();
        for (request, reply) in requests {
            assert!(sender.try_send(request).is_ok());
            replies.push(reply);
        }
        drop(sender);
        let clock = Arc::new(NodeClock::new(Arc::new(Restless)));
        let bounds = BatchBounds { requests_max: 4, bytes_max: 100 };
        run(Batcher::new("requests", Arc::clone(&database), clock, receiver, bounds)).await;
        let mut answers = Vec::new();
        for reply in replies {
            answers.push(reply.await.ok());
        }
        let sent = database.sent.lock().unwrap().clone();
        (sent, answers)
    }

    fn full() -> Option<Error> {
        Some(Error::Full("no space".to_owned()))
    }

    #[tokio::test]
    async fn queued_requests_are_sent_together_up_to_a_number_and_a_size() {
        let requests = [10, 10, 10, 10, 10, 90, 500, 1].into_iter().zip(0..);
        let requests = requests.map(|(bytes, number)| request(number, bytes, true)).collect();
        let (sent, answers) = play(Database::default(), requests).await;
        assert_eq!(sent, [vec![0, 1, 2, 3], vec![4, 5], vec![6], vec![7]]);
        assert!((0..).zip(&answers).all(|(number, answer)| *answer == Some(Ok(number))));
    }

    #[tokio::test]
    async fn a_request_does_not_wait_behind_many_of_another_workspace() {
        let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 101, 9];
        let requests = numbers.into_iter().map(|number| request(number, 1, false)).collect();
        let (sent, answers) = play(Database::default(), requests).await;
        assert_eq!(sent, [vec![0, 100, 1, 101], vec![2, 3, 4, 5], vec![6, 7, 8, 9]]);
        assert!(numbers.iter().zip(&answers).all(|(number, answer)| *answer == Some(Ok(*number))));
    }

    #[tokio::test]
    async fn a_batch_with_an_unknown_outcome_is_sent_again() {
        let lost = || Some(Error::Unavailable("the connection broke".to_owned()));
        let script = Mutex::new(VecDeque::from([lost(), lost()]));
        let requests = (0..2).map(|number| request(number, 1, false)).collect();
        let (sent, answers) = play(Database { script, ..Database::default() }, requests).await;
        assert_eq!(sent, [vec![0, 1], vec![0, 1], vec![0, 1]]);
        assert_eq!(answers, [Some(Ok(0)), Some(Ok(1))]);
    }

    #[tokio::test]
    async fn a_request_that_another_node_hindered_is_sent_again_with_those_behind_it() {
        let hindered = Mutex::new(vec![1, 3]);
        let requests = (0..6).map(|number| request(number, 1, false)).collect();
        let (sent, answers) = play(Database { hindered, ..Database::default() }, requests).await;
        assert_eq!(sent, [vec![0, 1, 2, 3], vec![1, 3, 4, 5]]);
        assert!((0..).zip(&answers).all(|(number, answer)| *answer == Some(Ok(number))));
    }

    #[tokio::test]
    async fn a_hindered_request_whose_outcome_was_unknown_is_not_rejected_for_space() {
        let lost = Some(Error::Unavailable("the connection broke".to_owned()));
        let script = Mutex::new(VecDeque::from([lost, None, full()]));
        let database = Database { script, hindered: Mutex::new(vec![0]), ..Database::default() };
        let (sent, answers) = play(database, vec![request(0, 1, false)]).await;
        assert_eq!((sent.len(), &answers[..]), (4, &[Some(Ok(0))][..]));
    }

    #[tokio::test]
    async fn a_refused_request_fails_alone() {
        let requests = (0..4).map(|number| request(number, 1, true)).collect();
        let (_, answers) = play(Database { refused: vec![2], ..Database::default() }, requests).await;
        let refused = Some(Err(Rejection::Refused("no".to_owned())));
        assert_eq!(answers, [Some(Ok(0)), Some(Ok(1)), refused, Some(Ok(3))]);
    }

    #[tokio::test]
    async fn an_unreadable_request_does_not_stop_the_others() {
        let corrupt = || Some(Error::Corrupt("codec 9".to_owned()));
        let script = Mutex::new(VecDeque::from([corrupt(), corrupt()]));
        let requests = (0..2).map(|number| request(number, 1, true)).collect();
        let (sent, answers) = play(Database { script, ..Database::default() }, requests).await;
        assert_eq!(sent, [vec![0, 1], vec![0], vec![1]]);
        assert!(matches!(&answers[0], Some(Err(Rejection::Unreadable(reason))) if reason.contains("codec 9")));
        assert_eq!(answers[1], Some(Ok(1)));
    }

    #[tokio::test]
    async fn on_a_full_disk_accepted_work_waits_and_other_requests_are_rejected() {
        let script = Mutex::new(VecDeque::from([full()]));
        let requests = (0..6).map(|number| request(number, 1, number % 2 == 0)).collect();
        let (sent, answers) = play(Database { script, ..Database::default() }, requests).await;
        assert_eq!(sent, [vec![0, 1, 2, 3], vec![0, 2], vec![4]]);
        let rejected = Some(Err(Rejection::Full("no space".to_owned())));
        for (number, answer) in (0..).zip(answers) {
            assert_eq!(answer, if number % 2 == 0 { Some(Ok(number)) } else { rejected.clone() });
        }
    }

    #[tokio::test]
    async fn a_request_that_may_have_been_carried_out_is_not_rejected_for_space() {
        let lost = Some(Error::Unavailable("the connection broke".to_owned()));
        let script = Mutex::new(VecDeque::from([lost, full()]));
        let (sent, answers) = play(Database { script, ..Database::default() }, vec![request(0, 1, false)]).await;
        assert_eq!((sent.len(), &answers[..]), (3, &[Some(Ok(0))][..]));
    }

    #[tokio::test]
    async fn a_request_without_a_caller_is_dropped_before_it_is_sent() {
        let (dropped, reply) = request(0, 1, true);
        drop(reply);
        // A reply that never arrives.
        let (_, no_reply) = request(0, 1, true);
        let (sent, answers) = play(Database::default(), vec![(dropped, no_reply), request(1, 1, true)]).await;
        assert_eq!((sent, answers), (vec![vec![1]], vec![None, Some(Ok(1))]));
    }

    #[tokio::test]
    async fn nothing_is_sent_without_permission() {
        let database = Database { forbidden: Mutex::new(5), ..Database::default() };
        let (sent, answers) = play(database, vec![request(0, 1, true), request(1, 1, true)]).await;
        assert_eq!((sent, &answers[..]), (vec![vec![0, 1]], &[Some(Ok(0)), Some(Ok(1))][..]));
    }

    #[tokio::test]
    async fn nothing_is_sent_again_without_permission() {
        let lost = Some(Error::Unavailable("the connection broke".to_owned()));
        let script = Mutex::new(VecDeque::from([lost]));
        let database = Database { script, forbidden_after_error: 5, ..Database::default() };
        let (sent, answers) = play(database, vec![request(0, 1, true)]).await;
        assert_eq!((sent, &answers[..]), (vec![vec![0], vec![0]], &[Some(Ok(0))][..]));
    }

    #[tokio::test]
    async fn no_part_of_a_split_batch_is_sent_without_permission() {
        let script = Mutex::new(VecDeque::from([Some(Error::Corrupt("codec 9".to_owned()))]));
        let database = Database { script, forbidden_after_error: 5, ..Database::default() };
        let requests = (0..2).map(|number| request(number, 1, true)).collect();
        let (sent, answers) = play(database, requests).await;
        assert_eq!(sent, [vec![0, 1], vec![0], vec![1]]);
        assert_eq!(answers, [Some(Ok(0)), Some(Ok(1))]);
    }

    #[tokio::test]
    async fn requests_that_may_not_be_sent_are_dropped_with_their_callers() {
        // Permission is never given.
        let database = Arc::new(Database { forbidden: Mutex::new(u32::MAX), ..Database::default() });
        let (sender, receiver) = mpsc::channel(100);
        let (waiting, reply) = request(0, 1, true);
        assert!(sender.try_send(waiting).is_ok());
        drop((sender, reply));
        let clock = Arc::new(NodeClock::new(Arc::new(Restless)));
        let bounds = BatchBounds { requests_max: 4, bytes_max: 100 };
        run(Batcher::new("requests", Arc::clone(&database), clock, receiver, bounds)).await;
        assert!(database.sent.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn on_a_full_disk_requests_behind_many_that_wait_are_rejected_too() {
        let script = Mutex::new(VecDeque::from([full()]));
        let requests = (0..20).map(|number| request(number, 1, number < 19)).collect();
        let (sent, answers) = play(Database { script, ..Database::default() }, requests).await;
        assert_eq!(sent[..2], [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!(answers[19], Some(Err(Rejection::Full("no space".to_owned()))));
        assert!((0..19).zip(&answers).all(|(number, answer)| *answer == Some(Ok(number))));
    }
}
