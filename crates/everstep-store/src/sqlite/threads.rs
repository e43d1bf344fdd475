//! Threads that each own a database and receive calls from a channel.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::sync::oneshot;

use super::database::Database;
use super::disk::MEASURE_PERIOD;
use crate::error::{Error, Result};

type Call = Box<dyn FnOnce(&mut Database) + Send>;

/// Threads, each with a database. The next free thread executes a call, in the order of arrival.
///
/// Dropping it waits until all calls that were sent have finished.
pub(super) struct Threads {
    calls: Option<Sender<Call>>,
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn start(name: &str, databases: Vec<Database>) -> Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Self { calls: Some(sender), handles: Vec::new() };
        for database in databases {
            let receiver = receiver.clone();
            let handle = thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || serve(database, &receiver))
                .map_err(|error| Error::Unavailable(format!("a thread cannot be started: {error}")))?;
            threads.handles.push(handle);
        }
        Ok(threads)
    }

    /// Executes a call on one of the threads. It is executed even if the caller stops waiting for its result.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&mut Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let call: Call = Box::new(move |database| {
            // The caller may have stopped waiting.
            let _ = reply.send(call(database));
        });
        let calls = self.calls.as_ref().expect("the channel is open until the threads are dropped");
        calls.send(call).map_err(|_| Error::Unavailable("its thread has stopped".to_owned()))?;
        answer.await.map_err(|_| Error::Unavailable("its thread sent no reply".to_owned()))?
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.calls = None;
        for handle in self.handles.drain(..) {
            if handle.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

fn serve(mut database: Database, calls: &Mutex<Receiver<Call>>) {
    loop {
        let Some(call) = next_call(&mut database, calls) else { return };
        // A panic must not end the thread: the transaction is rolled back, and the caller receives an error.
        if panic::catch_unwind(AssertUnwindSafe(|| call(&mut database))).is_err() {
            tracing::error!("a call to the store panicked");
        }
    }
}

/// The next call; none if there will be no other. The writer measures its disk while it waits.
fn next_call(database: &mut Database, calls: &Mutex<Receiver<Call>>) -> Option<Call> {
    let calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
    while database.disk.is_some() {
        match calls.recv_timeout(MEASURE_PERIOD) {
            Err(RecvTimeoutError::Timeout) => database.watch_disk(),
            call => return call.ok(),
        }
    }
    calls.recv().ok()
}
