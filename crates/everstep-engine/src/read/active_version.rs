//! Reads the active versions of workflows: concurrent callers share one read.
//!
//! Nothing is cached: a caller receives a row that was read after its request.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard};

use everstep_core::ids::WorkspaceId;
use everstep_store::{Error, WorkflowRow};
use tokio::sync::oneshot;

use crate::ports::World;

type Key = (WorkspaceId, String);
type Waiting = Vec<oneshot::Sender<Option<WorkflowRow>>>;

pub(crate) struct ActiveVersions {
    world: World,
    /// **Invariant:** a workflow is here while a task reads it, with the callers that have requested it since the read
    /// began.
    waiting: Mutex<BTreeMap<Key, Waiting>>,
}

impl ActiveVersions {
    pub(crate) fn new(world: World) -> Arc<Self> {
        Arc::new(Self { world, waiting: Mutex::default() })
    }

    pub(crate) async fn find(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        name: &str,
    ) -> Result<Option<WorkflowRow>, Error> {
        let (sender, receiver) = oneshot::channel();
        let key = (workspace, name.to_owned());
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
            self.world.spawn.spawn(Box::pin(Arc::clone(self).read(key)));
        }
        match receiver.await {
            Ok(row) => Ok(row),
            // The read failed: each caller reads by itself, and receives its own error.
            Err(_) => self.world.workflows.workflow(workspace, name, None).await,
        }
    }

    /// Reads as long as callers wait.
    async fn read(self: Arc<Self>, key: Key) {
        loop {
            let callers = match self.waiting().entry(key.clone()) {
                Entry::Occupied(waiting) if waiting.get().is_empty() => {
                    waiting.remove();
                    return;
                }
                Entry::Occupied(mut waiting) => std::mem::take(waiting.get_mut()),
                Entry::Vacant(_) => return,
            };
            if let Ok(row) = self.world.workflows.workflow(key.0, &key.1, None).await {
                for sender in callers {
                    // The caller may have stopped waiting.
                    let _ = sender.send(row.clone());
                }
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Key, Waiting>> {
        self.waiting.lock().expect("no holder of the lock panics")
    }
}
