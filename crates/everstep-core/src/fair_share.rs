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
//!    earlier; long work counts as another turn ([`FairShare::use_turn`]). Within a workspace requests are admitted in
//!    their order, except that a key at its bound is passed over.
//! 5. While the request whose turn it is does not fit, no other request is admitted. Otherwise many small requests could
//!    delay a large one without end.
//!
//! **Invariant**: `ready` contains exactly the workspaces with a request that the bounds of its workspace and its key
//! admit, by their use; and an idle workspace neither uses a place nor waits for one.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::WorkspaceId;
use crate::planted::{self, Bug};

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

    /// Rules 2 and 3, for a workspace that uses `used` places, takes `amount` and leaves `left` free.
    fn leaves_enough(&self, left: u64, others: usize, used: u64, amount: u64) -> bool {
        others == 0 || left >= self.last_quarter() || used == 0 || used.saturating_add(amount) <= left
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
        let bounds = self.bounds;
        let others = self.workspaces.len();
        let Some(left) = self.left_after(amount).filter(|_| self.ready.is_empty()) else { return false };
        let Some(share) = self.workspaces.get_mut(&workspace) else {
            let is_admitted = bounds.admits(amount);
            if is_admitted {
                self.add_use(workspace, key, amount);
            }
            return is_admitted;
        };
        let used = share.used.saturating_add(amount);
        if used > bounds.workspace_max || !bounds.leaves_enough(left, others - 1, share.used, amount) {
            return false;
        }
        let Some(key_share) = share.keys.get_mut(key) else {
            if amount > bounds.key_max {
                return false;
            }
            self.add_use(workspace, key, amount);
            return true;
        };
        if !key_share.waiting.is_empty() || key_share.used.saturating_add(amount) > bounds.key_max {
            return false;
        }
        // The usual case, without the search for changes in the queues: no request waits that could be admitted.
        key_share.used += amount;
        share.admitted = self.next;
        self.next += 1;
        self.used += amount;
        if std::mem::replace(&mut share.used, used) == 0 {
            self.idle.retain(|idle| *idle != workspace);
        }
        true
    }

    /// Takes places whether or not they are free, for work that cannot be refused.
    pub fn take_regardless(&mut self, workspace: WorkspaceId, key: &K, amount: u64) {
        self.add_use(workspace, key, amount);
    }

    /// Counts places as used before it is known which workspace will use them.
    pub fn reserve(&mut self, amount: u64) {
        self.used += amount;
    }

    /// Returns reserved places.
    pub fn return_reserved(&mut self, amount: u64) {
        self.used = self.used.saturating_sub(amount);
    }

    /// Whether several workspaces are known, so that the last quarter is for those with little use.
    pub fn is_shared(&self) -> bool {
        self.workspaces.len() > 1
    }

    /// The number of places that any workspace may take: rules 1 to 3, for a workspace whose use is not known.
    pub fn room(&self) -> u64 {
        let kept = if self.is_shared() { self.bounds.last_quarter() } else { 0 };
        self.bounds.places.saturating_sub(self.used).saturating_sub(kept)
    }

    /// The number of places that a workspace may take: rules 1 to 3.
    pub fn room_of(&self, workspace: WorkspaceId) -> u64 {
        let free = self.bounds.places.saturating_sub(self.used);
        let share = self.workspaces.get(&workspace);
        if self.workspaces.len() == usize::from(share.is_some()) {
            return free;
        }
        let used = share.map_or(0, |share| share.used);
        let of_last_quarter = if used == 0 { free.div_ceil(2) } else { free.saturating_sub(used) / 2 };
        free.saturating_sub(self.bounds.last_quarter()).max(of_last_quarter)
    }

    /// Whether a workspace may take from the last quarter by rule 3: another one is known, and it uses little.
    pub fn has_little_use(&self, workspace: WorkspaceId) -> bool {
        let share = self.workspaces.get(&workspace);
        let (used, others) =
            (share.map_or(0, |share| share.used), self.workspaces.len() - usize::from(share.is_some()));
        others > 0 && (used == 0 || used + 2 <= self.bounds.places.saturating_sub(self.used))
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
        let of_request = key.clone();
        share.keys.entry(key).or_default().waiting.insert(number, (amount, item));
        share.refresh_head(&of_request, self.bounds.key_max);
        self.refresh(workspace);
        Some(PlaceRequestId(number))
    }

    /// The next request whose places are free. Call it after each request, release and withdrawal, until it returns
    /// `None`.
    pub fn admit_next(&mut self) -> Option<PlaceRequest<K, T>> {
        let (used, _, workspace) = *self.ready.first()?;
        let (number, key, amount) = self.workspaces.get(&workspace)?.first_request()?;
        if !self.may_take(used, amount) {
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
        let Some(share) = self.workspaces.get_mut(&workspace) else { return };
        share.used = share.used.saturating_sub(amount);
        let Some(key_share) = share.keys.get_mut(key) else { return self.refresh(workspace) };
        key_share.used = key_share.used.saturating_sub(amount);
        let is_key_unused = key_share.used == 0 && share.keys.len() > 1;
        if share.waiting > 0 || share.used == 0 || is_key_unused {
            share.refresh_head(key, self.bounds.key_max);
            self.refresh(workspace);
        }
    }

    /// Counts a turn of a workspace as used, as if a request of it had been admitted now. Of the workspaces with the same
    /// use, the others are served first.
    pub fn use_turn(&mut self, workspace: WorkspaceId) {
        let Some(share) = self.workspaces.get_mut(&workspace) else { return };
        share.admitted = self.next;
        self.next += 1;
        self.refresh(workspace);
    }

    /// Removes a request that waits. `None` if it has been admitted.
    pub fn withdraw(&mut self, workspace: WorkspaceId, key: &K, request: PlaceRequestId) -> Option<T> {
        let (_, item) = self.remove_request(workspace, key, request.0)?;
        self.refresh(workspace);
        Some(item)
    }

    /// The free places after so many were taken; `None` if there are fewer.
    fn left_after(&self, amount: u64) -> Option<u64> {
        self.bounds.places.saturating_sub(self.used).checked_sub(amount)
    }

    /// Rules 1 to 3, for a workspace that waits and uses this number of places.
    fn may_take(&self, used: u64, amount: u64) -> bool {
        let left = self.left_after(amount);
        left.is_some_and(|left| self.bounds.leaves_enough(left, self.workspaces.len() - 1, used, amount))
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
        let is_waiting = share.waiting > 0 && !planted::is_planted(Bug::ShareForgetsAWorkspace);
        let is_idle = share.used == 0 && !is_waiting;
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
