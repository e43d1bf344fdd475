//! Reads that concurrent callers share.
//!
//! Nothing is cached: a caller receives a value that was read after its request.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::oneshot;

use crate::ports::Spawn;

type Waiting<V> = Vec<oneshot::Sender<V>>;

/// Reads of values by their keys.
pub(crate) struct SharedReads<K, V> {
    spawn: Arc<dyn Spawn>,
    /// **Invariant:** a key is here while a task reads its value, with the callers that have requested it since the
    /// read began.
    waiting: Mutex<BTreeMap<K, Waiting<V>>>,
}

impl<K: Ord + Clone + Send + 'static, V: Clone + Send + 'static> SharedReads<K, V> {
    pub(crate) fn new(spawn: Arc<dyn Spawn>) -> Arc<Self> {
        Arc::new(Self { spawn, waiting: Mutex::default() })
    }

    /// The value of a key. Every caller of one key passes an equal `read`.
    pub(crate) async fn find<E, F>(
        self: &Arc<Self>,
        key: K,
        read: impl Fn(K) -> F + Clone + Send + Sync + 'static,
    ) -> Result<V, E>
    where
        E: Send + 'static,
        F: Future<Output = Result<V, E>> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let is_first = match self.waiting().entry(key.clone()) {
            Entry::Occupied(mut waiting) => {
                waiting.get_mut().push(sender);
                false
            }
            Entry::Vacant(vacant) => {
                vacant.insert(vec![sender]);
                true
            }
        };
        if is_first {
            // A separate task: the first caller may stop waiting while others wait.
            self.spawn.spawn(Box::pin(Arc::clone(self).read_all(key.clone(), read.clone())));
        }
        match receiver.await {
            Ok(value) => Ok(value),
            // The read failed: each caller reads by itself, and receives its own error.
            Err(_) => read(key).await,
        }
    }

    /// Reads as long as callers wait.
    async fn read_all<E, F>(self: Arc<Self>, key: K, read: impl Fn(K) -> F)
    where
        F: Future<Output = Result<V, E>>,
    {
        let mut reading = Reading { reads: &self, key, has_ended: false };
        while let Some(callers) = reading.next_callers() {
            if let Ok(value) = read(reading.key.clone()).await {
                for sender in callers {
                    // The caller may have stopped waiting.
                    let _ = sender.send(value.clone());
                }
            }
        }
    }
}

impl<K, V> SharedReads<K, V> {
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<K, Waiting<V>>> {
        self.waiting.lock().expect("no holder of the lock panics")
    }
}

/// The task that reads the value of a key. If it panics, the callers that wait read by themselves.
struct Reading<'a, K: Ord, V> {
    reads: &'a SharedReads<K, V>,
    key: K,
    has_ended: bool,
}

impl<K: Ord, V> Reading<'_, K, V> {
    /// The callers that wait; none if there are none, and then the read has ended.
    fn next_callers(&mut self) -> Option<Waiting<V>> {
        let mut waiting = self.reads.waiting();
        let callers = std::mem::take(waiting.get_mut(&self.key)?);
        if callers.is_empty() {
            waiting.remove(&self.key);
            self.has_ended = true;
            return None;
        }
        Some(callers)
    }
}

impl<K: Ord, V> Drop for Reading<'_, K, V> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.reads.waiting().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Poll;

    use futures_util::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::ports::TokioSpawner;

    fn reads() -> Arc<SharedReads<u32, u32>> {
        SharedReads::new(Arc::new(TokioSpawner::current()))
    }

    /// Polls a future once.
    async fn is_ready(mut future: Pin<&mut impl Future>) -> bool {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }

    #[tokio::test]
    async fn callers_share_the_reads_that_begin_after_their_requests() {
        let (reads, number, gate) = (reads(), Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
        let find = || {
            let (number, gate) = (Arc::clone(&number), Arc::clone(&gate));
            reads.find(7, move |_| {
                let (number, gate) = (Arc::clone(&number), Arc::clone(&gate));
                async move {
                    let value = number.fetch_add(1, Ordering::Relaxed) + 1;
                    gate.acquire().await.map_err(drop)?.forget();
                    Ok::<_, ()>(value)
                }
            })
        };
        let mut first = Box::pin(find());
        // The first read has begun when its task waits at the gate.
        while number.load(Ordering::Relaxed) == 0 {
            assert!(!is_ready(first.as_mut()).await);
            tokio::task::yield_now().await;
        }
        let mut later = Box::pin(join_all((0..50).map(|_| find())));
        assert!(!is_ready(later.as_mut()).await);
        gate.add_permits(2);
        assert_eq!(first.await, Ok(1));
        assert_eq!(later.await, vec![Ok(2); 50]);
        assert_eq!(number.load(Ordering::Relaxed), 2);
        gate.add_permits(1);
        assert_eq!(find().await, Ok(3), "nothing is cached");
    }

    #[tokio::test]
    async fn a_read_that_fails_or_panics_fails_for_its_own_caller() {
        let reads = reads();
        let failing = join_all((0..3).map(|_| reads.find(1, |_| async { Err::<u32, _>("no") })));
        assert_eq!(failing.await, vec![Err("no"); 3]);
        let has_panicked = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let answer = reads.find(2, move |key| {
            let is_first = !has_panicked.swap(true, Ordering::Relaxed);
            async move {
                assert!(!is_first, "the first read panics");
                Ok::<_, ()>(key)
            }
        });
        assert_eq!(answer.await, Ok(2));
        assert_eq!(reads.find(2, |key| async move { Ok::<_, ()>(key) }).await, Ok(2));
    }
}
