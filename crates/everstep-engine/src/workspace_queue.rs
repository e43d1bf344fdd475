//! Items that wait, by workspace: the workspaces take turns, and the items of each keep their order.

use std::collections::{BTreeMap, VecDeque};

use everstep_core::ids::WorkspaceId;

pub(crate) struct WorkspaceQueue<T> {
    /// Some of the lists may be empty.
    by_workspace: BTreeMap<WorkspaceId, VecDeque<T>>,
    /// The workspaces that have items, in the order of their turns.
    turns: VecDeque<WorkspaceId>,
    len: usize,
}

impl<T> WorkspaceQueue<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn has(&self, workspace: WorkspaceId) -> bool {
        self.by_workspace.get(&workspace).is_some_and(|items| !items.is_empty())
    }

    /// Adds an item behind those of its workspace.
    pub(crate) fn push_back(&mut self, workspace: WorkspaceId, item: T) {
        let items = self.by_workspace.entry(workspace).or_default();
        if items.is_empty() {
            self.turns.push_back(workspace);
        }
        items.push_back(item);
        self.len += 1;
    }

    /// Adds an item before those of its workspace.
    pub(crate) fn push_front(&mut self, workspace: WorkspaceId, item: T) {
        let items = self.by_workspace.entry(workspace).or_default();
        if items.is_empty() {
            self.turns.push_front(workspace);
        }
        items.push_front(item);
        self.len += 1;
    }

    /// The item that is next.
    pub(crate) fn front(&self) -> Option<&T> {
        self.by_workspace.get(self.turns.front()?)?.front()
    }

    /// Takes the item that is next, and gives the turn to the next workspace.
    pub(crate) fn pop_front(&mut self) -> Option<T> {
        let (workspace, item) = self.pop_in_turn()?;
        self.pass_turn(workspace);
        Some(item)
    }

    /// Takes the item that is next. Its workspace keeps the turn while it has items.
    pub(crate) fn pop_in_turn(&mut self) -> Option<(WorkspaceId, T)> {
        let workspace = *self.turns.front()?;
        let items = self.by_workspace.get_mut(&workspace)?;
        let item = items.pop_front()?;
        self.len -= 1;
        if items.is_empty() {
            self.turns.pop_front();
            // The last list is kept: a workspace alone would allocate one for each item.
            if self.by_workspace.len() > 1 {
                self.by_workspace.remove(&workspace);
            }
        }
        Some((workspace, item))
    }

    /// Gives the turn of a workspace to the next one.
    pub(crate) fn pass_turn(&mut self, workspace: WorkspaceId) {
        if self.turns.front() == Some(&workspace) {
            self.turns.rotate_left(1);
        }
    }

    /// Removes the items for which the condition is false.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        for items in self.by_workspace.values_mut() {
            items.retain(&mut is_kept);
        }
        self.by_workspace.retain(|_, items| !items.is_empty());
        self.turns.retain(|workspace| self.by_workspace.contains_key(workspace));
        self.len = self.by_workspace.values().map(VecDeque::len).sum();
    }
}

impl<T> Default for WorkspaceQueue<T> {
    fn default() -> Self {
        Self { by_workspace: BTreeMap::new(), turns: VecDeque::new(), len: 0 }
    }
}

#[cfg(test)]
mod tests {
    use everstep_core::time::Timestamp;

    use super::*;

    #[test]
    fn workspaces_take_turns_and_items_keep_their_order() {
        let workspace = |number| WorkspaceId::new(Timestamp::EPOCH, number);
        let mut queue = WorkspaceQueue::default();
        for (owner, item) in [(1, "a1"), (1, "a2"), (1, "a3"), (2, "b1"), (3, "c1"), (3, "c2")] {
            queue.push_back(workspace(owner), item);
        }
        queue.push_front(workspace(1), "a0");
        assert_eq!(queue.front(), Some(&"a0"));
        queue.retain(|item| *item != "c1");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_front()).collect();
        assert_eq!(order, ["a0", "b1", "c2", "a1", "a2", "a3"]);
        assert_eq!((queue.len(), queue.has(workspace(3))), (0, false));
    }
}
