//! Shares the places of a bounded resource between workspaces.
//!
//! A place is a unit of the resource: a running task, an open stream, a byte of memory. A request names its workspace, a
//! key within the workspace (such as the host of an HTTP request; `()` if there is none) and the number of its places.
//!
//! 1. The places in use never exceed the bounds of the resource, of a workspace, and of a key of a workspace.
//! 2. While no other workspace is known, a workspace may take every free place.
//! 3. Otherwise it leaves the last quarter of the places free, so that the next workspace finds a place at once. The
//!    last quarter is for workspaces with little use: one that uses no place may take from it, and one that then uses no
//!    more than it leaves free.
//! 4. Free places go to the waiting workspace with the least use; of two with the same use, to the one that was served
//!    earlier. Within a workspace requests are admitted in their order, except that a key at its bound is passed over.
//! 5. While the request whose turn it is does not fit, no other request is admitted. Otherwise many small requests could
//!    delay a large one without end.
//!
//! **Invariant**: `ready` contains exactly the workspaces with a request that the bounds of its workspace and its key
//! admit, by their use; and an idle workspace neither uses a place nor waits for one.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::WorkspaceId;

/// Rule 3 asks only whether another workspace is known, so that two idle ones are enough to remember.
const IDLE_REMEMBERED_MAX: usize = 2;

/// The bounds of the places in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareBounds {
    /// Of all workspaces together.
    pub places: u64,
    /// Of one workspace.
    pub workspace_max: u64,
    /// Of one key of a workspace.
    pub key_max: u64,
}

impl ShareBounds {
    /// A resource that one workspace may use completely, if no other needs it.
    pub fn new(places: u64) -> Self {
        Self { places, workspace_max: places, key_max: places }
    }

    /// Whether a request with this number of places can be admitted at all.
    pub fn admits(&self, amount: u64) -> bool {
        amount <= self.places.min(self.workspace_max).min(self.key_max)
    }

    /// The last quarter. A resource with a single place has none.
    fn last_quarter(&self) -> u64 {
        self.places.div_ceil(4).min(self.places.saturating_sub(1))
    }
}

/// A waiting request of a [`FairShare`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlaceRequestId(u64);

/// A request that has been admitted. Its places are in use until [`FairShare::release`].
#[derive(Debug, PartialEq, Eq)]
pub struct PlaceRequest<K, T> {
    pub workspace: WorkspaceId,
    pub key: K,
    pub amount: u64,
    pub item: T,
}

/// The places of one resource, and the requests that wait for them. See the rules of the module.
pub struct FairShare<K, T> {
    bounds: ShareBounds,
    used: u64,
    workspaces: BTreeMap<WorkspaceId, WorkspaceShare<K, T>>,
    /// By use, then by the last admission.
    ready: BTreeSet<(u64, u64, WorkspaceId)>,
    /// The longest idle first.
    idle: Vec<WorkspaceId>,
    /// Numbers requests and admissions.
    next: u64,
}

struct WorkspaceShare<K, T> {
    used: u64,
    /// The number of its last admission.
    admitted: u64,
    waiting: usize,
    keys: BTreeMap<K, KeyShare<T>>,
    /// The first request of each key that the bound of the key admits.
    heads: BTreeMap<u64, K>,
    /// Its use and its last admission, as `ready` contains them.
    rank: Option<(u64, u64)>,
}

struct KeyShare<T> {
    used: u64,
    waiting: BTreeMap<u64, (u64, T)>,
    /// Its request in `heads`.
    head: Option<u64>,
}

impl<K: Ord + Clone, T> FairShare<K, T> {
    pub fn new(bounds: ShareBounds) -> Self {
        Self {
            bounds,
            used: 0,
            workspaces: BTreeMap::new(),
            ready: BTreeSet::new(),
            idle: Vec::with_capacity(IDLE_REMEMBERED_MAX + 1),
            next: 0,
        }
    }

