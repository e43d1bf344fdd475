//! The places of a bounded resource, for callers that wait: [`FairShare`] with futures.

use std::sync::{Arc, Mutex, MutexGuard};

use everstep_core::fair_share::{FairShare, PlaceRequest, PlaceRequestId, ShareBounds};
use everstep_core::ids::WorkspaceId;
use tokio::sync::oneshot;

/// The places of a resource that workspaces share. Cheap to clone; clones share the places.
#[derive(Clone)]
pub struct Places<K: Ord + Clone = ()>(Arc<Mutex<FairShare<K, oneshot::Sender<Place<K>>>>>);

/// A caller that waited and whose turn it is.
type Admitted<K> = PlaceRequest<K, oneshot::Sender<Place<K>>>;

/// Places in use. Dropping it returns them.
pub struct Place<K: Ord + Clone = ()> {
    places: Places<K>,
    workspace: WorkspaceId,
    key: K,
    amount: u64,
}

impl<K: Ord + Clone> Places<K> {
    pub fn new(bounds: ShareBounds) -> Self {
        Self(Arc::new(Mutex::new(FairShare::new(bounds))))
    }

    pub fn bounds(&self) -> ShareBounds {
        *self.share().bounds()
    }

    /// The places in use.
    pub fn used(&self) -> u64 {
        self.share().used()
    }

    pub fn used_by(&self, workspace: WorkspaceId) -> u64 {
        self.share().used_by(workspace)
    }

    /// The number of callers that wait.
    pub fn waiting(&self) -> usize {
        self.share().waiting()
    }

    /// Makes a workspace known before its first request; see [`FairShare::introduce`].
    pub fn introduce(&self, workspace: WorkspaceId) {
        self.share().introduce(workspace);
    }

    /// Takes places if they are free and no caller waits for them.
    pub fn try_acquire(&self, workspace: WorkspaceId, key: K, amount: u64) -> Option<Place<K>> {
        let is_taken = self.share().try_take(workspace, &key, amount);
        is_taken.then(|| Place { places: self.clone(), workspace, key, amount })
    }

    /// Waits for places. `None` if the bounds never admit that many. Dropping the future withdraws the request.
    pub async fn acquire(&self, workspace: WorkspaceId, key: K, amount: u64) -> Option<Place<K>> {
        let (waiter, admitted) = {
            let mut share = self.share();
            if share.try_take(workspace, &key, amount) {
                drop(share);
                return Some(Place { places: self.clone(), workspace, key, amount });
            }
            let (sender, admitted) = oneshot::channel();
            let request = share.request(workspace, key.clone(), amount, sender)?;
            (Waiter { places: self, workspace, key, request }, admitted)
        };
        // Requests of others that do not fit may wait, and this one may precede them.
        self.admit();
        let place = admitted.await.ok();
        drop(waiter);
        place
    }

    /// Gives free places to the callers whose turn it is.
    fn admit(&self) {
        let admitted = self.share().admit_next();
        self.send(admitted);
    }

    /// Sends a place to the caller that was admitted, and admits the next ones.
    fn send(&self, mut next: Option<Admitted<K>>) {
        while let Some(admitted) = next {
            let (workspace, key, amount) = (admitted.workspace, admitted.key, admitted.amount);
            // The lock is not held while the place is sent: if its receiver is gone, the place is returned at once.
            let _ = admitted.item.send(Place { places: self.clone(), workspace, key, amount });
            next = self.share().admit_next();
        }
    }

    fn share(&self) -> MutexGuard<'_, FairShare<K, oneshot::Sender<Place<K>>>> {
        self.0.lock().expect("no holder of the lock panics")
    }
}

impl<K: Ord + Clone> Place<K> {
    /// The number of places.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Returns all places but `amount`, such as the bytes that a shorter body does not need.
    pub fn shrink(&mut self, amount: u64) {
        let surplus = self.amount.saturating_sub(amount);
        self.amount -= surplus;
        self.give_back(surplus);
    }

    fn give_back(&self, amount: u64) {
        if amount > 0 {
            // Usually no caller waits, and the lock is taken once.
            let admitted = {
                let mut share = self.places.share();
                share.release(self.workspace, &self.key, amount);
                share.admit_next()
            };
            self.places.send(admitted);
        }
    }
}

impl<K: Ord + Clone> Drop for Place<K> {
    fn drop(&mut self) {
        self.give_back(self.amount);
    }
}

/// A request in the queue. Dropping it withdraws the request, unless it has been admitted.
struct Waiter<'p, K: Ord + Clone> {
    places: &'p Places<K>,
    workspace: WorkspaceId,
    key: K,
    request: PlaceRequestId,
}

impl<K: Ord + Clone> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        let withdrawn = self.places.share().withdraw(self.workspace, &self.key, self.request);
        if withdrawn.is_some() {
            self.places.admit();
        }
    }
}
