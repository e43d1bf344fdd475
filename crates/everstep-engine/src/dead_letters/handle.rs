//! The handle to dead letters, which the API and the committer share.

use std::sync::{Arc, Mutex};

use everstep_store::DeadLetterStore;
use futures_util::future;
use tokio::sync::{Notify, oneshot, watch};

use super::notice::Notices;
use crate::ports::Spawn;

/// Dead letters of one engine: the store, the port to operations, and the wake of the loop.
pub struct DeadLetters {
    store: Arc<dyn DeadLetterStore>,
    /// None if operators are not notified.
    notices: Option<Arc<dyn Notices>>,
    woken: Notify,
    stopping: watch::Sender<bool>,
    /// The end of the loop.
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl DeadLetters {
    pub fn new(store: Arc<dyn DeadLetterStore>, notices: Option<Arc<dyn Notices>>) -> Arc<Self> {
        let stopping = watch::Sender::new(false);
        Arc::new(Self { store, notices, woken: Notify::new(), stopping, ended: Mutex::default() })
    }

    pub fn store(&self) -> &dyn DeadLetterStore {
        &*self.store
    }

    /// Makes this node search for dead letters that were requeued.
    pub fn wake(&self) {
        self.woken.notify_one();
    }

    /// Makes this node notify operators of dead letters that it has written.
    pub(crate) fn wake_for_notices(&self) {
        if self.notices.is_some() {
            self.wake();
        }
    }

    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }

    pub(super) fn notices(&self) -> Option<&Arc<dyn Notices>> {
        self.notices.as_ref()
    }

    /// Starts the loop, which ends when this handle is stopped.
    pub(crate) fn spawn(&self, spawn: &dyn Spawn, work: impl Future<Output = ()> + Send + 'static) {
        let (done, ended) = oneshot::channel();
        let mut stopping = self.stopping.subscribe();
        *self.ended.lock().expect("no holder of the lock panics") = Some(ended);
        spawn.spawn(Box::pin(async move {
            let stopped = async move {
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            };
            // The database is released before the end is reported.
            drop(future::select(Box::pin(work), Box::pin(stopped)).await);
            let _ = done.send(());
        }));
    }

    /// Ends the loop, which then no longer uses the database. Other nodes, or the next process, take what it held.
    pub(crate) async fn stop(&self) {
        self.stopping.send_replace(true);
        let ended = self.ended.lock().expect("no holder of the lock panics").take();
        if let Some(ended) = ended {
            let _ = ended.await;
        }
    }
}