    pub fn bounds(&self) -> &ShareBounds {
        &self.bounds
    }

    /// The places in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn used_by(&self, workspace: WorkspaceId) -> u64 {
        self.workspaces.get(&workspace).map_or(0, |share| share.used)
    }

    /// The number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.workspaces.values().map(|share| share.waiting).sum()
    }

    /// Makes a workspace known before its first request: from now on others leave the last quarter free.
    pub fn introduce(&mut self, workspace: WorkspaceId) {
        self.workspaces.entry(workspace).or_default();
        self.refresh(workspace);
    }

    /// Takes places without waiting. While a request waits that could be admitted, no place is taken.
    pub fn try_take(&mut self, workspace: WorkspaceId, key: &K, amount: u64) -> bool {
        let share = self.workspaces.get(&workspace);
        let used = share.map_or(0, |share| share.used);
        let key_share = share.and_then(|share| share.keys.get(key));
        let is_within_bounds = used.saturating_add(amount) <= self.bounds.workspace_max
            && key_share.map_or(0, |key| key.used).saturating_add(amount) <= self.bounds.key_max;
        let has_waiting = !self.ready.is_empty() || key_share.is_some_and(|key| !key.waiting.is_empty());
        if has_waiting || !is_within_bounds || !self.may_take(workspace, used, amount) {
            return false;
        }
        self.add_use(workspace, key, amount);
        true
    }

    /// Adds a request to those that wait; [`FairShare::admit_next`] returns it in its turn. `None` if the bounds never
    /// admit that many places.
    pub fn request(&mut self, workspace: WorkspaceId, key: K, amount: u64, item: T) -> Option<PlaceRequestId> {
        if !self.bounds.admits(amount) {
            return None;
        }
        let number = self.next;
        self.next += 1;
        let share = self.workspaces.entry(workspace).or_default();
        share.waiting += 1;
        share.keys.entry(key.clone()).or_default().waiting.insert(number, (amount, item));
        share.refresh_head(&key, self.bounds.key_max);
        self.refresh(workspace);
        Some(PlaceRequestId(number))
    }

    /// The next request whose places are free. Call it after each request, release and withdrawal, until it returns
    /// `None`.
    pub fn admit_next(&mut self) -> Option<PlaceRequest<K, T>> {
        let (used, _, workspace) = *self.ready.first()?;
        let (number, key, amount) = self.workspaces.get(&workspace)?.first_request()?;
        if !self.may_take(workspace, used, amount) {
            return None;
        }
        let key = key.clone();
        let (amount, item) = self.remove_request(workspace, &key, number)?;
        self.add_use(workspace, &key, amount);
        Some(PlaceRequest { workspace, key, amount, item })
    }

    /// Returns places.
    pub fn release(&mut self, workspace: WorkspaceId, key: &K, amount: u64) {
        self.used = self.used.saturating_sub(amount);
        if let Some(share) = self.workspaces.get_mut(&workspace) {
            share.used = share.used.saturating_sub(amount);
            if let Some(key_share) = share.keys.get_mut(key) {
                key_share.used = key_share.used.saturating_sub(amount);
                share.refresh_head(key, self.bounds.key_max);
            }
            self.refresh(workspace);
        }
    }

    /// Removes a request that waits. `None` if it has been admitted.
    pub fn withdraw(&mut self, workspace: WorkspaceId, key: &K, request: PlaceRequestId) -> Option<T> {
        let (_, item) = self.remove_request(workspace, key, request.0)?;
        self.refresh(workspace);
        Some(item)
    }

    /// Rules 1 to 3, for a workspace that uses this number of places.
    fn may_take(&self, workspace: WorkspaceId, used: u64, amount: u64) -> bool {
        let Some(left) = self.bounds.places.saturating_sub(self.used).checked_sub(amount) else { return false };
        let others = self.workspaces.len() - usize::from(self.workspaces.contains_key(&workspace));
        others == 0 || left >= self.bounds.last_quarter() || used == 0 || used.saturating_add(amount) <= left
    }

    fn add_use(&mut self, workspace: WorkspaceId, key: &K, amount: u64) {
        self.used += amount;
        let share = self.workspaces.entry(workspace).or_default();
        share.used += amount;
        share.admitted = self.next;
        self.next += 1;
        match share.keys.get_mut(key) {
            Some(key) => key.used += amount,
            None => share.keys.entry(key.clone()).or_default().used = amount,
        }
        share.refresh_head(key, self.bounds.key_max);
        self.refresh(workspace);
    }

    fn remove_request(&mut self, workspace: WorkspaceId, key: &K, number: u64) -> Option<(u64, T)> {
        let share = self.workspaces.get_mut(&workspace)?;
        let removed = share.keys.get_mut(key)?.waiting.remove(&number)?;
        share.waiting -= 1;
        share.refresh_head(key, self.bounds.key_max);
        Some(removed)
    }

    /// Restores the invariant after a change of a workspace.
    fn refresh(&mut self, workspace: WorkspaceId) {
        let Some(share) = self.workspaces.get_mut(&workspace) else { return };
        let amount = share.first_request().map(|(_, _, amount)| amount);
        let is_ready = amount.is_some_and(|amount| share.used.saturating_add(amount) <= self.bounds.workspace_max);
        let rank = is_ready.then_some((share.used, share.admitted));
        if rank != share.rank {
            if let Some((used, admitted)) = share.rank {
                self.ready.remove(&(used, admitted, workspace));
            }
            if let Some((used, admitted)) = rank {
                self.ready.insert((used, admitted, workspace));
            }
            share.rank = rank;
        }
        let is_idle = share.used == 0 && share.waiting == 0;
        let position = self.idle.iter().position(|idle| *idle == workspace);
        match position {
            Some(position) if !is_idle => drop(self.idle.remove(position)),
            None if is_idle => self.idle.push(workspace),
            Some(_) | None => {}
        }
        if self.idle.len() > IDLE_REMEMBERED_MAX {
            let forgotten = self.idle.remove(0);
            self.workspaces.remove(&forgotten);
        }
    }
}

impl<K: Ord + Clone, T> WorkspaceShare<K, T> {
    /// The number, the key and the places of the first request that the bound of its key admits.
    fn first_request(&self) -> Option<(u64, &K, u64)> {
        let (number, key) = self.heads.first_key_value()?;
        let (amount, _) = self.keys.get(key)?.waiting.get(number)?;
        Some((*number, key, *amount))
    }

    /// Updates `heads` after a change of a key. A key without use and requests is removed, except for the last one: the
    /// next request has probably the same key.
    fn refresh_head(&mut self, key: &K, key_max: u64) {
        let Some(share) = self.keys.get_mut(key) else { return };
        let fits = |amount: u64| share.used.saturating_add(amount) <= key_max;
        let head = share.waiting.first_key_value().filter(|(_, (amount, _))| fits(*amount)).map(|(number, _)| *number);
        let before = std::mem::replace(&mut share.head, head);
        let is_unused = share.used == 0 && share.waiting.is_empty();
        if before != head {
            if let Some(before) = before {
                self.heads.remove(&before);
            }
            if let Some(head) = head {
                self.heads.insert(head, key.clone());
            }
        }
        if is_unused && self.keys.len() > 1 {
            self.keys.remove(key);
        }
    }
}

impl<K, T> Default for WorkspaceShare<K, T> {
    fn default() -> Self {
        Self { used: 0, admitted: 0, waiting: 0, keys: BTreeMap::new(), heads: BTreeMap::new(), rank: None }
    }
}

impl<T> Default for KeyShare<T> {
    fn default() -> Self {
        Self { used: 0, waiting: BTreeMap::new(), head: None }
    }
}
